//! `attach` and `aish`: a window on a conversation. Lines come in and rows go out through a `ui`; with a terminal
//! on both sides it has a line editor, else lines are read and rows are written as they are.

mod asked;
mod attention;
mod commands;
mod connection;
mod delivery;
mod display;
pub mod look;
mod outbox;
mod own;
mod plain;
pub mod ring;
pub mod terminal;
mod turns;
mod ui;

use std::collections::VecDeque;
use std::time::Duration;

use aish_proto::attach::{AttachResult, Cursor};
use aish_proto::confirm::{AnswerResult, Decision};
use aish_proto::event::{
    ConfirmRequested, Envelope, EventData as _, ModelChanged, Renamed, ReplayComplete,
    ResyncRequired, Snapshot, TurnStarted,
};
use aish_proto::id::{ConfirmId, ConversationId, Seq, SubscriptionId};
use aish_proto::shell::RunResult;
use aish_proto::turn::{Cancel, SendResult, TurnParams};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::asked::Asked;
use self::attention::Attention;
use self::connection::{Connection, Replay};
use self::display::Display;
use self::look::{Editor, Look, Preferred};
use self::outbox::Outbox;
use self::own::Own;
use self::plain::Plain;
use self::terminal::Terminal;
use self::turns::Turns;
use self::ui::{Head, Input, Names, State, Typed, Ui};
use crate::args::{AttachArgs, Global};
use crate::connect::{CallError, Event};
use crate::desk::Printed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hello::{Link, Reach, Wait};
use crate::last_used::LastUsed;
use crate::listing;
use crate::named_file::Here;
use crate::rows::{Reader, Row, Rows};
use crate::signals::{Signal, Signals};
use crate::{resolve, screen};

/// A second Ctrl-C within this time leaves.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// What a window is opened with.
#[derive(Debug)]
pub struct Window {
    pub reach: Reach,
    pub global: Global,
    pub args: AttachArgs,
    pub look: Look,
    pub signals: Signals,
}

/// Everything that may happen.
enum Wake {
    Event(Option<Event>),
    Input(Result<Input, Failure>),
    Signal(Signal),
    Done(Done),
    /// Somebody may have to be told of a question.
    Attention,
}

/// A call that has come back.
enum Done {
    Opened(Box<Result<Link, Failure>>),
    Attached(Result<AttachResult, CallError>),
    /// Nobody listens to the old subscription any more; a new one begins where it ended.
    Detached,
    Sent(ConversationId, Result<SendResult, CallError>),
    Again(ConversationId, Result<SendResult, Failure>),
    Printed(Result<Printed, Failure>),
    Switched(Result<ConversationId, Failure>),
    Named(Names, Option<String>),
    /// What other arguments would be, for the question that they belong to.
    Judged(ConfirmId, Box<Result<ConfirmRequested, Failure>>),
    /// What came of an answer to the confirm of this number.
    Answered(u32, Decision, Result<AnswerResult, CallError>),
    /// A command of this window's person was begun, or not.
    Ran(String, Result<RunResult, CallError>),
    Quiet(Result<(), CallError>),
}

struct Open<U> {
    window: Window,
    display: Display<U>,
    connection: Connection,
    conversation: ConversationId,
    rows: Rows,
    title: String,
    /// The preset that the conversation uses, if one was chosen.
    model: Option<String>,
    /// The one that it uses else.
    default_model: Option<String>,
    /// The names have been asked for, so that the first prompt names the model.
    named: bool,
    /// The one that the running turn uses.
    running_model: Option<String>,
    turns: Turns,
    asked: Asked,
    attention: Attention,
    own: Own,
    outbox: Outbox,
    /// Another conversation is looked for: nothing is sent before it is known which one lines are for.
    switching: bool,
    /// Lines typed meanwhile.
    held: VecDeque<String>,
    calls: JoinSet<Done>,
    interrupted_at: Option<Instant>,
    input_ended: bool,
    /// `:quit`: what was said is still sent, but no answer is waited for.
    leaving: bool,
    exit: Exit,
}

/// Opens the window and keeps it until it is left.
pub async fn run<R: AsyncBufRead + Unpin, O: AsyncWrite + Unpin>(
    mut window: Window,
    stdin: R,
    out: O,
) -> Result<Exit, Failure> {
    let (link, conversation) = begin(&mut window).await?;
    let preferred = Preferred::from(&link.hello.ui);
    window.look = window
        .look
        .preferring(preferred, &window.global, &window.reach.around);
    if window.look.editor == Editor::Line {
        let state = window.reach.around.state_directory();
        match Terminal::open(
            state.as_deref(),
            window.look,
            Here::of(&window.reach.around, Some(listing::of)),
        ) {
            Ok(terminal) => {
                window
                    .signals
                    .listen_to_terminal()
                    .map_err(|it| deaf(&it))?;
                return Open::new(window, link, conversation, terminal)
                    .await?
                    .run()
                    .await;
            }
            // Without a terminal of its own the editor cannot be; lines can still be read.
            Err(_) => (window.look.editor, window.look.answers) = (Editor::None, None),
        }
    }
    Open::new(window, link, conversation, Plain::new(stdin, out))
        .await?
        .run()
        .await
}

/// Reaches the daemon and finds the conversation.
async fn begin(window: &mut Window) -> Result<(Link, ConversationId), Failure> {
    let mut link = window.reach.open(Wait::No).await?;
    let name = window
        .args
        .conversation
        .as_deref()
        .or(window.global.conversation.as_deref());
    let conversation = loop {
        match resolve::to_attach(&link.caller, &window.reach.around, name).await {
            Ok(conversation) => break conversation,
            Err(failure) if failure.transient => link = window.reach.open(Wait::UntilBack).await?,
            Err(failure) => return Err(failure),
        }
    };
    window.signals.listen().map_err(|it| deaf(&it))?;
    window.uses(conversation);
    Ok((link, conversation))
}

impl Window {
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

impl<U: Ui> Open<U> {
    async fn new(
        window: Window,
        link: Link,
        conversation: ConversationId,
        ui: U,
    ) -> Result<Self, Failure> {
        let started = link
            .started
            .then(|| format!("started aishd {}", link.hello.server.version));
        let mut open = Self {
            rows: Rows::default(),
            display: Display::new(ui, window.look, window.args.tail),
            window,
            connection: Connection::new(link),
            conversation,
            title: String::new(),
            model: None,
            default_model: None,
            named: false,
            running_model: None,
            turns: Turns::default(),
            asked: Asked::default(),
            attention: Attention::default(),
            own: Own::default(),
            outbox: Outbox::default(),
            switching: false,
            held: VecDeque::new(),
            calls: JoinSet::new(),
            interrupted_at: None,
            input_ended: false,
            leaving: false,
            exit: Exit::DONE,
        };
        if let Some(started) = started {
            open.display.tell(&started).await?;
        }
        open.attach(Replay::First);
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
    async fn select(&mut self) -> Wake {
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
            signal = self.window.signals.next() => Wake::Signal(signal),
            Some(Ok(done)) = self.calls.join_next() => Wake::Done(done),
            input = self.display.ui.next(), if listens => Wake::Input(input),
            event = self.connection.link.events.recv(), if reads => Wake::Event(event),
            () = attention => Wake::Attention,
        }
    }

    /// Whether the window is left at once.
    async fn apply(&mut self, wake: Wake) -> Result<bool, Failure> {
        match wake {
            Wake::Signal(signal) => self.signal(signal).await,
            Wake::Done(done) => self.done(done).await.map(|()| false),
            Wake::Event(Some(event)) => self
                .event(&event.params.event, event.params.subscription)
                .await
                .map(|()| false),
            Wake::Event(None) => self.lost().await.map(|()| false),
            Wake::Input(input) => self.input(input?).await,
            Wake::Attention => Ok(false),
        }
    }

    async fn input(&mut self, input: Input) -> Result<bool, Failure> {
        match input {
            Input::Line(line, _) if self.switching => self.held.push_back(line),
            Input::Line(line, question) => {
                if !self.answered(&line, question).await? {
                    self.line(&line).await?;
                }
            }
            Input::Answer(question, pressed) => self.answered_by_key(question, pressed).await?,
            Input::Edited(question, edited) => self.edited(question, edited).await?,
            Input::Interrupt(typed) => return self.interrupt(typed).await,
            Input::End => self.input_ended = true,
            Input::NamesWanted => self.look_up_names(),
            Input::Room | Input::Turned => {}
            Input::Broken => return Err(Failure::new(Exit::FAILED, "the line editor failed")),
        }
        Ok(false)
    }

    async fn event(
        &mut self,
        event: &Envelope,
        subscription: SubscriptionId,
    ) -> Result<(), Failure> {
        if !self.connection.takes(event, subscription) {
            return Ok(());
        }
        if event.kind == ResyncRequired::KIND {
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
        match event.read::<ReplayComplete>() {
            Some(through) => self.replayed(through.through, rows).await?,
            None => match self.connection.hold(rows) {
                Some(rows) => self.display.show(rows).await?,
                None => return Ok(()),
            },
        }
        self.ask().await
    }

    /// Keeps what the prompt says.
    fn notice_names(&mut self, event: &Envelope) {
        if let Some(snapshot) = event.read::<Snapshot>() {
            (self.title, self.model) = (snapshot.title, snapshot.model);
        } else if let Some(TurnStarted { model, .. }) = event.read() {
            self.running_model = Some(model).filter(|it| !it.is_empty());
        }
        // What is replayed is older than the snapshot that it follows.
        if self.connection.is_settled() {
            if let Some(Renamed { title }) = event.read() {
                self.title = title;
            } else if let Some(ModelChanged { model }) = event.read() {
                self.model = model;
            }
        }
    }

    fn head(&self) -> Head {
        let chosen = self.window.global.model.as_ref().or(self.model.as_ref());
        let running = self
            .running_model
            .as_ref()
            .filter(|_| self.turns.running.is_some());
        Head {
            conversation: self.title.clone(),
            // What was found answers when nothing is configured, and that is known once it did.
            model: running
                .or(chosen)
                .or(self.default_model.as_ref())
                .or(self.running_model.as_ref())
                .cloned(),
            state: if self.connection.is_lost() {
                State::Problem
            } else {
                self.turns.state()
            },
        }
    }

    async fn replayed(&mut self, through: Seq, rows: Vec<Row>) -> Result<(), Failure> {
        let Some((replay, mut held)) = self.connection.replayed(through) else {
            return Ok(());
        };
        held.extend(rows);
        match replay {
            Replay::First => {
                let greeting = format!("attached to {} ({})", self.title, self.rows.here());
                self.display.tell(&greeting).await?;
                for notice in std::mem::take(&mut self.connection.notices) {
                    self.display.tell(&notice).await?;
                }
                self.display.show_tail(held).await?;
            }
            Replay::Back => {
                self.display
                    .tell(&format!("back (missed {} lines)", held.len()))
                    .await?;
                self.display.show(held).await?;
            }
        }
        self.tell_lost().await
    }

    async fn done(&mut self, done: Done) -> Result<(), Failure> {
        match done {
            Done::Opened(opened) => self.opened(*opened).await,
            Done::Attached(attached) => self.attached(attached),
            Done::Detached => {
                self.attach(Replay::Back);
                Ok(())
            }
            Done::Sent(conversation, sent) => self.delivered(conversation, sent).await,
            Done::Again(conversation, sent) => self.sent(conversation, sent).await,
            Done::Printed(Ok(printed)) => self.display.print(&printed.shown(true)).await,
            Done::Printed(Err(failure)) => self.display.refuse(&failure).await,
            Done::Switched(found) => self.switched(found).await,
            Done::Named(names, default_model) => {
                self.named = true;
                self.default_model = default_model.or(self.default_model.take());
                self.display.ui.names(names);
                Ok(())
            }
            Done::Judged(confirm, judged) => self.judged(confirm, *judged).await,
            Done::Answered(number, decision, result) => self.told(number, decision, result).await,
            Done::Ran(command, Ok(taken)) => {
                if self.own.answered(command, Some(taken)) {
                    let text = "it begins when the commands before it have ended";
                    self.display.tell(text).await?;
                }
                Ok(())
            }
            Done::Ran(command, Err(error)) => {
                self.own.answered(command, None);
                self.display.refuse(&error.into()).await
            }
            Done::Quiet(Ok(())) => Ok(()),
            Done::Quiet(Err(error)) => self.display.refuse(&error.into()).await,
        }
    }

    fn cancel(&mut self) -> bool {
        let Some(turn) = self.turns.running else {
            return false;
        };
        let caller = self.connection.caller();
        self.calls.spawn(async move {
            Done::Quiet(caller.call::<Cancel>(TurnParams { turn }).await.map(drop))
        });
        true
    }

    async fn signal(&mut self, signal: Signal) -> Result<bool, Failure> {
        match signal {
            Signal::Terminate | Signal::Hangup => {
                self.exit = signal.exit();
                Ok(true)
            }
            Signal::Continued => {
                self.display.ui.resumed();
                self.catch_up();
                Ok(false)
            }
            // From outside, for the keys of a terminal with an editor are no signals: it is to end.
            Signal::Interrupt
                if self.has_editor() && !self.turns.is_at_work() && self.own.is_empty() =>
            {
                self.exit = signal.exit();
                Ok(true)
            }
            Signal::Interrupt if self.connection.is_lost() => {
                self.exit = signal.exit();
                Ok(true)
            }
            Signal::Interrupt => self.interrupt(Typed::Nothing).await,
        }
    }

    /// Ctrl-C.
    async fn interrupt(&mut self, typed: Typed) -> Result<bool, Failure> {
        let now = Instant::now();
        if self
            .interrupted_at
            .is_some_and(|it| now.duration_since(it) < LEAVE_WITHIN)
        {
            self.exit = Exit::INTERRUPTED;
            return Ok(true);
        }
        let drives = !self.window.args.read_only;
        if drives && (self.cancel_command() || self.cancel() || self.cancel_anybodys()) {
            self.interrupted_at = Some(now);
            self.display.ui.leaving_is_near();
        } else if typed == Typed::Nothing {
            self.display
                .tell("Ctrl-D detaches; the conversation goes on")
                .await?;
        }
        Ok(false)
    }

    fn has_editor(&self) -> bool {
        self.window.look.editor == Editor::Line
    }

    fn new_rows(&self) -> Rows {
        let reader = if self.has_editor() {
            Reader::Person
        } else {
            Reader::Plain
        };
        Rows::new(
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
