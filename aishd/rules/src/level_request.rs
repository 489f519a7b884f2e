//! A level that somebody wants for a provider: a question of the conversation itself, for which no turn waits. A yes raises the
//! level and is consent to no call.
//!
//! The serde attributes spell the stored form out, as in [`aishd_log::event`].

use aish_proto::id::ConfirmId;
use aishd_log::access::Access;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::confirm::level::LevelSubject;
use aishd_log::confirm::{Confirm, ConfirmFate, OnConfirm, Resolution};
use aishd_log::event::Event;
use aishd_log::level_request::{GrantOnYes, LevelStep};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_log::tool_name::{Alias, ToolName};

use crate::asking::{Presence, Unasked, may_ask};
use crate::policy::{Policy, PolicyDecision, PolicyQuestion, decide};

/// Levels that are asked about in one conversation at the same time.
pub const MOST: usize = 16;

/// What somebody wants.
#[derive(Clone, Debug)]
pub struct WantedLevel {
    pub provider: Alias,
    pub to: Access,
    pub wanted_for: Option<ToolName>,
    pub on_confirm: OnConfirm,
    pub by: AnsweringPerson,
}

/// How things are in the conversation.
#[derive(Clone, Copy, Debug)]
pub struct LevelContext<'a> {
    pub state: &'a ConversationState,
    pub policy: &'a Policy,
    pub attended: Presence,
    pub now: Timestamp,
    /// Names the next confirm.
    pub next: (ConfirmId, u32),
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq)]
pub enum LevelJudgement {
    /// The provider has this level, which is at least the one that is wanted.
    Already(Access),
    AboveMaximum {
        provider: Alias,
        max: Access,
    },
    /// Nobody is asked, and why.
    Unasked(LevelStep, Unasked),
    /// The same is asked already.
    Open(ConfirmId, LevelStep),
    TooMany,
    Ask(Box<Confirm>, LevelStep),
}

pub fn judge(wanted: WantedLevel, standing: LevelContext<'_>) -> LevelJudgement {
    let WantedLevel {
        provider,
        to,
        wanted_for,
        on_confirm,
        by,
    } = wanted;
    let LevelContext {
        state,
        policy,
        attended,
        now,
        next,
    } = standing;
    let upgrade = LevelStep {
        from: policy.level(&provider, &state.grants),
        provider,
        to,
    };
    let max = policy.max_level(&upgrade.provider);
    match upgrade.granted(upgrade.from, max) {
        GrantOnYes::AlreadyThere => return LevelJudgement::Already(upgrade.from),
        GrantOnYes::AboveMaximum => {
            let provider = upgrade.provider;
            return LevelJudgement::AboveMaximum { provider, max };
        }
        GrantOnYes::Raises { .. } => {}
    }
    if let Err(unasked) = may_ask(&on_confirm, attended) {
        return LevelJudgement::Unasked(upgrade, unasked);
    }
    let mut levels = state
        .confirms
        .iter()
        .filter_map(|it| Some((it, it.level()?)));
    let same = levels.clone().find(|(it, step)| {
        step.provider == upgrade.provider && step.to == upgrade.to && !it.is_over(now)
    });
    if let Some((open, step)) = same {
        return LevelJudgement::Open(open.id, step.clone());
    }
    if levels.nth(MOST - 1).is_some() {
        return LevelJudgement::TooMany;
    }
    let subject = LevelSubject {
        step: upgrade.clone(),
        wanted_for,
        by,
    };
    let asked = subject.confirm(next, on_confirm.expires_at(now));
    LevelJudgement::Ask(Box::new(asked), upgrade)
}

/// The level that its provider has to be given before a person can be asked about a call. `None`: it has enough, or the
/// call is denied or runs without it.
pub fn missing(question: PolicyQuestion<'_>, policy: &Policy) -> Option<Access> {
    match decide(question, policy) {
        PolicyDecision::Ask(why) => why.raise_to(),
        PolicyDecision::Allow(_) | PolicyDecision::Deny(_) => None,
    }
}

/// How questions end that nobody needs to answer after `event`: the provider has the level by now, or the conversation
/// was put away. They end with it, so that no question stands whose answer would do nothing.
pub fn ended_by(event: &Event, state: &ConversationState, now: Timestamp) -> Vec<Resolution> {
    let is_over = |step: &LevelStep| match event {
        Event::PermissionChanged { provider, to, .. } => {
            // `None` is every provider.
            let is_meant = provider.as_ref().is_none_or(|of| *of == step.provider);
            is_meant && step.to <= *to
        }
        Event::ArchivedChanged { archived } => *archived,
        _ => false,
    };
    let levels = state
        .confirms
        .iter()
        .filter(|it| it.level().is_some_and(is_over));
    levels
        .map(|it| it.unanswered(ConfirmFate::Cancelled, now))
        .collect()
}

#[cfg(test)]
mod tests;
