//! The tools that clients are told of: those that the daemon offers to a model, under names that every client takes.

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::event::Event;
use aish_proto::id::ConversationId;
use aish_proto::mcp;
use aish_proto::method::Empty;
use aish_proto::tool::{List, ToolDescription, ToolListParams, Watch};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::revision::McpRevision;
use crate::client::connect::{Caller, RpcCallError};
use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonWait};

/// Of definitions in one answer to `tools/list`.
const PAGE_BYTES: usize = 512 << 10;
const PAUSE: Duration = Duration::from_secs(1);
/// What an aish daemon calls itself, as a client and as a server.
pub(super) const AISH: &str = "aish";

/// One tool, or all of a provider: what `--tools` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSelection(String);

impl FromStr for ToolSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once("__") {
            Some((alias, tool)) if !alias.is_empty() && (tool == "*" || !tool.contains('*')) => {
                Ok(Self(text.to_owned()))
            }
            Some(_) | None => {
                Err("it is a tool, like fs__read_file, or all of one, like fs__*".to_owned())
            }
        }
    }
}

impl ToolSelection {
    /// Whether it means what a provider has under this whole name.
    pub(super) fn covers(&self, provider: &str, name: &str) -> bool {
        match self.0.strip_suffix("__*") {
            Some(alias) => provider == alias,
            None => name == self.0,
        }
    }
}

/// All that there was at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OfferedTools {
    tools: Vec<ToolDescription>,
    /// Providers that are gateways themselves.
    gateways: HashSet<String>,
}

impl OfferedTools {
    /// Without what nobody asked for (`--tools`).
    pub(super) fn new(
        tools: Vec<ToolDescription>,
        gateways: HashSet<String>,
        wanted: &[ToolSelection],
    ) -> Self {
        let covers = |it: &ToolDescription| wanted.iter().any(|w| w.covers(&it.provider, &it.name));
        let is_wanted = |it: &ToolDescription| wanted.is_empty() || covers(it);
        Self {
            tools: tools.into_iter().filter(is_wanted).collect(),
            gateways,
        }
    }

    /// What this client is told of. An aish is not told of what comes from another gateway, so that daemons that have
    /// each other as servers do not pass on each other's tools for ever.
    pub(super) fn tools_for<'a>(
        &'a self,
        client: &'a str,
    ) -> impl Iterator<Item = &'a ToolDescription> {
        let hides =
            move |it: &ToolDescription| client == AISH && self.gateways.contains(&it.provider);
        self.tools.iter().filter(move |it| it.served && !hides(it))
    }

    /// A tool by the name that clients are told, or by its own; one that policy denies too, so that the daemon says so.
    pub(super) fn find<'a>(&'a self, name: &str, client: &'a str) -> Option<&'a ToolDescription> {
        let is_it =
            |it: &&ToolDescription| it.name == name || it.short_name.as_deref() == Some(name);
        let denied = self.tools.iter().filter(|it| it.denied.is_some());
        self.tools_for(client).chain(denied).find(is_it)
    }

    /// A page of definitions, and the cursor of the next one; `None`: the cursor is of no page.
    pub(super) fn page(
        &self,
        client: &str,
        revision: McpRevision,
        cursor: Option<&str>,
    ) -> Option<(Vec<Value>, Option<String>)> {
        if cursor.is_some_and(|it| !it.contains("__")) {
            return None;
        }
        let mut page = vec![];
        let mut bytes = 0;
        let mut last: Option<&str> = None;
        for tool in self
            .tools_for(client)
            .filter(|it| cursor.is_none_or(|after| *it.name > *after))
        {
            if let (Some(last), true) = (last, bytes > PAGE_BYTES) {
                return Some((page, Some(last.to_owned())));
            }
            let told = definition(tool, revision);
            bytes += told.to_string().len();
            page.push(told);
            last = Some(&tool.name);
        }
        Some((page, None))
    }
}

/// The definition as clients take it: one field of a wrong type would cost some of them the whole list.
fn definition(tool: &ToolDescription, revision: McpRevision) -> Value {
    let mut schema = tool.input_schema.as_object().cloned().unwrap_or_default();
    schema.insert("type".to_owned(), json!("object"));
    let mut told = json!({
        "name": tool.short_name.as_ref().unwrap_or(&tool.name),
        "description": tool.description,
        "inputSchema": schema,
    });
    if let Some(title) = &tool.title {
        told["title"] = json!(title);
    }
    if let Some(schema) = output_schema(tool, revision) {
        told["outputSchema"] = schema.clone();
    }
    let annotations = annotations(&tool.annotations);
    if !annotations.is_empty() {
        told["annotations"] = annotations.into();
    }
    told
}

/// What a client of this revision is told of results.
pub(super) fn output_schema(tool: &ToolDescription, revision: McpRevision) -> Option<&Value> {
    let schema = tool.output_schema.as_ref()?;
    revision.takes_output_schema(schema).then_some(schema)
}

fn annotations(said: &Value) -> Map<String, Value> {
    let hints = [
        "readOnlyHint",
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
    ];
    let hints = hints.iter().filter_map(|name| {
        let value = said.get(name).filter(|it| it.is_boolean())?;
        Some(((*name).to_owned(), value.clone()))
    });
    let title = said.get("title").filter(|it| it.is_string());
    let title = title.map(|it| ("title".to_owned(), it.clone()));
    hints.chain(title).collect()
}

/// What is known of the tools.
#[derive(Clone, Debug, Default)]
pub(super) enum KnownTools {
    #[default]
    Nothing,
    /// The conversation that was named is gone, so the daemon will never say what there is in it.
    Gone(String),
    Tools(Arc<OfferedTools>),
}

impl KnownTools {
    pub(super) fn tools(&self) -> Option<&Arc<OfferedTools>> {
        match self {
            Self::Tools(offered) => Some(offered),
            Self::Nothing | Self::Gone(_) => None,
        }
    }

    /// Whether there is something to answer with.
    pub(super) fn is_known(&self) -> bool {
        match self {
            Self::Tools(_) | Self::Gone(_) => true,
            Self::Nothing => false,
        }
    }

    /// Takes in what the daemon said. Whether that is news.
    fn learn(&mut self, said: Result<OfferedTools, RpcCallError>) -> bool {
        match said {
            Ok(now) if self.tools().is_some_and(|it| **it == now) => false,
            Ok(now) => {
                *self = Self::Tools(Arc::new(now));
                true
            }
            // What was listed before is told on: a call says then what is wrong.
            Err(error) if error.is_not_found() && !self.is_known() => {
                let why = error.message;
                *self = Self::Gone(format!("{why}: begin the gateway with another -C"));
                true
            }
            Err(_) => false,
        }
    }
}

/// Keeps what is offered up to date, through restarts of the daemon, for as long as it is not dropped.
pub(super) async fn keep(
    reach: DaemonReach,
    conversation: Option<ConversationId>,
    wanted: Vec<ToolSelection>,
    into: watch::Sender<KnownTools>,
) {
    // A daemon that somebody has stopped comes back when somebody wants something of it, and not to be listened to.
    let reach = reach.listening();
    loop {
        if let Ok(mut link) = reach.open(DaemonWait::UntilBack).await
            && link.caller.call::<Watch>(Empty {}).await.is_ok()
        {
            loop {
                let said = all(&link.caller, conversation, &wanted).await;
                let failed = said.is_err();
                into.send_if_modified(|known| known.learn(said));
                if failed || next_change(&mut link).await.is_none() {
                    break;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// `None`: the connection is gone.
async fn next_change(link: &mut DaemonLink) -> Option<()> {
    let changes = |it: &Event| matches!(it, Event::ToolsChanged(_) | Event::ConfigReloaded(_));
    while !changes(&link.events.recv().await?.event.data) {}
    // The list that is read next has these too.
    while link.events.try_recv().is_ok() {}
    Some(())
}

async fn all(
    caller: &Caller,
    conversation: Option<ConversationId>,
    wanted: &[ToolSelection],
) -> Result<OfferedTools, RpcCallError> {
    let servers = caller.call::<mcp::List>(Empty {}).await?.servers;
    let gateways = servers.into_iter().filter(|it| it.name == AISH);
    let gateways = gateways.map(|it| it.alias).collect();
    let mut tools = vec![];
    let mut cursor = None;
    loop {
        let params = ToolListParams {
            conversation,
            cursor,
        };
        let page = caller.call::<List>(params).await?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(OfferedTools::new(tools, gateways, wanted));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use aish_proto::error::ErrorKind;

    use super::*;
    use crate::client::connect::CallFailure;

    pub(crate) fn tool(name: &str) -> ToolDescription {
        ToolDescription {
            name: name.to_owned(),
            short_name: None,
            provider: name.split_once("__").unwrap().0.to_owned(),
            title: None,
            description: "Does it.".to_owned(),
            input_schema: json!({"properties": {"a": {}}}),
            output_schema: None,
            annotations: json!({"readOnlyHint": "yes", "openWorldHint": false, "title": 7}),
            digest: String::new(),
            level_required: 1,
            level: 1,
            contain: None,
            offered: true,
            served: true,
            asks: false,
            denied: None,
        }
    }

    #[test]
    fn a_conversation_that_is_gone_is_told_of_at_once_and_tools_stay_known() {
        let failed = |kind| RpcCallError {
            kind,
            message: "there is no such conversation".to_owned(),
            hint: None,
            retryable: false,
        };
        let not_found = || failed(CallFailure::Refused(ErrorKind::NotFound));
        let offered = || OfferedTools::new(vec![tool("fs__read")], HashSet::new(), &[]);
        let mut known = KnownTools::default();
        assert!(!known.learn(Err(failed(CallFailure::Lost))) && !known.is_known());
        assert!(known.learn(Err(not_found())) && known.is_known());
        let KnownTools::Gone(why) = &known else {
            panic!("{known:?}");
        };
        assert_eq!(
            "there is no such conversation: begin the gateway with another -C",
            why
        );
        assert!(!known.learn(Err(not_found())), "it is told once");
        assert!(known.learn(Ok(offered())) && !known.learn(Ok(offered())));
        assert!(!known.learn(Err(not_found())));
        assert_eq!(Some(&offered()), known.tools().map(|it| &**it));
    }

    #[test]
    fn an_output_schema_is_told_to_clients_whose_revision_has_such_ones() {
        let object = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        for (schema, told_from) in [
            (object, Some(McpRevision::June2025)),
            (json!({"type": "array"}), Some(McpRevision::July2026)),
            (json!({"properties": {}}), Some(McpRevision::July2026)),
            (json!(true), None),
        ] {
            let tool = ToolDescription {
                output_schema: Some(schema.clone()),
                ..tool("fs__read")
            };
            for revision in McpRevision::ALL {
                let told = definition(&tool, revision).get("outputSchema").cloned();
                let expected = told_from.is_some_and(|it| revision >= it);
                assert_eq!(expected.then_some(schema.clone()), told, "{revision:?}");
            }
        }
    }

    fn names(offered: &OfferedTools, client: &str) -> Vec<String> {
        offered
            .tools_for(client)
            .map(|it| it.name.clone())
            .collect()
    }

    #[test]
    fn a_definition_is_one_that_strict_clients_take() {
        let told = definition(&tool("fs__read"), McpRevision::July2026);
        assert_eq!(
            json!({
                "name": "fs__read",
                "description": "Does it.",
                "inputSchema": {"type": "object", "properties": {"a": {}}},
                "annotations": {"openWorldHint": false},
            }),
            told
        );
    }

    #[test]
    fn what_is_denied_or_not_wanted_or_comes_from_a_gateway_is_not_told_of() {
        let mut denied = tool("fs__rm");
        (denied.served, denied.denied) = (false, Some("permissions.deny fs__rm".to_owned()));
        let mut own = tool("aish__time");
        own.served = false;
        let tools = vec![
            tool("fs__a"),
            denied,
            own,
            tool("far__fs__a"),
            tool("web__get"),
        ];
        let wanted: Vec<ToolSelection> = ["fs__*", "far__fs__a", "aish__*"]
            .map(|it| it.parse().unwrap())
            .into();
        let gateways = HashSet::from(["far".to_owned()]);
        let offered = OfferedTools::new(tools, gateways, &wanted);
        assert_eq!(vec!["fs__a", "far__fs__a"], names(&offered, "somebody"));
        assert_eq!(vec!["fs__a"], names(&offered, AISH));
        let found = |name| offered.find(name, "somebody").is_some();
        assert!(found("fs__a") && found("fs__rm"));
        assert!(!found("web__get") && !found("aish__time"));
    }

    #[test]
    fn pages_go_on_behind_the_last_name_even_when_that_tool_has_gone() {
        let big = |at: usize| ToolDescription {
            description: "x".repeat(PAGE_BYTES),
            ..tool(&format!("fs__{at}"))
        };
        let offered = OfferedTools::new((0..5).map(big).collect(), HashSet::new(), &[]);
        let mut seen = vec![];
        let mut cursor: Option<String> = None;
        loop {
            let (page, next) = offered
                .page("x", McpRevision::July2026, cursor.as_deref())
                .unwrap();
            seen.extend(page.iter().map(|it| it["name"].clone()));
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(5, seen.len());
        assert_eq!(
            None,
            offered.page("x", McpRevision::July2026, Some("nonsense"))
        );
        let (page, _) = offered
            .page("x", McpRevision::July2026, Some("fs__2__gone"))
            .unwrap();
        assert_eq!("fs__3", page[0]["name"]);
    }

    #[test]
    fn a_pattern_is_a_tool_or_a_whole_provider() {
        for good in ["fs__read", "fs__*"] {
            assert!(good.parse::<ToolSelection>().is_ok(), "{good}");
        }
        for bad in ["fs", "*", "fs__re*", "__x"] {
            assert!(bad.parse::<ToolSelection>().is_err(), "{bad}");
        }
    }
}
