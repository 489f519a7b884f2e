//! Through which sessions a conversation calls tools: everybody's, or its own where it keeps itself from something. So what it
//! may not touch does not come to it by what others left in a session.

use std::path::PathBuf;

use aishd_log::constraints::Constraints;
use aishd_tools::ToolRunner;

use super::Conversation;

/// Sessions of its own, for the constraints that they were begun under. They end with it.
#[derive(Debug)]
pub(super) struct OwnSessions {
    constraints: Constraints,
    roots: Vec<PathBuf>,
    tools: ToolRunner,
}

impl Conversation {
    /// What calls and reads of resources go through now.
    pub(super) fn tools(&mut self) -> ToolRunner {
        let constraints = &self.state.constraints;
        if constraints.is_empty() {
            self.own = None;
            return self.services.tools.clone();
        }
        let roots = constraints.directories();
        let roots: Vec<PathBuf> = if roots.is_empty() {
            vec![PathBuf::from(&self.state.cwd)]
        } else {
            roots
        };
        let is_same = |it: &OwnSessions| it.constraints == *constraints && it.roots == roots;
        if let Some(own) = self.own.as_ref().filter(|it| is_same(it)) {
            return own.tools.clone();
        }
        let tools = self.services.tools.with_own_roots(roots.clone());
        self.own = Some(OwnSessions {
            constraints: constraints.clone(),
            roots,
            tools: tools.clone(),
        });
        tools
    }
}
