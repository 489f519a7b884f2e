//! Hearing of a resource for as long as somebody wants to: its server is asked once however many want it, and no longer when
//! the last one has gone.

use std::time::Duration;

use aishd_log::tool_name::Alias;
use aishd_mcp_messages::server::ServerPhase;
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::error::ToolCallError;
use super::hub::{Hub, SessionQuestion};
use super::resource_cache::{ResourceCache, ServerNews};

/// A server that takes longer to say that it will tell is believed to.
const SAID_WITHIN: Duration = Duration::from_secs(5);

/// A resource that somebody wants to hear of, until this is dropped.
#[derive(Debug)]
pub struct WatchedResource {
    hub: Hub,
    pub alias: Alias,
    pub uri: String,
    fresh: ResourceCache,
}

/// Nobody will tell of it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WatchError {
    #[error("there is no MCP server {0}")]
    UnknownServer(Alias),
    #[error("the MCP server {0} does not tell of changes of its resources")]
    Unannounced(Alias),
    #[error(
        "so many resources of the MCP server {0} are watched that there is no room for another"
    )]
    Full(Alias),
    #[error("the MCP server {alias} does not tell of it: {why}")]
    Refused { alias: Alias, why: ToolCallError },
}

impl Hub {
    /// What a server tells of itself.
    pub fn news(&self, alias: &Alias) -> Option<watch::Receiver<ServerNews>> {
        Some(self.fresh(alias)?.news())
    }

    /// Has its server tell of a resource. One that is not there now is asked when it is.
    pub async fn watch_resource(
        &self,
        alias: &Alias,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<WatchedResource, WatchError> {
        let unknown = || WatchError::UnknownServer(alias.clone());
        let mut servers = self.servers();
        let settled = servers.wait_for(|all| {
            let server = all.get(alias);
            server.is_none_or(|it| it.state != ServerPhase::Connecting)
        });
        // One that takes longer is asked when it is there.
        let _is_settled = tokio::time::timeout(SAID_WITHIN, settled).await.is_ok();
        let fresh = self.fresh(alias).ok_or_else(unknown)?;
        let server = self.servers().borrow().get(alias).cloned();
        let server = server.ok_or_else(unknown)?;
        let is_ready = server.state == ServerPhase::Ready;
        if is_ready && !server.about.offers.resources_changes {
            return Err(WatchError::Unannounced(alias.clone()));
        }
        if !fresh.watch(uri) {
            return Err(WatchError::Full(alias.clone()));
        }
        let watched = WatchedResource {
            hub: self.clone(),
            alias: alias.clone(),
            uri: uri.to_owned(),
            fresh: fresh.clone(),
        };
        if self.is_to_be_told(alias) {
            let told = self.ask_in_turn(&watched, cancel);
            let told = tokio::time::timeout(SAID_WITHIN, told).await;
            if let Ok(Ok(Err(why @ ToolCallError::Rpc(_)))) = told {
                let alias = alias.clone();
                return Err(WatchError::Refused { alias, why });
            }
        } else if is_ready {
            let _slow = tokio::time::timeout(SAID_WITHIN, fresh.acknowledged(uri)).await;
        }
        Ok(watched)
    }

    /// Asks its server to tell of it behind what it was asked before. One that is slow is waited for by nobody, and what it answers counts
    /// all the same.
    fn ask_in_turn(
        &self,
        watched: &WatchedResource,
        cancel: &CancellationToken,
    ) -> oneshot::Receiver<Result<(), ToolCallError>> {
        let (answer, answered) = oneshot::channel();
        let (hub, alias, cancel) = (self.clone(), watched.alias.clone(), cancel.clone());
        let (fresh, uri) = (watched.fresh.clone(), watched.uri.clone());
        self.do_later(async move {
            let told = hub.have_it_told(&alias, &fresh, &uri, &cancel).await;
            let _nobody_waits = answer.send(told);
            // It may not be wanted any more by now.
            hub.settle(&alias, &fresh, &uri).await;
        });
        answered
    }

    /// Asks a server with a session to tell of a resource, unless it does.
    pub(super) async fn have_it_told(
        &self,
        alias: &Alias,
        fresh: &ResourceCache,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<(), ToolCallError> {
        let _alone = fresh.asking().await;
        if fresh.told_of(uri) {
            return Ok(());
        }
        let lapses = fresh.lapses();
        let asked = SessionQuestion::new("resources/subscribe", json!({"uri": uri}), uri);
        self.ask(alias, asked, cancel).await?;
        fresh.is_told_since(lapses, uri);
        Ok(())
    }

    /// Tells a server that nobody wants to hear of a resource any more, if that is so.
    pub(super) async fn settle(&self, alias: &Alias, fresh: &ResourceCache, uri: &str) {
        let _alone = fresh.asking().await;
        if fresh.is_wanted(uri) || !fresh.is_untold(uri) || !self.is_to_be_told(alias) {
            return;
        }
        let asked = SessionQuestion {
            patience: Some(SAID_WITHIN),
            ..SessionQuestion::new("resources/unsubscribe", json!({"uri": uri}), uri)
        };
        let asked = self.ask(alias, asked, &CancellationToken::new()).await;
        if let Err(error) = asked {
            tracing::debug!(mcp = %alias, %error, "a resource is not watched any more");
        }
    }
}

impl WatchedResource {
    /// Whether this is of the server that is called so now: another configuration makes it another.
    pub fn is_current(&self) -> bool {
        let now = self.hub.fresh(&self.alias);
        now.is_some_and(|it| it.is_same(&self.fresh))
    }
}

impl Drop for WatchedResource {
    fn drop(&mut self) {
        self.fresh.unwatch(&self.uri);
        let (hub, alias) = (self.hub.clone(), self.alias.clone());
        let (fresh, uri) = (self.fresh.clone(), self.uri.clone());
        self.hub
            .do_later(async move { hub.settle(&alias, &fresh, &uri).await });
    }
}
