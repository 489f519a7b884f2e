//! A conversation from its log: search, export and import, forks, the audit trail.

pub mod audit;
pub mod export;
pub(crate) mod fork;
pub mod import;
pub mod search;
