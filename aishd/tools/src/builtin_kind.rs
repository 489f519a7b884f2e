//! What the tools of the daemon are for, by which it is decided who is told of them.

use aishd_log::tool_name::ToolName;
use aishd_rules::policy::Policy;

use crate::builtin::{
    finds_tools, is_builtin, is_for_files, is_for_jobs, keeps_todos, reads_resources,
    reads_results, reads_web,
};

type NameCheck = fn(&ToolName) -> bool;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinKind {
    /// Reads on in a result that was too long.
    Results,
    /// Finds tools that a request has no room for; whoever chooses puts it beside them.
    Finder,
    /// Reads resources of MCP servers, for lists of calls.
    Resources,
    Files,
    Web,
    Todos,
    /// About commands in the background.
    Jobs,
    Other,
}

impl BuiltinKind {
    /// `None`: the tool is no part of the daemon.
    pub fn of(name: &ToolName) -> Option<Self> {
        let kinds: [(NameCheck, Self); 8] = [
            (reads_results, Self::Results),
            (finds_tools, Self::Finder),
            (reads_resources, Self::Resources),
            (is_for_files, Self::Files),
            (reads_web, Self::Web),
            (keeps_todos, Self::Todos),
            (is_for_jobs, Self::Jobs),
            (is_builtin, Self::Other),
        ];
        let found = kinds.into_iter().find(|(is_one, _)| is_one(name));
        found.map(|(_, kind)| kind)
    }

    /// Whether models are told of it in a usual turn, where programs of ours can be held to what they may, or cannot.
    pub fn is_offered_by(self, policy: &Policy, may_hold: bool) -> bool {
        match self {
            Self::Results => true,
            Self::Finder | Self::Resources => false,
            Self::Files => policy.file_tools && may_hold,
            Self::Web => policy.web_tools && may_hold,
            Self::Todos => policy.todo_tools,
            Self::Jobs => policy.shell.offers_tool,
            Self::Other => policy.builtin_tools,
        }
    }
}
