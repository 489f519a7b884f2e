//! What all sign-ins share: one request for tokens at a time for a server and an account there, and what is known of each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use aishd_mcp_messages::oauth_settings::OAuthSettings;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use url::Url;

use crate::challenge::BearerChallenge;
use crate::client::OAuthClient;
use crate::discovery::DiscoveredIssuer;
use crate::failed_renewal::FailedRenewal;
use crate::fault::SignInFault;
use crate::record::SignInRecord;
use crate::renewal::Rest;
use crate::secret::Secret;
use crate::store::RecordStore;
use crate::wire::SignInWire;

/// Reads one of the daemon's own variables.
type ReadVariable = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What sign-ins are made with.
pub struct SignInParts {
    /// Where they are kept.
    pub directory: PathBuf,
    /// The daemon's own variables.
    pub environment: ReadVariable,
    /// Is told each secret before it is used, so that it can be kept out of logs.
    pub learn: Box<dyn Fn(&str) + Send + Sync>,
    /// Is told of a renewal that failed, once until one goes well. It waits for nobody.
    pub not_renewed: Box<dyn Fn(FailedRenewal) + Send + Sync>,
    /// Cuts out of a text what was learnt.
    pub redact: Box<dyn Fn(&str) -> String + Send + Sync>,
}

impl std::fmt::Debug for SignInParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignInParts")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct SignInInner {
    pub(crate) parts: SignInParts,
    pub(crate) store: RecordStore,
    pub(crate) wire: SignInWire,
    pub(crate) accounts: Mutex<BTreeMap<(String, String), Arc<AccountCell>>>,
    pub(crate) logins: Mutex<BTreeMap<String, PendingLogin>>,
    pub(crate) tasks: Mutex<JoinSet<()>>,
}

/// A server and an account there.
#[derive(Debug)]
pub(crate) struct AccountCell {
    pub(crate) server: Url,
    pub(crate) account: String,
    pub(crate) state: Mutex<AccountState>,
    /// Held by the one request for tokens that is under way.
    pub(crate) flight: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
pub(crate) struct AccountState {
    pub(crate) record: Option<SignInRecord>,
    /// Why there is none, where one lies there that cannot be used.
    pub(crate) unread: Option<String>,
    /// What the server said last to who had no token, or one that was not good.
    pub(crate) challenge: Option<BearerChallenge>,
    /// What the server wanted beyond what was granted.
    pub(crate) wanted: Vec<String>,
    /// For the next proof to the server.
    pub(crate) nonce: Option<String>,
    /// Whether tokens may be asked for without a person now.
    pub(crate) rest: Rest,
    /// How often somebody has signed in, as far as this daemon knows.
    pub(crate) sign_ins: u64,
}

/// What is remembered of it. It never leaves the daemon.
#[derive(Debug)]
pub(crate) struct PendingLogin {
    pub(crate) name: String,
    pub(crate) cell: Arc<AccountCell>,
    pub(crate) settings: Arc<OAuthSettings>,
    pub(crate) found: DiscoveredIssuer,
    pub(crate) client: OAuthClient,
    pub(crate) redirect: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) state: Secret,
    pub(crate) verifier: Secret,
    pub(crate) until: Instant,
}

impl SignInInner {
    /// Does it to its end, whoever waits for it or does not any more: an answer that is dropped may hold the only
    /// token that is left.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, SignInFault>> + Send + 'static,
    ) -> Result<T, SignInFault> {
        let (told, answer) = oneshot::channel();
        {
            let mut tasks = self.tasks.lock();
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                // Who asked may have left.
                let _left = told.send(work.await);
            });
        }
        answer.await.unwrap_or(Err(SignInFault::Lost))
    }

    pub(crate) async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while tasks.join_next().await.is_some() {}
    }

    pub(crate) fn learn(&self, secret: &Secret) {
        (self.parts.learn)(secret.reveal());
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        (self.parts.redact)(text)
    }

    /// It is on disk before anybody uses it.
    pub(crate) async fn keep(
        self: &Arc<Self>,
        cell: &AccountCell,
        record: SignInRecord,
    ) -> Result<(), SignInFault> {
        let (inner, kept) = (self.clone(), record.clone());
        let saved = tokio::task::spawn_blocking(move || inner.store.save(&kept)).await;
        saved.map_err(|_panicked| SignInFault::Lost)??;
        let mut state = cell.state.lock();
        state.sign_ins += u64::from(record.tokens.is_some());
        state.record = Some(record);
        state.unread = None;
        Ok(())
    }
}

impl SignInInner {
    /// As [`SignInInner::keep`]: where the disk does not take it, it is used all the same, because the token before it is spent, and
    /// is saved with the next renewal.
    pub(crate) async fn keep_renewed(self: &Arc<Self>, cell: &AccountCell, record: SignInRecord) {
        if let Err(error) = self.keep(cell, record.clone()).await {
            let issuer = &record.issuer;
            tracing::warn!(issuer, %error, "a renewed sign-in could not be saved; it is lost if the daemon ends now");
            let mut state = cell.state.lock();
            state.sign_ins += 1;
            state.record = Some(record);
        }
    }
}

impl AccountCell {
    pub(crate) fn record(&self) -> Option<SignInRecord> {
        self.state.lock().record.clone()
    }
}
