//! The turn machine, and what models are shown of a conversation. Pure.

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
pub mod needle;
pub mod project;
pub mod request;
#[cfg(test)]
#[path = "../../rules/src/samples.rs"]
mod rules_samples;
pub mod run;
pub mod said;
pub mod saved_prompt;
pub mod summary;
pub mod told;
pub mod transcript;
pub mod turn;
