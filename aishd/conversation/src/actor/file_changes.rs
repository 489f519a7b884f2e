//! Changes of files that a model proposes by a call. Each is made in layers before anybody is asked, so that its question shows
//! what would change; what comes to nothing is told to the model, and nobody is asked.

use std::sync::Arc;

use aish_proto::id::{ConfirmId, TurnId};
use aishd_files::FileCall;
use aishd_log::confirm::{Confirm, ConfirmSubject};
use aishd_log::event::RefusedCall;
use aishd_log::tool::DecisionSubject;
use aishd_rules::gate::{ApprovedCall, CallJudgement};
use aishd_tools::registry::CallPlace;
use aishd_tools::{ToolOutput, builtin, returned};
use aishd_turn::turn::{CallReturn, Effect, OwedReplies, TurnInput};

use crate::actor::{Conversation, TaskOutcome};
use crate::commands::trial::RunningTrial;
use crate::turns::file_change::{FileGround, ProposedChange, TriedFirst};

impl Conversation {
    /// What a question is about, where that is a change of files; what is wrong with it is for the model.
    pub(crate) fn change_of(confirm: &Confirm) -> Option<Result<FileCall, String>> {
        let ConfirmSubject::Call(subject) = &confirm.subject else {
            return None;
        };
        builtin::file_change(&subject.call.tool, &subject.call.arguments)
    }

    pub(crate) fn file_ground(&self) -> FileGround {
        FileGround {
            place: CallPlace {
                cwd: self.state.cwd.clone(),
                roots: self.roots(),
            },
            setting: self.setting_of_turn(),
            room: self.services.trials.clone(),
            seen: self.seen_files.clone(),
        }
    }

    /// Makes the next change in layers, where it would be asked about. All is judged again when that has ended.
    pub(crate) fn try_change_first(
        &mut self,
        owing: &[OwedReplies],
        judged: &[CallJudgement],
    ) -> bool {
        let Some(active) = &self.turn else {
            return false;
        };
        let (turn, token) = (active.id, active.token.clone());
        let Some((confirm, owed)) = next_question(judged, owing) else {
            return false;
        };
        let Some(call) = Self::change_of(confirm) else {
            return false;
        };
        if self.proposed_change(owed, confirm).is_some() {
            return false;
        }
        self.drop_change();
        let (id, digest) = (owed.id().to_owned(), confirm.digest);
        let (tools, ground, owing) = (self.tools(), self.file_ground(), owing.to_vec());
        let name = confirm
            .call()
            .map_or_else(String::new, |it| it.tool.to_string());
        self.io.spawn(async move {
            let tried = ground.tried(&tools, call, &name, digest);
            let came = token.run_until_cancelled(tried).await;
            let change = ProposedChange {
                call: id,
                digest,
                came: came.unwrap_or_else(|| Err("it was cancelled".to_owned())),
            };
            TaskOutcome::TriedFirst(turn, Box::new(TriedFirst { change, owing }))
        });
        true
    }

    /// It has ended: all is judged with that, by the rules as they are now.
    pub(crate) async fn tried_first(&mut self, turn: TurnId, tried: TriedFirst) {
        let stop = self.stop_of_token();
        let TriedFirst { change, owing } = tried;
        self.change = Some(change);
        let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) else {
            return self.drop_change();
        };
        if active.token.is_cancelled() {
            self.drop_change();
            return self.stop_now(stop).await;
        }
        let judge = Effect::Judge {
            owing,
            approved: None,
        };
        if !active.machine.keep_for_later(judge.clone()) {
            self.perform(judge).await;
        }
    }

    fn proposed_change(&self, owed: &OwedReplies, confirm: &Confirm) -> Option<&ProposedChange> {
        let change = self.change.as_ref();
        change.filter(|it| it.call == owed.id() && it.digest == confirm.digest)
    }

    /// The judgements without a question about what came to nothing.
    pub(crate) fn without_failed_change(
        &self,
        owing: &[OwedReplies],
        mut judged: Vec<CallJudgement>,
    ) -> Vec<CallJudgement> {
        let failed = next_question(&judged, owing).and_then(|(confirm, owed)| {
            let change = self.proposed_change(owed, confirm)?;
            let content = change.came.as_ref().err()?.clone();
            let tool = confirm.call()?.tool.clone();
            Some((owed.id().to_owned(), tool, confirm.digest, content))
        });
        let Some((call, tool, digest, content)) = failed else {
            return judged;
        };
        let at = owing.iter().position(|it| it.id() == call);
        if let Some(judgement) = at.and_then(|it| judged.get_mut(it)) {
            *judgement = CallJudgement::Refuse {
                denial: None,
                content,
                refused: RefusedCall {
                    subject: Some(DecisionSubject { tool, digest }),
                    because: "it came to nothing in layers".to_owned(),
                    imported: false,
                },
            };
        }
        judged
    }

    /// The question is open: everybody sees what would change.
    pub(crate) async fn note_change(&mut self) {
        let asked = self.turn.as_ref().and_then(|it| it.machine.asking());
        let Some(confirm) = asked.filter(|it| self.state.open_confirm(it.id).is_some()) else {
            return;
        };
        let call = confirm.call().map(|it| it.id.as_str());
        let is_its =
            |it: &mut ProposedChange| Some(it.call.as_str()) == call && it.digest == confirm.digest;
        let (id, digest) = (confirm.id, confirm.digest);
        let Some(change) = self.change.take_if(is_its) else {
            return;
        };
        let Ok(end) = change.came else { return };
        self.tried_unasked = Some(id);
        let tried = RunningTrial {
            confirm: id,
            digest,
            token: self.services.stopping.child_token(),
            by: None,
            replies: vec![],
        };
        if let Err(why) = self.note_trial(&tried, end).await {
            tracing::warn!(conversation = %self.id, %why, "a question does not show what would change");
        }
    }

    /// Nobody is asked about it.
    pub(crate) fn drop_change(&mut self) {
        if let Some(ProposedChange { came: Ok(end), .. }) = self.change.take() {
            self.drop_layers_of(end.changes);
        }
    }

    /// Makes the change of this confirm real, in the place of the call.
    pub(crate) fn start_keeping_change(
        &mut self,
        turn: TurnId,
        (call, go): (String, ApprovedCall),
        confirm: ConfirmId,
    ) {
        let order = self.keeping.take_if(|it| it.tried.confirm == confirm);
        let (room, conversation) = (self.services.trials.clone(), self.id);
        let (needs, max_chars, seen) = {
            let policy = self.services.policy.borrow();
            let needs = policy.needs(&go.tool);
            (needs, policy.max_result_chars, self.seen_files.clone())
        };
        self.io.spawn(async move {
            let kept = match order {
                Some(order) => {
                    let tried = Arc::clone(&order.tried);
                    let keeping =
                        tokio::task::spawn_blocking(move || order.keep(&room, conversation));
                    let kept = keeping.await.map_err(|panic| panic.to_string());
                    let kept = kept.and_then(|it| it.map_err(|it| it.to_string()));
                    if kept.is_ok() {
                        seen.keep(tried.changes);
                    }
                    kept.map(|told| {
                        let reply = tried.output.trim_end();
                        format!("{reply}\n[aish] a person looked at the difference and {told}")
                    })
                }
                None => Err("what was tried is gone".to_owned()),
            };
            let output = match kept {
                Ok(text) => ToolOutput::from_text(text),
                Err(why) => ToolOutput::failed(format!("[aish] nothing was changed: {why}")),
            };
            let returned = Box::new(CallReturn {
                needs,
                ..returned(output, 0, max_chars)
            });
            TaskOutcome::Turn(turn, Box::new(TurnInput::ToolReturned { call, returned }))
        });
    }
}

/// The question that comes next, and whose it is.
fn next_question<'a>(
    judged: &'a [CallJudgement],
    owing: &'a [OwedReplies],
) -> Option<(&'a Confirm, &'a OwedReplies)> {
    let refused = |it: &CallJudgement| matches!(it, CallJudgement::Refuse { .. });
    let (judgement, owed) = judged.iter().zip(owing).find(|(it, _)| !refused(it))?;
    match judgement {
        CallJudgement::Ask(confirm) => Some((confirm, owed)),
        CallJudgement::Run(_)
        | CallJudgement::Execute(_)
        | CallJudgement::Later
        | CallJudgement::Refuse { .. } => None,
    }
}
