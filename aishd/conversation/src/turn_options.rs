//! What the asker of a turn said of how it runs. It is stored with the question, so that whoever starts or takes up
//! the turn reads the same.

use std::num::NonZeroU32;

use aish_proto::id::TurnId;
use aishd_log::confirm::OnConfirm;
use aishd_log::event::Event;
use aishd_rules::policy::Policy;

use super::Conversation;
use super::commit::UncommittedFact;

#[derive(Clone, Debug, Default)]
pub(super) struct TurnOptions {
    /// What is done where a person would have to be asked.
    pub(super) on_confirm: OnConfirm,
    pub(super) max_tool_depth: Option<NonZeroU32>,
}

impl TurnOptions {
    /// Rounds of calls in the turn: an asker may want fewer than the configuration allows, and never gets more.
    pub(super) fn max_depth(&self, policy: &Policy) -> u32 {
        let wanted = self.max_tool_depth.map_or(u32::MAX, NonZeroU32::get);
        policy.max_depth.min(wanted)
    }

    fn from_event(event: &Event) -> Option<Self> {
        let Event::UserMessage {
            on_confirm,
            max_tool_depth,
            ..
        } = event
        else {
            return None;
        };
        Some(Self {
            on_confirm: on_confirm.clone().unwrap_or_default(),
            max_tool_depth: *max_tool_depth,
        })
    }
}

impl Conversation {
    /// Of a turn that starts: its question is one of `facts`, or waits.
    pub(super) fn terms(&self, turn: TurnId, facts: &[UncommittedFact]) -> TurnOptions {
        let own = |it: &&UncommittedFact| it.turn == Some(turn);
        let said = facts.iter().filter(own);
        if let Some(said) = said
            .filter_map(|it| TurnOptions::from_event(&it.event))
            .next()
        {
            return said;
        }
        let queued = self.state.queue.iter().find(|it| it.turn == turn);
        let question = queued.and_then(|it| {
            let record = self.services.store.record(self.id, it.message_seq);
            record.ok().flatten()
        });
        question
            .and_then(|it| TurnOptions::from_event(&it.event))
            .unwrap_or_default()
    }
}
