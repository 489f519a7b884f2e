//! What requests take: budgets and the day's ledger, and what the log is told of it.

pub mod budget;
