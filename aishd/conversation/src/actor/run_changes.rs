//! What runs changed in layers: asked about when a run is over, and kept or dropped as a person says. Each step is a fact
//! before it is done, so that the next daemon goes on where this one was.

use aish_proto::id::TurnId;
use aishd_log::confirm::changes::ChangesSubject;
use aishd_log::event::{Event, ProviderLevel};
use aishd_log::norris::launch::RunHold;
use aishd_log::run_changes::{
    ChangesOrder, ChangesOutcome, ChangesSettled, RunChangesStage, of_run,
};
use aishd_log::state::confirms::OpenConfirm;
use aishd_log::tried::ChangeSummary;
use aishd_platform::clock;
use aishd_tools::trial::{ChangeFailure, KeepReport};

use crate::actor::aside_questions::answered;
use crate::actor::{Conversation, TaskOutcome};
use crate::pending_commit::{PendingCommit, UncommittedFact};
use crate::request_error::RequestError;
use crate::requests::{AnswerOutcome, ConfirmAnswer};
use crate::view::LiveChange;

/// What became of a look at changes, or of keeping them.
#[derive(Debug)]
pub(crate) enum ChangesStep {
    Looked(Result<Option<ChangeSummary>, String>),
    Kept(ChangesOrder, Result<KeepReport, ChangeFailure>),
}

impl Conversation {
    /// What holds the commands of the run that works here.
    pub(crate) fn run_hold(&self) -> RunHold {
        let run = self.state.norris.as_ref();
        run.map_or(RunHold::Wall, |it| it.launch.hold())
    }

    /// Begins what is to be done next about the changes of runs that are over.
    pub(crate) fn settle_changes(&mut self) {
        let is_busy = self.settling.is_some() || self.part.is_some();
        if is_busy || self.stalled.is_some() || self.unborn.is_some() {
            return;
        }
        let mut parts = self.state.run_changes.iter();
        if let Some(part) = parts.find_map(|it| it.part.clone()) {
            return self.resume_part(*part);
        }
        let next = self
            .state
            .run_changes
            .iter()
            .find_map(|it| match &it.stage {
                RunChangesStage::Ended => Some((it.turn, None)),
                RunChangesStage::Ordered(order) => Some((it.turn, Some(order.clone()))),
                RunChangesStage::InWork | RunChangesStage::Asked(_) => None,
            });
        let Some((turn, order)) = next else { return };
        self.settling = Some(turn);
        let (room, conversation) = (self.services.trials.clone(), self.id);
        self.io.spawn(async move {
            let changes = of_run(turn);
            let held = room.hold_layers(changes).await;
            let work = move || match order {
                None => ChangesStep::Looked(held.settled()),
                Some(order) => {
                    let of = (conversation, order.number);
                    let kept = held.keep_of_run(&order.only, clock::now(), of);
                    ChangesStep::Kept(order, kept)
                }
            };
            let done = tokio::task::spawn_blocking(work).await;
            let done = done.unwrap_or_else(|panic| ChangesStep::Looked(Err(panic.to_string())));
            TaskOutcome::Changes(turn, Box::new(done))
        });
    }

    pub(crate) async fn changes_went_on(&mut self, turn: TurnId, step: ChangesStep) {
        self.settling = None;
        let Some(changes) = self.state.changes_of(turn).cloned() else {
            return;
        };
        let settled = |outcome| ChangesSettled {
            turn,
            outcome,
            paths: vec![],
            count: 0,
            remark: String::new(),
            confirm: None,
            by: None,
        };
        let (events, by, is_over) = match step {
            ChangesStep::Looked(Ok(found)) if found.as_ref().is_none_or(is_nothing) => {
                (vec![ended(settled(ChangesOutcome::Nothing))], None, true)
            }
            ChangesStep::Looked(looked) => {
                let changed = looked.map_or_else(unread, Option::unwrap_or_default);
                (
                    vec![self.ask_about(turn, changes.goal, changed)],
                    None,
                    false,
                )
            }
            ChangesStep::Kept(order, Ok(kept)) => {
                let outcome = if order.only.is_empty() {
                    ChangesOutcome::Kept
                } else {
                    ChangesOutcome::KeptInPart
                };
                let end = ended(ChangesSettled {
                    count: kept.count,
                    paths: kept.paths,
                    remark: kept.remark,
                    confirm: Some(order.confirm),
                    by: order.by.clone(),
                    ..settled(outcome)
                });
                (vec![end], order.by, true)
            }
            // The next start of the daemon goes on with it or takes it back, and then it is kept or asked about.
            ChangesStep::Kept(_, Err(ChangeFailure::Unfinished(why))) => {
                tracing::error!(conversation = %self.id, why, "changes are half kept");
                self.settling = Some(turn);
                return;
            }
            ChangesStep::Kept(_, Err(why)) => {
                let text = format!("nothing of what the run changed was kept: {why}");
                let level = ProviderLevel::Warning;
                let held = self.services.trials.hold_layers(of_run(turn)).await;
                let looked = tokio::task::spawn_blocking(move || held.changes()).await;
                let looked = looked.unwrap_or_else(|panic| Err(panic.to_string()));
                let again = match looked {
                    Ok(None) => ended(ChangesSettled {
                        remark: why.to_string(),
                        ..settled(ChangesOutcome::Failed)
                    }),
                    looked => {
                        let changed = looked.map_or_else(unread, Option::unwrap_or_default);
                        self.ask_about(turn, changes.goal, changed)
                    }
                };
                (vec![Event::Status { level, text }, again], None, false)
            }
        };
        let facts = events.into_iter().map(|event| UncommittedFact {
            turn: None,
            by: by.clone(),
            event,
        });
        let facts: Vec<UncommittedFact> = facts.collect();
        self.settle(PendingCommit::facts(facts)).await;
        if is_over && self.stalled.is_none() {
            self.drop_layers_of(of_run(turn));
        }
    }

    fn ask_about(&self, turn: TurnId, goal: String, changed: ChangeSummary) -> Event {
        let hosts = self.state.hosts_of(turn);
        let subject = ChangesSubject {
            turn,
            goal,
            changed,
            network: hosts.map(|it| it.used.clone()).unwrap_or_default(),
        };
        Event::ConfirmRequested(Box::new(subject.confirm(self.next_confirm())))
    }

    /// The answer is a fact before anything is kept; what cannot be kept leaves the question open.
    pub(crate) async fn answer_changes(
        &mut self,
        open: &OpenConfirm,
        subject: &ChangesSubject,
        answering: ConfirmAnswer,
    ) -> Result<AnswerOutcome, RequestError> {
        let turn = subject.turn;
        if !answering.decision.allows() {
            let by = answering.by.clone();
            let end = ended(ChangesSettled {
                turn,
                outcome: ChangesOutcome::Dropped,
                paths: vec![],
                count: 0,
                remark: String::new(),
                confirm: Some(open.id),
                by: Some(by.clone()),
            });
            let end = UncommittedFact {
                turn: None,
                by: Some(by),
                event: end,
            };
            let facts = [answered(open, answering), end];
            self.commit(&facts, LiveChange::Keep).await?;
            self.drop_layers_of(of_run(turn));
            return Ok(AnswerOutcome::Resolved);
        }
        if answering.changes != Some(subject.changes()) {
            return Ok(AnswerOutcome::ArgumentsChanged);
        }
        if answering.hunks.is_some() {
            let why = "what a run changed is kept by files: `only`";
            return Err(RequestError::BadAnswer(why.to_owned()));
        }
        if let Some(why) = self
            .cannot_be_kept(subject.changes(), &answering.only)
            .await
        {
            let why = format!("they cannot be kept: {why}; `only` keeps a part of them");
            return Err(RequestError::BadAnswer(why));
        }
        self.commit(&[answered(open, answering)], LiveChange::Keep)
            .await?;
        Ok(AnswerOutcome::Resolved)
    }
}

fn ended(settled: ChangesSettled) -> Event {
    Event::ChangesSettled(Box::new(settled))
}

fn is_nothing(found: &ChangeSummary) -> bool {
    found.count == 0 && found.refused.is_empty()
}

fn unread(why: String) -> ChangeSummary {
    ChangeSummary {
        refused: vec![why],
        ..ChangeSummary::default()
    }
}
