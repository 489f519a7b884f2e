//! Sees to it that no rule of the configuration comes into force without a record of it in the audit trail.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aishd_config::Settings;
use aishd_config::live::LiveConfig;
use aishd_config::settings::NotifySettings;
use aishd_log::audit::rules::RuleChange;
use aishd_log::audit::{AuditDraft, AuditFact};
use aishd_log::tool::ContentDigest;
use aishd_platform::clock;
use aishd_rules::policy::Policy;
use aishd_store::{CommitError, Note, Store};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

/// Where the rules stand that were told of last.
const KEY: &str = "audit.policy";
/// How often what could not be told at start is tried again.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct StoreWitness {
    store: Store,
    /// What was told of last in this life, which the note may be behind of.
    last: Arc<Mutex<Option<BTreeSet<String>>>>,
}

impl StoreWitness {
    /// What is configured at start is in force. On a full disk it is told later.
    pub(super) async fn start(store: &Store, settings: &Settings) -> Self {
        let witness = Self {
            store: store.clone(),
            last: Arc::default(),
        };
        if let Err(error) = witness
            .audit_rules(&lines(&settings.policy, &settings.notify))
            .await
        {
            tracing::error!(%error, "record the rules of the configuration");
        }
        witness
    }

    /// Returns once the change is durable; rules that cannot be told of do not come into force. Blocks.
    pub(super) fn of_change(&self, settings: &Settings) -> Result<(), String> {
        let now = lines(&settings.policy, &settings.notify);
        let told = Handle::current().block_on(self.audit_rules(&now));
        told.map_err(|error| format!("the change of rules cannot be recorded: {error}"))
    }

    /// Tells of the rules that are in force until it is told.
    pub(super) async fn make_up_for(self, live: Arc<LiveConfig>) {
        while self.last.lock().await.is_none() {
            tokio::time::sleep(PAUSE).await;
            let policy = live.policy().borrow().clone();
            let notify = live.watch_status().borrow().notify.clone();
            let _not_yet = self.audit_rules(&lines(&policy, &notify)).await;
        }
    }

    async fn audit_rules(&self, now: &BTreeSet<String>) -> Result<(), CommitError> {
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
        let draft =
            AuditDraft::outside_conversation(clock::now(), AuditFact::PolicyChanged(change));
        self.store.record_audit(vec![draft]).await?;
        *last = Some(now.clone());
        let text = serde_json::to_string(now).unwrap_or_default();
        // Lost, it is told once more at the next start.
        let _kept = self.store.keep_note(Note {
            key: KEY.to_owned(),
            text,
            forgets: false,
        });
        Ok(())
    }
}

/// The rules about calls, and the program that is started because of one. Its arguments may have a secret in them.
fn lines(policy: &Policy, notify: &NotifySettings) -> BTreeSet<String> {
    let mut lines = policy.lines();
    if let Some(program) = notify.command.first() {
        let digest = ContentDigest::of(notify.command.join("\0").as_bytes());
        lines.insert(format!("notify.command {program} {digest}"));
    }
    lines
}
