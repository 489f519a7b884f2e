//! Through which sessions a conversation calls tools: everybody's, or its own where it keeps itself from something. So what it
//! may not touch does not come to it by what others left in a session.

use std::path::PathBuf;

use aishd_log::constraints::Constraints;
use aishd_tools::ToolRunner;

/// Sessions of its own, for the constraints that they were begun under. They end with it.
#[derive(Debug)]
pub(crate) struct OwnSessions {
    pub(crate) constraints: Constraints,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) tools: ToolRunner,
}
