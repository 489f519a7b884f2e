//! What the asker of a turn said of how it runs. It is stored with the question, so that whoever starts or takes up
//! the turn reads the same.

use std::num::NonZeroU32;

use aishd_log::confirm::OnConfirm;
use aishd_log::event::Event;
use aishd_rules::policy::Policy;

#[derive(Clone, Debug, Default)]
pub(crate) struct TurnOptions {
    /// What is done where a person would have to be asked.
    pub(crate) on_confirm: OnConfirm,
    pub(crate) max_tool_depth: Option<NonZeroU32>,
}

impl TurnOptions {
    /// Rounds of calls in the turn: an asker may want fewer than the configuration allows, and never gets more.
    pub(crate) fn max_depth(&self, policy: &Policy) -> u32 {
        let wanted = self.max_tool_depth.map_or(u32::MAX, NonZeroU32::get);
        policy.max_depth.min(wanted)
    }

    pub(crate) fn from_event(event: &Event) -> Option<Self> {
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
