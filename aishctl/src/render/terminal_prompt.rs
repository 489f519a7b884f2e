//! A question to the person at this terminal while something else goes on. Lines are read only while a question
//! stands, and nothing counts that was typed before it stood there.

mod choosing;
mod daemon_calls;

use std::collections::VecDeque;

use aish_proto::changes::ChangesParams;
use aish_proto::confirm::{
    AnswerParams, ConfirmPreviewParams, ConfirmSubject, Decision, Preview, TryParams,
};
use aish_proto::event::{CommandTried, ConfirmRequested};
use aish_proto::id::{ChangesId, ConfirmId};

use crate::client::connect::Caller;
use crate::client::editor::{ArgumentDraft, EditorPlace};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::markdown::Colours;
use crate::render::question::form::filling::{FillStep, FormFilling};
use crate::render::question::form::{self, FormAnswers};
use crate::render::question::hunks::HunkChoice;
use crate::render::question::{self, ArgumentExtent, ConsentWord, file_diff};
use crate::render::typed_lines::TypedLines;

/// The question that stands, if one does, and the thread that reads the answer.
#[derive(Debug, Default)]
pub struct Prompter {
    open: Option<PromptQuestion>,
    /// Those that wait until it is settled.
    behind: VecDeque<ConfirmRequested>,
    reader: Option<TypedLines>,
}

/// A question while it stands on a screen.
#[derive(Debug)]
pub struct PromptQuestion {
    pub request: ConfirmRequested,
    /// All of it stood on the screen.
    seen: bool,
    /// What was chosen and has to be said once more.
    sure: Option<Decision>,
    /// With other arguments, as the daemon judges them: shown and asked about instead of the request.
    edited: Option<Box<ConfirmRequested>>,
    /// Other arguments have been written and are not judged yet: nobody has seen what a yes would be to.
    unjudged: bool,
    /// A form that somebody fills in.
    filling: Option<FormFilling>,
    /// Hunks of its difference that somebody goes through.
    choosing: Option<HunkChoice>,
    /// What it came to when it was tried.
    tried: Option<Box<CommandTried>>,
    /// It is being tried: a yes that is typed now was meant for what that comes to.
    is_being_tried: bool,
}

/// What there is to do about a line.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptReaction {
    Say(String),
    Answer(Box<AnswerParams>),
    /// The arguments of this are to be edited, and the question is then given what became of them.
    Edit(Box<ConfirmSubject>),
    /// It is to be tried, and the question is then given what came of that.
    Try(TryParams),
    /// The difference that the trial would make is to be shown.
    Diff(ChangesParams),
    /// It is to be gone through hunk by hunk.
    Choose(ChangesParams),
    /// A safe part of it is shown, and asked about: an answer is what is typed from now on.
    Hunk(String, String),
    /// A person signs in to this server; then this question is over by itself.
    SignIn(ConfirmId, String),
}

impl Prompter {
    /// Puts a question; the text is to be shown. One about a host waits behind the one that stands: many connections may
    /// wait at once.
    pub fn ask(&mut self, request: ConfirmRequested) -> String {
        let about_host = |it: &ConfirmRequested| matches!(*it.subject, ConfirmSubject::Host(_));
        if let Some(open) = &self.open
            && open.request.confirm != request.confirm
            && (about_host(&open.request) || about_host(&request))
        {
            self.behind.push_back(request);
            return String::new();
        }
        let mut question = PromptQuestion::new(request);
        let text = question.show();
        self.open = Some(question);
        self.reader.get_or_insert_with(TypedLines::start).want();
        text
    }

    /// The question is settled; false when it was another one.
    pub fn settle(&mut self, confirm: ConfirmId) -> bool {
        self.behind.retain(|it| it.confirm != confirm);
        let own = self
            .open
            .as_ref()
            .is_some_and(|it| it.request.confirm == confirm);
        if own {
            self.open = None;
            if let Some(reader) = &self.reader {
                reader.want_none();
            }
        }
        own
    }

    /// Puts the question that waited behind one that is settled; the text is to be shown.
    pub fn ask_next(&mut self) -> Option<String> {
        if self.open.is_some() {
            return None;
        }
        let next = self.behind.pop_front()?;
        Some(self.ask(next))
    }

    /// The next line that is an answer; never, while no question stands.
    pub async fn typed(&mut self) -> String {
        match (&self.open, &mut self.reader) {
            (Some(_), Some(reader)) => match reader.next().await {
                Some(line) => line,
                // The terminal has gone; the question can be answered elsewhere.
                None => std::future::pending().await,
            },
            (_, _) => std::future::pending().await,
        }
    }

    /// What was tried of the question that stands: what is to be shown, if it is not there yet.
    pub fn tried(&mut self, tried: &CommandTried) -> Option<String> {
        let open = self.open.as_mut();
        let open = open.filter(|it| it.request.confirm == tried.confirm && !it.shows(tried))?;
        let rows = question::tried::rows(Some(open.request.number), tried, Colours::None);
        open.tried(CommandTried::clone(tried));
        Some(rows.join("\n") + "\n" + &self.ask_again())
    }

    /// What was to be done about it did not succeed: what is to be shown, and the question once more.
    pub fn failed(&mut self, failure: &Failure) -> String {
        let hint = failure.hint.as_deref();
        let hint = hint.map_or(String::new(), |it| format!(": {it}"));
        format!("  {}{hint}\n", failure.message) + &self.ask_again()
    }

    /// The question that stands, put once more.
    pub fn ask_again(&mut self) -> String {
        let text = self
            .open
            .as_mut()
            .map_or(String::new(), PromptQuestion::show);
        if let Some(reader) = &self.reader {
            reader.want();
        }
        text
    }

    /// The number and the colour of the question that stands.
    pub fn open_question(&self) -> Option<(u32, &'static str)> {
        self.open
            .as_ref()
            .map(|it| (it.request.number, it.colour()))
    }

    pub fn take(&mut self, line: &str) -> PromptReaction {
        let Some(open) = &mut self.open else {
            return PromptReaction::Say(String::new());
        };
        let reaction = open.line(line);
        match (&reaction, &self.reader) {
            // Whoever fills in a form may be faster than its questions.
            (PromptReaction::Say(_), Some(reader)) if open.is_filled_in() => reader.want_more(),
            (PromptReaction::Say(_) | PromptReaction::Hunk(..), Some(reader)) => reader.want(),
            (PromptReaction::Answer(_) | PromptReaction::Edit(_), _)
            | (PromptReaction::Try(_) | PromptReaction::Diff(_), _)
            | (PromptReaction::Choose(_) | PromptReaction::SignIn(..), _)
            | (PromptReaction::Say(_) | PromptReaction::Hunk(..), None) => {}
        }
        reaction
    }
}

/// What is said of the rows of a difference that are not shown.
pub fn left_out(rows: usize, params: ChangesParams) -> String {
    match rows {
        0 => String::new(),
        rows => format!(
            "  … {rows} rows more: aishctl changes diff {} shows all\n",
            params.changes
        ),
    }
}

impl PromptQuestion {
    pub fn new(request: ConfirmRequested) -> Self {
        Self {
            is_being_tried: question::is_file_change(&request),
            request,
            seen: false,
            sure: None,
            edited: None,
            unjudged: false,
            filling: None,
            choosing: None,
            tried: None,
        }
    }

    /// Whether every line is for a field of its form.
    pub fn is_filled_in(&self) -> bool {
        self.filling.is_some()
    }

    /// The answer of somebody who said all of it in one command.
    pub fn answer_given(&self, given: &FormAnswers) -> Result<AnswerParams, Failure> {
        let content = given.content(form::fields(&self.request))?;
        let answer = self.answer(Decision::AllowOnce, None);
        let content = Some(content);
        Ok(AnswerParams { content, ..answer })
    }

    /// What a line at it leads to.
    pub fn line(&mut self, line: &str) -> PromptReaction {
        if let Some(reaction) = self.choose_only(line) {
            return reaction;
        }
        let Some(filling) = &mut self.filling else {
            let word = self.word(line);
            return self.take(word);
        };
        match filling.line(line) {
            FillStep::Say(text) => PromptReaction::Say(text),
            FillStep::Sent(content) => {
                let answer = self.answer(Decision::AllowOnce, None);
                let content = Some(content);
                PromptReaction::Answer(Box::new(AnswerParams { content, ..answer }))
            }
            FillStep::Denied(reason) => {
                PromptReaction::Answer(Box::new(self.answer(Decision::Deny, reason)))
            }
            FillStep::Aborted => {
                PromptReaction::Answer(Box::new(self.answer(Decision::Abort, None)))
            }
            FillStep::Left => {
                self.filling = None;
                PromptReaction::Say(self.show())
            }
        }
    }

    /// What would run: with the arguments that somebody edited, if somebody did.
    fn question(&self) -> &ConfirmRequested {
        self.edited.as_deref().unwrap_or(&self.request)
    }

    /// What a line at this question means.
    pub fn word(&self, line: &str) -> ConsentWord {
        if self.tried.is_some() && self.edited.is_none() {
            question::word_of_tried(line, &self.request)
        } else {
            question::word(line, self.question())
        }
    }

    /// It was tried: from the next time that it stands on the screen, a yes keeps what it changed.
    pub fn tried(&mut self, tried: CommandTried) {
        self.tried = Some(Box::new(tried));
        self.is_being_tried = false;
        self.choosing = None;
    }

    fn shows(&self, tried: &CommandTried) -> bool {
        let shown = self.tried.as_ref();
        shown.is_some_and(|it| it.changes == tried.changes)
    }

    /// What it would change is not known yet, so that there is nothing to say yes to.
    pub fn waits_for_difference(&self) -> bool {
        self.is_being_tried && self.tried.is_none() && question::is_file_change(&self.request)
    }

    /// The trial came to nothing.
    pub fn not_tried(&mut self) {
        self.is_being_tried = false;
    }

    pub fn colour(&self) -> &'static str {
        question::colour(self.question())
    }

    /// Other arguments are with the daemon. Until it says what they are, nothing here is allowed.
    pub fn wait_for_judgement(&mut self) {
        self.unjudged = true;
    }

    /// The arguments were edited, or could not be; the text, which is to be shown now, asks about what would run.
    pub fn edited(&mut self, judged: Result<ConfirmRequested, Failure>) -> String {
        self.unjudged = false;
        match judged {
            Ok(request) => {
                self.edited = Some(Box::new(request));
                (self.seen, self.sure) = (false, None);
                self.show()
            }
            Err(failure) => format!("  {}\n{}", failure.message, self.unchanged()),
        }
    }

    /// The question as it stood before somebody wanted to edit it.
    pub fn unchanged(&mut self) -> String {
        self.unjudged = false;
        self.show()
    }

    fn choices(&self) -> String {
        match &self.edited {
            None => match &self.tried {
                Some(tried) => question::tried::choices(&self.request, tried),
                None if self.waits_for_difference() => {
                    "  what it would change follows\n".to_owned()
                }
                None => question::choices(&self.request),
            },
            Some(_) => question::choices_of_edited(self.question()),
        }
    }

    /// The text, which is to be shown now.
    pub fn show(&mut self) -> String {
        self.choosing = None;
        let meant = self.question();
        let is_whole = !question::is_long(meant);
        if let (None, Some(tried)) = (&self.edited, &self.tried) {
            let (_, in_short) = question::in_short(meant);
            let text = format!("? c{}  {in_short}\n", meant.number) + &self.choices();
            self.seen |= is_whole && question::tried::lines_left_out(tried) == 0;
            return text;
        }
        let is_change = question::is_file_change(meant);
        let extent = match &self.edited {
            Some(_) if is_change => ArgumentExtent::Whole,
            Some(_) | None => ArgumentExtent::Short,
        };
        let text = question::question(meant, extent) + &self.choices();
        // A yes to a change is to its difference.
        self.seen |= is_whole && (!is_change || self.edited.is_some());
        text
    }

    /// Where a person is to sign in.
    fn server(&self) -> Option<String> {
        match &*self.request.subject {
            ConfirmSubject::SignIn(subject) => Some(subject.server.clone()),
            _ => None,
        }
    }

    /// What a word at it leads to.
    pub fn take(&mut self, word: ConsentWord) -> PromptReaction {
        let again = self.choices();
        match word {
            ConsentWord::Decide(Decision::AllowOnce, _) if self.wants_filling() => {
                let filling =
                    FormFilling::new(form::server(&self.request), form::fields(&self.request));
                let text = filling.begin();
                self.filling = Some(filling);
                PromptReaction::Say(text)
            }
            ConsentWord::Decide(Decision::AllowOnce, _) if self.server().is_some() => {
                PromptReaction::SignIn(self.request.confirm, self.server().unwrap_or_default())
            }
            // A key, for a line would be for a field.
            ConsentWord::Decide(Decision::AllowOnce, _) if self.is_filled_in() => {
                let prompt = self.filling.as_ref().map(FormFilling::prompt);
                PromptReaction::Say(prompt.unwrap_or_default())
            }
            ConsentWord::View => {
                self.seen = true;
                PromptReaction::Say(format!(
                    "{}{again}",
                    question::question(self.question(), ArgumentExtent::Whole)
                ))
            }
            ConsentWord::Diff => {
                self.seen = true;
                self.diff(&again)
            }
            ConsentWord::Choose => self.wants_choice(&again),
            ConsentWord::Try => self.try_first(&again),
            ConsentWord::Edit => PromptReaction::Edit(self.question().subject.clone()),
            ConsentWord::Help => PromptReaction::Say(self.help() + &again),
            ConsentWord::Unclear(_) => {
                PromptReaction::Say(format!("  {}\n{again}", question::unclear(self.question())))
            }
            ConsentWord::Decide(decision, _)
                if self.is_being_tried
                    && decision != Decision::Deny
                    && decision != Decision::Abort =>
            {
                PromptReaction::Say(
                    "  it is being tried; what it would change is shown first".to_owned(),
                )
            }
            ConsentWord::Decide(decision, _)
                if self.unjudged && decision != Decision::Deny && decision != Decision::Abort =>
            {
                PromptReaction::Say(
                    "  what you wrote is looked at first, and then asked about".to_owned(),
                )
            }
            ConsentWord::Decide(decision, _)
                if !self.seen && decision != Decision::Deny && decision != Decision::Abort =>
            {
                let how = match &self.tried {
                    Some(tried) if tried.difference.is_some() => "d",
                    Some(_) | None => "v",
                };
                PromptReaction::Say(format!("  look at all of it first: {how}\n{again}"))
            }
            ConsentWord::Decide(decision, _) if self.edited.is_some() && lasts(decision) => {
                PromptReaction::Say(format!(
                    "  other arguments can only be allowed once\n{again}"
                ))
            }
            ConsentWord::Decide(Decision::AllowProvider, _)
                if self.sure != Some(Decision::AllowProvider) =>
            {
                self.sure = Some(Decision::AllowProvider);
                PromptReaction::Say(
                    "  all tools of this provider, without asking? A once more: ".to_owned(),
                )
            }
            ConsentWord::Decide(decision, reason) => {
                PromptReaction::Answer(Box::new(self.answer(decision, reason)))
            }
        }
    }
}

impl PromptQuestion {
    fn help(&self) -> String {
        match &self.tried {
            Some(tried) => question::tried::help(&self.request, tried),
            None => question::help(&self.request),
        }
    }

    /// Of what was tried, as the daemon has it; else of what a call would write.
    fn diff(&self, again: &str) -> PromptReaction {
        match self.changes() {
            Some(changes) => PromptReaction::Diff(ChangesParams { changes }),
            None => PromptReaction::Say(file_diff::diff(self.question()) + again),
        }
    }

    fn try_first(&mut self, again: &str) -> PromptReaction {
        if self.edited.is_some() || self.unjudged {
            return PromptReaction::Say(format!(
                "  what you wrote is another command; only the proposed one can be tried\n{again}"
            ));
        }
        if !self.seen {
            return PromptReaction::Say(format!("  look at all of it first: v\n{again}"));
        }
        self.is_being_tried = true;
        PromptReaction::Try(TryParams {
            confirm: self.request.confirm,
            digest: self.request.digest.clone(),
        })
    }

    fn wants_filling(&self) -> bool {
        self.filling.is_none() && !form::fields(&self.request).is_empty()
    }

    fn answer(&self, decision: Decision, reason: Option<String>) -> AnswerParams {
        let edited = self.edited.as_ref();
        let edited = edited.map(|it| it.subject.arguments().to_owned());
        let (decision, arguments) = match (decision, edited) {
            (Decision::AllowOnce, Some(edited)) => (Decision::Edit, Some(edited)),
            (decision, _) => (decision, None),
        };
        let keeps = decision == Decision::Keep;
        let (reason, only) = match reason {
            Some(names) if keeps => (None, self.named(&names)),
            reason => (reason, vec![]),
        };
        AnswerParams {
            confirm: self.request.confirm,
            decision,
            digest: self.request.digest.clone(),
            arguments,
            reason,
            changes: self.changes().filter(|_| keeps),
            only,
            hunks: None,
            content: None,
        }
    }

    /// What would be kept.
    fn changes(&self) -> Option<ChangesId> {
        let tried = self.tried.as_ref().map(|it| it.changes);
        tried.or_else(|| question::changes_of(&self.request).map(|it| it.changes))
    }

    fn named(&self, names: &str) -> Vec<String> {
        let tried = self.tried.as_ref().map(|it| &it.changed);
        let of_run = question::changes_of(&self.request).map(|it| &it.changed);
        let changed = tried.or(of_run).cloned().unwrap_or_default();
        let names = names.split_whitespace();
        names
            .map(|it| question::tried::named(&changed, it))
            .collect()
    }
}

/// Whether a decision says something about later calls.
fn lasts(decision: Decision) -> bool {
    match decision {
        Decision::AllowConversation | Decision::AllowProvider | Decision::RaiseOnly => true,
        Decision::AllowOnce
        | Decision::Deny
        | Decision::Edit
        | Decision::Abort
        | Decision::Keep => false,
    }
}

/// Has arguments edited on this terminal, which nobody else reads or writes meanwhile.
pub async fn edit(
    words: Result<Vec<String>, Failure>,
    subject: Box<ConfirmSubject>,
) -> Result<String, Failure> {
    let words = words?;
    let edited = tokio::task::spawn_blocking(move || {
        ArgumentDraft::new(&subject, words)?.edit(&EditorPlace::terminal())
    });
    edited
        .await
        .unwrap_or_else(|panic| Err(Failure::new(Exit::FAILED, format!("cannot edit: {panic}"))))
}

/// The question as it reads with these arguments.
pub async fn judge(
    caller: &Caller,
    confirm: ConfirmId,
    arguments: String,
) -> Result<ConfirmRequested, Failure> {
    let params = ConfirmPreviewParams { confirm, arguments };
    Ok(caller.call::<Preview>(params).await?.request)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::question::tests::request;

    fn opened(arguments: &str, level: u8) -> Prompter {
        let mut request = request("fs__read", arguments, level);
        request.destructive = (level == 3).then(|| "it deletes".to_owned());
        let mut question = PromptQuestion::new(request);
        question.show();
        Prompter {
            open: Some(question),
            behind: VecDeque::new(),
            reader: None,
        }
    }

    #[track_caller]
    fn check(prompter: &mut Prompter, line: &str, expected: Option<Decision>) {
        let decided = match prompter.take(line) {
            PromptReaction::Answer(params) => Some(params.decision),
            _ => None,
        };
        assert_eq!(expected, decided, "{line}");
    }

    /// What the daemon makes of other arguments.
    fn edited(prompter: &mut Prompter, arguments: &str) -> String {
        let open = prompter.open.as_mut().unwrap();
        let mut judged = request("fs__read", arguments, 3);
        judged.destructive = open.request.destructive.clone();
        judged.options = vec![Decision::Edit, Decision::Deny, Decision::Abort];
        open.edited(Ok(judged))
    }

    /// A yes to what was tried keeps it, and names the trial that was seen; what is destructive wants the whole word.
    #[test]
    fn a_yes_to_what_was_tried_keeps_that_very_trial() {
        let tried: CommandTried = serde_json::from_value(json!({
            "confirm": "01BX5ZZKBKACTAV9WEVGEMMVRZ", "changes": "01BX5ZZKBKACTAV9WEVGEMMVS0", "command": "make",
            "ending": "exited", "exitCode": 0, "output": "", "bytes": 0, "ms": 1,
            "changed": {"listed": [], "count": 0},
        }))
        .unwrap();
        for destructive in [None, Some("deletes files".to_owned())] {
            let whole_word = destructive.is_some();
            let mut question = PromptQuestion::new(ConfirmRequested {
                destructive,
                ..request("fs__read", "{}", 1)
            });
            question.show();
            question.tried(tried.clone());
            assert!(question.show().contains("keep"));
            let mut answer = |line: &str| match question.line(line) {
                PromptReaction::Answer(params) => Some((params.decision, params.changes)),
                PromptReaction::Diff(params) => {
                    assert_eq!(tried.changes, params.changes);
                    None
                }
                _ => None,
            };
            let kept = Some((Decision::Keep, Some(tried.changes)));
            assert_eq!(kept, answer("yes"));
            assert_eq!(kept.filter(|_| !whole_word), answer("y"));
            let run = Some((Decision::AllowOnce, None));
            assert_eq!(run, answer("run"));
            assert_eq!(run.filter(|_| !whole_word), answer("r"));
            assert_eq!(Some((Decision::Deny, None)), answer("n"));
            assert_eq!(None, answer("a"));
            assert_eq!(None, answer("d"));
        }
    }

    /// Nothing is allowed that nobody has seen, and what is refused leaves the question as it was.
    #[test]
    fn what_was_written_and_is_not_judged_yet_cannot_be_allowed() {
        let mut prompter = opened("{\"a\":1}", 1);
        prompter.open.as_mut().unwrap().wait_for_judgement();
        check(&mut prompter, "y", None);
        check(&mut prompter, "a", None);
        let refused = Failure::new(Exit::USAGE, "it would not run: denied by policy");
        let shown = prompter.open.as_mut().unwrap().edited(Err(refused));
        assert!(
            shown.contains("it would not run: denied by policy") && shown.contains("{\"a\":1}"),
            "{shown}"
        );
        let PromptReaction::Answer(params) = prompter.take("y") else {
            panic!("y is an answer");
        };
        assert_eq!(
            (Decision::AllowOnce, None),
            (params.decision, params.arguments)
        );
    }

    /// Arguments that were changed are shown again, and what was shown is what is sent.
    #[test]
    fn edited_arguments_are_shown_and_asked_about_again() {
        let mut prompter = opened("{\"a\":1}", 3);
        let edits = |prompter: &mut Prompter, typed: &str| match prompter.take(typed) {
            PromptReaction::Edit(subject) => subject.arguments().to_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!("{\"a\":1}", edits(&mut prompter, "e"));
        let shown = edited(&mut prompter, "{\"a\":\"rm\"}");
        assert!(
            shown.contains("{\"a\":\"rm\"}") && shown.contains("not be undone"),
            "{shown}"
        );
        for lasting in ["a", "A", "r"] {
            check(&mut prompter, lasting, None);
        }
        check(&mut prompter, "y", None);
        assert_eq!("{\"a\":\"rm\"}", edits(&mut prompter, "edit"));
        let PromptReaction::Answer(params) = prompter.take("yes") else {
            panic!("yes is an answer");
        };
        assert_eq!(Decision::Edit, params.decision);
        assert_eq!(Some("{\"a\":\"rm\"}"), params.arguments.as_deref());
        edited(
            &mut prompter,
            &format!("{{\"a\":\"{}\"}}", "x".repeat(5000)),
        );
        check(&mut prompter, "y", None);
        check(&mut prompter, "n", Some(Decision::Deny));
    }

    /// A long text cannot be allowed before its end was shown.
    #[test]
    fn what_was_not_seen_cannot_be_allowed() {
        let mut long = opened(&format!("{{\"a\":\"{}\"}}", "x".repeat(5000)), 1);
        check(&mut long, "y", None);
        check(&mut long, "v", None);
        check(&mut long, "y", Some(Decision::AllowOnce));
        let mut unseen = opened(&format!("{{\"a\":\"{}\"}}", "x".repeat(5000)), 1);
        check(&mut unseen, "n", Some(Decision::Deny));
    }

    #[test]
    fn who_says_too_little_is_told_what_counts() {
        for (level, hint) in [(3, "only the whole word yes"), (1, "that is no answer")] {
            let mut prompter = opened("{\"a\":\"rm\"}", level);
            let PromptReaction::Say(said) = prompter.take("Y") else {
                panic!("it is no answer");
            };
            assert!(said.contains(hint), "{said}");
        }
    }

    #[test]
    fn a_whole_provider_is_allowed_by_saying_so_twice() {
        let mut prompter = opened("{}", 1);
        check(&mut prompter, "A", None);
        check(&mut prompter, "A", Some(Decision::AllowProvider));
    }

    #[test]
    fn a_question_that_is_settled_elsewhere_takes_no_answer() {
        let mut prompter = opened("{}", 1);
        assert!(!prompter.settle(ConfirmId::from_bytes([9; 16])));
        assert!(prompter.settle(ConfirmId::from_bytes([1; 16])));
        check(&mut prompter, "y", None);
    }
}
