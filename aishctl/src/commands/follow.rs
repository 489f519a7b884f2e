//! From a turn's id to its end: the answer's text, cancelling, `--timeout`, and a daemon that comes back.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use aish_proto::attach::{Attach, AttachParams, AttachResult, Cursor, ReplayStart};
use aish_proto::confirm::{Answer as ConfirmAnswer, AnswerOutcome};
use aish_proto::event::{ClientEvent, ConfirmRequested, StatusLevel};
use aish_proto::id::{ConfirmId, ConversationId, TurnId};
use aish_proto::turn::TurnRecord;
use tokio::io::AsyncWrite;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::connect::{RpcCallError, WireEvent};
use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonWait};
use crate::client::editor;
use crate::commands::confirm;
use crate::commands::follow_control::{FollowControl, FollowWake};
use crate::commands::mcp::question_login::QuestionLogin;
use crate::controlling_terminal;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::call_frame::CallFrames;
use crate::render::command_frame::CommandFrames;
use crate::render::live_row::LiveRow;
use crate::render::notice::{self, Notices};
use crate::render::output::AnswerOutput;
use crate::render::spinner::{self, Spinner};
use crate::render::terminal_prompt::{PromptReaction, Prompter};
use crate::render::turn_stream::{StreamStep, StreamedAnswer};
use crate::render::waiting_notice::WaitingNotice;
use crate::render::{question, wrap};
use crate::signals::ClientSignals;

/// The same where nobody reads what would be printed.
const UNREAD_CANCEL_WITHIN: Duration = Duration::from_secs(2);

/// A turn, and where its question stands.
#[derive(Clone, Copy, Debug)]
pub struct FollowTarget {
    pub conversation: ConversationId,
    pub turn: TurnId,
    /// Where to begin reading: just before the question.
    pub cursor: Cursor,
}

/// Who follows, and with what.
#[derive(Debug)]
pub struct FollowOptions<'a, O> {
    pub reach: &'a DaemonReach,
    pub signals: &'a mut ClientSignals,
    pub notices: &'a mut Notices,
    pub output: &'a mut AnswerOutput<O>,
    /// When `--timeout` is over.
    pub give_up: Option<Instant>,
    /// When the person began to wait.
    pub began: Instant,
    /// Whether the person at this terminal is asked.
    pub asks: FollowAnswerer,
    /// What its commands stand in.
    pub frames: CommandFrames,
    pub(crate) calls: CallFrames,
}

/// Who answers what a turn asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowAnswerer {
    /// The person at this terminal, or whoever is first.
    Here,
    /// Somebody at another terminal.
    Elsewhere,
}

/// How the following ended.
#[derive(Debug)]
pub struct FollowOutcome {
    pub link: DaemonLink,
    pub answer: StreamedAnswer,
    /// We stopped it, and are to exit like this.
    pub stopped: Option<Exit>,
    /// The reader of our output does not read, and we were told to leave: write no more.
    pub stuck: bool,
}

impl<O: AsyncWrite + Unpin> FollowOptions<'_, O> {
    /// Follows the turn to its end.
    pub async fn run(
        self,
        link: DaemonLink,
        target: FollowTarget,
    ) -> Result<FollowOutcome, Failure> {
        let Self {
            reach,
            signals,
            notices,
            output,
            give_up,
            began,
            asks,
            frames,
            calls,
        } = self;
        let mut control = FollowControl {
            signals,
            caller: link.caller.clone(),
            turn: target.turn,
            until: give_up,
            stopped: None,
            stuck: false,
            record: None,
            calls: JoinSet::new(),
        };
        let mut following = TurnFollower {
            reach,
            notices,
            output,
            target,
            link,
            answer: StreamedAnswer::new(target.turn),
            waiting: WaitingNotice::default(),
            told: false,
            resync: false,
            spinner: Spinner::new(began),
            asks,
            prompter: Prompter::default(),
            numbers: HashMap::new(),
            frames,
            calls,
            live: LiveRow::default(),
        };
        if !following.notices.spins() {
            following.spinner.stop();
        }
        match following.link.attached.take() {
            Some(attached) => following.tell_of_place(&attached),
            None => following.attach_or_reconnect(&mut control).await?,
        }
        loop {
            let wake = tokio::select! {
                event = following.link.events.recv() => FollowWake::Event(event.map(Box::new)),
                wake = control.wake() => wake,
                typed = following.prompter.typed() => FollowWake::Typed(typed),
                () = following.spinner.turned() => {
                    following.spin();
                    continue;
                }
            };
            following.notices.settle();
            match wake {
                FollowWake::Event(Some(event)) => following.event(&mut control, &event).await?,
                FollowWake::Event(None) => following.reconnect(&mut control).await?,
                FollowWake::Record(record) => following.record(&mut control, *record).await?,
                FollowWake::Signal(signal) => control.signal(signal),
                FollowWake::Typed(line) => following.typed(&line).await?,
                FollowWake::Over => control.over(),
            }
            if following.answer.ended.is_some() || control.left() {
                break;
            }
        }
        if control.stopped.is_some() {
            control.settle().await;
        }
        Ok(FollowOutcome {
            link: following.link,
            answer: following.answer,
            stopped: control.stopped,
            stuck: control.stuck,
        })
    }
}

struct TurnFollower<'a, O> {
    reach: &'a DaemonReach,
    notices: &'a mut Notices,
    output: &'a mut AnswerOutput<O>,
    target: FollowTarget,
    link: DaemonLink,
    answer: StreamedAnswer,
    waiting: WaitingNotice,
    /// What there is to know of the place has been said.
    told: bool,
    /// The replay does not begin where we left; the record will say how the turn stands.
    resync: bool,
    spinner: Spinner,
    asks: FollowAnswerer,
    prompter: Prompter,
    /// What the confirms of this turn are called.
    numbers: HashMap<ConfirmId, u32>,
    /// Its commands.
    frames: CommandFrames,
    /// And its calls of tools.
    calls: CallFrames,
    /// What goes on now.
    live: LiveRow,
}

impl<O: AsyncWrite + Unpin> TurnFollower<'_, O> {
    async fn attach(&mut self) -> Result<(), RpcCallError> {
        let params = AttachParams {
            id: self.target.conversation,
            since: ReplayStart::Cursor(self.target.cursor),
            deltas: true,
        };
        let attached = self.link.caller.call::<Attach>(params).await?;
        self.tell_of_place(&attached);
        Ok(())
    }

    /// A daemon that has taken the question may be gone before it is followed.
    async fn attach_or_reconnect(
        &mut self,
        control: &mut FollowControl<'_>,
    ) -> Result<(), Failure> {
        match self.attach().await {
            Ok(()) => Ok(()),
            Err(error) if error.is_transient() => self.reconnect(control).await,
            Err(error) => Err(error.into()),
        }
    }

    fn tell_of_place(&mut self, attached: &AttachResult) {
        for notice in attached.notices.iter().filter(|_| !self.told) {
            self.notices.print(&notice::of(notice));
        }
        self.told = true;
    }

    fn spin(&mut self) {
        let now = Instant::now();
        let row = match self.live.row(now, spinner::COLUMNS) {
            Some(live) => self.spinner.turn(&live, now),
            None => self.spinner.row(self.answer.model.as_deref(), now),
        };
        self.notices.spin(&row);
    }

    async fn event(
        &mut self,
        control: &mut FollowControl<'_>,
        event: &WireEvent,
    ) -> Result<(), Failure> {
        let envelope = &event.event;
        let cursor = &mut self.target.cursor;
        if envelope
            .seq
            .is_some_and(|seq| !cursor.advance(envelope.epoch, seq))
        {
            return Ok(());
        }
        if envelope.turn.is_none_or(|it| it == self.answer.turn) {
            let written = control.guard(self.output.event(event.raw.get())).await;
            self.written(control, written).await?;
        }
        let of_turn = envelope.turn.filter(|it| *it == self.answer.turn);
        let begins = CommandFrames::begins(envelope);
        if let Some(rows) = of_turn.and_then(|_| self.frames.take(envelope)) {
            self.spinner.stop();
            // A row stands above a frame, and none in it.
            let written = if begins {
                control.guard(self.output.next_text()).await
            } else {
                control.guard(self.output.end_text()).await
            };
            self.written(control, written).await?;
            self.notices.settle();
            rows.iter()
                .for_each(|it| self.notices.raw(&format!("{it}\n")));
        }
        self.call(control, envelope, of_turn.is_some()).await?;
        if let Some(text) = self.waiting.event_line(envelope) {
            self.notices.print(&text);
        }
        let before = self.answer.item();
        let steps = self.answer.take(envelope);
        if before.is_some() && before != self.answer.item() {
            let written = control.guard(self.output.next_text()).await;
            self.written(control, written).await?;
        }
        control.turn = self.answer.turn;
        if !steps.is_empty() {
            self.calls.covered();
        }
        self.show(control, steps).await
    }

    /// A call of a tool, in a frame of its own.
    async fn call(
        &mut self,
        control: &mut FollowControl<'_>,
        event: &ClientEvent,
        is_ours: bool,
    ) -> Result<(), Failure> {
        if !is_ours {
            return Ok(());
        }
        let _thought = self.live.take(event, Instant::now());
        let Some(rows) = self.calls.take(event) else {
            return Ok(());
        };
        let written = control.guard(self.output.next_text()).await;
        self.written(control, written).await?;
        self.notices.settle();
        rows.iter().for_each(|it| self.notices.frame(it));
        if self.notices.spins() {
            self.spinner.begin_again(Instant::now());
        }
        Ok(())
    }

    async fn show(
        &mut self,
        control: &mut FollowControl<'_>,
        steps: Vec<StreamStep>,
    ) -> Result<(), Failure> {
        for step in steps {
            match step {
                StreamStep::Text(text) => {
                    self.spinner.stop();
                    let written = control.guard(self.output.text(&text)).await;
                    self.written(control, written).await?;
                }
                StreamStep::Notice(StatusLevel::Debug, text) => self.notices.debug(&text),
                StreamStep::Notice(StatusLevel::Info | StatusLevel::Warning, text) => {
                    self.notices.print(&text);
                }
                StreamStep::Rewritten => {
                    let written = control.guard(self.output.next_text()).await;
                    self.written(control, written).await?;
                    self.notices
                        .print("the answer ended otherwise than it was shown; all of it follows");
                }
                StreamStep::Resync => self.resync = true,
                StreamStep::ReplayComplete if self.resync => {
                    self.resync = false;
                    control.ask_record();
                }
                StreamStep::ReplayComplete => {}
                StreamStep::Asked(request) => {
                    self.spinner.stop();
                    // What the model said so far stands above the question.
                    let written = control.guard(self.output.next_text()).await;
                    self.written(control, written).await?;
                    self.notices.settle();
                    self.on_question(*request);
                }
                StreamStep::Tried(tried) => {
                    if let Some(text) = self.prompter.tried(&tried) {
                        let colour = self.prompter.open_question();
                        self.notices.coloured(&text, colour.map_or("", |it| it.1));
                    }
                }
                StreamStep::Settled(resolved) => {
                    let number = self.numbers.get(&resolved.confirm).copied();
                    if self.prompter.settle(resolved.confirm) {
                        // Its line still waits for an answer.
                        self.notices.coloured("\n", "");
                    }
                    if let Some(number) = number {
                        self.notices.print(&question::ending(number, &resolved));
                    }
                    self.ask_next();
                }
            }
        }
        Ok(())
    }

    /// Puts the question to the person here, or says where it can be answered.
    fn on_question(&mut self, request: ConfirmRequested) {
        self.numbers.insert(request.confirm, request.number);
        match self.asks {
            FollowAnswerer::Here => {
                let text = self.prompter.ask(request);
                if !text.is_empty() {
                    self.question(&text);
                }
            }
            FollowAnswerer::Elsewhere => {
                let number = request.number;
                self.notices.print(&format!(
                    "c{number} needs approval — answer in any attached terminal, or: aishctl confirm allow c{number}"
                ));
            }
        }
    }

    fn ask_next(&mut self) {
        if let Some(text) = self.prompter.ask_next() {
            self.question(&text);
        }
    }

    fn question(&mut self, text: &str) {
        let colour = self
            .prompter
            .open_question()
            .map_or("", |(_, colour)| colour);
        let text = wrap::exactly(text, controlling_terminal::columns());
        self.notices.coloured(&text, colour);
    }

    async fn typed(&mut self, line: &str) -> Result<(), Failure> {
        match self.prompter.take(line) {
            PromptReaction::Say(text) => self.notices.coloured(&text, ""),
            PromptReaction::Edit(subject) => {
                let words = editor::program(&self.reach.around, &self.link.hello.ui.editor);
                let caller = &self.link.caller;
                let text = self.prompter.edit(caller, words, subject).await;
                self.question(&text);
            }
            PromptReaction::Try(params) => {
                let text = self.prompter.try_first(&self.link.caller, params).await;
                self.question(&text);
            }
            PromptReaction::SignIn(confirm, server) => {
                let (caller, around) = (&self.link.caller, &self.reach.around);
                let signed = QuestionLogin::at_prompt(caller, around, &server, confirm).await;
                if let Err(failure) = signed {
                    let text = self.prompter.failed(&failure);
                    self.question(&text);
                }
            }
            PromptReaction::Diff(params) => {
                let (difference, text) = self.prompter.diff(&self.link.caller, params).await;
                self.notices.difference(&difference);
                self.question(&text);
            }
            PromptReaction::Choose(params) => {
                let (difference, text) =
                    self.prompter.begin_choice(&self.link.caller, params).await;
                self.notices.difference(&difference);
                self.question(&text);
            }
            PromptReaction::Hunk(difference, text) => {
                self.notices.difference(&difference);
                self.question(&text);
            }
            PromptReaction::Answer(params) => {
                let (confirm, decision) = (params.confirm, params.decision);
                match self.link.caller.call::<ConfirmAnswer>(*params).await {
                    Ok(result) => {
                        self.prompter.settle(confirm);
                        if result.outcome != AnswerOutcome::Resolved {
                            let number = self.numbers.get(&confirm).copied().unwrap_or_default();
                            let (text, _) = confirm::answer_text(number, decision, &result);
                            self.notices.print(&text);
                        }
                        self.ask_next();
                    }
                    // The next connection offers the question again.
                    Err(error) if error.is_transient() => {
                        let text = self.prompter.ask_again();
                        self.question(&text);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Nobody reads on: stop paying for tokens, then say so by the exit code.
    async fn written(
        &mut self,
        control: &mut FollowControl<'_>,
        written: Option<io::Result<()>>,
    ) -> Result<(), Failure> {
        match written {
            Some(Err(error)) => {
                control.cancel();
                let settled = control.settle();
                drop(tokio::time::timeout(UNREAD_CANCEL_WITHIN, settled).await);
                Err(Failure::output(&error))
            }
            Some(Ok(())) | None => Ok(()),
        }
    }

    async fn record(
        &mut self,
        control: &mut FollowControl<'_>,
        record: Result<TurnRecord, RpcCallError>,
    ) -> Result<(), Failure> {
        match record {
            Ok(record) => {
                let steps = self.answer.settle(record);
                self.show(control, steps).await
            }
            // The next connection asks again.
            Err(error) if error.is_transient() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn reconnect(&mut self, control: &mut FollowControl<'_>) -> Result<(), Failure> {
        self.notices
            .print("lost the connection to aishd; trying again");
        loop {
            let opened = tokio::select! {
                opened = self.reach.open(DaemonWait::UntilBack) => opened.map_err(|failure| {
                    let again = format!("aishctl log {}", self.target.conversation);
                    Failure { hint: Some(again), ..failure }
                })?,
                wake = control.wake() => {
                    match wake {
                        FollowWake::Signal(signal) => control.signal(signal),
                        FollowWake::Over => control.over(),
                        FollowWake::Record(record) => self.record(control, *record).await?,
                        FollowWake::Event(_) | FollowWake::Typed(_) => {}
                    }
                    if self.answer.ended.is_some() {
                        return Ok(());
                    }
                    // Nothing can be cancelled where nobody listens.
                    if control.stopped.is_some() {
                        control.until = None;
                        control.leave();
                        return Ok(());
                    }
                    continue;
                }
            };
            self.link = opened;
            control.caller = self.link.caller.clone();
            match self.attach().await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
