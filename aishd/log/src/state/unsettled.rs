//! What is still to come of a conversation.

use super::ConversationState;
use super::confirms::AsideSubject;

impl ConversationState {
    /// Nothing of it is under way, and it goes on when a person says so: an answer, or the end of a pause.
    pub fn waits_for_person(&self) -> bool {
        let open = self.running.iter().flat_map(|it| &it.open_calls);
        let is_paused = self.norris.as_ref().is_some_and(|it| it.paused.is_some());
        self.requires_action() || (is_paused && !open.clone().any(|it| it.started))
    }

    /// There is work, or it is not whole, or it is to go: such a conversation is looked at after a restart.
    pub fn is_unsettled(&self) -> bool {
        self.has_work() || self.importing || self.temporary
    }

    /// Work is under way or waits, or a person is asked.
    pub fn has_work(&self) -> bool {
        let works = self.running.is_some() || !self.queue.is_empty();
        let commands = !self.shell.own.is_empty() || !self.shell.jobs.is_empty();
        works || commands || self.asks_aside() || self.has_changes_to_settle()
    }

    /// A person is asked something that no turn waits for, and silence may become an answer.
    pub fn counts_silence(&self) -> bool {
        let mut asides = self.confirms.iter().filter_map(|it| it.aside.as_ref());
        asides.any(|it| !matches!(it, AsideSubject::Changes(_)))
    }

    /// A person is asked something that no turn waits for.
    pub fn asks_aside(&self) -> bool {
        self.confirms.iter().any(|it| it.aside.is_some())
    }
}
