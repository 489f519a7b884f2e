//! What the prompt says of the conversation: its name, its model, its state.

use aish_proto::event::{ClientEvent, Event};

use super::OpenWindow;
use super::names::NamesHurry;
use super::ui::{PromptHead, PromptState, UserInterface};

impl<U: UserInterface> OpenWindow<U> {
    /// Keeps what the prompt says.
    pub(super) fn notice_names(&mut self, event: &ClientEvent) {
        // What is replayed is older than the snapshot that it follows.
        let is_settled = self.connection.is_settled();
        match &event.data {
            Event::Snapshot(snapshot) => {
                self.title.clone_from(&snapshot.title);
                self.model.clone_from(&snapshot.model);
            }
            Event::TurnStarted(started) => {
                self.running_model = Some(started.model.clone()).filter(|it| !it.is_empty());
            }
            Event::FallbackUsed(used) => self.running_model = Some(used.to.clone()),
            // Another preset may be the default now.
            Event::ConfigReloaded(_) if self.has_editor() => {
                self.look_up_names(None, NamesHurry::Whenever);
            }
            Event::Renamed(renamed) if is_settled => self.title.clone_from(&renamed.title),
            Event::ModelChanged(changed) if is_settled => self.model.clone_from(&changed.model),
            _ => {}
        }
    }

    pub(super) fn head(&self) -> PromptHead {
        let chosen = self.window.global.model.as_ref().or(self.model.as_ref());
        let running = self
            .running_model
            .as_ref()
            .filter(|_| self.turns.running.is_some());
        PromptHead {
            conversation: self.title.clone(),
            // What was found answers when nothing is configured, and that is known once it did.
            model: running
                .or(chosen)
                .or(self.names.default_model.as_ref())
                .or(self.running_model.as_ref())
                .cloned(),
            state: self.prompt_state(),
        }
    }

    /// Somebody who reads the prompt alone sees that an answer is waited for, also where no turn waits for it.
    fn prompt_state(&self) -> PromptState {
        let asks = self.connection.is_settled() && self.asked.first().is_some();
        if self.connection.is_lost() {
            PromptState::Problem
        } else if asks {
            PromptState::Waiting
        } else {
            self.turns.state()
        }
    }
}
