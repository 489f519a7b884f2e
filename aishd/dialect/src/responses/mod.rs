//! `OpenAI`'s responses.

pub(crate) mod decode;
pub(crate) mod encode;
