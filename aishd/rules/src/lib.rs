//! What may run, and about what a person is asked. Pure.

// For what tests of other packages include.
#[cfg(test)]
extern crate self as aishd_rules;

pub mod alignment;
pub mod allowances;
pub mod asking;
pub mod autonomy;
pub mod boundary;
pub mod catalog;
pub mod command_explanation;
pub mod command_instructions;
pub mod command_setting;
pub mod destructive_call;
pub mod elicitation;
pub mod gate;
pub mod intent;
pub mod level_request;
pub mod lifecycle;
#[cfg(test)]
#[path = "../../log/src/samples.rs"]
mod log_samples;
pub mod needs_terminal;
pub mod policy;
pub mod read_extent;
pub mod registry;
#[cfg(test)]
mod samples;
pub mod sampling;
pub mod sampling_request;
pub mod secrets;
pub mod server_request;
pub mod sign_in;
pub mod tool_binding;
pub mod tool_choice;
mod tool_search;
