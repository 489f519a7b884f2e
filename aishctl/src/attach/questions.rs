//! Questions to the person at this window: one at a time stands on the screen, the oldest first but those before all that a
//! turn waits for, and what is said to it is an answer. They are rows like all others; whoever looks away finds them above.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime};

use aish_proto::confirm::{Answer, AnswerOutcome, AnswerResult, ConfirmSubject, Decision, Try};
use aish_proto::event::{ClientEvent, CommandTried, ConfirmRequested, Event};
use aish_proto::id::ConfirmId;
use tokio::time::Instant;

use super::attention::WaitingQuestion;
use super::differences::WantedDifference;
use super::ui::{EditorErrand, LinePurpose, PressedKey, UserInterface};
use super::{CompletedCall, OpenWindow};
use crate::args::CtlCommand;
use crate::client::connect::RpcCallError;
use crate::client::editor::{self, ArgumentDraft};
use crate::commands::confirm::{self, ConfirmCommand};
use crate::commands::mcp::question_login::QuestionLogin;
use crate::failure::Failure;
use crate::render::question::{self, ConsentWord};
use crate::render::rows::SafeRow;
use crate::render::terminal_prompt::{self, PromptQuestion, PromptReaction};
use crate::render::wrap;
use crate::safe;

/// Under a question that keys answer.
const KEYS: &str = "\n  Alt-y or Alt-n any time";

/// What waits for a person in this conversation.
#[derive(Debug, Default)]
pub(super) struct OpenQuestions {
    /// The oldest first.
    open: VecDeque<PromptQuestion>,
    /// The one that stands on the screen.
    shown: Option<ConfirmId>,
    /// How long those have that have an end.
    patience: BTreeMap<ConfirmId, Duration>,
    /// A form was settled by somebody else while it was filled in here: the line that is being typed is for nobody.
    settled_elsewhere: bool,
    /// The form that was answered here.
    sent: Option<ConfirmId>,
}

impl OpenQuestions {
    pub(super) fn take(&mut self, event: &ClientEvent) {
        match &event.data {
            Event::Snapshot(snapshot) => {
                for it in &snapshot.pending_confirms {
                    self.expires(&it.request, &it.requested_at);
                }
                let waiting = snapshot.pending_confirms.iter();
                self.open = waiting
                    .map(|it| {
                        let mut question = PromptQuestion::new(it.request.clone());
                        if let Some(tried) = &it.tried {
                            question.tried(tried.clone());
                        }
                        question
                    })
                    .collect();
                self.shown = None;
            }
            // One that waited before we came is in the snapshot and in the log.
            Event::ConfirmRequested(request) if self.find(request.confirm).is_none() => {
                self.expires(request, &event.ts);
                let request = ConfirmRequested::clone(request);
                self.open.push_back(PromptQuestion::new(request));
            }
            Event::CommandTried(tried) => {
                let tried = CommandTried::clone(tried);
                let shown = self.shown;
                if let Some(question) = self.find(tried.confirm) {
                    let confirm = tried.confirm;
                    question.tried(tried);
                    if shown == Some(confirm) {
                        self.shown = None;
                    }
                }
            }
            Event::ConfirmResolved(resolved) => {
                let filled_in = |it: &&mut PromptQuestion| it.is_filled_in();
                let own = self.find(resolved.confirm).filter(filled_in).is_some();
                self.settled_elsewhere |= own && self.sent != Some(resolved.confirm);
                self.open
                    .retain(|it| it.request.confirm != resolved.confirm);
                self.patience.remove(&resolved.confirm);
            }
            _ => {}
        }
    }

    /// Remembers how long it has from when it was asked.
    fn expires(&mut self, request: &ConfirmRequested, asked_at: &str) {
        let end = request.expires_at.as_deref().and_then(at);
        if let (Some(end), Some(asked)) = (end, at(asked_at))
            && let Ok(patience) = end.duration_since(asked)
        {
            self.patience.insert(request.confirm, patience);
        }
    }

    pub(super) fn find(&mut self, confirm: ConfirmId) -> Option<&mut PromptQuestion> {
        let mut open = self.open.iter_mut();
        open.find(|it| it.request.confirm == confirm)
    }

    /// It is put on the screen anew.
    pub(super) fn stands_no_more(&mut self) {
        self.shown = None;
    }

    /// By what people call it: `c7`.
    fn find_by_name(&mut self, name: &str) -> Option<&mut PromptQuestion> {
        let mut open = self.open.iter_mut();
        open.find(|it| format!("c{}", it.request.number) == name)
    }

    /// The form that is being filled in.
    fn filled_in(&mut self) -> Option<&mut PromptQuestion> {
        let mut open = self.open.iter_mut();
        let sent = self.sent;
        open.find(|it| it.is_filled_in() && Some(it.request.confirm) != sent)
    }

    /// What the next line is for.
    fn lines(&mut self) -> LinePurpose {
        if self.settled_elsewhere || self.filled_in().is_some() {
            LinePurpose::Field
        } else {
            LinePurpose::Free
        }
    }

    /// Whether the one that stands is not the one that should.
    fn is_due(&self) -> bool {
        self.shown != self.first().map(|it| it.request.confirm)
    }

    /// What a turn waits for, and nobody here has answered.
    pub(super) fn holding(&self) -> Option<&ConfirmRequested> {
        let first = &self.first()?.request;
        (question::holds_up(first) && self.sent != Some(first.confirm)).then_some(first)
    }

    /// The one that should stand. A level and a fact hold up nothing: they come after what a turn waits for.
    pub(super) fn first(&self) -> Option<&PromptQuestion> {
        let mut of_turns = self
            .open
            .iter()
            .filter(|it| question::holds_up(&it.request));
        of_turns.next().or(self.open.front())
    }
}

impl<U: UserInterface> OpenWindow<U> {
    /// Puts the oldest question on the screen, if another one stands there, or none.
    pub(super) async fn ask(&mut self) -> Result<(), Failure> {
        self.display.ui.lines(self.asked.lines());
        if !self.connection.is_settled() || !self.asked.is_due() {
            return Ok(());
        }
        let can_answer = self.has_editor() && !self.window.args.read_only;
        let confirm = self.asked.first().map(|it| it.request.confirm);
        let question = confirm.and_then(|it| self.asked.find(it));
        let (Some(confirm), Some(question)) = (confirm, question) else {
            self.asked.shown = None;
            self.display.ui.show_question(None);
            return Ok(());
        };
        let (text, colour) = if can_answer {
            let keys = if question.waits_for_difference() {
                ""
            } else {
                KEYS
            };
            (question.show() + keys, question.colour())
        } else {
            (elsewhere(&question.request), question.colour())
        };
        self.asked.shown = Some(confirm);
        self.display.ui.show_question(can_answer.then_some(confirm));
        self.say_in(&text, colour).await
    }

    /// The rows of a question, in its colour.
    async fn say_in(&mut self, text: &str, colour: &str) -> Result<(), Failure> {
        if !self.window.look.is_colored() {
            return self.print(text).await;
        }
        let text = wrap::exactly(text, self.display.ui.columns());
        let lines = text
            .lines()
            .map(|it| format!("{colour}{}\u{1b}[0m", it.trim_end()));
        self.display.show(lines.map(SafeRow::Text).collect()).await
    }

    pub(super) async fn print(&mut self, text: &str) -> Result<(), Failure> {
        let text = wrap::exactly(text, self.display.ui.columns());
        let rows = text
            .lines()
            .map(|it| SafeRow::Text(it.trim_end().to_owned()));
        self.display.show(rows.collect()).await
    }

    /// Whether a line was an answer to this question, or to the one that it names: `y`, `n TEXT`, `y c9`. What is no
    /// answer is a line like any other.
    pub(super) async fn on_answer(
        &mut self,
        line: &str,
        question: Option<ConfirmId>,
    ) -> Result<bool, Failure> {
        // A command is one, whatever is filled in.
        if !line.starts_with(':') {
            if std::mem::take(&mut self.asked.settled_elsewhere) {
                self.display.ui.lines(self.asked.lines());
                let text = "the form was answered elsewhere; what you typed for it went nowhere";
                self.display.print_notice(text).await?;
                return Ok(true);
            }
            if let Some(form) = self.asked.filled_in() {
                let (confirm, reaction) = (form.request.confirm, form.line(line));
                self.react(confirm, reaction).await?;
                return Ok(true);
            }
        }
        let line = line.trim();
        let Some(question) = question else {
            return self.answered_early(line).await;
        };
        let (words, named) = match line.rsplit_once(' ') {
            Some((words, name)) if self.asked.find_by_name(name).is_some() => (words, Some(name)),
            Some(_) | None => (line, None),
        };
        let meant = match named {
            Some(name) => self.asked.find_by_name(name),
            None => self.asked.find(question),
        };
        let Some(meant) = meant else {
            if question::resembles_an_answer(words) {
                let text = "what that would have answered is settled already; nothing happened";
                self.display.print_notice(text).await?;
                return Ok(true);
            }
            return Ok(false);
        };
        if let Some(reaction) = meant.choose(words) {
            let confirm = meant.request.confirm;
            self.react(confirm, reaction).await?;
            return Ok(true);
        }
        let word = match meant.word(words) {
            // Nobody asks a model that while its turn waits for an answer, and it would be paid for.
            word @ ConsentWord::Unclear(_)
                if question::holds_up(&meant.request) && question::resembles_an_answer(words) =>
            {
                word
            }
            ConsentWord::Unclear(_) => return Ok(false),
            word @ (ConsentWord::Decide(..)
            | ConsentWord::View
            | ConsentWord::Diff
            | ConsentWord::Choose
            | ConsentWord::Try
            | ConsentWord::Help
            | ConsentWord::Edit) => word,
        };
        let (confirm, reaction) = (meant.request.confirm, meant.take(word));
        self.react(confirm, reaction).await?;
        Ok(true)
    }

    /// Whether a line that was begun before a question had stood for a while would answer it. Then it is neither an answer,
    /// for nobody can have read the question, nor anything to ask a model.
    async fn answered_early(&mut self, line: &str) -> Result<bool, Failure> {
        if !self.has_editor() || self.window.args.read_only || line.is_empty() {
            return Ok(false);
        }
        let Some(question) = self.asked.first() else {
            return Ok(false);
        };
        let is_word = match question.word(line) {
            ConsentWord::Unclear(_) => question::resembles_an_answer(line),
            // The reason may be a sentence for the model as well; while something waits for the answer it is none.
            ConsentWord::Decide(_, reason) => {
                reason.is_none() || question::holds_up(&question.request)
            }
            ConsentWord::View
            | ConsentWord::Diff
            | ConsentWord::Choose
            | ConsentWord::Try
            | ConsentWord::Help
            | ConsentWord::Edit => true,
        };
        if line.starts_with(':') || !is_word {
            return Ok(false);
        }
        let text = format!(
            "\"{}\" was begun before c{} stood there to be read; it answered nothing and nobody was asked",
            safe::visible(line),
            question.request.number
        );
        self.display.print_notice(&text).await?;
        Ok(true)
    }

    pub(super) async fn answered_by_key(
        &mut self,
        question: ConfirmId,
        pressed: PressedKey,
    ) -> Result<(), Failure> {
        if self.hunk_by_key(question, pressed).await? {
            return Ok(());
        }
        let Some(question) = self.asked.find(question) else {
            return Ok(());
        };
        let word = match pressed {
            PressedKey::No => ConsentWord::Decide(Decision::Deny, None),
            // One key is not enough for what cannot be undone.
            PressedKey::Yes => question.word("y"),
            PressedKey::Enter => match question.word("") {
                ConsentWord::Unclear(_) => return Ok(()),
                word @ (ConsentWord::Decide(..)
                | ConsentWord::View
                | ConsentWord::Diff
                | ConsentWord::Choose
                | ConsentWord::Try
                | ConsentWord::Help
                | ConsentWord::Edit) => word,
            },
        };
        let (confirm, reaction) = (question.request.confirm, question.take(word));
        self.react(confirm, reaction).await
    }

    /// Whether this command allows what a person has seen here; then it needs no digest.
    pub(super) async fn allowed(&mut self, command: &CtlCommand) -> Result<bool, Failure> {
        let CtlCommand::Confirm {
            command:
                Some(ConfirmCommand::Allow {
                    id,
                    always,
                    provider,
                    raise,
                    digest: None,
                    given,
                }),
        } = command
        else {
            return Ok(false);
        };
        if !self.has_editor() || self.window.args.read_only {
            return Ok(false);
        }
        let decision = confirm::allowing(*always, *provider, *raise);
        let Some(question) = self.asked.find_by_name(id) else {
            return Ok(false);
        };
        let reaction = if given.is_empty() {
            let decision = question::decision_for(decision, &question.request);
            question.take(ConsentWord::Decide(decision, None))
        } else {
            match question.answer_given(given) {
                Ok(answer) => PromptReaction::Answer(Box::new(answer)),
                Err(failure) => {
                    self.display.refuse(&failure).await?;
                    return Ok(true);
                }
            }
        };
        let confirm = self.asked.find_by_name(id).map(|it| it.request.confirm);
        let Some(confirm) = confirm else {
            return Ok(false);
        };
        self.react(confirm, reaction).await?;
        Ok(true)
    }

    pub(super) async fn react(
        &mut self,
        confirm: ConfirmId,
        reaction: PromptReaction,
    ) -> Result<(), Failure> {
        let params = match reaction {
            PromptReaction::Say(text) => {
                self.display.ui.lines(self.asked.lines());
                return self.print(&text).await;
            }
            PromptReaction::Edit(subject) => return self.edit(confirm, &subject).await,
            PromptReaction::Try(params) => {
                let caller = self.connection.caller();
                self.calls.spawn(async move {
                    let tried = caller.call_within::<Try>(params, None).await;
                    CompletedCall::Tried(confirm, tried.map(drop))
                });
                let text = "it runs in layers over the files; what it would change is shown when it has ended";
                return self.display.print_notice(text).await;
            }
            PromptReaction::SignIn(_, server) => {
                let caller = self.connection.caller();
                let around = self.window.reach.around.clone();
                self.calls.spawn(async move {
                    let begun = QuestionLogin::begin(&caller, &around, &server).await;
                    CompletedCall::LoginBegun(confirm, Box::new(begun))
                });
                return Ok(());
            }
            PromptReaction::Diff(params) => {
                self.want_difference(WantedDifference::ToSee(params));
                return Ok(());
            }
            PromptReaction::Choose(params) => {
                self.want_difference(WantedDifference::ToChoose(confirm, params));
                return Ok(());
            }
            PromptReaction::Hunk(difference, question) => {
                return self.show_hunk(confirm, &difference, &question).await;
            }
            PromptReaction::Answer(params) => *params,
        };
        self.asked.sent = Some(confirm);
        self.display.ui.lines(self.asked.lines());
        let number = self.asked.find(confirm).map(|it| it.request.number);
        let (number, decision) = (number.unwrap_or_default(), params.decision);
        let caller = self.connection.caller();
        self.calls.spawn(async move {
            let result = caller.call::<Answer>(params).await;
            CompletedCall::Answered(number, decision, result)
        });
        Ok(())
    }

    /// Lends the terminal to an editor; [`OpenWindow::edited`] hears of it.
    async fn edit(&mut self, confirm: ConfirmId, subject: &ConfirmSubject) -> Result<(), Failure> {
        let configured = &self.connection.link.hello.ui.editor;
        let words = editor::program(&self.window.reach.around, configured);
        match words.and_then(|words| ArgumentDraft::new(subject, words)) {
            Ok(draft) => {
                let errand = EditorErrand::Arguments(confirm, draft);
                self.display.ui.errand(errand);
                Ok(())
            }
            Err(failure) => self.display.refuse(&failure).await,
        }
    }

    /// Arguments come back from the editor: the daemon says what they are, and [`OpenWindow::judged`] asks about that.
    pub(super) async fn edited(
        &mut self,
        confirm: ConfirmId,
        edited: Result<String, Failure>,
    ) -> Result<(), Failure> {
        let arguments = match edited {
            Ok(arguments) => arguments,
            Err(failure) => return self.judged(confirm, Err(failure)).await,
        };
        if let Some(question) = self.asked.find(confirm) {
            question.wait_for_judgement();
        }
        let caller = self.connection.caller();
        self.calls.spawn(async move {
            let judged = terminal_prompt::judge(&caller, confirm, arguments).await;
            CompletedCall::Judged(confirm, Box::new(judged))
        });
        Ok(())
    }

    /// The page is open: what the browser brings is waited for beside all else.
    pub(super) async fn login_begun(
        &mut self,
        confirm: ConfirmId,
        begun: Result<QuestionLogin, Failure>,
    ) -> Result<(), Failure> {
        let login = match begun {
            Ok(login) => login,
            Err(failure) => return self.display.refuse(&failure).await,
        };
        self.print(login.text()).await?;
        let caller = self.connection.caller();
        self.calls
            .spawn(async move { CompletedCall::LoginEnded(login.finish(&caller, confirm).await) });
        Ok(())
    }

    /// A trial is over; what it came to comes as an event.
    pub(super) async fn tried(
        &mut self,
        confirm: ConfirmId,
        result: Result<(), RpcCallError>,
    ) -> Result<(), Failure> {
        let Err(error) = result else { return Ok(()) };
        if let Some(question) = self.asked.find(confirm) {
            question.not_tried();
        }
        self.display.refuse(&error.into()).await?;
        self.asked.shown = None;
        self.ask().await
    }

    /// They are asked about as they are now.
    pub(super) async fn judged(
        &mut self,
        confirm: ConfirmId,
        judged: Result<ConfirmRequested, Failure>,
    ) -> Result<(), Failure> {
        let Some(question) = self.asked.find(confirm) else {
            return self
                .display
                .print_notice("it was settled meanwhile; nothing is changed")
                .await;
        };
        let text = match judged {
            Ok(request) => question.edited(Ok(request)),
            Err(failure) => {
                let text = question.unchanged();
                self.display.refuse(&failure).await?;
                text
            }
        };
        self.stand(confirm, &(text + KEYS)).await
    }

    /// This stands on the screen of a question from now on.
    pub(super) async fn stand(&mut self, confirm: ConfirmId, text: &str) -> Result<(), Failure> {
        let colour = self.asked.find(confirm).map_or("", |it| it.colour());
        self.asked.shown = Some(confirm);
        self.display.ui.show_question(Some(confirm));
        self.say_in(text, colour).await
    }

    /// Tells whoever does not look of what waits, as the configuration says.
    pub(super) fn call_attention(&mut self) {
        if !self.has_editor() {
            return;
        }
        let (notify, now) = (self.connection.link.hello.ui.notify, Instant::now());
        let open = self.asked.open.iter().map(|it| WaitingQuestion {
            confirm: it.request.confirm,
            patience: self.asked.patience.get(&it.request.confirm).copied(),
        });
        let open: Vec<WaitingQuestion> = open.collect();
        self.display.ui.waiting(&self.title, open.len());
        self.attention.waits(&open, now, notify);
        let looked = self.display.ui.last_seen();
        for confirm in self.attention.take(now, looked, notify) {
            let Some(question) = self.asked.find(confirm) else {
                continue;
            };
            let request = &question.request;
            let text = format!("c{} {} in {}", request.number, request.title, self.title);
            self.display.ui.ring(&text, notify.method);
        }
    }

    /// When there may be something to tell of.
    pub(super) fn attention_due(&self) -> Option<Instant> {
        let notify = self.connection.link.hello.ui.notify;
        self.attention.due(self.display.ui.last_seen(), notify)
    }

    /// What came of an answer. That it counts is told to everybody.
    pub(super) async fn on_answer_result(
        &mut self,
        number: u32,
        decision: Decision,
        result: Result<AnswerResult, RpcCallError>,
    ) -> Result<(), Failure> {
        match result {
            Ok(result) if result.outcome == AnswerOutcome::Resolved => Ok(()),
            Ok(result) => {
                let (text, _) = confirm::answer_text(number, decision, &result);
                self.display.print_notice(&text).await
            }
            Err(error) => {
                // What was filled in is there still.
                self.asked.sent = None;
                self.display.ui.lines(self.asked.lines());
                self.display.refuse(&error.into()).await
            }
        }
    }
}

/// The daemon's times have one form.
fn at(time: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(time).ok()
}

/// The question where no key answers it.
fn elsewhere(request: &ConfirmRequested) -> String {
    let number = request.number;
    let digest: String = request.digest.chars().take(8).collect();
    let flags = question::allow_flags(request);
    format!(
        "{}  :confirm allow c{number}{flags} --digest {digest}   or   :confirm deny c{number} [REASON]",
        question::question(request, question::ArgumentExtent::Whole)
    )
}
