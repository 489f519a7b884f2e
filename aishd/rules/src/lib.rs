//! What may run, and about what a person is asked. Pure.

// For what tests of other packages include.
#[cfg(test)]
extern crate self as aishd_rules;

pub mod alignment;
pub mod allowances;
pub mod autonomy;
pub mod binding;
pub mod boundary;
pub mod catalog;
pub mod elicitation;
pub mod gate;
pub mod intent;
pub mod lifecycle;
#[cfg(test)]
#[path = "../../log/src/samples.rs"]
mod log_samples;
pub mod offered;
pub mod policy;
pub mod raise;
pub mod reading;
pub mod registry;
#[cfg(test)]
mod samples;
pub mod sampling;
pub mod sampling_request;
pub mod server_request;
pub mod setting;
pub mod terminal;
