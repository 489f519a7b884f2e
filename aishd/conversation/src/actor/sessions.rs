//! Which sessions with servers its calls go through.

use std::path::PathBuf;

use aishd_tools::ToolRunner;

use crate::actor::Conversation;
use crate::turns::sessions::OwnSessions;

impl Conversation {
    /// The directories that it works in.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let roots = self.state.constraints.directories();
        if roots.is_empty() {
            vec![PathBuf::from(&self.state.cwd)]
        } else {
            roots
        }
    }

    /// What calls and reads of resources go through now.
    pub(crate) fn tools(&mut self) -> ToolRunner {
        let constraints = &self.state.constraints;
        if constraints.is_empty() {
            self.own = None;
            return self.services.tools.clone();
        }
        let roots = self.roots();
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
