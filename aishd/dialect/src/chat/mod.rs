//! Chat completions.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod offered;
