//! `attach` and `aish`: a window on a conversation. Lines come in and rows go out through a `ui`; with a terminal
//! on both sides it has a line editor, else lines are read and rows are written as they are.

mod attention;
mod commands;
mod connection;
mod delivery;
mod display;
pub mod look;
mod outbox;
mod plain;
mod questions;
pub mod terminal;
mod turns;
mod ui;
mod user_commands;

use std::collections::VecDeque;

use aish_proto::attach::{AttachResult, Cursor};
use aish_proto::changes::{ChangesDiffResult, ChangesParams};
use aish_proto::confirm::{AnswerResult, Decision};
use aish_proto::event::{ClientEvent, ConfirmRequested, Event};
use aish_proto::id::{ConfirmId, ConversationId, Seq, SubscriptionId};
use aish_proto::shell::RunResult;
use aish_proto::turn::{Cancel, SendResult, TurnParams};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::attention::Attention;
use self::connection::{ReplayProgress, WindowConnection};
use self::display::Display;
use self::look::{EditorSettings, PreferredLook, WindowLook};
use self::outbox::AskOutbox;
use self::plain::PlainWindow;
use self::questions::OpenQuestions;
use self::terminal::Terminal;
use self::turns::TurnTracker;
use self::ui::{CompletionNames, HalfTyped, PromptHead, PromptState, UserInput, UserInterface};
use self::user_commands::OwnCommands;
use crate::attach_args::AttachArgs;
use crate::client::connect::{RpcCallError, WireEvent};
use crate::client::conversation_choice;
use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonWait};
use crate::client::last_used::LastUsed;
use crate::command_output::PrintResult;
use crate::commands::directory_listing;
use crate::commands::file_mention::PersonLocation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::render::rows::{ConversationRows, RowReader, SafeRow};
use crate::render::screen;
use crate::signals::{ClientSignals, TerminalSignal};

/// What a window is opened with.
#[derive(Debug)]
pub struct WindowOptions {
    pub reach: DaemonReach,
    pub global: GlobalArgs,
    pub args: AttachArgs,
    pub look: WindowLook,
    pub signals: ClientSignals,
}

/// Everything that may happen.
enum WindowWake {
    Event(Option<WireEvent>),
    Input(Result<UserInput, Failure>),
    Signal(TerminalSignal),
    Done(CompletedCall),
    /// Somebody may have to be told of a question.
    Attention,
}

/// A call that has come back.
enum CompletedCall {
    Opened(Box<Result<DaemonLink, Failure>>),
    Attached(Result<AttachResult, RpcCallError>),
    /// Nobody listens to the old subscription any more; a new one begins where it ended.
    Detached,
    Sent(ConversationId, Result<SendResult, RpcCallError>),
    Again(ConversationId, Result<SendResult, Failure>),
    Printed(PrintResult),
    Switched(Result<ConversationId, Failure>),
    Named(CompletionNames, Option<String>),
    /// What other arguments would be, for the question that they belong to.
    Judged(ConfirmId, Box<Result<ConfirmRequested, Failure>>),
    /// What came of an answer to the confirm of this number.
    Answered(u32, Decision, Result<AnswerResult, RpcCallError>),
    /// The command of this confirm was tried, or not.
    Tried(ConfirmId, Result<(), RpcCallError>),
    /// The difference that a trial would make.
    Diff(ChangesParams, Result<ChangesDiffResult, RpcCallError>),
    /// A command of this window's person was begun, or not.
    Ran(String, Result<RunResult, RpcCallError>),
    Quiet(Result<(), RpcCallError>),
}

struct OpenWindow<U> {
    window: WindowOptions,
    display: Display<U>,
    connection: WindowConnection,
    conversation: ConversationId,
    rows: ConversationRows,
    title: String,
    /// The preset that the conversation uses, if one was chosen.
    model: Option<String>,
    /// The one that it uses else.
    default_model: Option<String>,
    /// The names have been asked for, so that the first prompt names the model.
    named: bool,
    /// The one that the running turn uses.
    running_model: Option<String>,
    turns: TurnTracker,
    asked: OpenQuestions,
    attention: Attention,
    own: OwnCommands,
    outbox: AskOutbox,
    /// Another conversation is looked for: nothing is sent before it is known which one lines are for.
    switching: bool,
    /// Lines typed meanwhile.
    held: VecDeque<String>,
    calls: JoinSet<CompletedCall>,
    interrupted_at: Option<Instant>,
    input_ended: bool,
    /// `:quit`: what was said is still sent, but no answer is waited for.
    leaving: bool,
    exit: Exit,
}

/// Opens the window and keeps it until it is left.
pub async fn run<R: AsyncBufRead + Unpin, O: AsyncWrite + Unpin>(
    mut window: WindowOptions,
    stdin: R,
    out: O,
) -> Result<Exit, Failure> {
    let (link, conversation) = begin(&mut window).await?;
    let preferred = PreferredLook::from(&link.hello.ui);
    window.look = window
        .look
        .preferring(preferred, &window.global, &window.reach.around);
    if window.look.editor == EditorSettings::Line {
        let state = window.reach.around.state_directory();
        match Terminal::open(
            state.as_deref(),
            window.look,
            PersonLocation::of(&window.reach.around, Some(directory_listing::of)),
        ) {
            Ok(terminal) => {
                window
                    .signals
                    .listen_to_terminal()
                    .map_err(|it| deaf(&it))?;
                return OpenWindow::new(window, link, conversation, terminal)
                    .await?
                    .run()
                    .await;
            }
            // Without a terminal of its own the editor cannot be; lines can still be read.
            Err(_) => (window.look.editor, window.look.answers) = (EditorSettings::None, None),
        }
    }
    OpenWindow::new(window, link, conversation, PlainWindow::new(stdin, out))
        .await?
        .run()
        .await
}

/// Reaches the daemon and finds the conversation.
async fn begin(window: &mut WindowOptions) -> Result<(DaemonLink, ConversationId), Failure> {
    let mut link = window.reach.open(DaemonWait::No).await?;
    let name = window
        .args
        .conversation
        .as_deref()
        .or(window.global.conversation.as_deref());
    let conversation = loop {
        match conversation_choice::to_attach(&link.caller, &window.reach.around, name).await {
            Ok(conversation) => break conversation,
            Err(failure) if failure.transient => {
                link = window.reach.open(DaemonWait::UntilBack).await?;
            }
            Err(failure) => return Err(failure),
        }
    };
    window.signals.listen().map_err(|it| deaf(&it))?;
    window.uses(conversation);
    Ok((link, conversation))
}

impl WindowOptions {
    /// The next window that is opened here without a name begins with it. Lines from a pipe are a script's, and who only
    /// reads uses nothing.
    fn uses(&self, conversation: ConversationId) {
        let around = &self.reach.around;
        if !around.stdin_terminal || self.args.read_only {
            return;
        }
        if let Some(state) = around.state_directory() {
            // A window works without; the next one just does not know.
            let _unknown = LastUsed::at(&state).note(around.project_root(), conversation);
        }
    }
}

fn deaf(error: &std::io::Error) -> Failure {
    Failure::new(Exit::FAILED, format!("cannot listen for signals: {error}"))
}

impl<U: UserInterface> OpenWindow<U> {
    async fn new(
        window: WindowOptions,
        link: DaemonLink,
        conversation: ConversationId,
        ui: U,
    ) -> Result<Self, Failure> {
        let started = link
            .started
            .then(|| format!("started aishd {}", link.hello.server.version));
        let mut open = Self {
            rows: ConversationRows::default(),
            display: Display::new(ui, window.look, window.args.tail),
            window,
            connection: WindowConnection::new(link),
            conversation,
            title: String::new(),
            model: None,
            default_model: None,
            named: false,
            running_model: None,
            turns: TurnTracker::default(),
            asked: OpenQuestions::default(),
            attention: Attention::default(),
            own: OwnCommands::default(),
            outbox: AskOutbox::default(),
            switching: false,
            held: VecDeque::new(),
            calls: JoinSet::new(),
            interrupted_at: None,
            input_ended: false,
            leaving: false,
            exit: Exit::DONE,
        };
        if let Some(started) = started {
            open.display.print_notice(&started).await?;
        }
        open.attach(ReplayProgress::First);
        Ok(open)
    }

    async fn run(mut self) -> Result<Exit, Failure> {
        loop {
            let wake = self.select().await;
            let leaves = self.apply(wake).await?;
            self.send_next();
            self.call_attention();
            if self.gives_up() {
                self.tell_unsent().await?;
                return Ok(Exit::DONE);
            }
            if self.connection.is_settled() && self.named {
                self.display.ui.head(self.head());
            }
            if leaves || self.is_over() {
                return Ok(if self.has_editor() && !leaves {
                    Exit::DONE
                } else {
                    self.exit
                });
            }
        }
    }

    /// Picks what happens next; nothing is lost when this is given up.
    async fn select(&mut self) -> WindowWake {
        // A line may be about the subscription. Keys may not wait for a daemon that hangs.
        let attached = self.connection.is_attached() || self.has_editor();
        let known = !self.switching || self.has_editor();
        let full = self.outbox.is_full() || self.held.len() >= outbox::LINES;
        // Without an editor lines are a script: what stands behind a command comes after it.
        let free = self.has_editor() || self.own.is_idle();
        let listens = !self.input_ended && !full && attached && known && free;
        let reads = self.connection.delivers() && self.display.ui.has_room();
        let attention = self.attention_due();
        let attention = async {
            match attention {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            signal = self.window.signals.next() => WindowWake::Signal(signal),
            Some(Ok(done)) = self.calls.join_next() => WindowWake::Done(done),
            input = self.display.ui.next(), if listens => WindowWake::Input(input),
            event = self.connection.link.events.recv(), if reads => WindowWake::Event(event),
            () = attention => WindowWake::Attention,
        }
    }

    /// Whether the window is left at once.
    async fn apply(&mut self, wake: WindowWake) -> Result<bool, Failure> {
        match wake {
            WindowWake::Signal(signal) => self.signal(signal).await,
            WindowWake::Done(done) => self.done(done).await.map(|()| false),
            WindowWake::Event(Some(event)) => self
                .event(&event.event, event.subscription)
                .await
                .map(|()| false),
            WindowWake::Event(None) => self.lost().await.map(|()| false),
            WindowWake::Input(input) => self.input(input?).await,
            WindowWake::Attention => Ok(false),
        }
    }

    async fn input(&mut self, input: UserInput) -> Result<bool, Failure> {
        match input {
            UserInput::Line(line, _) if self.switching => self.held.push_back(line),
            UserInput::Line(line, question) => {
                if !self.on_answer(&line, question).await? {
                    self.line(&line).await?;
                }
            }
            UserInput::Answer(question, pressed) => self.answered_by_key(question, pressed).await?,
            UserInput::Edited(question, edited) => self.edited(question, edited).await?,
            UserInput::Interrupt(typed) => return self.interrupt(typed).await,
            UserInput::End => self.input_ended = true,
            UserInput::NamesWanted => self.look_up_names(),
            UserInput::Room | UserInput::Turned => {}
            UserInput::Broken => {
                return Err(Failure::new(Exit::FAILED, "the line editor failed"));
            }
        }
        Ok(false)
    }

    async fn event(
        &mut self,
        event: &ClientEvent,
        subscription: SubscriptionId,
    ) -> Result<(), Failure> {
        if !self.connection.takes(event, subscription) {
            return Ok(());
        }
        if let Event::ResyncRequired(_) = &event.data {
            self.connection.cursor = Cursor {
                epoch: event.epoch,
                seq: Seq(0),
            };
        }
        if let Some(exit) = self.turns.take(event) {
            self.exit = exit;
        }
        self.notice_names(event);
        self.own.take(event);
        self.asked.take(event);
        if let Some(columns) = self.display.ui.columns() {
            self.rows.resize(columns);
        }
        let rows = self.rows.take(event);
        if let Event::ReplayComplete(complete) = &event.data {
            self.replayed(complete.through, rows).await?;
        } else {
            match self.connection.hold(rows) {
                Some(rows) => self.display.show(rows).await?,
                None => return Ok(()),
            }
        }
        self.ask().await
    }

    /// Keeps what the prompt says.
    fn notice_names(&mut self, event: &ClientEvent) {
        // What is replayed is older than the snapshot that it follows.
        let is_settled = self.connection.is_settled();
        match &event.data {
            Event::Snapshot(snapshot) => {
                self.title.clone_from(&snapshot.title);
                self.model.clone_from(&snapshot.model);
            }
            Event::TurnStarted(started) => {
                self.running_model = Some(started.model.clone()).filter(|it| !it.is_empty());
            }
            Event::Renamed(renamed) if is_settled => self.title.clone_from(&renamed.title),
            Event::ModelChanged(changed) if is_settled => self.model.clone_from(&changed.model),
            _ => {}
        }
    }

    fn head(&self) -> PromptHead {
        let chosen = self.window.global.model.as_ref().or(self.model.as_ref());
        let running = self
            .running_model
            .as_ref()
            .filter(|_| self.turns.running.is_some());
        PromptHead {
            conversation: self.title.clone(),
            // What was found answers when nothing is configured, and that is known once it did.
            model: running
                .or(chosen)
                .or(self.default_model.as_ref())
                .or(self.running_model.as_ref())
                .cloned(),
            state: if self.connection.is_lost() {
                PromptState::Problem
            } else {
                self.turns.state()
            },
        }
    }

    async fn replayed(&mut self, through: Seq, rows: Vec<SafeRow>) -> Result<(), Failure> {
        let Some((replay, mut held)) = self.connection.replayed(through) else {
            return Ok(());
        };
        held.extend(rows);
        match replay {
            ReplayProgress::First => {
                let greeting = format!("attached to {} ({})", self.title, self.rows.here());
                self.display.print_notice(&greeting).await?;
                for notice in std::mem::take(&mut self.connection.notices) {
                    self.display.print_notice(&notice).await?;
                }
                self.display.show_tail(held).await?;
            }
            ReplayProgress::Back => {
                self.display
                    .print_notice(&format!("back (missed {} lines)", held.len()))
                    .await?;
                self.display.show(held).await?;
            }
        }
        self.tell_lost().await
    }

    async fn done(&mut self, done: CompletedCall) -> Result<(), Failure> {
        match done {
            CompletedCall::Opened(opened) => self.opened(*opened).await,
            CompletedCall::Attached(attached) => self.attached(attached),
            CompletedCall::Detached => {
                self.attach(ReplayProgress::Back);
                Ok(())
            }
            CompletedCall::Sent(conversation, sent) => self.delivered(conversation, sent).await,
            CompletedCall::Again(conversation, sent) => self.sent(conversation, sent).await,
            CompletedCall::Printed(Ok(printed)) => self.display.print(&printed).await,
            CompletedCall::Printed(Err(failure)) => self.display.refuse(&failure).await,
            CompletedCall::Switched(found) => self.switched(found).await,
            CompletedCall::Named(names, default_model) => {
                self.named = true;
                self.default_model = default_model.or(self.default_model.take());
                self.display.ui.names(names);
                Ok(())
            }
            CompletedCall::Judged(confirm, judged) => self.judged(confirm, *judged).await,
            CompletedCall::Answered(number, decision, result) => {
                self.on_answer_result(number, decision, result).await
            }
            CompletedCall::Tried(confirm, result) => self.tried(confirm, result).await,
            CompletedCall::Diff(params, result) => self.diffed(params, result).await,
            CompletedCall::Ran(command, Ok(taken)) => {
                if self.own.on_result(command, Some(taken)) {
                    let text = "it begins when the commands before it have ended";
                    self.display.print_notice(text).await?;
                }
                Ok(())
            }
            CompletedCall::Ran(command, Err(error)) => {
                self.own.on_result(command, None);
                self.display.refuse(&error.into()).await
            }
            CompletedCall::Quiet(Ok(())) => Ok(()),
            CompletedCall::Quiet(Err(error)) => self.display.refuse(&error.into()).await,
        }
    }

    fn cancel(&mut self) -> bool {
        let Some(turn) = self.turns.running else {
            return false;
        };
        let caller = self.connection.caller();
        self.calls.spawn(async move {
            CompletedCall::Quiet(caller.call::<Cancel>(TurnParams { turn }).await.map(drop))
        });
        true
    }

    async fn signal(&mut self, signal: TerminalSignal) -> Result<bool, Failure> {
        match signal {
            TerminalSignal::Terminate | TerminalSignal::Hangup => {
                self.exit = signal.exit();
                Ok(true)
            }
            TerminalSignal::Continued => {
                self.display.ui.resumed();
                self.catch_up();
                Ok(false)
            }
            // From outside, for the keys of a terminal with an editor are no signals: it is to end.
            TerminalSignal::Interrupt
                if self.has_editor() && !self.turns.is_at_work() && self.own.is_empty() =>
            {
                self.exit = signal.exit();
                Ok(true)
            }
            TerminalSignal::Interrupt if self.connection.is_lost() => {
                self.exit = signal.exit();
                Ok(true)
            }
            TerminalSignal::Interrupt => self.interrupt(HalfTyped::Nothing).await,
        }
    }

    /// Ctrl-C.
    async fn interrupt(&mut self, typed: HalfTyped) -> Result<bool, Failure> {
        let now = Instant::now();
        if self
            .interrupted_at
            .is_some_and(|it| now.duration_since(it) < ui::LEAVE_WITHIN)
        {
            self.exit = Exit::INTERRUPTED;
            return Ok(true);
        }
        let drives = !self.window.args.read_only;
        if drives && (self.cancel_command() || self.cancel() || self.cancel_anybodys()) {
            self.interrupted_at = Some(now);
            self.display.ui.leaving_is_near();
        } else if typed == HalfTyped::Nothing {
            self.display
                .print_notice("Ctrl-D detaches; the conversation goes on")
                .await?;
        }
        Ok(false)
    }

    fn has_editor(&self) -> bool {
        self.window.look.editor == EditorSettings::Line
    }

    fn new_rows(&self) -> ConversationRows {
        let reader = if self.has_editor() {
            RowReader::Person
        } else {
            RowReader::Plain
        };
        ConversationRows::new(
            Some(self.connection.link.hello.client_id),
            self.window.global.verbose,
        )
        .read_by(reader)
        .framed_with(screen::glyphs(
            self.window.global.looks,
            &self.window.reach.around,
        ))
        .laid_out(self.window.look.answers)
    }

    /// Everything was said, sent and, where nobody sits, answered.
    fn is_over(&self) -> bool {
        let sent = self.outbox.is_empty()
            && self.calls.is_empty()
            && (self.own.is_empty() || self.leaving)
            && self.connection.is_settled();
        let answered =
            self.turns.all_ended() || self.leaving || self.window.reach.around.stdin_terminal;
        // Who leaves a terminal waits for nothing but for his own words to arrive.
        let sent = sent || (self.has_editor() && self.outbox.is_empty() && self.held.is_empty());
        self.input_ended && sent && answered
    }
}

#[cfg(test)]
mod tests;
