//! What is still to come of a conversation.

use super::ConversationState;
use super::confirms::AsideSubject;
use crate::server_task::ServerTask;

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

    pub(super) fn task_began(&mut self, call: &str, task: &ServerTask) {
        let open = self.running.iter_mut().flat_map(|it| &mut it.open_calls);
        open.filter(|it| it.id == call)
            .for_each(|it| it.task = Some(task.clone()));
    }

    /// Whether servers work on all that the turn has begun, so that the next daemon can ask what came of it. A run and a list
    /// of calls end with their daemon.
    pub fn waits_for_tasks(&self) -> bool {
        let Some(running) = &self.running else {
            return false;
        };
        let mut begun = running.open_calls.iter().filter(|it| it.started);
        let has_begun = begun.clone().next().is_some();
        let is_run = self
            .norris
            .as_ref()
            .is_some_and(|it| it.turn == running.turn);
        has_begun && !is_run && begun.all(|it| it.task.is_some())
    }
}
