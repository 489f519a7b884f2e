//! What a model reads pages of the web with: a small program of its own that gets one request on its standard input and gives one
//! reply on its output.
//!
//! The daemon starts it behind the boundary, where it has no network but the daemon's proxy and sees no file of a person. Whatever
//! a server sends is taken apart here and nowhere else. Not here: which hosts may be reached, who is asked, what may run.

mod address;
mod body;
mod call;
mod charset;
mod connection;
mod content_kind;
mod definition;
mod failure;
mod journey;
mod limits;
mod markdown;
mod page;
mod program;
mod request;

pub use call::FetchCall;
pub use definition::{FETCH, FetchTool, definition};
pub use limits::{FetchLimits, longest};
pub use program::{ARGUMENT, answer, is_asked_for, main};
pub use request::{FetchReply, FetchRequest};
