//! A turn, from the question that starts it to its end: which model, its requests and calls, runs, and how one goes
//! on that another daemon left.

pub(crate) mod active_turn;
pub(crate) mod call;
pub(crate) mod file_change;
pub(crate) mod job_call;
pub mod routing_book;
pub(crate) mod run_clock;
pub(crate) mod second_opinion;
pub(crate) mod seen_files;
pub(crate) mod sessions;
pub mod tool_definitions;
pub(crate) mod turn_options;
pub(crate) mod turn_tasks;
