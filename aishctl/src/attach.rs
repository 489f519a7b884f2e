//! `attach`: a window on a conversation, plain: lines in, rows out, with or without a terminal.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use aish_proto::attach::{Attach, AttachParams, Cursor, Detach, DetachParams, Since};
use aish_proto::event::{
    Envelope, EventData as _, ReplayComplete, ResyncRequired, Shutdown, Snapshot, State,
    TurnFinished, TurnStarted,
};
use aish_proto::id::{ConversationId, Seq, SubscriptionId, TurnId};
use aish_proto::turn::{AgainParams, Cancel, Send, SendMode, SendParams, SendResult, TurnParams};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::Instant;
use ulid::Ulid;

use crate::args::{AttachArgs, Command, Global};
use crate::colon::{self, Said};
use crate::connect::{CallError, Caller, Event};
use crate::desk::{Desk, Printed};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::hello::{Link, Reach, Start, Wait};
use crate::notice;
use crate::queue::{self, Again};
use crate::resolve;
use crate::rows::{Row, Rows};
use crate::signals::{Signal, Signals};

/// A second Ctrl-C within this time leaves.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
/// Lines that wait to be sent; stdin is read no further until one is.
const UNSENT_LINES: usize = 64;
/// Finished turns that are remembered, for a send whose reply comes after its answer.
const FINISHED_TURNS: usize = 64;

/// What a window is opened with.
#[derive(Debug)]
pub struct Window {
    pub reach: Reach,
    pub global: Global,
    pub args: AttachArgs,
    pub dim: bool,
    pub signals: Signals,
}

/// Everything that may happen.
enum Wake {
    Event(Option<Event>),
    /// Bytes read; 0 is the end of stdin.
    Line(io::Result<usize>),
    Signal(Signal),
    Done(Done),
}

/// A call that has come back.
enum Done {
    Sent(Result<SendResult, CallError>),
    Again(Result<SendResult, Failure>),
    Printed(Result<Printed, Failure>),
    Switched(Result<ConversationId, Failure>),
    Quiet(Result<(), CallError>),
}

struct Open<O> {
    window: Window,
    out: O,
    link: Link,
    conversation: ConversationId,
    subscription: SubscriptionId,
    cursor: Cursor,
    rows: Rows,
    /// The rows of a replay that is not complete, and what they are.
    replay: Option<(Replay, Vec<Row>)>,
    title: String,
    running: Option<TurnId>,
    interrupted_at: Option<Instant>,
    unsent: VecDeque<(String, String)>,
    sending: bool,
    /// Our turns that have not ended.
    awaited: Vec<TurnId>,
    finished: BTreeMap<TurnId, Exit>,
    calls: JoinSet<Done>,
    stdin_ended: bool,
    /// `:quit`: what was said is still sent, but no answer is waited for.
    leaving: bool,
    /// The daemon has said that it goes.
    going: bool,
    exit: Exit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Replay {
    First,
    Back,
}

/// Opens the window and keeps it until it is left.
pub async fn run<R: AsyncBufRead + Unpin, O: AsyncWrite + Unpin>(
    window: Window,
    mut stdin: R,
    out: O,
) -> Result<Exit, Failure> {
    let mut open = Open::new(window, out).await?;
    let mut line = Vec::new();
    loop {
        let listening = !open.stdin_ended && open.unsent.len() < UNSENT_LINES;
        let wake = tokio::select! {
            biased;
            signal = open.window.signals.next() => Wake::Signal(signal),
            Some(Ok(done)) = open.calls.join_next() => Wake::Done(done),
            event = open.link.events.recv() => Wake::Event(event),
            read = stdin.read_until(b'\n', &mut line), if listening => Wake::Line(read),
        };
        let leaves = match wake {
            Wake::Signal(signal) => open.signal(signal).await?,
            Wake::Done(done) => open.done(done).await?,
            Wake::Event(Some(event)) => {
                open.event(&event.params.event, event.params.subscription)
                    .await?
            }
            Wake::Event(None) => open.reconnect().await?,
            Wake::Line(Ok(read)) => {
                open.stdin_ended |= read == 0;
                // At the end too: a last line without its line feed may have come while we did something else.
                let said = std::mem::take(&mut line);
                open.line(&String::from_utf8_lossy(&said)).await?;
                false
            }
            Wake::Line(Err(error)) => {
                return Err(Failure::new(
                    Exit::FAILED,
                    format!("cannot read stdin: {error}"),
                ));
            }
        };
        open.send_next();
        if leaves || open.is_over() {
            return Ok(open.exit);
        }
    }
}

impl<O: AsyncWrite + Unpin> Open<O> {
    async fn new(mut window: Window, out: O) -> Result<Self, Failure> {
        let mut link = window.reach.open(Wait::No).await?;
        let name = window
            .args
            .conversation
            .as_deref()
            .or(window.global.conversation.as_deref());
        let conversation = loop {
            match resolve::to_attach(&link.caller, &window.reach.around, name).await {
                Ok(conversation) => break conversation,
                Err(failure) if failure.transient => {
                    link = window.reach.open(Wait::UntilBack).await?;
                }
                Err(failure) => return Err(failure),
            }
        };
        window.signals.listen().map_err(|error| {
            Failure::new(Exit::FAILED, format!("cannot listen for signals: {error}"))
        })?;
        let started = link
            .started
            .then(|| format!("started aishd {}", link.hello.server.version));
        let mut open = Self {
            rows: Rows::new(Some(link.hello.client_id), window.global.verbose),
            cursor: Cursor {
                epoch: link.hello.epoch,
                seq: Seq(0),
            },
            subscription: SubscriptionId::from_bytes([0; 16]),
            window,
            out,
            link,
            conversation,
            replay: None,
            title: String::new(),
            running: None,
            interrupted_at: None,
            unsent: VecDeque::new(),
            sending: false,
            awaited: Vec::new(),
            finished: BTreeMap::new(),
            calls: JoinSet::new(),
            going: false,
            stdin_ended: false,
            leaving: false,
            exit: Exit::DONE,
        };
        if let Some(started) = started {
            open.tell(&started).await?;
        }
        match open.attach(Replay::First).await {
            // The closed connection is noticed where others are, and the next one tried.
            Err(error) if !error.is_transient() => Err(error.into()),
            Ok(()) | Err(_) => Ok(open),
        }
    }

    async fn attach(&mut self, replay: Replay) -> Result<(), CallError> {
        let since = match (replay, self.window.args.tail) {
            (Replay::Back, _) => Since::Cursor(self.cursor),
            (Replay::First, 0) => Since::Now,
            (Replay::First, rows) => Since::Tail(rows),
        };
        let params = AttachParams {
            id: self.conversation,
            since,
            deltas: true,
        };
        self.subscription = self.link.caller.call::<Attach>(params).await?.subscription;
        // What was held of a replay that broke off is not sent again after its cursor.
        let held = match (replay, self.replay.take()) {
            (Replay::Back, Some((Replay::Back, held))) => held,
            (Replay::Back | Replay::First, _) => Vec::new(),
        };
        if replay == Replay::First {
            self.cursor.seq = Seq(0);
            self.rows = Rows::new(Some(self.link.hello.client_id), self.window.global.verbose);
        }
        self.replay = Some((replay, held));
        Ok(())
    }

    async fn event(
        &mut self,
        event: &Envelope,
        subscription: SubscriptionId,
    ) -> Result<bool, Failure> {
        if subscription != self.subscription {
            return Ok(false);
        }
        if event.kind == ResyncRequired::KIND {
            self.cursor = Cursor {
                epoch: event.epoch,
                seq: Seq(0),
            };
        }
        if let Some(seq) = event.seq {
            if event.epoch == self.cursor.epoch && seq <= self.cursor.seq {
                return Ok(false);
            }
            self.cursor = Cursor {
                epoch: event.epoch,
                seq,
            };
        }
        // Somebody stopped it, and does not want a window to start it again.
        self.going |= event.kind == Shutdown::KIND;
        self.notice_turn(event);
        let rows = self.rows.take(event);
        if event.kind == ReplayComplete::KIND {
            if let Some(through) = event.read::<ReplayComplete>() {
                self.cursor.seq = self.cursor.seq.max(through.through);
            }
            return self.replayed(rows).await.map(|()| false);
        }
        match &mut self.replay {
            Some((_, held)) => held.extend(rows),
            None => self.show(rows).await?,
        }
        Ok(false)
    }

    /// Keeps what is known of who runs and which of our turns have ended.
    fn notice_turn(&mut self, event: &Envelope) {
        if let Some(snapshot) = event.read::<Snapshot>() {
            self.title = snapshot.title;
            self.running = snapshot.running.map(|it| it.turn);
        } else if let Some(State { turn, .. }) = event.read() {
            self.running = turn;
        } else if event.kind == TurnStarted::KIND {
            self.running = event.turn;
        } else if let (Some(finished), Some(turn)) = (event.read::<TurnFinished>(), event.turn) {
            if self.running == Some(turn) {
                self.running = None;
            }
            let exit = exit::of_turn(finished.stop_reason, finished.error.as_ref());
            if self.finished.len() >= FINISHED_TURNS {
                self.finished.pop_first();
            }
            self.finished.insert(turn, exit);
            let ours = self.awaited.contains(&turn);
            self.awaited.retain(|it| *it != turn);
            match finished.merged_into {
                Some(other) if ours => self.awaited.push(other),
                _ if ours && exit != Exit::DONE => self.exit = exit,
                _ => {}
            }
        }
    }

    async fn replayed(&mut self, rows: Vec<Row>) -> Result<(), Failure> {
        let Some((replay, mut held)) = self.replay.take() else {
            return Ok(());
        };
        held.extend(rows);
        match replay {
            Replay::First => {
                let greeting = format!("attached to {} ({})", self.title, self.rows.here());
                self.tell(&greeting).await?;
                let from = held
                    .len()
                    .saturating_sub(usize::try_from(self.window.args.tail).unwrap_or(usize::MAX));
                held.drain(..from);
            }
            Replay::Back => {
                self.tell(&format!("back (missed {} lines)", held.len()))
                    .await?;
            }
        }
        self.show(held).await
    }

    async fn line(&mut self, line: &str) -> Result<(), Failure> {
        match colon::read(line, self.conversation) {
            Said::Nothing => {}
            Said::Leave => {
                self.stdin_ended = true;
                self.leaving = true;
            }
            Said::Told(text) => self.tell(&text).await?,
            Said::Question(_) | Said::Now(_) if self.window.args.read_only => {
                self.tell("this window is read-only").await?;
            }
            Said::Question(text) => self.unsent.push_back((Ulid::new().to_string(), text)),
            Said::Now(text) => {
                self.cancel();
                self.unsent.push_front((Ulid::new().to_string(), text));
            }
            Said::Switch(name) => {
                let (caller, subscription) = (self.link.caller.clone(), self.subscription);
                self.calls.spawn(async move {
                    Done::Switched(leave_for(&caller, subscription, &name).await)
                });
            }
            Said::Command(parsed) => self.command(parsed.0, parsed.1),
        }
        Ok(())
    }

    fn command(&mut self, global: Global, command: Command) {
        let caller = self.link.caller.clone();
        if let Command::Retry(args) | Command::Continue(args) = &command {
            let again = if matches!(command, Command::Retry(_)) {
                Again::Retry
            } else {
                Again::Continue
            };
            let params = AgainParams {
                conversation: self.conversation,
                turn: args.turn.as_deref().and_then(|it| it.parse().ok()),
                idempotency_key: Ulid::new().to_string(),
                model: global.model,
            };
            self.calls
                .spawn(async move { Done::Again(queue::send(&caller, again, params).await) });
            return;
        }
        let around = self.window.reach.around.clone();
        let desk = Desk {
            caller,
            around,
            global,
            may_prompt: false,
        };
        self.calls
            .spawn(async move { Done::Printed(desk.run(&command).await) });
    }

    /// Sends the oldest line that waits; one at a time, because calls may overtake each other.
    fn send_next(&mut self) {
        let Some((key, text)) = self.unsent.front().filter(|_| !self.sending) else {
            return;
        };
        let params = SendParams {
            conversation: self.conversation,
            text: text.clone(),
            idempotency_key: key.clone(),
            mode: SendMode::Queue,
            expected_turn: None,
            model: self.window.global.model.clone(),
            attachments: Vec::new(),
            on_confirm: None,
        };
        let caller = self.link.caller.clone();
        self.sending = true;
        self.calls
            .spawn(async move { Done::Sent(caller.call::<Send>(params).await) });
    }

    async fn done(&mut self, done: Done) -> Result<bool, Failure> {
        match done {
            Done::Sent(Err(error)) if error.is_transient() => self.sending = false,
            Done::Sent(sent) => {
                self.sending = false;
                self.unsent.pop_front();
                self.sent(sent.map_err(Failure::from)).await?;
            }
            Done::Again(sent) => self.sent(sent).await?,
            Done::Printed(Ok(printed)) => self.put(&printed.shown(true)).await?,
            Done::Printed(Err(failure)) | Done::Switched(Err(failure)) => {
                self.refused(&failure).await?;
            }
            Done::Switched(Ok(conversation)) => self.switch(conversation).await?,
            Done::Quiet(Ok(())) => {}
            Done::Quiet(Err(error)) => self.refused(&error.into()).await?,
        }
        Ok(false)
    }

    async fn sent(&mut self, sent: Result<SendResult, Failure>) -> Result<(), Failure> {
        match sent {
            Ok(sent) => match self.finished.get(&sent.turn) {
                None => self.awaited.push(sent.turn),
                Some(exit) if *exit != Exit::DONE => self.exit = *exit,
                Some(_) => {}
            },
            Err(failure) => {
                self.exit = failure.exit;
                self.refused(&failure).await?;
            }
        }
        Ok(())
    }

    async fn switch(&mut self, conversation: ConversationId) -> Result<(), Failure> {
        self.conversation = conversation;
        self.running = None;
        self.awaited.clear();
        // If the connection is lost here, the next one begins with this conversation.
        self.replay = Some((Replay::First, Vec::new()));
        match self.attach(Replay::First).await {
            Err(error) if !error.is_transient() => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn cancel(&mut self) -> bool {
        let Some(turn) = self.running else {
            return false;
        };
        let caller = self.link.caller.clone();
        self.calls.spawn(async move {
            Done::Quiet(caller.call::<Cancel>(TurnParams { turn }).await.map(drop))
        });
        true
    }

    async fn signal(&mut self, signal: Signal) -> Result<bool, Failure> {
        if signal == Signal::Terminate {
            self.exit = Exit::TERMINATED;
            return Ok(true);
        }
        let now = Instant::now();
        if self
            .interrupted_at
            .is_some_and(|it| now.duration_since(it) < LEAVE_WITHIN)
        {
            self.exit = Exit::INTERRUPTED;
            return Ok(true);
        }
        if !self.window.args.read_only && self.cancel() {
            self.interrupted_at = Some(now);
        } else {
            self.tell("Ctrl-D detaches; the conversation goes on")
                .await?;
        }
        Ok(false)
    }

    async fn reconnect(&mut self) -> Result<bool, Failure> {
        self.tell("lost the connection to aishd; trying again")
            .await?;
        // Before the first replay is complete there is no place to go on from.
        let replay = match &self.replay {
            Some((Replay::First, _)) => Replay::First,
            Some((Replay::Back, _)) | None => Replay::Back,
        };
        let mut reach = self.window.reach.clone();
        if std::mem::take(&mut self.going) {
            reach.start = Start::Forbidden;
        }
        loop {
            self.link = tokio::select! {
                opened = reach.open(Wait::UntilBack) => opened?,
                signal = self.window.signals.next() => {
                    self.exit = if signal == Signal::Terminate { Exit::TERMINATED } else { Exit::INTERRUPTED };
                    return Ok(true);
                }
            };
            self.rows.we_are(self.link.hello.client_id);
            match self.attach(replay).await {
                Ok(()) => return Ok(false),
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Everything was said, sent and, where nobody sits, answered.
    fn is_over(&self) -> bool {
        let answered =
            self.awaited.is_empty() || self.leaving || self.window.reach.around.stdin_terminal;
        self.stdin_ended
            && self.unsent.is_empty()
            && !self.sending
            && self.calls.is_empty()
            && self.replay.is_none()
            && answered
    }

    async fn refused(&mut self, failure: &Failure) -> Result<(), Failure> {
        let hint = failure
            .hint
            .as_ref()
            .map(|it| format!("\nhint: {it}"))
            .unwrap_or_default();
        self.tell(&format!("{}{hint}", failure.message)).await
    }

    async fn tell(&mut self, text: &str) -> Result<(), Failure> {
        self.put(&notice::line(text, self.window.dim)).await
    }

    async fn show(&mut self, rows: Vec<Row>) -> Result<(), Failure> {
        let mut text = String::new();
        for row in rows {
            match row {
                Row::Text(line) => text.push_str(&(line + "\n")),
                Row::Notice(line) => text.push_str(&notice::line(&line, self.window.dim)),
            }
        }
        self.put(&text).await
    }

    async fn put(&mut self, text: &str) -> Result<(), Failure> {
        let written = async {
            self.out.write_all(text.as_bytes()).await?;
            self.out.flush().await
        };
        written.await.map_err(|error| Failure::output(&error))
    }
}

/// Finds the other conversation and ends the subscription of this one. Only then is the other one
/// attached to: its reply must not wait behind events that nobody takes.
async fn leave_for(
    caller: &Caller,
    subscription: SubscriptionId,
    name: &str,
) -> Result<ConversationId, Failure> {
    let found = resolve::named(caller, name).await?.id;
    caller.call::<Detach>(DetachParams { subscription }).await?;
    Ok(found)
}

#[cfg(test)]
mod tests;
