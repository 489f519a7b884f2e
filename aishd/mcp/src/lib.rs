//! The MCP client: sessions with servers over HTTP and with children, in both eras of the protocol. Our own,
//! because it must survive what real servers do (design: one bad tool, block or message costs itself only).
//!
//! Not here: who may call what, which tools a model is offered, what becomes of a result.

mod backoff;
mod call_clock;
pub mod call_listener;
mod capability_cache;
mod client;
mod client_session;
mod completion;
mod elicitation;
mod era;
mod error;
mod event_stream;
mod http;
pub mod hub;
pub mod hub_parts;
pub mod import;
mod inbox;
mod lifecycle;
mod listening;
mod message;
mod pagination;
mod request_task;
mod resource_cache;
mod resources_and_prompts;
mod sampling;
mod secrets;
mod server_requests;
mod session;
mod shared;
mod sign_in;
mod signed_request;
mod sse;
mod stderr_ring;
mod stdio;
mod task_follow;
#[cfg(test)]
mod tests;
mod transport;
mod watched_resource;

pub use self::completion::{
    CompletedArgument, CompletionError, CompletionQuestion, CompletionSubject,
};
pub use self::elicitation::{ElicitationAnswer, ElicitationCall};
pub use self::error::{FailureSide, RpcError, SentToken, ToolCallError, WireFailure};
pub use self::inbox::CallNote;
pub use self::resource_cache::ServerNews;
pub use self::resources_and_prompts::{
    OfferedArgument, OfferedPrompt, OfferedResource, ReadableResources,
};
pub use self::sampling::{SamplingCall, SamplingOutcome};
pub use self::sign_in::{LoginFinished, ServerSignInError, SignInWanted};
pub use self::watched_resource::{WatchError, WatchedResource};
