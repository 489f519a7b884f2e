//! The turn that runs.

use std::sync::Arc;

use aish_proto::id::TurnId;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::confirm::OnConfirm;
use aishd_log::event::PresetSource;
use aishd_log::pinned_resource::PinnedContent;
use aishd_log::state::ConversationState;
use aishd_model::context_budget::ContextSettings;
use aishd_model::preset::Preset;
use aishd_model::reply::Reply;
use aishd_rules::autonomy::SecondOpinion;
use aishd_rules::boundary::BoundaryFailures;
use aishd_rules::catalog::ToolOffer;
use aishd_rules::gate::AdmittedCommand;
use aishd_turn::run::RunState;
use aishd_turn::turn::{Step, StreamId, Turn, TurnInput};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::spending::budget::SpendingTicket;
use crate::turns::run_clock::RunClock;

/// The running turn.
#[derive(Debug)]
pub(crate) struct ActiveTurn {
    pub(crate) id: TurnId,
    pub(crate) machine: Turn,
    /// `None`: the turn was begun by another daemon, and the preset is looked up when it is needed.
    pub(crate) preset: Option<Arc<Preset>>,
    /// Whom a request goes to whose server looks down.
    pub(crate) second: Option<Arc<Preset>>,
    pub(crate) model: (String, PresetSource),
    /// The request that is under way.
    pub(crate) asking: Option<(StreamId, SpendingTicket)>,
    /// What the last request offered. `None`: that was another daemon's.
    pub(crate) offer: Option<Arc<ToolOffer>>,
    /// What pinned resources held when the last request was made.
    pub(crate) held: Vec<PinnedContent>,
    /// The rules of contexts that it began with: a reload is for the next turn.
    pub(crate) rules: ContextSettings,
    pub(crate) on_confirm: OnConfirm,
    pub(crate) token: CancellationToken,
    /// Who cancelled it.
    pub(crate) stopped_by: Option<AnsweringPerson>,
    /// How long it has worked.
    pub(crate) clock: RunClock,
    /// What another model said of the call of a run that would begin next.
    pub(crate) heard: Option<SecondOpinion>,
    /// Which of its commands failed inside their boundary.
    pub(crate) failures: BoundaryFailures,
    /// The conversation's directory when it began: a run that changes to one below is still within this one.
    pub(crate) top: String,
}

/// How a turn runs: what its asker said, and what holds where the conversation is as it begins.
pub(crate) struct TurnGround {
    pub(crate) rules: ContextSettings,
    pub(crate) on_confirm: OnConfirm,
    pub(crate) token: CancellationToken,
    pub(crate) clock: RunClock,
    pub(crate) top: String,
}

impl ActiveTurn {
    /// A turn that has asked nobody anything here yet.
    pub(crate) fn new(
        id: TurnId,
        machine: Turn,
        model: (String, PresetSource),
        ground: TurnGround,
    ) -> Self {
        let TurnGround {
            rules,
            on_confirm,
            token,
            clock,
            top,
        } = ground;
        Self {
            id,
            machine,
            preset: None,
            second: None,
            model,
            asking: None,
            offer: None,
            held: vec![],
            rules,
            on_confirm,
            token,
            stopped_by: None,
            clock,
            heard: None,
            failures: BoundaryFailures::default(),
            top,
        }
    }

    /// Ends its work. Who did so first is who stopped it.
    pub(crate) fn call_off(&mut self, by: &AnsweringPerson) {
        self.stopped_by.get_or_insert_with(|| by.clone());
        self.token.cancel();
    }

    /// An action begins. What was said of it was about that one, once.
    pub(crate) fn note_action(&mut self, command: Option<&AdmittedCommand>) {
        self.heard = None;
        let inside = command.filter(|it| it.setting.held_by.is_held());
        self.failures.on_begin(inside.map(|it| it.digest));
    }

    /// When the run has worked for as long as it may, while there is something that would be cut short then.
    pub(crate) fn time_over_at(&self) -> Option<Instant> {
        if self.token.is_cancelled() {
            return None;
        }
        self.clock.ends_at(self.machine.time_left()?)
    }

    /// People and logs see what a tool is really called.
    pub(crate) fn with_real_names(&self, mut reply: Reply) -> Reply {
        for call in &mut reply.calls {
            let offer = self.offer.as_deref();
            if let Some(name) = offer.and_then(|it| it.real_name(&call.name)) {
                call.name = name.to_string();
            }
        }
        reply
    }

    /// Hands its machine an input, with the time that passed and what was paid for meanwhile.
    pub(crate) fn hear(&mut self, input: TurnInput) -> Step {
        self.clock.tick(self.machine.works());
        self.machine.note_spent(self.clock.spent());
        self.machine.handle(input)
    }
}

/// Makes a turn a run, if the log says that it is one.
pub(crate) fn with_run(machine: Turn, state: &ConversationState, turn: TurnId) -> Turn {
    match state.norris.as_ref().filter(|it| it.turn == turn) {
        Some(standing) => machine.with_run(RunState::of(standing)),
        None => machine,
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::id::ClientId;
    use aishd_model::second_opinion::Opinion;

    use super::*;
    use crate::spending::budget::tests::meter;

    fn person(name: &str) -> AnsweringPerson {
        AnsweringPerson {
            client: ClientId::from_bytes([1; 16]),
            name: name.to_owned(),
            uid: None,
            pid: None,
            tty: None,
        }
    }

    fn turn() -> ActiveTurn {
        let dir = tempfile::tempdir().unwrap();
        let ground = TurnGround {
            rules: ContextSettings::default(),
            on_confirm: OnConfirm::default(),
            token: CancellationToken::new(),
            clock: RunClock::start(&meter(&dir, None)),
            top: "/work".to_owned(),
        };
        let (machine, _step) = Turn::start(8);
        let model = ("demo".to_owned(), PresetSource::Demo);
        ActiveTurn::new(TurnId::from_bytes([2; 16]), machine, model, ground)
    }

    #[test]
    fn who_stops_a_turn_first_is_who_stopped_it() {
        let mut turn = turn();
        assert!(!turn.token.is_cancelled());
        turn.call_off(&person("first"));
        turn.call_off(&person("second"));
        assert!(turn.token.is_cancelled());
        assert_eq!(Some(person("first")), turn.stopped_by);
        assert_eq!(None, turn.time_over_at(), "it is over already");
    }

    #[test]
    fn what_was_said_of_an_action_counts_for_that_one_once() {
        let mut turn = turn();
        turn.heard = Some(SecondOpinion {
            call: "a".to_owned(),
            digest: aishd_log::tool::ContentDigest([0; 32]),
            preset: "judge".to_owned(),
            opinion: Opinion::Missing("nobody was there".to_owned()),
        });
        turn.note_action(None);
        assert_eq!(None, turn.heard);
    }
}
