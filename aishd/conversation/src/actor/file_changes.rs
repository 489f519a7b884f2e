//! Changes of files that a model proposes by a call. Each is made in layers before anybody is asked, so that its question shows
//! what would change; what comes to nothing is told to the model, and nobody is asked.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::{ConfirmId, TurnId};
use aishd_files::FileCall;
use aishd_log::confirm::{Confirm, ConfirmSubject};
use aishd_log::event::RefusedCall;
use aishd_log::tool::DecisionSubject;
use aishd_rules::gate::{AdmittedCall, CallJudgement};
use aishd_tools::registry::CallPlace;
use aishd_tools::trial::ChangeFailure;
use aishd_tools::{ToolOutput, builtin, returned};
use aishd_turn::turn::{CallReturn, Effect, OwedReplies, TurnInput};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::actor::{Conversation, TaskOutcome};
use crate::commands::trial::{RunningTrial, TrialEnd, not_kept};
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
            place: self.call_place(),
            setting: self.setting(self.given_to_turn(), &self.state.cwd),
            room: self.services.trials.clone(),
            seen: self.seen_files.clone(),
        }
    }

    /// Where calls of the conversation's tools work.
    pub(crate) fn call_place(&self) -> CallPlace {
        CallPlace {
            cwd: self.state.cwd.clone(),
            roots: self.roots(),
        }
    }

    /// Whether the tools for files can be held here is found out beside the first request.
    pub(crate) fn find_out_what_holds(&mut self) {
        let profiles = self.services.tools.profiles();
        if profiles.known().is_some() || !self.services.policy.borrow().file_tools {
            return;
        }
        let profiles = profiles.clone();
        self.io.spawn(async move {
            profiles.probe().await;
            TaskOutcome::FoundOut
        });
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
        if self.changes.iter().any(|it| it.is_of(owed.id(), confirm)) {
            return false;
        }
        let (id, digest, owing) = (owed.id().to_owned(), confirm.digest, owing.to_vec());
        let work = self.change_work(call, confirm, token);
        self.io.spawn(async move {
            let came = work.await;
            let call = id;
            let change = ProposedChange { call, digest, came };
            TaskOutcome::TriedFirst(turn, Box::new(TriedFirst { change, owing }))
        });
        true
    }

    /// Makes a change in layers, as far as nobody cancels it; a panic is its failure and nothing worse.
    pub(crate) fn change_work(
        &mut self,
        call: Result<FileCall, String>,
        confirm: &Confirm,
        token: CancellationToken,
    ) -> impl Future<Output = Result<TrialEnd, String>> + Send + use<> {
        let (tools, ground, digest) = (self.tools(), self.file_ground(), confirm.digest);
        let tool = confirm.call().map(|it| it.tool.clone());
        async move {
            let tried = AssertUnwindSafe(ground.tried(&tools, call, tool, digest)).catch_unwind();
            match token.run_until_cancelled(tried).await {
                Some(Ok(came)) => came,
                Some(Err(_panic)) => Err("[aish] tool dispatch failed: internal error".to_owned()),
                None => Err("it was cancelled".to_owned()),
            }
        }
    }

    /// It has ended: all is judged with that, by the rules as they are now.
    pub(crate) async fn tried_first(&mut self, turn: TurnId, tried: TriedFirst) {
        let stop = self.stop_of_token();
        let TriedFirst { change, owing } = tried;
        let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) else {
            return;
        };
        if active.token.is_cancelled() {
            return self.stop_now(stop).await;
        }
        self.changes.push(change);
        let judge = Effect::Judge {
            owing,
            approved: None,
        };
        if !active.machine.keep_for_later(judge.clone()) {
            self.perform(judge).await;
        }
    }

    /// The judgements without questions about what came to nothing.
    pub(crate) fn without_failed_changes(
        &self,
        owing: &[OwedReplies],
        mut judged: Vec<CallJudgement>,
    ) -> Vec<CallJudgement> {
        for (judgement, owed) in judged.iter_mut().zip(owing) {
            let CallJudgement::Ask(confirm) = judgement else {
                continue;
            };
            let mut changes = self.changes.iter();
            let change = changes.find(|it| it.is_of(owed.id(), confirm));
            let failed = change.and_then(|it| it.came.as_ref().err());
            let (Some(content), Some(call)) = (failed, confirm.call()) else {
                continue;
            };
            let subject = DecisionSubject {
                tool: call.tool.clone(),
                digest: confirm.digest,
            };
            *judgement = CallJudgement::Refuse {
                denial: None,
                content: content.clone(),
                refused: RefusedCall {
                    subject: Some(subject),
                    because: "it came to nothing in layers".to_owned(),
                    imported: false,
                },
            };
        }
        judged
    }

    /// A question about a change that came to nothing, when it was tried anew, is none: the call is looked at again, and the
    /// model is told.
    pub(crate) async fn withdraw_change(&mut self, confirm: ConfirmId) {
        let asked = self.turn.as_ref().and_then(|it| it.machine.asking());
        let asked = asked.filter(|it| it.id == confirm && Self::change_of(it).is_some());
        if let Some(confirm) = asked.cloned() {
            self.withdraw(&confirm).await;
        }
    }

    /// The question is open: everybody sees what would change.
    pub(crate) async fn note_change(&mut self) {
        let asked = self.turn.as_ref().and_then(|it| it.machine.asking());
        let Some(confirm) = asked.filter(|it| self.state.open_confirm(it.id).is_some()) else {
            return;
        };
        let Some(call) = confirm.call() else { return };
        let its = self.changes.iter();
        let mut its = its
            .enumerate()
            .filter(|(_, it)| it.is_of(&call.id, confirm));
        let Some((its, _)) = its.next() else { return };
        let tried = RunningTrial::new(confirm, self.services.stopping.child_token(), None);
        let Ok(end) = self.changes.swap_remove(its).came else {
            return;
        };
        self.tried_unasked = Some(tried.confirm);
        if let Err(why) = self.note_trial(&tried, end).await {
            tracing::warn!(conversation = %self.id, %why, "a question does not show what would change");
        }
    }

    /// Makes the change of this confirm real, in the place of the call.
    pub(crate) fn start_keeping_change(
        &mut self,
        turn: TurnId,
        (call, go): (String, AdmittedCall),
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
                    let (tried, is_whole) = (Arc::clone(&order.tried), order.hunks.is_none());
                    let keeping =
                        tokio::task::spawn_blocking(move || order.keep(&room, conversation));
                    let kept = keeping
                        .await
                        .unwrap_or_else(|panic| Err(ChangeFailure::Unfinished(panic.to_string())));
                    let kept = kept.map_err(|it| not_kept(&it));
                    // Of a part nobody knows what it makes of the file before it is read.
                    if kept.is_ok() && is_whole {
                        seen.keep(tried.changes);
                    }
                    kept.map(|told| {
                        let reply = tried.output.trim_end();
                        format!("{reply}\n[aish] a person looked at the difference and {told}")
                    })
                }
                None => Err("[aish] nothing was changed: what was tried is gone".to_owned()),
            };
            let output = match kept {
                Ok(text) => ToolOutput::from_text(text),
                Err(why) => ToolOutput::failed(why),
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
