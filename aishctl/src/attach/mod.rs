//! `attach` and `aish`: a window on a conversation. Lines come in and rows go out through a `ui`; with a terminal
//! on both sides it has a line editor, else lines are read and rows are written as they are.

mod attention;
mod begun_row;
mod commands;
mod connection;
pub(crate) mod copying;
mod delivery;
mod differences;
mod display;
mod interrupts;
pub mod look;
mod names;
mod outbox;
mod own_undo;
mod pictures;
mod plain;
mod prompt_head;
mod questions;
mod switching;
pub mod terminal;
mod turns;
mod ui;
mod user_commands;

use std::collections::VecDeque;
use std::time::Duration;

use aish_proto::attach::{AttachResult, Cursor};
use aish_proto::changes::ChangesDiffResult;
use aish_proto::confirm::{AnswerResult, Decision};
use aish_proto::conversation::{ConversationStatus, ListState};
use aish_proto::event::{ClientEvent, ConfirmRequested, Event};
use aish_proto::id::{ConfirmId, ConversationId, Seq, SubscriptionId};
use aish_proto::shell::RunResult;
use aish_proto::turn::SendResult;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::attention::Attention;
use self::begun_row::BegunRow;
use self::connection::{ReplayProgress, WindowConnection};
use self::differences::WantedDifference;
use self::display::Display;
use self::look::{EditorSettings, PreferredLook, WindowLook};
use self::names::{FoundNames, NamesHurry, WindowNames};
use self::outbox::AskOutbox;
use self::own_undo::OwnUndo;
use self::pictures::{FinishedDrawing, WindowPictures};
use self::plain::PlainWindow;
use self::questions::OpenQuestions;
use self::switching::{BranchedAsk, KeptQuestion, LastText};
use self::terminal::Terminal;
use self::turns::TurnTracker;
use self::ui::{UserInput, UserInterface};
use self::user_commands::OwnCommands;
use crate::attach_args::AttachArgs;
use crate::client::connect::{RpcCallError, WireEvent};
use crate::client::conversation_choice;
use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonWait};
use crate::client::last_used::LastUsed;
use crate::command_output::PrintResult;
use crate::commands::directory_listing;
use crate::commands::file_mention::PersonLocation;
use crate::commands::mcp::question_login::QuestionLogin;
use crate::commands::undo::{HalfReversed, Reversed};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::picker::{self, Picker};
use crate::render::live_row::LiveRow;
use crate::render::rows::{ConversationRows, RowReader, SafeRow};
use crate::render::screen;
use crate::safe;
use crate::signals::{ClientSignals, TerminalSignal};
use crate::window_help;

/// Who thought for so long is worth a row when that is over.
const TOLD_THOUGHT: Duration = Duration::from_secs(2);

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
    /// Somebody may have to be told of a question, or the row of what goes on is another.
    Time,
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
    Branched(BranchedAsk),
    /// The last question, to be edited.
    ToEdit(Result<String, Failure>),
    /// All conversations, to pick one from.
    ToPick(Result<Vec<ConversationStatus>, Failure>),
    /// What was thought last.
    Thought(Result<String, Failure>),
    /// What is copied, and whether it has been.
    ToCopy(Result<(String, bool), Failure>),
    Named(FoundNames),
    /// What other arguments would be, for the question that they belong to.
    Judged(ConfirmId, Box<Result<ConfirmRequested, Failure>>),
    /// What came of an answer to the confirm of this number.
    Answered(u32, Decision, Result<AnswerResult, RpcCallError>),
    /// The command of this confirm was tried, or not.
    Tried(ConfirmId, Result<(), RpcCallError>),
    /// A sign-in for this question was begun, or not.
    LoginBegun(ConfirmId, Box<Result<QuestionLogin, Failure>>),
    LoginEnded(Result<(), Failure>),
    /// The difference that a trial would make.
    Diff(WantedDifference, Result<ChangesDiffResult, RpcCallError>),
    /// A command of this window's person was begun, or not.
    Ran(String, Result<RunResult, RpcCallError>),
    /// Changes were taken back or done again, as far as that went.
    Undone(Box<Result<Reversed, HalfReversed>>),
    Quiet(Result<(), RpcCallError>),
    /// A picture of a result is drawn, or cannot be.
    Pictured(Box<FinishedDrawing>),
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
    names: WindowNames,
    /// The one that the running turn uses.
    running_model: Option<String>,
    turns: TurnTracker,
    /// What goes on now.
    live: LiveRow,
    begun: BegunRow,
    /// What models think is shown as it comes.
    shows_thinking: bool,
    asked: OpenQuestions,
    attention: Attention,
    own: OwnCommands,
    own_undo: OwnUndo,
    pictures: WindowPictures,
    outbox: AskOutbox,
    /// What could not be sent last.
    kept: Option<KeptQuestion>,
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
    let (link, conversation) = match begin(&mut window).await? {
        Ok(begun) => begun,
        Err(exit) => return Ok(exit),
    };
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

/// Reaches the daemon and finds the conversation; where a person picked none, the program ends like this.
async fn begin(
    window: &mut WindowOptions,
) -> Result<Result<(DaemonLink, ConversationId), Exit>, Failure> {
    let mut link = window.reach.open(DaemonWait::No).await?;
    if window.args.pick {
        let found = conversation_choice::list(&link.caller, ListState::Open).await?;
        let picker = Picker::new(found, None, &window.global, &window.reach.around);
        window.signals.listen().map_err(|it| deaf(&it))?;
        let (around, signals) = (&window.reach.around, &mut window.signals);
        match picker::terminal::run_on_ours(picker, around, signals).await? {
            Ok(Some(picked)) => window.args.conversation = Some(picked.to_string()),
            Ok(None) => return Ok(Err(Exit::DONE)),
            Err(exit) => return Ok(Err(exit)),
        }
    }
    let name = window
        .args
        .conversation
        .as_deref()
        .or(window.global.conversation.as_deref());
    let conversation = loop {
        let around = &window.reach.around;
        let found = if window.args.new {
            let title = window.args.conversation.clone();
            conversation_choice::new(&link.caller, title, around.cwd_text()).await
        } else {
            conversation_choice::to_attach(&link.caller, around, name).await
        };
        match found {
            Ok(conversation) => break conversation,
            Err(failure) if failure.transient => {
                link = window.reach.open(DaemonWait::UntilBack).await?;
            }
            Err(failure) => return Err(failure),
        }
    };
    window.signals.listen().map_err(|it| deaf(&it))?;
    window.uses(conversation);
    Ok(Ok((link, conversation)))
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
        let glyphs = screen::glyphs(window.global.looks, &window.reach.around);
        let mut open = Self {
            rows: ConversationRows::default(),
            display: Display::new(ui, window.look, window.args.tail),
            window,
            connection: WindowConnection::new(link),
            conversation,
            title: String::new(),
            model: None,
            names: WindowNames::default(),
            running_model: None,
            turns: TurnTracker::default(),
            live: LiveRow::drawn_with(glyphs),
            begun: BegunRow::default(),
            shows_thinking: false,
            asked: OpenQuestions::default(),
            attention: Attention::default(),
            own: OwnCommands::default(),
            own_undo: OwnUndo::default(),
            pictures: WindowPictures::default(),
            outbox: AskOutbox::default(),
            kept: None,
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
        open.find_picture_support();
        open.attach(ReplayProgress::First);
        Ok(open)
    }

    async fn run(mut self) -> Result<Exit, Failure> {
        loop {
            let wake = self.select().await;
            let leaves = self.apply(wake).await?;
            self.send_next();
            self.call_attention();
            self.show_live();
            self.go_on_with_pictures().await?;
            if self.gives_up() {
                self.tell_unsent().await?;
                return Ok(Exit::DONE);
            }
            if self.connection.is_settled() && self.names.are_asked {
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
        let live = self.live_due();
        let attention = self.attention_due().into_iter().chain(live).min();
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
            () = attention => WindowWake::Time,
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
            WindowWake::Time => Ok(false),
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
            UserInput::Rewritten(text) => self.rewritten(text).await?,
            UserInput::Picked(picked) => self.picked(picked).await?,
            UserInput::Interrupt(typed) => return self.interrupt(typed).await,
            UserInput::Terminal(answer) => self.terminal_said(&answer),
            UserInput::End => self.input_ended = true,
            UserInput::NamesWanted(wish) => self.look_up_names(wish, NamesHurry::Soon),
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
        if let Some(thought) = self.live.take(event, Instant::now())
            && thought >= TOLD_THOUGHT
            && self.has_editor()
        {
            let told = format!("thought {} s, :thinking shows it", thought.as_secs());
            self.display.show(vec![SafeRow::Aside(told)]).await?;
        }
        self.own.take(event);
        self.want_pictures(event);
        self.asked.take(event);
        if let Some(columns) = self.display.ui.columns() {
            self.rows.resize(columns);
        }
        let rows = self.own_undo.take(event, self.rows.take(event));
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
                let earlier = self.connection.begins_later();
                let may_type = self.has_editor() && !self.window.args.read_only;
                if held.is_empty() && !earlier && may_type {
                    held.push(SafeRow::Aside(window_help::IN_SHORT.to_owned()));
                }
                self.display.show_tail(held, earlier).await?;
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
            CompletedCall::Branched(asked) => self.branched(asked).await,
            CompletedCall::ToEdit(text) => self.edit_question(text, LastText::Asked).await,
            CompletedCall::ToPick(found) => self.pick(found).await,
            CompletedCall::Thought(Ok(thought)) => {
                let lines = thought.trim().lines();
                let rows = lines.map(|it| SafeRow::Aside(safe::one_line(it)));
                self.display.show(rows.collect()).await
            }
            CompletedCall::Thought(Err(failure)) => self.display.refuse(&failure).await,
            CompletedCall::ToCopy(text) => self.copy(text).await,
            CompletedCall::Named(found) => {
                self.names_came(found);
                Ok(())
            }
            CompletedCall::Judged(confirm, judged) => self.judged(confirm, *judged).await,
            CompletedCall::Answered(number, decision, result) => {
                self.on_answer_result(number, decision, result).await
            }
            CompletedCall::Tried(confirm, result) => self.tried(confirm, result).await,
            CompletedCall::LoginBegun(confirm, begun) => self.login_begun(confirm, *begun).await,
            // That it counts comes as the end of the question.
            CompletedCall::LoginEnded(Ok(())) => Ok(()),
            CompletedCall::LoginEnded(Err(failure)) => self.display.refuse(&failure).await,
            CompletedCall::Diff(wanted, result) => self.diffed(wanted, result).await,
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
            CompletedCall::Pictured(drawn) => {
                self.pictures.drawn(*drawn);
                Ok(())
            }
            CompletedCall::Undone(done) => self.undone(*done).await,
            CompletedCall::Quiet(Ok(())) => Ok(()),
            CompletedCall::Quiet(Err(error)) => self.display.refuse(&error.into()).await,
        }
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
        let mut rows = ConversationRows::new(
            Some(self.connection.link.hello.client_id),
            self.window.global.verbose,
        );
        rows.show_thinking(self.shows_thinking);
        rows.read_by(reader)
            .framed_with(screen::glyphs(
                self.window.global.looks,
                &self.window.reach.around,
            ))
            .laid_out(self.window.look.answers)
    }

    /// Everything was said, sent and, where nobody sits, answered. Who leaves a terminal waits for his own words alone.
    fn is_over(&self) -> bool {
        let sent = self.outbox.is_empty() && self.calls.is_empty() && self.connection.is_settled();
        let sent = sent && (self.own.is_empty() || self.leaving);
        let answered =
            self.turns.all_ended() || self.leaving || self.window.reach.around.stdin_terminal;
        let arrived = self.has_editor() && self.outbox.is_empty() && self.held.is_empty();
        self.input_ended && (sent || arrived) && answered
    }
}

#[cfg(test)]
mod tests;
