//! Turns that run a list of calls and ask no model: beginning one, and what the log says of how far it has come.

use aish_proto::id::{Seq, TurnId};
use aishd_log::call_list::CallList;
use aishd_log::event::{Event, PresetSource, TurnOrigin};
use aishd_log::state::turns::RunningTurn;
use aishd_log::tool_call::ToolCall;
use aishd_store::ReadError;
use aishd_turn::turn::{CallListProgress, Turn};

use crate::actor::Conversation;
use crate::pending_commit::UncommittedFact;
use crate::request_error::RequestError;
use crate::turns::run_clock::RunClock;
use crate::view::LiveChange;

impl Conversation {
    /// Starts the turn: `facts` and its start are one commit, and the first calls come after it.
    pub(crate) async fn begin_list(
        &mut self,
        turn: TurnId,
        list: &CallList,
        origin: TurnOrigin,
        mut facts: Vec<UncommittedFact>,
    ) -> Result<(), RequestError> {
        let course = self.course(list, origin, None)?;
        let course = course.ok_or(RequestError::UnknownTurn(turn))?;
        facts.push(UncommittedFact {
            turn: Some(turn),
            by: None,
            event: Event::TurnStarted {
                model: String::new(),
                model_id: String::new(),
                source: PresetSource::None,
                context_tokens: None,
            },
        });
        let on_confirm = self.terms(turn, &facts).on_confirm;
        self.commit(&facts, LiveChange::End).await?;
        let (machine, step) = Turn::run(course);
        let model = (String::new(), PresetSource::None);
        let clock = RunClock::start(&self.budget);
        self.set_turn(turn, machine, model, on_confirm, clock);
        self.rules_count().await;
        self.take_step(step).await;
        Ok(())
    }

    /// Whether a list has calls left to go on with.
    pub(crate) fn check_rest(
        &self,
        list: &CallList,
        origin: TurnOrigin,
    ) -> Result<(), RequestError> {
        let course = self.course(list, origin, None)?;
        match course {
            Some(course) if course.has_rest() => Ok(()),
            Some(_) | None => Err(RequestError::NothingLeft),
        }
    }

    /// How far a list has come: with the turns that it goes on from, and with this one. `None`: the log holds no list
    /// that could run.
    pub(crate) fn course(
        &self,
        list: &CallList,
        origin: TurnOrigin,
        running: Option<&RunningTurn>,
    ) -> Result<Option<CallListProgress>, ReadError> {
        let Ok(mut course) = CallListProgress::new(list) else {
            return Ok(None);
        };
        for (turn, message) in self.turns_before(origin)?.into_iter().rev() {
            self.fold(turn, message, &mut course)?;
            course.begin_again();
        }
        if let Some(running) = running {
            self.fold(running.turn, running.message_seq, &mut course)?;
        }
        Ok(Some(course))
    }

    /// The turns that one goes on from, the latest first, with the places of their questions.
    fn turns_before(&self, mut origin: TurnOrigin) -> Result<Vec<(TurnId, Seq)>, ReadError> {
        let mut turns = vec![];
        while let TurnOrigin::Continue(turn) = origin {
            let place = self.services.store.find_turn(turn)?;
            let Some(place) = place.filter(|it| it.conversation == self.id) else {
                break;
            };
            turns.push((turn, place.message_seq));
            let question = self.services.store.record(self.id, place.message_seq)?;
            origin = match question.map(|it| it.event) {
                Some(Event::UserMessage { origin, .. }) => origin,
                Some(_) | None => TurnOrigin::Asked,
            };
        }
        Ok(turns)
    }

    fn fold(
        &self,
        turn: TurnId,
        message: Seq,
        course: &mut CallListProgress,
    ) -> Result<(), ReadError> {
        for record in self.services.store.records(self.id, message) {
            let record = record?;
            if record.turn != Some(turn) {
                continue;
            }
            course.note(&record.event);
            if let Event::TurnFinished { .. } = record.event {
                break;
            }
        }
        Ok(())
    }

    /// Calls of the running list that no message has yet.
    pub(crate) fn unannounced(&self) -> Vec<ToolCall> {
        let Some(running) = &self.state.running else {
            return vec![];
        };
        let question = self.services.store.record(self.id, running.message_seq);
        let course = question.and_then(|it| match it.map(|it| it.event) {
            Some(Event::UserMessage {
                calls: Some(list),
                origin,
                ..
            }) => self.course(&list, origin, Some(running)),
            Some(_) | None => Ok(None),
        });
        match course {
            Ok(course) => course.map(|it| it.rest()).unwrap_or_default(),
            Err(error) => {
                tracing::warn!(conversation = %self.id, %error, "a list of calls cannot be read");
                vec![]
            }
        }
    }
}
