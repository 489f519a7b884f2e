//! The calls and commands of one message of the model, from the first judgement to the last reply. They run one after
//! another, in the model's order; only those that need no consent and only read run side by side.
//!
//! Every call gets exactly one reply, whatever happens.

use std::collections::VecDeque;

use aish_proto::id::ConfirmId;
use aishd_log::command_result::CommandResult;
use aishd_log::confirm::{Confirm, ConfirmFate, ConfirmSubject, Decision, Denial, Resolution};
use aishd_log::ending::CommandEnding;
use aishd_log::event::{Event, RefusedCall, StopReason};
use aishd_log::shell::OutputUse;
use aishd_log::tool::ContentDigest;
use aishd_rules::gate::{AdmittedCall, AdmittedCommand, CallJudgement, CallPace, spelled};

use super::asked_before::{AskedBefore, RepeatRefusal};
use super::input::{CallReturn, ConfirmEnd};
use super::replies::{answered, finish, refused, told, unknown_effect, why_refused};
use super::{Effect, OwedReplies, PausedAt, Step};

#[derive(Debug, PartialEq)]
pub(super) struct Round {
    /// Not begun yet.
    rest: VecDeque<OwedCall>,
    running: Vec<OwedCall>,
    asking: Option<Box<Confirm>>,
    /// What a person said yes to, until the call has begun.
    approval: Option<Approval>,
    /// Its next command waits for one that is not of this round.
    held: bool,
    /// What becomes of the outputs of commands.
    given: OutputUse,
    /// Also a no without a reason goes to the model at once.
    goes_on_at_no: bool,
    /// Something goes to the model at once.
    is_heard: bool,
}

/// A person's yes, until what it is to has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Approval {
    confirm: ConfirmId,
    digest: ContentDigest,
    /// What was tried becomes real in the place of running it.
    keeps: bool,
}

/// The confirm at which that was tried which is to become real.
fn keeps(approval: Option<Approval>) -> Option<ConfirmId> {
    approval.filter(|it| it.keeps).map(|it| it.confirm)
}

/// What has no reply yet.
#[derive(Debug, PartialEq)]
struct OwedCall {
    what: OwedReplies,
    /// What a person made of its arguments.
    edited: Option<String>,
    /// What a person said yes to, once it has begun.
    allowed: Option<ContentDigest>,
    /// It began, and does more than read.
    may_change: bool,
}

impl OwedCall {
    fn came_to(&self, result: &str, before: &mut AskedBefore) {
        match self.allowed {
            Some(call) => before.came_to(call, result),
            None if self.may_change => before.something_changed(),
            None => {}
        }
    }
}

/// What a round came to with an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waits,
    /// Every call has its reply.
    Done,
    /// A person ended the turn.
    Aborted,
}

#[warn(clippy::wildcard_enum_match_arm)]
impl Round {
    /// Begins with a judgement of all calls.
    pub(super) fn start(owing: Vec<OwedReplies>, given: OutputUse, step: &mut Step) -> Self {
        let round = Self::of(owing, given);
        round.judge(step);
        round
    }

    /// Goes on where a person is asked about the first call, or where servers work on some.
    pub(super) fn resume(owing: Vec<OwedReplies>, at: PausedAt) -> Self {
        let mut round = Self::of(owing, OutputUse::default());
        match at {
            PausedAt::Confirm(confirm) => round.asking = Some(confirm),
            PausedAt::Calls(calls) => {
                let owed = std::mem::take(&mut round.rest).into_iter();
                let (running, rest): (Vec<_>, Vec<_>) =
                    owed.partition(|it| calls.iter().any(|call| call == it.what.id()));
                (round.running, round.rest) = (running, rest.into());
            }
        }
        round
    }

    fn of(owing: Vec<OwedReplies>, given: OutputUse) -> Self {
        let owed = |what| OwedCall {
            what,
            edited: None,
            allowed: None,
            may_change: false,
        };
        Self {
            rest: owing.into_iter().map(owed).collect(),
            running: vec![],
            asking: None,
            approval: None,
            held: false,
            given,
            goes_on_at_no: false,
            is_heard: false,
        }
    }

    /// Of a run: nobody is there who would say what to do instead.
    pub(super) fn goes_on_at_no(&mut self) {
        self.goes_on_at_no = true;
    }

    /// Whether the turn goes on with what became of its commands.
    pub(super) fn is_heard(&self) -> bool {
        self.is_heard
    }

    /// What becomes of outputs from now on.
    pub(super) fn give(&mut self, given: OutputUse) {
        self.given = given;
    }

    /// The confirm that waits for a person.
    pub(super) fn asking(&self) -> Option<&Confirm> {
        self.asking.as_deref()
    }

    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// What it waited for has ended: what was let through then may not be now.
    pub(super) fn freed(&mut self, step: &mut Step) {
        if std::mem::take(&mut self.held) {
            self.judge(step);
        }
    }

    /// Whether so many judgements are what it waits for.
    pub(super) fn awaits(&self, judgements: usize) -> bool {
        self.running.is_empty() && self.asking.is_none() && self.rest.len() == judgements
    }

    pub(super) fn runs(&self, call: &str) -> bool {
        self.running.iter().any(|it| it.what.id() == call)
    }

    pub(super) fn asks(&self, confirm: ConfirmId) -> bool {
        self.asking.as_ref().is_some_and(|it| it.id == confirm)
    }

    fn judge(&self, step: &mut Step) {
        step.effects.push(Effect::Judge {
            owing: self.rest.iter().map(|it| it.what.clone()).collect(),
            approved: self.approval.map(|it| it.digest),
        });
    }

    pub(super) fn judged(
        &mut self,
        judged: Vec<CallJudgement>,
        before: &mut AskedBefore,
        step: &mut Step,
    ) -> Progress {
        for judgement in judged {
            let Some(owed) = self.rest.pop_front() else {
                break;
            };
            let approval = self.approval.take();
            match judgement {
                CallJudgement::Refuse {
                    denial,
                    content,
                    refused,
                } => {
                    // What nobody refused was no call of a tool: that is told, too.
                    if denial.is_none() {
                        step.events.push(told(&content));
                    }
                    self.is_heard |= self.given == OutputUse::AtOnce;
                    let never_began = Some(Box::new(refused));
                    let reply = owed.what.refused(denial, content, never_began, self.given);
                    step.events.push(reply);
                    // What stands behind it was not looked at as the next.
                    if approval.is_some() && self.running.is_empty() {
                        return self.go_on(step);
                    }
                }
                CallJudgement::Run(go) => {
                    let alone = approval.is_some() || go.pace == CallPace::Alone;
                    if alone && !self.running.is_empty() {
                        self.rest.push_front(owed);
                        break;
                    }
                    self.begin(owed, go, approval, step);
                    if alone {
                        break;
                    }
                }
                CallJudgement::Execute(run) => {
                    if !self.running.is_empty() {
                        self.rest.push_front(owed);
                        break;
                    }
                    self.execute(owed, *run, approval, step);
                    break;
                }
                CallJudgement::Later => {
                    self.approval = approval;
                    self.rest.push_front(owed);
                    self.held = self.running.is_empty();
                    break;
                }
                CallJudgement::Ask(confirm) => {
                    if !self.running.is_empty() {
                        self.rest.push_front(owed);
                        break;
                    }
                    if let Some(refusal) = before.refusal(confirm.digest) {
                        self.refuse_unasked(&owed, &confirm, &refusal, step);
                        return self.go_on(step);
                    }
                    self.rest.push_front(owed);
                    step.events.push(Event::ConfirmRequested(confirm.clone()));
                    self.asking = Some(confirm);
                    break;
                }
            }
        }
        self.progress()
    }

    /// The reply to what is not asked about once more.
    fn refuse_unasked(
        &mut self,
        owed: &OwedCall,
        confirm: &Confirm,
        refusal: &RepeatRefusal,
        step: &mut Step,
    ) {
        // A person knows of a no, and not of this.
        if refusal.denial.is_none() {
            step.events.push(told(refusal.content));
            self.is_heard |= self.given == OutputUse::AtOnce;
        }
        let refused = Some(refused(Some(confirm), refusal.because));
        let content = refusal.content.to_owned();
        let reply = owed
            .what
            .refused(refusal.denial, content, refused, self.given);
        step.events.push(reply);
    }

    fn begin(
        &mut self,
        mut owed: OwedCall,
        go: AdmittedCall,
        approval: Option<Approval>,
        step: &mut Step,
    ) {
        step.events.push(Event::ToolStarted {
            call: owed.what.id().to_owned(),
            name: go.tool.name.to_string(),
            arguments: spelled(&go.arguments),
            digest: go.digest,
            rule: go.rule.clone(),
            confirm: approval.map(|it| it.confirm),
        });
        owed.may_change = go.pace == CallPace::Alone;
        step.effects.push(Effect::CallTool {
            call: owed.what.id().to_owned(),
            go: Box::new(go),
            keeps: keeps(approval),
        });
        owed.allowed = approval.map(|it| it.digest);
        self.running.push(owed);
    }

    fn execute(
        &mut self,
        mut owed: OwedCall,
        run: AdmittedCommand,
        approval: Option<Approval>,
        step: &mut Step,
    ) {
        let call = owed.what.id().to_owned();
        let confirm = approval.map(|it| it.confirm);
        let given = owed.what.given(self.given);
        step.events.push(run.started(&call, confirm, given));
        owed.may_change = true;
        step.effects.push(Effect::RunCommand {
            call,
            run: Box::new(run),
            keeps: keeps(approval),
        });
        owed.allowed = approval.map(|it| it.digest);
        self.running.push(owed);
    }

    /// Takes the end of the open confirm.
    pub(super) fn on_confirm_end(
        &mut self,
        answer: ConfirmEnd,
        before: &mut AskedBefore,
        step: &mut Step,
    ) -> Progress {
        let ConfirmEnd {
            resolution,
            raised,
            digest,
        } = answer;
        let asked = self.asking.take();
        let fate = resolution.fate;
        let decision = resolution.decision;
        let reason = resolution.reason.clone();
        let edited = resolution.edited.clone();
        let confirm = resolution.confirm;
        step.events
            .push(Event::ConfirmResolved(Box::new(resolution)));
        step.events.extend(raised);
        match fate {
            ConfirmFate::Allowed => {
                if let (Some(edited), Some(owed)) = (edited, self.rest.front_mut()) {
                    owed.what.edit(&edited);
                    owed.edited = Some(edited);
                }
                self.approval = Some(Approval {
                    confirm,
                    digest,
                    keeps: decision == Some(Decision::Keep),
                });
                self.judge(step);
                return Progress::Waits;
            }
            // The tool is not what was asked about any more: the call is looked at anew.
            ConfirmFate::Cancelled => {
                self.judge(step);
                return Progress::Waits;
            }
            ConfirmFate::Denied => {
                if let Some(asked) = &asked {
                    before.denied(asked.digest);
                }
                let refused = refused(asked.as_deref(), "denied by a person");
                let mut content = match asked.as_ref().map(|it| &it.subject) {
                    Some(ConfirmSubject::SignIn(subject)) => format!(
                        "[aish] {} {}; denied by user",
                        subject.call.tool.alias(),
                        subject.why
                    ),
                    Some(_) | None => "[aish] denied by user".to_owned(),
                };
                let goes_on = self.goes_on_at_no || reason.is_some();
                if let Some(reason) = reason {
                    content.push_str(": ");
                    content.push_str(&reason);
                }
                self.refuse_first(Denial::Person, content, refused, goes_on, step);
            }
            ConfirmFate::Expired => {
                let content = "[aish] denied: nobody answered in time".to_owned();
                let refused = refused(asked.as_deref(), "nobody answered in time");
                self.refuse_first(Denial::Expired, content, refused, self.goes_on_at_no, step);
            }
        }
        if decision == Some(Decision::Abort) {
            self.refuse_rest(StopReason::Denied, step);
            return Progress::Aborted;
        }
        self.go_on(step)
    }

    fn refuse_first(
        &mut self,
        denial: Denial,
        content: String,
        refused: Box<RefusedCall>,
        goes_on: bool,
        step: &mut Step,
    ) {
        self.is_heard |= goes_on && self.given == OutputUse::AtOnce;
        if let Some(owed) = self.rest.pop_front() {
            // What is heard of those behind it is heard together with this.
            let given = if self.is_heard || !self.rest.is_empty() {
                self.given
            } else {
                OutputUse::WithNextQuestion
            };
            let reply = owed
                .what
                .refused(Some(denial), content, Some(refused), given);
            step.events.push(reply);
        }
    }

    /// Takes the end of a command. What it printed is a person's to read already, and becomes a model's as `given` says.
    pub(super) fn ended(
        &mut self,
        call: &str,
        ended: CommandResult,
        before: &mut AskedBefore,
        step: &mut Step,
    ) -> Progress {
        let Some(at) = self.running.iter().position(|it| it.what.id() == call) else {
            return Progress::Waits;
        };
        let owed = self.running.remove(at);
        owed.came_to(&format!("{:?} {}", ended.ending, ended.output), before);
        let given = owed.what.given(self.given);
        let (OwedReplies::Command(proposed) | OwedReplies::CalledCommand(proposed)) = owed.what
        else {
            return self.progress();
        };
        self.is_heard |= given == OutputUse::AtOnce;
        finish(&proposed, ended, given, step);
        self.go_on(step)
    }

    pub(super) fn returned(
        &mut self,
        call: &str,
        returned: CallReturn,
        before: &mut AskedBefore,
        step: &mut Step,
    ) -> Progress {
        let Some(at) = self.running.iter().position(|it| it.what.id() == call) else {
            return Progress::Waits;
        };
        let owed = self.running.remove(at);
        owed.came_to(&returned.content, before);
        let OwedReplies::Call(called) = owed.what else {
            return self.progress();
        };
        answered(called, owed.edited.as_deref(), returned, step);
        if !self.running.is_empty() {
            return Progress::Waits;
        }
        self.go_on(step)
    }

    /// A call that began did not run: it is the next again, and waits for the answer. Beside others it is sent once more when
    /// those have ended.
    pub(super) fn waits_for_sign_in(&mut self, call: &str, confirm: Box<Confirm>, step: &mut Step) {
        let Some(at) = self.running.iter().position(|it| it.what.id() == call) else {
            return;
        };
        let owed = self.running.remove(at);
        self.rest.push_front(owed);
        if self.running.is_empty() {
            step.events.push(Event::ConfirmRequested(confirm.clone()));
            self.asking = Some(confirm);
        }
    }

    /// Has the rest judged again: what a person or a server changed meanwhile counts.
    fn go_on(&self, step: &mut Step) -> Progress {
        if !self.rest.is_empty() {
            self.judge(step);
        }
        self.progress()
    }

    fn progress(&self) -> Progress {
        if self.rest.is_empty() && self.running.is_empty() {
            Progress::Done
        } else {
            Progress::Waits
        }
    }

    /// The turn ends: what runs has an effect that nobody knows, and the rest never began.
    pub(super) fn stop(mut self, stop: StopReason, step: &mut Step) {
        if let Some(asked) = self.asking.take() {
            step.events
                .push(Event::ConfirmResolved(Box::new(Resolution {
                    confirm: asked.id,
                    fate: ConfirmFate::Cancelled,
                    decision: None,
                    by: None,
                    reason: None,
                    edited: None,
                    only: vec![],
                    hunks: None,
                    waited_ms: None,
                    approved: vec![],
                })));
        }
        let ending = match stop {
            StopReason::Interrupted => CommandEnding::Unknown,
            StopReason::Cancelled
            | StopReason::Denied
            | StopReason::End
            | StopReason::ToolDepth
            | StopReason::MaxTokens
            | StopReason::Refusal
            | StopReason::Upstream
            | StopReason::Budget => CommandEnding::Cancelled,
        };
        for owed in std::mem::take(&mut self.running) {
            let left = owed
                .what
                .unfinished_command(unknown_effect(stop), ending, self.given);
            step.events.push(left);
        }
        self.refuse_rest(stop, step);
    }

    fn refuse_rest(&mut self, stop: StopReason, step: &mut Step) {
        let why = why_refused(stop);
        for owed in self.rest.drain(..) {
            let never_began = Some(refused(None, why));
            let content = format!("[aish] {why}");
            let reply = owed.what.refused(None, content, never_began, self.given);
            step.events.push(reply);
        }
    }
}
