//! `mcp/watch`: what servers tell of their resources and prompts, as levels: who reads slowly is told less often, and of
//! nothing too little.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::event::McpChanged;
use aish_proto::mcp_watch::{McpChange, McpWatchResult, RefusedResource, Watch};
use aishd_log::pinned_resource::MAX_URI_BYTES;
use aishd_log::tool_name::Alias;
use aishd_mcp::{ServerNews, WatchedResource};
use aishd_mcp_messages::server::{ServerEntry, ServerPhase, ServerSnapshot};
use futures_util::future::{join_all, select_all};
use jsonrpsee::RpcModule;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::daemon_subscription::DaemonSubscription;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, mcp, register};

/// Of one subscription.
const MOST_WATCHED: usize = 256;
/// A server that tells without end is passed on so often.
const PACE: Duration = Duration::from_millis(100);

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Watch, _, _>(module, watch);
}

async fn watch(call: MethodCall<Watch>) -> Result<McpWatchResult, MethodError> {
    let wanted = call.params.resources;
    if wanted.len() > MOST_WATCHED {
        let why = format!("resources has at most {MOST_WATCHED}");
        return Err(MethodError::params(&why));
    }
    let mut parsed: Vec<(Alias, String)> = vec![];
    for it in wanted {
        if it.uri.is_empty() || it.uri.len() > MAX_URI_BYTES {
            let why = format!("uri has 1 to {MAX_URI_BYTES} bytes");
            return Err(MethodError::params(&why));
        }
        let it = (mcp::alias(&it.alias)?, it.uri);
        if !parsed.contains(&it) {
            parsed.push(it);
        }
    }
    // What is told from here on is news.
    let mut told = ToldServers::default();
    let _nothing_new = told.compare(&call.server);
    let over = call.connection.over.child_token();
    let hub = &call.server.hub;
    let asked = parsed
        .iter()
        .map(|(alias, uri)| hub.watch_resource(alias, uri, &over));
    let mut watched = vec![];
    let mut refused = vec![];
    for (result, (alias, uri)) in join_all(asked).await.into_iter().zip(&parsed) {
        match result {
            Ok(it) => watched.push(it),
            Err(why) => refused.push(RefusedResource {
                alias: alias.to_string(),
                uri: uri.clone(),
                why: why.to_string(),
            }),
        }
    }
    let to = DaemonSubscription::open(call.server, call.connection)?;
    let subscription = to.id;
    let watcher = McpWatcher {
        to,
        watched,
        told,
        again: JoinSet::new(),
    };
    call.after_reply.start(watcher.run());
    Ok(McpWatchResult {
        subscription,
        refused,
    })
}

/// One `mcp/watch`.
struct McpWatcher {
    to: DaemonSubscription,
    watched: Vec<WatchedResource>,
    told: ToldServers,
    /// Those whose server is another one now.
    again: JoinSet<Option<WatchedResource>>,
}

/// What was told of each server.
#[derive(Default)]
struct ToldServers(BTreeMap<Alias, ToldServer>);

struct ToldServer {
    news: watch::Receiver<ServerNews>,
    known: ServerNews,
    /// The server, if it was there.
    ready: Option<Arc<ServerEntry>>,
}

struct NewsOfServer {
    alias: Alias,
    change: McpChange,
    uri: Option<String>,
}

impl ToldServers {
    /// What is to be told, and is from now on.
    fn compare(&mut self, server: &RpcServer) -> Vec<NewsOfServer> {
        let all: Arc<ServerSnapshot> = server.hub.servers().borrow().clone();
        let mut found = vec![];
        self.0.retain(|alias, it| {
            let stays = all.get(alias).is_some();
            if !stays && let Some(gone) = &it.ready {
                found.extend(lists_of(gone));
            }
            stays
        });
        for entry in &all.list {
            let Some(news) = server.hub.news(&entry.alias) else {
                continue;
            };
            let told = self
                .0
                .entry(entry.alias.clone())
                .or_insert_with(|| ToldServer {
                    known: news.borrow().clone(),
                    news: news.clone(),
                    ready: None,
                });
            if !told.news.same_channel(&news) {
                (told.news, told.known) = (news, ServerNews::default());
            }
            let is_ready = entry.state == ServerPhase::Ready;
            if is_ready != told.ready.is_some() {
                let known = told.ready.take();
                found.extend(lists_of(known.as_ref().unwrap_or(entry)));
                told.ready = is_ready.then(|| entry.clone());
            }
            let now = told.news.borrow_and_update().clone();
            found.extend(differences(&entry.alias, &told.known, &now));
            told.known = now;
        }
        found
    }

    /// Returns when a server has told something.
    async fn changed(&mut self) {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        let all = self.0.values_mut();
        let all = all.map(|it| Box::pin(it.news.changed()));
        let _gone = select_all(all).await;
    }
}

/// A server that comes or goes has other lists.
fn lists_of(entry: &Arc<ServerEntry>) -> Vec<NewsOfServer> {
    let offers = entry.about.offers;
    let lists = [
        (offers.resources, McpChange::Resources),
        (offers.prompts, McpChange::Prompts),
    ];
    let lists = lists.into_iter().filter(|(offered, _)| *offered);
    let news = lists.map(|(_, change)| NewsOfServer {
        alias: entry.alias.clone(),
        change,
        uri: None,
    });
    news.collect()
}

fn differences(alias: &Alias, known: &ServerNews, now: &ServerNews) -> Vec<NewsOfServer> {
    let mut found = vec![];
    let mut note = |change: McpChange, uri: Option<&String>| {
        found.push(NewsOfServer {
            alias: alias.clone(),
            change,
            uri: uri.cloned(),
        });
    };
    if known.resources != now.resources {
        note(McpChange::Resources, None);
    }
    if known.prompts != now.prompts {
        note(McpChange::Prompts, None);
    }
    for (uri, _) in now
        .changed
        .iter()
        .filter(|(uri, count)| known.changed.get(*uri) != Some(*count))
    {
        note(McpChange::Resource, Some(uri));
    }
    found
}

impl McpWatcher {
    async fn run(mut self) {
        let mut servers = self.to.server.hub.servers();
        while self.tell().await {
            let pause = tokio::time::sleep(PACE);
            if self.to.detached.run_until_cancelled(pause).await.is_none() {
                break;
            }
            tokio::select! {
                () = self.to.detached.cancelled() => break,
                changed = servers.changed() => if changed.is_err() { break },
                () = self.told.changed() => {}
                Some(Ok(Some(watched))) = self.again.join_next() => {
                    // It may hold something else than under the server before.
                    let (alias, uri) = (watched.alias.clone(), watched.uri.clone());
                    self.watched.push(watched);
                    if !self.send(&NewsOfServer { alias, change: McpChange::Resource, uri: Some(uri) }).await {
                        break;
                    }
                }
            }
            self.watch_again();
        }
    }

    /// Watches what is of another server now.
    fn watch_again(&mut self) {
        let all = self.to.server.hub.servers().borrow().clone();
        let is_stale = |it: &mut WatchedResource| !it.is_current() && all.get(&it.alias).is_some();
        for stale in self.watched.extract_if(.., is_stale) {
            let (hub, over) = (self.to.server.hub.clone(), self.to.detached.clone());
            self.again.spawn(async move {
                let again = hub.watch_resource(&stale.alias, &stale.uri, &over);
                again.await.ok()
            });
        }
    }

    /// Tells all there is. False when nobody is there to be told.
    async fn tell(&mut self) -> bool {
        for news in self.told.compare(&self.to.server) {
            let is_mine = news.uri.is_none() || {
                let same = |it: &WatchedResource| {
                    it.alias == news.alias && Some(&it.uri) == news.uri.as_ref()
                };
                self.watched.iter().any(same)
            };
            if is_mine && !self.send(&news).await {
                return false;
            }
        }
        true
    }

    async fn send(&self, news: &NewsOfServer) -> bool {
        let data = McpChanged {
            alias: news.alias.to_string(),
            change: news.change,
            uri: news.uri.clone(),
        };
        self.to.send(&data).await
    }
}
