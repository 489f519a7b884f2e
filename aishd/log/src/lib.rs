//! The facts of a conversation, the state that is made of them, and what both consist of. Pure.

// For what tests of other packages include.
#[cfg(test)]
extern crate self as aishd_log;

pub mod access;
pub mod answering_person;
pub mod api_dialect;
pub mod audit;
pub mod block;
pub mod budget;
pub mod call_list;
pub mod canonical;
pub mod changes_undo;
pub mod command_result;
pub mod confirm;
pub mod constraints;
pub mod ending;
pub mod environment;
pub mod event;
pub mod eviction;
pub mod grants;
pub mod invisible_characters;
pub mod job;
pub mod kept_result;
pub mod lasting_environment;
pub mod level_request;
pub mod memory;
pub mod network;
pub mod norris;
pub mod pattern;
pub mod picture;
pub mod pinned_resource;
pub mod profile;
pub mod resource;
pub mod rolling_summary;
pub mod routed;
pub mod run_changes;
#[cfg(test)]
mod samples;
pub mod sealed_answer;
pub mod server_task;
pub mod shell;
pub mod shortened_result;
pub mod shown_name;
pub mod spending;
pub mod state;
pub mod structured;
pub mod time;
pub mod todo;
pub mod tool;
pub mod tool_call;
pub mod tool_name;
pub mod tried;
pub mod turn_error;
pub mod usage;
