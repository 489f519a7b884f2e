//! What people are asked: by a turn, by servers while a call runs, and beside turns. One list of what is open, and
//! one place that takes answers.

pub mod allowances;
pub(crate) mod elicitation;
pub(crate) mod expiry;
pub(crate) mod hosts;
pub(crate) mod memory_questions;
pub mod pending_questions;
pub(crate) mod question_quota;
pub(crate) mod sampling;
