//! What people are told of MCP servers that come and go.

use std::collections::{BTreeMap, BTreeSet};

use aish_proto::mcp::{McpServerStatus, ServerState};

/// Of a server that gives another reason each time, so many are said.
const MOST_REASONS: usize = 8;

/// Servers that were there and went away, and the reasons that were said. Each is tried again and again, and one that is
/// down may give one reason now and another then.
#[derive(Debug, Default)]
pub(crate) struct AwayServers {
    were_there: BTreeSet<String>,
    said: BTreeMap<String, BTreeSet<Option<String>>>,
}

impl AwayServers {
    /// A server that came or went, once until there is something else to say. One that never was there is a matter of the
    /// configuration (`:mcp`, `doctor`) and of no conversation; that, and whom we connect to, is for the curious.
    pub(crate) fn status_line(
        &mut self,
        server: &McpServerStatus,
        is_curious: bool,
    ) -> Option<String> {
        let alias = &server.alias;
        match server.state {
            ServerState::Ready => {
                self.were_there.insert(alias.clone());
                self.said.remove(alias);
            }
            ServerState::Failed | ServerState::NeedsSignIn | ServerState::Off => {
                // A person has to do something about a sign-in, and nothing else would say so.
                let wants_person = server.state == ServerState::NeedsSignIn;
                if !self.were_there.contains(alias) && !is_curious && !wants_person {
                    return None;
                }
                let said = self.said.entry(alias.clone()).or_default();
                if said.len() >= MOST_REASONS || !said.insert(server.why.clone()) {
                    return None;
                }
            }
            ServerState::Connecting => {}
        }
        match (server.state, &server.why) {
            (ServerState::Ready, _) => Some(format!("mcp {alias}: {} tools", server.tools)),
            (ServerState::NeedsSignIn, Some(why)) => {
                Some(format!("mcp {alias}: {why}: aishctl mcp login {alias}"))
            }
            (ServerState::Failed | ServerState::Off, Some(why)) => {
                Some(format!("mcp {alias}: {why}"))
            }
            (ServerState::Failed | ServerState::NeedsSignIn | ServerState::Off, None) => {
                Some(format!("mcp {alias}: gone"))
            }
            (ServerState::Connecting, _) => is_curious.then(|| format!("mcp {alias}: connecting")),
        }
    }
}
