//! What a client wants to hear of: lists that change, and resources. In a session by `resources/subscribe`, without one by
//! `subscriptions/listen`. What servers of the daemon tell is watched for all of it at once (`mcp/watch`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aish_proto::attach::{Detach, DetachParams};
use aish_proto::event::Event;
use aish_proto::mcp::PinnedResource;
use aish_proto::mcp_watch::{McpChange, McpWatchParams, Watch};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Gateway;
use super::message::{
    INVALID_PARAMS, INVALID_REQUEST, MessageParams, RpcProblem, answer, notification,
};
use super::requests::RequestTerms;
use super::revision::{McpRevision, SUBSCRIPTION};
use super::server_resources::ServerResource;
use crate::client::daemon_link::{DaemonLink, DaemonWait};

/// Open questions of a client that wait for news.
const MOST_LISTENING: usize = 32;
/// Resources that one gateway tells of.
const MOST_WATCHED: usize = 256;
/// No longer than the daemon takes one of a server.
const MAX_URI_BYTES: usize = 2048;
/// Servers are asked meanwhile, and may have to be connected to.
const WATCH_WITHIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(1);

/// What a list of the gateway's has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListChange {
    Tools,
    Resources,
    Prompts,
}

impl ListChange {
    const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
        }
    }

    /// As a subscription of the stateless era asks for it.
    fn wish(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Resources => "resourcesListChanged",
            Self::Prompts => "promptsListChanged",
        }
    }
}

/// Something that clients may want to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GatewayNews {
    List(ListChange),
    Updated(String),
}

impl GatewayNews {
    fn line(&self, subscription: Option<&Value>) -> Value {
        let mut params = Map::new();
        let method = match self {
            Self::List(list) => list.method(),
            Self::Updated(uri) => {
                params.insert("uri".to_owned(), json!(uri));
                "notifications/resources/updated"
            }
        };
        if let Some(id) = subscription {
            params.insert("_meta".to_owned(), json!({ SUBSCRIPTION: id }));
        }
        if params.is_empty() {
            return json!({"jsonrpc": "2.0", "method": method});
        }
        notification(method, &Value::Object(params))
    }
}

/// All that the client wants to hear of.
#[derive(Debug, Default)]
pub(super) struct ClientSubscriptions {
    heard: Mutex<HeardNews>,
    /// What servers have to be watched for.
    wanted: watch::Sender<BTreeSet<ServerResource>>,
    /// What came of that; `Some`: why nobody will tell of it.
    standing: watch::Sender<BTreeMap<ServerResource, Option<String>>>,
}

#[derive(Debug, Default)]
struct HeardNews {
    /// In the session.
    session: BTreeSet<String>,
    listening: Vec<NewsListener>,
}

/// One `subscriptions/listen`.
#[derive(Debug)]
struct NewsListener {
    id: Value,
    lists: Vec<ListChange>,
    uris: BTreeSet<String>,
    /// What came before its acknowledgement, which is the first thing to be said.
    held: Option<Vec<GatewayNews>>,
}

impl NewsListener {
    fn wants(&self, news: &GatewayNews) -> bool {
        match news {
            GatewayNews::List(list) => self.lists.contains(list),
            GatewayNews::Updated(uri) => self.uris.contains(uri),
        }
    }
}

impl HeardNews {
    fn uris(&self) -> BTreeSet<&String> {
        let listening = self.listening.iter().flat_map(|it| &it.uris);
        self.session.iter().chain(listening).collect()
    }
}

impl ClientSubscriptions {
    /// Changes what is heard, and with it what is watched.
    fn change<T>(&self, change: impl FnOnce(&mut HeardNews) -> T) -> T {
        let mut heard = self.heard.lock();
        let done = change(&mut heard);
        let wanted: BTreeSet<ServerResource> = heard
            .uris()
            .into_iter()
            .filter_map(|it| ServerResource::parse(it))
            .collect();
        // What is asked for again later is to be watched again before that is answered.
        self.standing.send_if_modified(|known| {
            let before = known.len();
            known.retain(|it, _| wanted.contains(it));
            known.len() != before
        });
        self.wanted.send_if_modified(|now| {
            let differs = *now != wanted;
            if differs {
                *now = wanted;
            }
            differs
        });
        done
    }

    /// Takes in a listener that hears of nothing yet.
    pub(super) fn open(&self, id: &Value) -> Result<(), RpcProblem> {
        let mut heard = self.heard.lock();
        let in_use = heard.listening.iter().any(|it| it.id == *id);
        if in_use || heard.listening.len() >= MOST_LISTENING {
            let why = "the id is in use, or too many subscriptions are open";
            return Err(RpcProblem::new(INVALID_REQUEST, why));
        }
        heard.listening.push(NewsListener {
            id: id.clone(),
            lists: vec![],
            uris: BTreeSet::new(),
            held: Some(vec![]),
        });
        Ok(())
    }

    /// What a listener hears of from now on. False: it was called off.
    fn hear(
        &self,
        id: &Value,
        lists: &[ListChange],
        uris: &BTreeSet<String>,
    ) -> Result<bool, RpcProblem> {
        self.change(|heard| {
            let others = heard.uris().into_iter().filter(|it| !uris.contains(*it));
            if others.count() + uris.len() > MOST_WATCHED {
                return Err(too_many());
            }
            let listener = heard.listening.iter_mut().find(|it| it.id == *id);
            Ok(listener.is_some_and(|it| {
                it.lists = lists.to_vec();
                it.uris.clone_from(uris);
                true
            }))
        })
    }

    /// The client called this question off.
    pub(super) fn end(&self, id: &Value) {
        self.change(|heard| heard.listening.retain(|it| it.id != *id));
    }

    /// Of these, what the client wants to hear of now.
    pub(super) fn uris_of(&self, prefix: &str) -> Vec<String> {
        let heard = self.heard.lock();
        let uris = heard.uris().into_iter();
        uris.filter(|it| it.starts_with(prefix)).cloned().collect()
    }

    /// Waits until servers were asked, or the time is over. `Err`: nobody will tell of it, and why.
    async fn established(&self, uri: &str, deadline: Instant) -> Result<(), String> {
        let Some(resource) = ServerResource::parse(uri) else {
            return Ok(());
        };
        let mut standing = self.standing.subscribe();
        let known = standing.wait_for(|it| it.contains_key(&resource));
        let known = tokio::time::timeout_at(deadline, known).await;
        let known = known
            .ok()
            .and_then(Result::ok)
            .map(|it| it.get(&resource).cloned());
        match known.flatten().flatten() {
            Some(why) => Err(why),
            // Where the daemon is away it is watched when it is back.
            None => Ok(()),
        }
    }
}

impl Gateway {
    pub(super) async fn subscribe(
        &self,
        terms: &RequestTerms,
        params: &MessageParams,
    ) -> Result<Map<String, Value>, RpcProblem> {
        let uri = uri_of(params)?;
        self.check(terms, &uri).await?;
        let is_new = self.subscriptions.change(|heard| {
            let has_room = heard.session.contains(&uri) || heard.uris().len() < MOST_WATCHED;
            let taken = has_room.then(|| heard.session.insert(uri.clone()));
            taken.ok_or_else(too_many)
        })?;
        let deadline = Instant::now() + WATCH_WITHIN;
        if let Err(why) = self.subscriptions.established(&uri, deadline).await {
            if is_new {
                self.subscriptions
                    .change(|heard| heard.session.remove(&uri));
            }
            return Err(RpcProblem::new(INVALID_PARAMS, why));
        }
        Ok(Map::new())
    }

    pub(super) fn unsubscribe(
        &self,
        params: &MessageParams,
    ) -> Result<Map<String, Value>, RpcProblem> {
        let uri = uri_of(params)?;
        self.subscriptions
            .change(|heard| heard.session.remove(&uri));
        Ok(Map::new())
    }

    /// Whether it is something that this client may hear of.
    async fn check(&self, terms: &RequestTerms, uri: &str) -> Result<(), RpcProblem> {
        let known = match ServerResource::parse(uri) {
            Some(of) => self.offers_of(&of.alias, &terms.client).await?,
            None => {
                let read = Map::from_iter([("uri".to_owned(), json!(uri))]);
                return self.resource(terms.revision, &read).await.map(drop);
            }
        };
        if known {
            return Ok(());
        }
        Err(RpcProblem {
            data: Some(json!({ "uri": uri })),
            ..RpcProblem::new(terms.revision.resource_not_found(), "Resource not found")
        })
    }

    /// Acknowledges what can be heard by a listener that is open; the answer comes when it ends. One that is called off meanwhile gets neither.
    pub(super) async fn listen(
        &self,
        id: &Value,
        terms: &RequestTerms,
        params: &MessageParams,
    ) -> Result<(), RpcProblem> {
        let acknowledged = self.acknowledge(id, terms, params).await;
        if acknowledged.is_err() {
            self.subscriptions.end(id);
        }
        acknowledged
    }

    async fn acknowledge(
        &self,
        id: &Value,
        terms: &RequestTerms,
        params: &MessageParams,
    ) -> Result<(), RpcProblem> {
        let Some(wanted) = params.get("notifications").and_then(Value::as_object) else {
            let why = "\"notifications\" is an object";
            return Err(RpcProblem::new(INVALID_PARAMS, why));
        };
        let wishes = |it: &ListChange| wanted.get(it.wish()) == Some(&Value::Bool(true));
        let lists: Vec<ListChange> = ListChange::ALL.into_iter().filter(wishes).collect();
        let named = wanted
            .get("resourceSubscriptions")
            .and_then(Value::as_array);
        let named = named.into_iter().flatten().filter_map(Value::as_str);
        let mut uris = BTreeSet::new();
        for uri in named.take(MOST_WATCHED + 1) {
            // What cannot be told of is not acknowledged, and costs the others nothing.
            if uri.len() <= MAX_URI_BYTES && self.check(terms, uri).await.is_ok() {
                uris.insert(uri.to_owned());
            }
        }
        if !self.subscriptions.hear(id, &lists, &uris)? {
            return Ok(());
        }
        let deadline = Instant::now() + WATCH_WITHIN;
        let mut refused = vec![];
        for uri in &uris {
            let told = self.subscriptions.established(uri, deadline).await;
            if told.is_err() {
                refused.push(uri.clone());
            }
        }
        uris.retain(|it| !refused.contains(it));
        if !self.subscriptions.hear(id, &lists, &uris)? {
            return Ok(());
        }
        let mut taken: Map<String, Value> = Map::new();
        taken.extend(lists.iter().map(|it| (it.wish().to_owned(), json!(true))));
        if !uris.is_empty() {
            taken.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        let params = json!({"notifications": taken, "_meta": {SUBSCRIPTION: id}});
        let acknowledged = "notifications/subscriptions/acknowledged";
        self.out.write(&notification(acknowledged, &params)).await;
        loop {
            let held = {
                let mut heard = self.subscriptions.heard.lock();
                let listener = heard.listening.iter_mut().find(|it| it.id == *id);
                let held = listener.and_then(|it| match &mut it.held {
                    Some(held) if held.is_empty() => {
                        it.held = None;
                        None
                    }
                    Some(held) => Some(std::mem::take(held)),
                    None => None,
                });
                held.unwrap_or_default()
            };
            if held.is_empty() {
                return Ok(());
            }
            for news in held {
                self.out.write(&news.line(Some(id))).await;
            }
        }
    }

    /// Says goodbye to all who listen.
    pub(super) async fn end_listening(&self) {
        let listening = self
            .subscriptions
            .change(|it| std::mem::take(&mut it.listening));
        for NewsListener { id, .. } in listening {
            let mut result = Map::new();
            result.insert("_meta".to_owned(), json!({ SUBSCRIPTION: id }));
            let goodbye = McpRevision::July2026.finished(result);
            self.out.write(&answer(&id, Ok(goodbye))).await;
        }
    }

    /// Tells whoever wants to hear of it.
    pub(super) async fn tell(&self, news: GatewayNews) {
        let is_ready = self.session.lock().is_ready;
        let mut lines = vec![];
        {
            let mut heard = self.subscriptions.heard.lock();
            let in_session = match &news {
                GatewayNews::List(_) => true,
                GatewayNews::Updated(uri) => heard.session.contains(uri),
            };
            if is_ready && in_session {
                lines.push(news.line(None));
            }
            for it in heard.listening.iter_mut().filter(|it| it.wants(&news)) {
                match &mut it.held {
                    Some(held) if held.contains(&news) => {}
                    Some(held) => held.push(news.clone()),
                    None => lines.push(news.line(Some(&it.id))),
                }
            }
        }
        for line in lines {
            self.out.write(&line).await;
        }
    }

    /// Watches and tells until the connection is gone.
    async fn follow_servers(&self, link: &mut DaemonLink, is_back: bool) {
        let subscriptions = &self.subscriptions;
        let mut wanted = subscriptions.wanted.subscribe();
        let mut watched = None;
        let mut missed = is_back;
        loop {
            let now = wanted.borrow_and_update().clone();
            let resources = now.iter().map(|it| PinnedResource {
                alias: it.alias.clone(),
                uri: it.uri.clone(),
            });
            let params = McpWatchParams {
                resources: resources.collect(),
            };
            let asked = link.caller.call_within::<Watch>(params, Some(WATCH_WITHIN));
            let Ok(result) = asked.await else { return };
            let why = |of: &ServerResource| {
                let mut refused = result.refused.iter();
                let refused = refused.find(|it| it.alias == of.alias && it.uri == of.uri);
                refused.map(|it| it.why.clone())
            };
            let standing = now.iter().map(|it| (it.clone(), why(it))).collect();
            subscriptions.standing.send_replace(standing);
            // What both watch is asked for no second time, and told of in between.
            if let Some(subscription) = watched.replace(result.subscription) {
                let params = DetachParams { subscription };
                if link.caller.call::<Detach>(params).await.is_err() {
                    return;
                }
            }
            if std::mem::take(&mut missed) {
                for list in [ListChange::Resources, ListChange::Prompts] {
                    self.tell(GatewayNews::List(list)).await;
                }
                for it in &now {
                    let uri = ServerResource::gateway_uri(&it.alias, &it.uri);
                    self.tell(GatewayNews::Updated(uri)).await;
                }
            }
            loop {
                tokio::select! {
                    event = link.events.recv() => {
                        let Some(event) = event else { return };
                        if let Event::McpChanged(it) = event.event.data {
                            self.server_told(&it.alias, it.change, it.uri).await;
                        }
                    }
                    changed = wanted.changed() => {
                        if changed.is_err() { return }
                        break;
                    }
                }
            }
        }
    }

    async fn server_told(&self, alias: &str, change: McpChange, uri: Option<String>) {
        let news = match (change, uri) {
            (McpChange::Resources, _) if self.wants_all_of(alias) => {
                GatewayNews::List(ListChange::Resources)
            }
            (McpChange::Prompts, _) => GatewayNews::List(ListChange::Prompts),
            (McpChange::Resource, Some(uri)) => {
                GatewayNews::Updated(ServerResource::gateway_uri(alias, &uri))
            }
            (McpChange::Resources | McpChange::Resource, _) => return,
        };
        self.tell(news).await;
    }
}

/// Tells the client what servers tell, through restarts of the daemon, for as long as it is not dropped.
pub(super) async fn keep(gateway: Arc<Gateway>) {
    let reach = gateway.reach.listening();
    let mut is_back = false;
    loop {
        if let Ok(mut link) = reach.open(DaemonWait::UntilBack).await {
            gateway.follow_servers(&mut link, is_back).await;
            is_back = true;
            gateway.subscriptions.standing.send_replace(BTreeMap::new());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn uri_of(params: &MessageParams) -> Result<String, RpcProblem> {
    let uri = params.get("uri").and_then(Value::as_str);
    let uri = uri.filter(|it| !it.is_empty() && it.len() <= MAX_URI_BYTES);
    let why = format!("\"uri\" is a text of 1 to {MAX_URI_BYTES} bytes");
    uri.map(str::to_owned)
        .ok_or_else(|| RpcProblem::new(INVALID_PARAMS, why))
}

fn too_many() -> RpcProblem {
    let why =
        format!("a gateway tells of {MOST_WATCHED} resources at most; unsubscribe from one first");
    RpcProblem::new(INVALID_REQUEST, why)
}
