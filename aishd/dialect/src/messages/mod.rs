//! Anthropic's messages.

pub(crate) mod decode;
pub(crate) mod encode;
