//! Anthropic's messages.

pub(crate) mod decode;
pub(crate) mod encode;
mod repeated_calls;
