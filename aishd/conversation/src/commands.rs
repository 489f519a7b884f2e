//! Shell commands of models and of people: their order, how they start, and what they print.

pub mod command_output;
pub(crate) mod command_queue;
pub mod job;
pub(crate) mod proposed_command;
pub(crate) mod trial;
