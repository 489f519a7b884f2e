//! The MCP client: sessions with servers over HTTP and with children, in both eras of the protocol. Our own,
//! because it must survive what real servers do (design: one bad tool, block or message costs itself only).
//!
//! Not here: who may call what, which tools a model is offered, what becomes of a result.

mod backoff;
mod client;
mod clock;
mod elicit;
mod era;
mod error;
mod event_stream;
mod fresh;
mod http;
pub mod hub;
pub mod import;
mod inbox;
mod lifecycle;
mod link;
mod listen;
mod message;
mod offers;
mod pages;
mod peer;
mod remembered;
mod ring;
mod sample;
mod secrets;
mod session;
mod shared;
mod sse;
mod stdio;
#[cfg(test)]
mod tests;
mod theirs;
mod work;

pub use self::elicit::{Elicitation, Elicited};
pub use self::error::{CallError, Failure, RpcError, Side, Token};
pub use self::inbox::Note;
pub use self::offers::{Argument, Prompt, Resource, Resources};
pub use self::sample::{Sampled, Sampling};
