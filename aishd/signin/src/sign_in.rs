//! All sign-ins of a daemon: one value, so that a token is renewed once however many wait for it.

use std::sync::Arc;

use aishd_mcp_messages::oauth_settings::OAuthSettings;
use parking_lot::Mutex;
use url::Url;

use crate::account::{AccountCell, AccountState, SignInInner, SignInParts};
use crate::bearer::ServerBearer;
use crate::record::SignInRecord;
use crate::store::RecordStore;
use crate::wire::SignInWire;

/// A handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct SignIn {
    pub(crate) inner: Arc<SignInInner>,
}

impl SignIn {
    pub fn new(parts: SignInParts) -> Self {
        let store = RecordStore::new(parts.directory.clone());
        store.tidy();
        Self {
            inner: Arc::new(SignInInner {
                parts,
                store,
                wire: SignInWire::default(),
                accounts: Mutex::default(),
                logins: Mutex::default(),
                tasks: Mutex::default(),
            }),
        }
    }

    /// What requests to this server are signed with. It reads what is kept of it, the first time.
    pub fn of_server(&self, server: &Url, settings: &OAuthSettings) -> ServerBearer {
        let mut accounts = self.inner.accounts.lock();
        let key = (server.to_string(), settings.account.clone());
        let cell = accounts
            .entry(key)
            .or_insert_with_key(|(address, account)| {
                let mut state = AccountState::default();
                match self.inner.store.load(address, account) {
                    Ok(record) => state.record = record,
                    Err(fault) => {
                        tracing::warn!(%fault, "a sign-in cannot be used");
                        state.unread = Some(fault.to_string());
                    }
                }
                for secret in state.record.iter().flat_map(SignInRecord::secrets) {
                    self.inner.learn(secret);
                }
                Arc::new(AccountCell {
                    server: server.clone(),
                    account: account.clone(),
                    state: Mutex::new(state),
                    flight: tokio::sync::Mutex::default(),
                })
            });
        ServerBearer {
            inner: self.inner.clone(),
            cell: cell.clone(),
            settings: Arc::new(settings.clone()),
        }
    }

    /// Waits for what is under way.
    pub async fn stop(&self) {
        self.inner.stop().await;
    }
}
