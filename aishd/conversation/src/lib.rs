//! One actor per conversation, the only writer of its log.
//!
//! `select` only picks what comes next and may be dropped; `apply` runs to its end. Every change goes the
//! same way: store the facts, then let everybody see them, then do the work (architecture, decision 5).

mod actor;
pub mod commands;
pub mod context;
pub mod directory;
pub mod handle;
pub mod history;
pub mod new_conversation;
mod open_actors;
mod pending_commit;
pub mod questions;
mod refused_request;
pub mod request_error;
pub mod requests;
mod services;
pub mod spending;
pub mod store_upkeep;
pub mod turns;
pub mod view;

pub use self::services::ActorServices;
