//! The shared context of the gateway's conversations as resources of MCP: listed, read, and told of when there are more or
//! fewer. Nothing is written this way: that is what tools are for, which a person is asked about.

use std::sync::Arc;
use std::time::Duration;

use aish_proto::attach::{Attach, AttachParams, ReplayStart};
use aish_proto::event::Event;
use aish_proto::id::ConversationId;
use aish_proto::resource::{
    Get, List, ResourceAuthor, ResourceChangeKind, ResourceGetParams, ResourceListParams,
    ResourceMetadata,
};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::Gateway;
use super::message::{INTERNAL, INVALID_PARAMS, MessageParams, RpcProblem};
use super::revision::McpRevision;
use super::subscriptions::{GatewayNews, ListChange};
use crate::client::connect::{CallFailure, RpcCallError};
use crate::client::daemon_link::{DaemonLink, DaemonWait};

/// In front of `<conversation>/<name>`.
const SCHEME: &str = "aish://context/";
/// In front of a cursor behind all conversations; no id is written so.
const OF_SERVERS: &str = "mcp";
const PAUSE: Duration = Duration::from_secs(1);

impl Gateway {
    /// A page of one conversation's resources; the cursor says which, and where in it. Those of servers follow on the last.
    pub(super) async fn resources(
        &self,
        client: &str,
        params: &MessageParams,
    ) -> Result<Map<String, Value>, RpcProblem> {
        let invalid = || RpcProblem::new(INVALID_PARAMS, "Invalid cursor");
        let all = self.seats.conversations();
        let (at, cursor) = match params.get("cursor") {
            None | Some(Value::Null) => (0, None),
            Some(Value::String(text)) => {
                let (id, cursor) = text.split_once('/').ok_or_else(invalid)?;
                if id == OF_SERVERS {
                    return self.of_servers(client, cursor, vec![]).await;
                }
                let at = all.iter().position(|it| it.to_string() == id);
                let cursor = (!cursor.is_empty()).then(|| cursor.to_owned());
                (at.ok_or_else(invalid)?, cursor)
            }
            Some(_) => return Err(invalid()),
        };
        let Some(conversation) = all.get(at).copied() else {
            return self.of_servers(client, "", vec![]).await;
        };
        let link = self.link().await?;
        let params = ResourceListParams {
            conversation,
            cursor,
            limit: None,
        };
        let mut next = None;
        let mut found: Vec<Value> = vec![];
        match link.caller.call::<List>(params).await {
            Ok(page) => {
                let told = page
                    .resources
                    .iter()
                    .map(|it| resource_json(conversation, it));
                found.extend(told);
                next = page.next_cursor.map(|it| format!("{conversation}/{it}"));
            }
            // Somebody has deleted it.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(failed(&error)),
        }
        let following = all.get(at + 1).map(|it| format!("{it}/"));
        match next.or(following) {
            Some(next) => Ok(page(found, Some(next))),
            None => self.of_servers(client, "", found).await,
        }
    }

    async fn of_servers(
        &self,
        client: &str,
        from: &str,
        mut before: Vec<Value>,
    ) -> Result<Map<String, Value>, RpcProblem> {
        let link = self.link().await?;
        let (found, next) = self.server_resources(&link.caller, client, from).await?;
        before.extend(found);
        Ok(page(before, next.map(|it| format!("{OF_SERVERS}/{it}"))))
    }

    pub(super) async fn resource(
        &self,
        revision: McpRevision,
        params: &MessageParams,
    ) -> Result<Map<String, Value>, RpcProblem> {
        let Some(Value::String(uri)) = params.get("uri") else {
            return Err(RpcProblem::new(INVALID_PARAMS, "\"uri\" is a text"));
        };
        let unknown = || RpcProblem {
            data: Some(json!({ "uri": uri })),
            ..RpcProblem::new(revision.resource_not_found(), "Resource not found")
        };
        let place = uri.strip_prefix(SCHEME).and_then(|it| it.split_once('/'));
        let (id, name) = place.ok_or_else(unknown)?;
        let own = self.seats.conversations();
        let own = own.into_iter().find(|it| it.to_string() == id);
        let params = ResourceGetParams {
            conversation: own.ok_or_else(unknown)?,
            name: name.to_owned(),
        };
        let link = self.link().await?;
        let got = match link.caller.call::<Get>(params).await {
            Ok(got) => got,
            Err(error) if error.is_not_found() => return Err(unknown()),
            // A name that no resource can have.
            Err(error) if error.kind == CallFailure::Protocol(INVALID_PARAMS) => {
                return Err(unknown());
            }
            Err(error) => return Err(failed(&error)),
        };
        let contents = json!([{
            "uri": uri,
            "mimeType": "application/json",
            "text": got.data.to_string(),
        }]);
        Ok(Map::from_iter([("contents".to_owned(), contents)]))
    }

    pub(super) async fn link(&self) -> Result<DaemonLink, RpcProblem> {
        let opened = self.reach.open(DaemonWait::UntilBack).await;
        opened.map_err(|failure| RpcProblem::new(INTERNAL, failure.message))
    }

    /// Hears of changes until the connection is gone.
    async fn hear(&self, link: &mut DaemonLink, own: &mut watch::Receiver<Vec<ConversationId>>) {
        let mut heard: Vec<ConversationId> = vec![];
        loop {
            let now = own.borrow_and_update().clone();
            for id in now
                .into_iter()
                .filter(|it| !heard.contains(it))
                .collect::<Vec<_>>()
            {
                let params = AttachParams {
                    id,
                    since: ReplayStart::Now,
                    deltas: false,
                };
                heard.push(id);
                match link.caller.call::<Attach>(params).await {
                    // What is there already came before we listened.
                    Ok(_) => {
                        if has_resources(link, id).await {
                            self.tell(GatewayNews::List(ListChange::Resources)).await;
                        }
                        for uri in self.subscriptions.uris_of(&format!("{SCHEME}{id}/")) {
                            self.tell(GatewayNews::Updated(uri)).await;
                        }
                    }
                    Err(error) if error.is_not_found() => {}
                    Err(_) => return,
                }
            }
            tokio::select! {
                event = link.events.recv() => {
                    let Some(event) = event else { return };
                    if let Event::ResourceChanged(changed) = &event.event.data {
                        if alters(changed.change) {
                            self.tell(GatewayNews::List(ListChange::Resources)).await;
                        }
                        if let Some(id) = event.event.conversation {
                            let uri = format!("{SCHEME}{id}/{}", changed.name);
                            self.tell(GatewayNews::Updated(uri)).await;
                        }
                    }
                }
                changed = own.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// Tells the client of changes, through restarts of the daemon, for as long as it is not dropped.
pub(super) async fn keep(gateway: Arc<Gateway>) {
    let mut own = gateway.seats.watch();
    let reach = gateway.reach.listening();
    loop {
        if own.wait_for(|it| !it.is_empty()).await.is_err() {
            return;
        }
        if let Ok(mut link) = reach.open(DaemonWait::UntilBack).await {
            gateway.hear(&mut link, &mut own).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn page(resources: Vec<Value>, next: Option<String>) -> Map<String, Value> {
    let mut result = Map::from_iter([("resources".to_owned(), resources.into())]);
    if let Some(next) = next {
        result.insert("nextCursor".to_owned(), next.into());
    }
    result
}

/// Whether there is one more, or one less.
fn alters(change: ResourceChangeKind) -> bool {
    match change {
        ResourceChangeKind::Created | ResourceChangeKind::Deleted => true,
        ResourceChangeKind::Updated => false,
    }
}

async fn has_resources(link: &DaemonLink, conversation: ConversationId) -> bool {
    let params = ResourceListParams {
        conversation,
        cursor: None,
        limit: Some(1),
    };
    let listed = link.caller.call::<List>(params).await;
    listed.is_ok_and(|it| it.total > 0)
}

fn resource_json(conversation: ConversationId, resource: &ResourceMetadata) -> Value {
    json!({
        "uri": format!("{SCHEME}{conversation}/{}", resource.name),
        "name": resource.name,
        "description": format!(
            "revision {} of the shared context, by {}",
            resource.revision,
            author(&resource.updated_by)
        ),
        "mimeType": "application/json",
        "size": resource.bytes,
    })
}

fn author(author: &ResourceAuthor) -> &str {
    match (&author.provider, &author.person) {
        (Some(provider), _) => provider,
        (None, Some(person)) => &person.name,
        (None, None) => "nobody",
    }
}

fn failed(error: &RpcCallError) -> RpcProblem {
    RpcProblem::new(INTERNAL, error.message.clone())
}
