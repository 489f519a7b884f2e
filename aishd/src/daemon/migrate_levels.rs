//! Stores of the older layout, in which a conversation had one level for all its providers. At start the level
//! goes to those that the conversation had called, and to no other; until then no call goes by it.
//!
//! What a conversation gets is one commit, so that a crash leaves it as it was or done. Which conversations are left is
//! seen in their states; that none is, is noted, so that later starts need not look.

use std::collections::BTreeSet;

use aish_proto::id::{ConversationId, Seq};
use aishd_log::access::Access;
use aishd_log::audit::AuditDraft;
use aishd_log::event::{Event, ProviderLevel, Record};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_log::tool_name::{Alias, ToolName};
use aishd_platform::{clock, failpoint};
use aishd_rules::policy::Policy;
use aishd_store::{Commit, CommitError, Note, ReadError, Store};

/// Where it stands that nothing is left to hand out.
const KEY: &str = "levels.handed_out";
/// Why levels stayed where they were; the next start tries again, and until then every provider has its first level.
#[derive(Debug, thiserror::Error)]
enum HandOutError {
    #[error("read the store: {0}")]
    Read(#[from] ReadError),
    #[error("write the store: {0}")]
    Commit(#[from] CommitError),
    #[error("read the store: {0}")]
    Panicked(#[from] tokio::task::JoinError),
}

/// Hands out what is left. To be called before anybody opens a conversation.
pub(super) async fn hand_out(store: &Store, policy: &Policy) {
    if let Err(error) = all(store, policy).await {
        tracing::error!(%error, "levels of the older layout were not handed out; every provider begins with its first level");
    }
}

async fn all(store: &Store, policy: &Policy) -> Result<(), HandOutError> {
    let reads = store.clone();
    let left = tokio::task::spawn_blocking(move || unmigrated(&reads)).await??;
    let Some(left) = left else { return Ok(()) };
    for one in left {
        let commit = one.commit(policy, clock::now());
        failpoint::pass("migrate.before_commit");
        store.commit(commit).await?;
        failpoint::pass("migrate.after_commit");
        tracing::warn!(
            conversation = %one.conversation,
            level = %one.level,
            providers = ?one.used,
            "the conversation's one level went to the providers that it had used"
        );
    }
    // Lost, the next start looks once more and finds nothing.
    let _kept = store.keep_note(Note {
        key: KEY.to_owned(),
        text: "{}".to_owned(),
        forgets: false,
    });
    Ok(())
}

/// Conversations that still have one level; `None`: an earlier start has seen to them all.
fn unmigrated(store: &Store) -> Result<Option<Vec<OneLevel>>, ReadError> {
    if store.note(KEY)?.is_some() {
        return Ok(None);
    }
    let mut left = vec![];
    for read in store.newest_conversations(None) {
        let (conversation, state) = read?;
        if let Some(level) = state.one_level {
            left.push(OneLevel {
                used: used(store, conversation)?,
                conversation,
                level,
                state,
            });
        }
    }
    // In the order in which they were made.
    left.reverse();
    Ok(Some(left))
}

/// From the log, because the state of an older program does not say it.
fn used(store: &Store, conversation: ConversationId) -> Result<BTreeSet<Alias>, ReadError> {
    let mut used = BTreeSet::new();
    for record in store.records(conversation, Seq(0)) {
        if let Event::ToolStarted { name, .. } = record?.event
            && let Ok(tool) = name.parse::<ToolName>()
        {
            used.insert(tool.alias().clone());
        }
    }
    Ok(used)
}

/// A conversation of the older layout.
#[derive(Debug)]
struct OneLevel {
    conversation: ConversationId,
    level: Access,
    state: ConversationState,
    used: BTreeSet<Alias>,
}

impl OneLevel {
    fn events(&self, policy: &Policy) -> Vec<Event> {
        let mut events = vec![];
        let mut raised = vec![];
        for provider in &self.used {
            let from = policy.level(provider, &self.state.grants);
            // One that a person has given a level of its own since keeps that, and a level is never lowered by this.
            let has_own = self.state.grants.levels.contains_key(provider);
            if has_own || from >= self.level {
                continue;
            }
            raised.push(provider.as_str());
            events.push(Event::PermissionChanged {
                provider: Some(provider.clone()),
                from,
                to: self.level,
                revoked: false,
                by: None,
                confirm: None,
            });
        }
        events.push(Event::PermissionChanged {
            provider: None,
            from: self.level,
            to: Access::Read,
            revoked: false,
            by: None,
            confirm: None,
        });
        let to = if raised.is_empty() {
            "no provider, since none had been used with less".to_owned()
        } else {
            raised.join(", ")
        };
        events.push(Event::Status {
            level: ProviderLevel::Info,
            text: format!(
                "levels are of providers now: level {} of this conversation went to {to}",
                self.level.number()
            ),
        });
        events
    }

    fn commit(&self, policy: &Policy, at: Timestamp) -> Commit {
        let mut state = self.state.clone();
        let mut records = vec![];
        let mut audit = vec![];
        for event in self.events(policy) {
            let record = Record {
                seq: state.last_seq.next(),
                at,
                turn: None,
                client: None,
                event,
            };
            audit.extend(AuditDraft::of(self.conversation, &state, &record));
            state.apply(&record);
            records.push(record);
        }
        Commit::new(self.conversation, records, state, audit)
    }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    #[track_caller]
    fn check(level: Access, used: &[&str], own: &[(&str, Access)], expected: &str) {
        let mut state = ConversationState::default();
        state.one_level = Some(level);
        for (provider, level) in own {
            let provider = provider.parse().unwrap();
            state.grants.levels.insert(provider, *level);
        }
        let one = OneLevel {
            conversation: ConversationId(Ulid(1)),
            level,
            state,
            used: used.iter().map(|it| it.parse().unwrap()).collect(),
        };
        let commit = one.commit(&Policy::default(), Timestamp(0));
        assert_eq!(None, commit.state.one_level);
        assert_eq!(commit.records.len() - 1, commit.audit.len());
        let levels = commit.state.grants.levels.iter();
        let levels: Vec<String> = levels
            .map(|(provider, level)| format!("{provider} {}", level.number()))
            .collect();
        assert_eq!(expected, levels.join(", "));
    }

    #[test]
    fn one_level_goes_to_what_was_used_and_takes_nothing_from_anybody() {
        check(Access::Write, &["a", "b"], &[], "a 2, b 2");
        check(Access::Execute, &[], &[], "");
        let own = [("a", Access::Execute), ("c", Access::Write)];
        check(Access::Write, &["a", "b"], &own, "a 3, b 2, c 2");
        check(Access::Execute, &["a"], &[("a", Access::Read)], "a 1");
    }
}
