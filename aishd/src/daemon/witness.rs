//! Sees to it that no rule of the configuration comes into force without a record of it in the audit trail (AUD-1).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};

use crate::clock;
use crate::core::audit::rules::RuleChange;
use crate::core::audit::{Draft, Told};
use crate::core::policy::Policy;
use crate::store::{CommitError, Note, Store};

/// Where the rules stand that were told of last.
const KEY: &str = "audit.policy";
/// How often what could not be told at start is tried again.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct Witness {
    store: Store,
    /// What was told of last in this life, which the note may be behind of.
    last: Arc<Mutex<Option<BTreeSet<String>>>>,
}

impl Witness {
    /// What is configured at start is in force. On a full disk it is told later.
    pub(super) async fn start(store: &Store, policy: &Policy) -> Self {
        let witness = Self {
            store: store.clone(),
            last: Arc::default(),
        };
        if let Err(error) = witness.tell(&policy.lines()).await {
            tracing::error!(%error, "record the rules of the configuration");
        }
        witness
    }

    /// Returns once the change is durable; rules that cannot be told of do not come into force. Blocks.
    pub(super) fn of_change(&self, policy: &Policy) -> Result<(), String> {
        let told = Handle::current().block_on(self.tell(&policy.lines()));
        told.map_err(|error| format!("the change of rules cannot be recorded: {error}"))
    }

    /// Tells of the rules that are in force until it is told.
    pub(super) async fn make_up_for(self, policy: watch::Receiver<Arc<Policy>>) {
        while self.last.lock().await.is_none() {
            tokio::time::sleep(PAUSE).await;
            let now = policy.borrow().clone();
            let _not_yet = self.tell(&now.lines()).await;
        }
    }

    async fn tell(&self, now: &BTreeSet<String>) -> Result<(), CommitError> {
        let mut last = self.last.lock().await;
        let noted = || {
            let text = self.store.note(KEY).ok().flatten()?;
            serde_json::from_str::<BTreeSet<String>>(&text).ok()
        };
        let before = last.clone().or_else(noted);
        if before.as_ref() == Some(now) {
            *last = before;
            return Ok(());
        }
        let change = RuleChange::between(&before.unwrap_or_default(), now);
        let draft = Draft::beside(clock::now(), Told::PolicyChanged(change));
        self.store.tell(vec![draft]).await?;
        *last = Some(now.clone());
        let text = serde_json::to_string(now).unwrap_or_default();
        // Lost, it is told once more at the next start.
        let _kept = self.store.keep_note(Note {
            key: KEY.to_owned(),
            text,
        });
        Ok(())
    }
}
