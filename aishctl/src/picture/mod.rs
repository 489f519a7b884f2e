//! Pictures on terminals that can show them. The files of strangers are read within bounds (`decode`); what a terminal gets is
//! made anew of the pixels, within its own frame, so that nothing of a file can steer it.

pub(crate) mod answers;
pub(crate) mod area;
pub(crate) mod asking;
pub(crate) mod decode;
pub(crate) mod drawing;
pub(crate) mod protocol;
mod sixel;
pub(crate) mod whole;
