//! The turn machine, and what models are shown of a conversation. Pure.

pub mod command_report;
pub mod exchange;
pub mod export;
pub mod extract;
pub mod import;
#[cfg(test)]
#[path = "../../log/src/call_list/samples.rs"]
mod list_samples;
#[cfg(test)]
#[path = "../../log/src/samples.rs"]
mod log_samples;
pub mod memory_proposal;
pub mod opinion_request;
pub mod project;
pub mod request;
#[cfg(test)]
#[path = "../../rules/src/samples.rs"]
mod rules_samples;
pub mod run;
pub mod run_report;
pub mod saved_prompt;
pub mod search_filter;
pub mod summary;
pub mod title;
pub mod transcript;
pub mod turn;
