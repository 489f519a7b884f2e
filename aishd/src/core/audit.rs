//! The audit trail: what is told of every decision about an effect, and of every call (AUD-1).
//!
//! No text of a model, of a tool or of a person stands in it, so that there can be no secret in it: names, rules,
//! digests, sizes and times do. What was said stands in the conversation's log, and `fact` is the digest of that.
//! The serde attributes spell the stored form out, as in [`super::event`].

pub mod chain;
pub mod verdict;

use std::collections::BTreeSet;

use aish_proto::id::{ClientId, ConfirmId, ConversationId, Seq, TurnId};
use serde::{Deserialize, Serialize};

use super::access::Access;
use super::confirm::{Decision, Denial, Fate, OnConfirm, Person};
use super::event::{At, Event, Record, Source};
use super::state::State;
use super::tool::{Sha, Subject};
use super::tool_name::{Alias, ToolName};

/// As many rules of a change are named; the digest is of all of them.
const MOST_RULES: usize = 100;

/// One thing that is told, before it has its place in the trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    #[serde(rename = "at")]
    pub at: At,
    #[serde(
        rename = "conversation",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub conversation: Option<ConversationId>,
    /// Where the fact stands in the conversation's log.
    #[serde(rename = "seq", default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    #[serde(rename = "turn", default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The client that caused it.
    #[serde(rename = "client", default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// Of the bytes that stand there.
    #[serde(rename = "fact", default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<Sha>,
    #[serde(rename = "told")]
    pub told: Told,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Told {
    /// A client asked for a turn; `on_confirm` is what it allowed for it beforehand.
    #[serde(rename = "turn_asked")]
    TurnAsked {
        #[serde(
            rename = "on_confirm",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        on_confirm: Option<OnConfirm>,
    },
    /// The model that gets the conversation to read.
    #[serde(rename = "model_chosen")]
    ModelChosen {
        #[serde(rename = "model")]
        model: String,
        #[serde(rename = "source")]
        source: Source,
    },
    #[serde(rename = "confirm_requested")]
    ConfirmRequested {
        #[serde(rename = "confirm")]
        confirm: ConfirmId,
        #[serde(rename = "subject")]
        subject: Subject,
        #[serde(rename = "needs")]
        needs: Access,
        #[serde(rename = "raise_to", default, skip_serializing_if = "Option::is_none")]
        raise_to: Option<Access>,
        #[serde(rename = "why")]
        why: String,
    },
    #[serde(rename = "confirm_resolved")]
    ConfirmResolved {
        #[serde(rename = "confirm")]
        confirm: ConfirmId,
        #[serde(rename = "subject", default, skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
        #[serde(rename = "fate")]
        fate: Fate,
        #[serde(rename = "decision", default, skip_serializing_if = "Option::is_none")]
        decision: Option<Decision>,
        #[serde(rename = "by", default, skip_serializing_if = "Option::is_none")]
        by: Option<Person>,
        #[serde(rename = "waited_ms", default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
        /// Definitions that run unasked from now on.
        #[serde(rename = "approved", default, skip_serializing_if = "Vec::is_empty")]
        approved: Vec<(ToolName, Sha)>,
    },
    /// From here on it may have had its effect.
    #[serde(rename = "call_started")]
    CallStarted {
        #[serde(rename = "call")]
        call: CallMark,
        #[serde(rename = "subject", default, skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
        /// What let it through.
        #[serde(rename = "rule")]
        rule: String,
        #[serde(rename = "confirm", default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
    },
    #[serde(rename = "call_ended")]
    CallEnded {
        #[serde(rename = "call")]
        call: CallMark,
        #[serde(rename = "subject", default, skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
        #[serde(rename = "outcome")]
        outcome: Outcome,
    },
    /// It never began.
    #[serde(rename = "call_refused")]
    CallRefused {
        #[serde(rename = "call")]
        call: CallMark,
        #[serde(rename = "subject", default, skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
        #[serde(rename = "denial", default, skip_serializing_if = "Option::is_none")]
        denial: Option<Denial>,
        #[serde(rename = "because")]
        because: String,
    },
    #[serde(rename = "permission_changed")]
    PermissionChanged {
        #[serde(rename = "provider")]
        provider: Alias,
        #[serde(rename = "from")]
        from: Access,
        #[serde(rename = "to")]
        to: Access,
        #[serde(rename = "revoked", default)]
        revoked: bool,
        #[serde(rename = "by", default, skip_serializing_if = "Option::is_none")]
        by: Option<Person>,
        #[serde(rename = "confirm", default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
    },
    /// Other rules of the configuration are in force.
    #[serde(rename = "policy_changed")]
    PolicyChanged(PolicyChange),
    /// Its log goes; what was told of it stays.
    #[serde(rename = "conversation_deleted")]
    ConversationDeleted {
        #[serde(rename = "by", default, skip_serializing_if = "Option::is_none")]
        by: Option<Person>,
    },
}

/// What became of a call that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    #[serde(rename = "ok")]
    Ok {
        #[serde(rename = "bytes")]
        bytes: u64,
        #[serde(rename = "ms")]
        ms: u64,
    },
    #[serde(rename = "failed")]
    Failed {
        #[serde(rename = "bytes")]
        bytes: u64,
        #[serde(rename = "ms")]
        ms: u64,
    },
    /// It was left while it ran.
    #[serde(rename = "unknown")]
    Unknown,
}

/// Ties the start of a call to its end: a few digits of the digest of its id, which is the model server's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallMark(pub String);

impl CallMark {
    #[must_use]
    pub fn of(call: &str) -> Self {
        let digest = Sha::of(call.as_bytes()).to_string();
        Self(digest.chars().take(16).collect())
    }
}

/// From some rules to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// Of all rules that are in force now, a line each, in order.
    #[serde(rename = "digest")]
    pub digest: Sha,
    #[serde(rename = "added", default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    #[serde(rename = "removed", default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// So many more than are named.
    #[serde(rename = "unnamed", default)]
    pub unnamed: u64,
}

impl PolicyChange {
    #[must_use]
    pub fn between(before: &BTreeSet<String>, now: &BTreeSet<String>) -> Self {
        let named = |it: std::collections::btree_set::Difference<'_, String>| {
            it.take(MOST_RULES).cloned().collect::<Vec<_>>()
        };
        let added = named(now.difference(before));
        let removed = named(before.difference(now));
        let all = now.symmetric_difference(before).count();
        let lines: Vec<&str> = now.iter().map(String::as_str).collect();
        Self {
            digest: Sha::of(lines.join("\n").as_bytes()),
            unnamed: (all - added.len() - removed.len()) as u64,
            added,
            removed,
        }
    }
}

impl Draft {
    /// What is to be told of a record that comes after `before`. Its `fact` is not known yet.
    #[must_use]
    pub fn of(conversation: ConversationId, before: &State, record: &Record) -> Option<Self> {
        Some(Self {
            at: record.at,
            conversation: Some(conversation),
            seq: Some(record.seq),
            turn: record.turn,
            client: record.client,
            fact: None,
            told: told(before, &record.event)?,
        })
    }

    /// What concerns no event of a conversation's log.
    #[must_use]
    pub fn beside(at: At, told: Told) -> Self {
        Self {
            at,
            conversation: None,
            seq: None,
            turn: None,
            client: None,
            fact: None,
            told,
        }
    }
}

/// Whether the trail has a record of such an event: [`Draft::of`] gives one for these, and for no others.
#[must_use]
pub fn tells(event: &Event) -> bool {
    match event {
        Event::UserMessage { .. }
        | Event::TurnStarted { .. }
        | Event::ConfirmRequested(_)
        | Event::ConfirmResolved(_)
        | Event::ToolStarted { .. }
        | Event::ToolResult { .. }
        | Event::PermissionChanged { .. } => true,
        Event::Created { .. }
        | Event::TurnQueued { .. }
        | Event::AssistantMessage { .. }
        | Event::ResultKept { .. }
        | Event::ResourcePinned(_)
        | Event::ResourceUnpinned(_)
        | Event::ConstraintsChanged { .. }
        | Event::Evicted { .. }
        | Event::ModelChanged { .. }
        | Event::Renamed { .. }
        | Event::ArchivedChanged { .. }
        | Event::Status { .. }
        | Event::TurnFinished { .. } => false,
    }
}

fn told(before: &State, event: &Event) -> Option<Told> {
    Some(match event {
        Event::UserMessage { on_confirm, .. } => Told::TurnAsked {
            on_confirm: on_confirm.clone(),
        },
        Event::TurnStarted { model, source, .. } => Told::ModelChosen {
            model: model.clone(),
            source: *source,
        },
        Event::ConfirmRequested(confirm) => Told::ConfirmRequested {
            confirm: confirm.id,
            subject: confirm.subject(),
            needs: confirm.needs,
            raise_to: confirm.raise_to,
            why: confirm.why.clone(),
        },
        Event::ConfirmResolved(resolution) => {
            let mut open = before.confirms.iter();
            let open = open.find(|it| it.id == resolution.confirm);
            Told::ConfirmResolved {
                confirm: resolution.confirm,
                subject: open.and_then(|it| it.subject.clone()),
                fate: resolution.fate,
                decision: resolution.decision,
                by: resolution.by.clone(),
                waited_ms: resolution.waited_ms,
                approved: resolution.approved.clone(),
            }
        }
        Event::ToolStarted {
            call,
            name,
            digest,
            rule,
            confirm,
            ..
        } => Told::CallStarted {
            call: CallMark::of(call),
            subject: Subject::named(name, *digest),
            rule: rule.clone(),
            confirm: *confirm,
        },
        Event::ToolResult { .. } => return ended(before, event),
        Event::PermissionChanged {
            provider,
            from,
            to,
            revoked,
            by,
            confirm,
        } => Told::PermissionChanged {
            provider: provider.clone(),
            from: *from,
            to: *to,
            revoked: *revoked,
            by: by.clone(),
            confirm: *confirm,
        },
        Event::Created { .. }
        | Event::TurnQueued { .. }
        | Event::AssistantMessage { .. }
        | Event::ResultKept { .. }
        | Event::ResourcePinned(_)
        | Event::ResourceUnpinned(_)
        | Event::ConstraintsChanged { .. }
        | Event::Evicted { .. }
        | Event::ModelChanged { .. }
        | Event::Renamed { .. }
        | Event::ArchivedChanged { .. }
        | Event::Status { .. }
        | Event::TurnFinished { .. } => return None,
    })
}

/// What is told of a call's reply.
fn ended(before: &State, event: &Event) -> Option<Told> {
    let Event::ToolResult {
        call,
        ok,
        content,
        denial,
        ms,
        kept,
        refused,
        ..
    } = event
    else {
        return None;
    };
    Some(match refused {
        Some(refused) => Told::CallRefused {
            call: CallMark::of(call),
            subject: refused.subject.clone(),
            denial: *denial,
            because: refused.because.clone(),
        },
        None => Told::CallEnded {
            call: CallMark::of(call),
            subject: started(before, call),
            outcome: outcome(*ok, kept.map_or(content.len() as u64, |it| it.bytes), *ms),
        },
    })
}

/// What the call was when it began.
fn started(before: &State, call: &str) -> Option<Subject> {
    let mut open = before.running.iter().flat_map(|it| &it.open_calls);
    open.find(|it| it.id == call)
        .and_then(|it| it.subject.clone())
}

fn outcome(ok: bool, bytes: u64, ms: Option<u64>) -> Outcome {
    match (ms, ok) {
        (None, _) => Outcome::Unknown,
        (Some(ms), true) => Outcome::Ok { bytes, ms },
        (Some(ms), false) => Outcome::Failed { bytes, ms },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &[&str], now: &[&str], added: &[&str], removed: &[&str]) {
        let set = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
        let change = PolicyChange::between(&set(before), &set(now));
        assert_eq!(
            (added, removed),
            (
                &change.added.iter().map(String::as_str).collect::<Vec<_>>()[..],
                &change
                    .removed
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()[..]
            )
        );
        assert_eq!(0, change.unnamed);
    }

    #[test]
    fn a_change_of_rules_says_which_came_and_which_went() {
        check(&[], &["a"], &["a"], &[]);
        check(&["a", "b"], &["b", "c"], &["c"], &["a"]);
        check(&["a"], &["a"], &[], &[]);
    }

    #[test]
    fn ten_thousand_rules_make_no_long_record() {
        let many: BTreeSet<String> = (0..10_000).map(|it| format!("rule {it}")).collect();
        let change = PolicyChange::between(&BTreeSet::new(), &many);
        assert_eq!((MOST_RULES, 9_900), (change.added.len(), change.unnamed));
    }
}
