//! `confirm watch`: every question of every conversation as it comes, and how it ends. On a terminal they are asked one
//! after the other, the oldest first; elsewhere they are lines for whoever reads them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write as _;

use aish_proto::confirm::{Answer, AnswerOutcome, AnswerParams, Watch};
use aish_proto::conversation::{ConversationParams, StatusOf};
use aish_proto::event::{CommandTried, ConfirmRequested, ConfirmResolved, Event};
use aish_proto::id::{ConfirmId, ConversationId};
use aish_proto::method::Empty;

use crate::client::connect::WireEvent;
use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonWait};
use crate::client::{conversation_choice, editor};
use crate::commands::confirm;
use crate::commands::mcp::question_login::QuestionLogin;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::render::bell::{self, BellSupport};
use crate::render::markdown::Colours;
use crate::render::notice::Notices;
use crate::render::question::{self, ArgumentExtent};
use crate::render::terminal_prompt::{PromptReaction, Prompter};
use crate::safe;

/// What is done with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFormat {
    /// A person is asked.
    Asks,
    /// Lines for people.
    Text,
    /// Events, one a line.
    Events,
}

/// Watches until the program is ended, or the daemon does not come back.
pub async fn run(
    reach: &DaemonReach,
    global: &GlobalArgs,
    notices: &mut Notices,
    form: WatchFormat,
) -> Result<Exit, Failure> {
    let mut link = reach.open(DaemonWait::No).await?;
    let only = match global.conversation.as_deref() {
        Some(name) => Some(conversation_choice::by_name(&link.caller, name).await?.id),
        None => None,
    };
    let mut watching = ConfirmWatch {
        reach,
        notices,
        form,
        only,
        open: VecDeque::new(),
        numbers: BTreeMap::new(),
        tried: BTreeMap::new(),
        announced: BTreeSet::new(),
        prompter: Prompter::default(),
        asked: None,
    };
    loop {
        link.caller.call::<Watch>(Empty {}).await?;
        watching.follow(&mut link).await?;
        link = reach.open(DaemonWait::UntilBack).await?;
    }
}

struct ConfirmWatch<'a> {
    reach: &'a DaemonReach,
    notices: &'a mut Notices,
    form: WatchFormat,
    only: Option<ConversationId>,
    /// The oldest first.
    open: VecDeque<(ConversationId, ConfirmRequested)>,
    /// What those are called that were told of.
    numbers: BTreeMap<ConfirmId, u32>,
    /// The newest trials of those that wait.
    tried: BTreeMap<ConfirmId, CommandTried>,
    /// Those that the daemon told of since it was reached.
    announced: BTreeSet<ConfirmId>,
    prompter: Prompter,
    /// The one that stands on the screen.
    asked: Option<ConfirmId>,
}

impl ConfirmWatch<'_> {
    /// Returns when the connection is gone.
    async fn follow(&mut self, link: &mut DaemonLink) -> Result<(), Failure> {
        loop {
            tokio::select! {
                event = link.events.recv() => {
                    let Some(event) = event else { return Ok(()) };
                    self.event(&event, link)?;
                }
                line = self.prompter.typed() => self.typed(&line, link).await?,
            }
            self.ask(link).await;
        }
    }

    fn event(&mut self, event: &WireEvent, link: &DaemonLink) -> Result<(), Failure> {
        let envelope = &event.event;
        if let Event::ReplayComplete(_) = &envelope.data {
            self.forget_settled();
        }
        let Some(conversation) = envelope.conversation else {
            return Ok(());
        };
        if self.only.is_some_and(|it| it != conversation) {
            return Ok(());
        }
        if let Event::ConfirmRequested(request) = &envelope.data {
            self.announced.insert(request.confirm);
            // After a reconnect all that wait come again.
            if self
                .numbers
                .insert(request.confirm, request.number)
                .is_some()
            {
                return Ok(());
            }
            self.print(event, || question_line(request))?;
            if self.form == WatchFormat::Asks {
                let rings = BellSupport::of(&self.reach.around, false);
                let text = format!("c{} {}", request.number, request.title);
                let method = link.hello.ui.notify.method;
                self.notices.ring(&bell::notice(&text, method, rings));
                let request = ConfirmRequested::clone(request);
                self.open.push_back((conversation, request));
            }
        } else if let Event::CommandTried(tried) = &envelope.data {
            self.tried(event, tried)?;
        } else if let Event::ConfirmResolved(resolved) = &envelope.data {
            self.resolved(event, resolved)?;
        }
        Ok(())
    }

    /// What a question is about was tried.
    fn tried(&mut self, event: &WireEvent, tried: &CommandTried) -> Result<(), Failure> {
        let number = self.numbers.get(&tried.confirm).copied();
        if self.form != WatchFormat::Asks {
            let rows = || question::tried::rows(number, tried, Colours::None).join("\n") + "\n";
            return self.print(event, rows);
        }
        self.tried.insert(tried.confirm, CommandTried::clone(tried));
        if let Some(text) = self.prompter.tried(tried) {
            self.put(&text);
        }
        Ok(())
    }

    /// All that wait have come. What waited before the connection was lost, and is not among them, is over.
    fn forget_settled(&mut self) {
        let announced = std::mem::take(&mut self.announced);
        self.numbers.retain(|it, _| announced.contains(it));
        self.open.retain(|(_, it)| announced.contains(&it.confirm));
        self.tried.retain(|it, _| announced.contains(it));
        if let Some(asked) = self.asked
            && !announced.contains(&asked)
            && self.prompter.settle(asked)
        {
            self.asked = None;
            self.notices.coloured("\n", "");
            self.notices
                .print("it was settled while the connection was lost");
        }
    }

    fn resolved(&mut self, event: &WireEvent, resolved: &ConfirmResolved) -> Result<(), Failure> {
        self.open.retain(|(_, it)| it.confirm != resolved.confirm);
        self.tried.remove(&resolved.confirm);
        let Some(number) = self.numbers.remove(&resolved.confirm) else {
            return Ok(());
        };
        if self.prompter.settle(resolved.confirm) {
            self.asked = None;
            self.notices.coloured("\n", "");
        }
        let ending = question::ending(number, resolved);
        if self.form == WatchFormat::Asks {
            self.notices.print(&ending);
            return Ok(());
        }
        self.print(event, || format!("{ending}\n"))
    }

    /// One line of JSON, or what people read.
    fn print(&self, event: &WireEvent, human: impl FnOnce() -> String) -> Result<(), Failure> {
        let text = match self.form {
            WatchFormat::Asks => return Ok(()),
            WatchFormat::Text => safe::screen(&human()),
            WatchFormat::Events => format!("{}\n", safe::json_pipe(event.raw.get())),
        };
        let mut stdout = std::io::stdout().lock();
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush());
        written.map_err(|error| Failure::output(&error))
    }

    /// Puts the oldest question, unless one stands.
    async fn ask(&mut self, link: &DaemonLink) {
        let Some((conversation, request)) = self.open.front() else {
            return;
        };
        if self.asked.is_some() {
            return;
        }
        let id = *conversation;
        let request = request.clone();
        let status = link
            .caller
            .call::<StatusOf>(ConversationParams { id })
            .await;
        let title = status.map_or_else(|_| id.to_string(), |it| it.title);
        self.notices
            .print(&format!("in {}:", safe::one_line(&title)));
        self.asked = Some(request.confirm);
        let tried = self.tried.get(&request.confirm).cloned();
        let text = self.prompter.ask(request);
        self.put(&text);
        if let Some(text) = tried.and_then(|it| self.prompter.tried(&it)) {
            self.put(&text);
        }
    }

    fn put(&mut self, text: &str) {
        let colour = self
            .prompter
            .open_question()
            .map_or("", |(_, colour)| colour);
        self.notices.coloured(text, colour);
    }

    async fn typed(&mut self, line: &str, link: &DaemonLink) -> Result<(), Failure> {
        match self.prompter.take(line) {
            PromptReaction::Say(text) => self.notices.coloured(&text, ""),
            PromptReaction::Edit(subject) => {
                let words = editor::program(&self.reach.around, &link.hello.ui.editor);
                let text = self.prompter.edit(&link.caller, words, subject).await;
                self.put(&text);
            }
            PromptReaction::Try(params) => {
                let text = self.prompter.try_first(&link.caller, params).await;
                self.put(&text);
            }
            PromptReaction::SignIn(confirm, server) => {
                let (caller, around) = (&link.caller, &self.reach.around);
                let signed = QuestionLogin::at_prompt(caller, around, &server, confirm).await;
                if let Err(failure) = signed {
                    let text = self.prompter.failed(&failure);
                    self.put(&text);
                }
            }
            PromptReaction::Diff(params) => {
                let (difference, text) = self.prompter.diff(&link.caller, params).await;
                self.notices.difference(&difference);
                self.put(&text);
            }
            PromptReaction::Choose(params) => {
                let (difference, text) = self.prompter.begin_choice(&link.caller, params).await;
                self.notices.difference(&difference);
                self.put(&text);
            }
            PromptReaction::Hunk(difference, text) => {
                self.notices.difference(&difference);
                self.put(&text);
            }
            PromptReaction::Answer(params) => self.answer(*params, link).await?,
        }
        Ok(())
    }

    async fn answer(&mut self, params: AnswerParams, link: &DaemonLink) -> Result<(), Failure> {
        let (confirm, decision) = (params.confirm, params.decision);
        match link.caller.call::<Answer>(params).await {
            // That it counts comes as an event, as it does for everybody.
            Ok(result) if result.outcome == AnswerOutcome::Resolved => {}
            Ok(result) => {
                let number = self.numbers.get(&confirm).copied().unwrap_or_default();
                let (text, _) = confirm::answer_text(number, decision, &result);
                self.notices.print(&text);
                self.prompter.settle(confirm);
                self.asked = None;
                self.open.retain(|(_, it)| it.confirm != confirm);
            }
            Err(error) if error.is_transient() => {
                let text = self.prompter.ask_again();
                self.put(&text);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// A question for somebody who reads a pipe, and how it is answered.
fn question_line(request: &ConfirmRequested) -> String {
    question::question(request, ArgumentExtent::Whole) + &question::commands(request)
}
