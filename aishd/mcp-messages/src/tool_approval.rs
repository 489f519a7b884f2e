//! A server's tool as it is offered to a model, which is what an approval is bound to.

use std::sync::Arc;

use aishd_log::access::Access;
use aishd_log::tool::{ClaimSource, ContentDigest, NetworkUse, Tool, ToolReach};
use aishd_log::tool_name::ToolName;

use crate::server::{ServerEntry, ServerKind};
use crate::server_reach::is_this_machine;
use crate::tool as mcp;

/// What a call was let through for: it runs only while its server offers this under that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovedTool {
    pub name: ToolName,
    /// As [`Tool::definition_digest`].
    pub definition: ContentDigest,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StillOffered {
    /// It is offered as it was.
    Same,
    Changed,
    Gone,
}

impl ApprovedTool {
    pub fn of(tool: &Tool) -> Self {
        Self {
            name: tool.name.clone(),
            definition: tool.definition_digest(),
        }
    }

    /// Whether this server offers it now.
    pub fn still(&self, server: &ServerEntry) -> StillOffered {
        let tool = server.tools.iter().find(|it| it.called == self.name.tool());
        match tool.and_then(|it| offered_tool(server, it)) {
            Some(tool) if Self::of(&tool) == *self => StillOffered::Same,
            Some(_) => StillOffered::Changed,
            None => StillOffered::Gone,
        }
    }
}

/// Nothing for what cannot be called by a name.
pub fn offered_tool(server: &ServerEntry, tool: &mcp::ServerTool) -> Option<Tool> {
    let hints = tool.hints();
    let is_here = match server.kind {
        ServerKind::Stdio => true,
        ServerKind::Http => is_this_machine(&server.endpoint),
    };
    let name = ToolName::new(server.alias.clone(), &tool.called).ok()?;
    let held = server.contain.held_to();
    let place = [server.endpoint.clone()].into_iter().chain(held);
    let place = place.collect::<Vec<_>>().join(", ");
    Some(Tool {
        name,
        description: described(tool),
        schema: tool.input_schema.clone(),
        annotations: tool.annotations.clone(),
        server: server.identity.as_str().into(),
        place: place.into(),
        needs: Access::from_hints(hints.read_only, hints.destructive),
        needs_by: ClaimSource::Servers,
        reads_only: hints.read_only == Some(true),
        reach: ToolReach::World,
        packages: Arc::default(),
        directory: None,
        network: if is_here && hints.open_world == Some(false) {
            NetworkUse::Stays
        } else {
            NetworkUse::MayLeave
        },
    })
}

/// A text that speaks of a tool by the name of its server is understood where it has another one here.
fn described(tool: &mcp::ServerTool) -> String {
    if tool.called == tool.name {
        tool.description.clone()
    } else {
        format!("[its server calls it {:?}] {}", tool.name, tool.description)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aishd_log::time::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use aishd_log::profile::{ChosenProfile, Profile};

    use crate::server::{ServerIdentity, ServerPhase};

    fn server(tools: &Value, identity: &str) -> ServerEntry {
        let listed = mcp::read(
            tools.as_array().unwrap(),
            identity,
            mcp::HeaderMirroring::None,
        );
        ServerEntry {
            alias: "a".parse().unwrap(),
            endpoint: "here".to_owned(),
            kind: ServerKind::Stdio,
            contain: ChosenProfile::default(),
            identity: identity.to_owned(),
            state: ServerPhase::Ready,
            since: Timestamp::default(),
            about: ServerIdentity::default(),
            tools: listed.tools.into_iter().map(Arc::new).collect(),
            left_out: Arc::default(),
            remarks: Arc::default(),
            connect_ms: None,
            revision: None,
        }
    }

    #[test]
    fn people_are_told_what_holds_its_server() {
        let place = |it: &ServerEntry| offered_tool(it, &it.tools[0]).unwrap().place;
        let mut entry = server(&json!([{"name": "ls"}]), "one");
        assert_eq!("here", &*place(&entry));
        entry.contain.profile = Profile::Read;
        assert_eq!("here, held to reading, without a network", &*place(&entry));
    }

    #[test]
    fn an_approval_is_for_one_definition_of_one_server() {
        let tool =
            json!({"name": "ls", "description": "lists", "annotations": {"readOnlyHint": true}});
        let before = server(&json!([tool]), "one");
        let approved = ApprovedTool::of(&offered_tool(&before, &before.tools[0]).unwrap());
        let check = |expected, tools: Value, identity| {
            assert_eq!(
                expected,
                approved.still(&server(&tools, identity)),
                "{tools}"
            );
        };
        check(StillOffered::Same, json!([{"name": "other"}, tool]), "one");
        check(StillOffered::Changed, json!([tool]), "two");
        check(StillOffered::Gone, json!([{"name": "other"}]), "one");
        for (key, value) in [
            ("description", json!("deletes")),
            ("inputSchema", json!({"type": "object", "required": ["x"]})),
            ("annotations", json!({})),
        ] {
            let mut other = tool.clone();
            other[key] = value;
            check(StillOffered::Changed, json!([other]), "one");
        }
    }
}
