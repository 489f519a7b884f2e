//! What a model reads, finds and edits files with: `read`, `list`, `search`, `edit` and `write`, as a small program of its own
//! that gets one request on its standard input and gives one reply on its output.
//!
//! The daemon starts it behind the boundary and opens no file of a workspace itself. Not here: what may run, where it is held,
//! what becomes of the changes.

mod attributes;
mod call;
mod change_target;
mod content_kind;
mod definitions;
mod edit;
mod failure;
mod file_filter;
mod fingerprint;
mod found_lines;
mod ignore_rules;
mod list;
mod matching;
mod nearest;
mod notebook;
mod open;
mod place;
mod program;
mod read;
mod replace;
mod reply;
mod request;
mod search;
mod shown;
mod text;
mod walk;
mod write;

pub use call::{
    EditCall, FileCall, ListCall, ListOrder, ReadCall, SearchCall, SearchOutput, TextEdit,
    WriteCall,
};
pub use definitions::{FileTool, definitions};
pub use failure::FailureKind;
pub use fingerprint::{FileFingerprint, SeenFile};
pub use place::elsewhere;
pub use program::{ARGUMENT, answer, is_asked_for, main, serve};
pub use reply::{FileReply, ReadPicture};
pub use request::FileRequest;
