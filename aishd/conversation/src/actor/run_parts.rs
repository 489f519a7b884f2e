//! Keeping or dropping what a run has changed so far, while it goes on. The layers are held from the look until all is done, so the
//! run's next command waits; the order is a fact before anything is touched, so that the next daemon goes on with it.

use std::time::Duration;

use aish_proto::id::{ChangesId, TurnId};
use aishd_log::event::{Event, ProviderLevel};
use aishd_log::run_changes::{ChangesPart, PartStage, RunChangesStage, of_run};
use aishd_platform::clock;
use aishd_tools::trial::{ChangeFailure, LayersHold, PartFound};
use tokio::time::timeout;

use crate::actor::{Conversation, TaskOutcome};
use crate::pending_commit::{PendingCommit, UncommittedFact};
use crate::request_error::RequestError;
use crate::requests::{ActorReply, PartRequest};
use crate::view::LiveChange;

/// How long somebody waits for the end of the command that writes there. After that it is said what helps.
const WITHIN: Duration = Duration::from_secs(20);

/// Who waits to hear what came of it. `None`: a daemon before this one was asked.
type Waiting = Option<ActorReply<Box<ChangesPart>>>;

/// What became of a wish.
#[derive(Debug)]
pub(crate) enum PartStep {
    /// The layers were free, and this was found there.
    Checked {
        wanted: Box<PartRequest>,
        turn: TurnId,
        checked: Result<(LayersHold, PartFound), RequestError>,
        reply: ActorReply<Box<ChangesPart>>,
    },
    Done {
        part: Box<ChangesPart>,
        done: Result<String, ChangeFailure>,
        held: LayersHold,
        reply: Waiting,
    },
}

/// A part that is being kept or dropped.
#[derive(Debug)]
pub(crate) enum PartWork {
    Going,
    /// It is half kept, and no command of the run may see that: the next daemon goes on with it or takes it back.
    HalfDone {
        _held: Option<LayersHold>,
    },
}

impl Conversation {
    /// Begins it; the reply comes when it is done.
    pub(crate) fn take_part(&mut self, wanted: PartRequest, reply: ActorReply<Box<ChangesPart>>) {
        let turn = match self.may_take_part(wanted.changes) {
            Ok(turn) => turn,
            Err(error) => {
                let _client_left = reply.send(Err(error));
                return;
            }
        };
        self.part = Some(PartWork::Going);
        let (room, changes) = (self.services.trials.clone(), wanted.changes);
        self.io.spawn(async move {
            let wish = wanted.wish.clone();
            let checked = match timeout(WITHIN, room.hold_layers(changes)).await {
                Err(_elapsed) => Err(RequestError::LayersInUse),
                Ok(held) => {
                    let check = move || {
                        let found = held.check_part(&wish);
                        found.map(|it| (held, it)).map_err(|it| refusal(&it))
                    };
                    let checked = tokio::task::spawn_blocking(check).await;
                    checked.unwrap_or_else(|it| Err(RequestError::Changes(it.to_string())))
                }
            };
            TaskOutcome::Part(Box::new(PartStep::Checked {
                wanted: Box::new(wanted),
                turn,
                checked,
                reply,
            }))
        });
    }

    /// The run that they are of, if its layers are there and nobody is asked about them.
    fn may_take_part(&self, changes: ChangesId) -> Result<TurnId, RequestError> {
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        let mut all = self.state.run_changes.iter();
        let Some(found) = all.find(|it| of_run(it.turn) == changes) else {
            return Err(RequestError::NoChanges(changes));
        };
        match &found.stage {
            RunChangesStage::Asked(number) => Err(RequestError::ChangesAsked(*number)),
            RunChangesStage::InWork | RunChangesStage::Ended if self.part.is_none() => {
                Ok(found.turn)
            }
            RunChangesStage::InWork | RunChangesStage::Ended | RunChangesStage::Ordered(_) => {
                Err(RequestError::Changes("they are being kept".to_owned()))
            }
        }
    }

    /// Goes on with what the daemon before this one was told to do. Nothing of the run works yet.
    pub(crate) fn resume_part(&mut self, part: ChangesPart) {
        self.part = Some(PartWork::Going);
        let changes = of_run(part.turn);
        let held = self.services.trials.try_hold_layers(changes);
        self.do_part(part, held, None);
    }

    /// `held`: `None`, and it is waited for.
    fn do_part(&mut self, part: ChangesPart, held: Option<LayersHold>, reply: Waiting) {
        let (room, conversation, turn) = (self.services.trials.clone(), self.id, part.turn);
        self.io.spawn(async move {
            room.recovered().await;
            let held = match held {
                Some(held) => held,
                None => room.hold_layers(of_run(turn)).await,
            };
            let work = move || {
                let done = held.do_part(&part, clock::now(), conversation);
                PartStep::Done {
                    part: Box::new(part),
                    done,
                    held,
                    reply,
                }
            };
            match tokio::task::spawn_blocking(work).await {
                Ok(step) => TaskOutcome::Part(Box::new(step)),
                Err(panic) => TaskOutcome::PartBroke(turn, panic.to_string()),
            }
        });
    }

    pub(crate) async fn part_went_on(&mut self, step: PartStep) {
        match step {
            PartStep::Checked {
                wanted,
                turn,
                checked,
                reply,
            } => {
                self.part = None;
                let ordered = match checked {
                    Ok((held, found)) => self.order_part(turn, *wanted, found, held).await,
                    Err(error) => Err(error),
                };
                match ordered {
                    Ok((part, held)) => {
                        self.part = Some(PartWork::Going);
                        self.do_part(part, Some(held), Some(reply));
                    }
                    Err(error) => {
                        let _client_left = reply.send(Err(error));
                    }
                }
            }
            PartStep::Done {
                part,
                done,
                held,
                reply,
            } => self.part_done(*part, done, held, reply).await,
        }
    }

    async fn order_part(
        &mut self,
        turn: TurnId,
        wanted: PartRequest,
        found: PartFound,
        held: LayersHold,
    ) -> Result<(ChangesPart, LayersHold), RequestError> {
        // The run may have come to its end meanwhile.
        self.may_take_part(wanted.changes)?;
        if self.stalled.is_some() {
            let why = "an earlier change still waits for the store";
            return Err(RequestError::Storage(why.to_owned()));
        }
        let part = ChangesPart {
            turn,
            part: ChangesId(clock::ulid()),
            act: wanted.wish.act,
            stage: PartStage::Ordered,
            only: wanted.wish.only,
            paths: found.paths,
            count: found.count,
            remark: String::new(),
            by: Some(wanted.by),
        };
        self.commit(&[fact(&part)], LiveChange::Keep).await?;
        Ok((part, held))
    }

    async fn part_done(
        &mut self,
        part: ChangesPart,
        done: Result<String, ChangeFailure>,
        held: LayersHold,
        reply: Waiting,
    ) {
        let (stage, remark) = match done {
            Ok(remark) => (PartStage::Done, remark),
            Err(ChangeFailure::Unfinished(why)) => {
                tracing::error!(conversation = %self.id, why, "changes are half kept");
                self.part = Some(PartWork::HalfDone { _held: Some(held) });
                self.tell_half_done(&why).await;
                let failed = RequestError::Storage(ChangeFailure::Unfinished(why).to_string());
                if let Some(reply) = reply {
                    let _client_left = reply.send(Err(failed));
                }
                return;
            }
            Err(why) => (PartStage::Failed, why.to_string()),
        };
        let part = ChangesPart {
            stage,
            remark,
            ..part
        };
        self.settle(PendingCommit::facts(vec![fact(&part)])).await;
        self.part = None;
        drop(held);
        let Some(reply) = reply else { return };
        let stalled = self.stalled.is_some();
        let _client_left = reply.send(match part.stage {
            _ if stalled => {
                let why = "it is over, and how it ended still waits for the store";
                Err(RequestError::Storage(why.to_owned()))
            }
            PartStage::Failed => Err(RequestError::Changes(part.remark)),
            PartStage::Ordered | PartStage::Done => Ok(Box::new(part)),
        });
    }

    /// Whoever works on it broke off, and what was ordered is done by the next daemon.
    pub(crate) async fn part_broke(&mut self, turn: TurnId, why: &str) {
        tracing::error!(conversation = %self.id, why, "keeping changes broke off");
        let held = self.services.trials.try_hold_layers(of_run(turn));
        self.part = Some(PartWork::HalfDone { _held: held });
        self.tell_half_done(why).await;
    }

    async fn tell_half_done(&mut self, why: &str) {
        let text = format!(
            "a part of what the run changed is half kept, and the next start of aishd goes on with it or takes it back: {why}"
        );
        let told = UncommittedFact {
            turn: None,
            by: None,
            event: Event::Status {
                level: ProviderLevel::Warning,
                text,
            },
        };
        self.settle(PendingCommit::facts(vec![told])).await;
    }
}

fn fact(part: &ChangesPart) -> UncommittedFact {
    UncommittedFact {
        turn: None,
        by: part.by.clone(),
        event: Event::ChangesPart(Box::new(part.clone())),
    }
}

fn refusal(failure: &ChangeFailure) -> RequestError {
    match failure {
        ChangeFailure::Unseen => RequestError::ChangesUnseen,
        ChangeFailure::Conflicts(_) | ChangeFailure::Unfinished(_) | ChangeFailure::Other(_) => {
            RequestError::Changes(failure.to_string())
        }
    }
}
