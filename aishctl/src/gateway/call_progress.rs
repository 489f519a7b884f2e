//! One call, from its seat to its end: a list of one call in a conversation of ours, followed through whatever the daemon
//! goes through. Its key makes it one turn, however often it has to be said; so it runs once or not at all.

use std::time::Duration;

use aish_proto::attach::{Attach, AttachParams, Cursor, ReplayStart};
use aish_proto::conversation::ConversationCreateParams;
use aish_proto::event::{Event, ToolProgress, ToolResult, TurnFinished};
use aish_proto::id::{ConversationId, Seq, TurnId};
use aish_proto::tool::{Run, ToolRunParams};
use aish_proto::turn::{
    Cancel, OnConfirm, SendMode, SendResult, StopReason, TurnParams, UnattendedAction,
};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use ulid::Ulid;

use super::at;
use super::content::{self, ContentForm};
use super::conversation_pool::{GatewaySeat, SeatPool};
use super::message::{INVALID_PARAMS, RpcProblem};
use super::progress_notifications::ProgressNotifications;
use crate::client::connect::{CallFailure, RpcCallError, WireEvent};
use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonWait};

const CALL: &str = "call";
/// The daemon may wait for a server that it has never been connected to.
const RUN_DEADLINE: Duration = Duration::from_secs(30);
/// A daemon that is started again may have a long journal to read.
const DAEMON_BACK_WITHIN: Duration = Duration::from_secs(60);
const CANCELLED_WITHIN: Duration = Duration::from_secs(5);
/// How often a client is told that its call still waits, so that its own patience begins anew.
const REMINDER: Duration = Duration::from_secs(10);
/// As long as a question of `aishctl ask` waits for a person.
const CONFIRM_TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// What is called, and for whom.
#[derive(Debug)]
pub(super) struct GatewayCall {
    /// `<alias>__<tool>`.
    pub(super) name: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) form: ContentForm,
    /// The result of other arguments is no answer, also where a person chose them.
    pub(super) as_asked: bool,
    /// What the client calls itself, safe to show.
    pub(super) client: String,
}

/// How it ended; `None`: the client called it off, and wants no answer.
pub(super) type GatewayCallEnd = Option<Result<Map<String, Value>, RpcProblem>>;

/// Runs the call. `stop` becomes true when the client does not want it any more.
pub(super) async fn run(
    reach: &DaemonReach,
    seats: &SeatPool,
    called: GatewayCall,
    mut telling: ProgressNotifications,
    mut stop: watch::Receiver<bool>,
) -> GatewayCallEnd {
    let mut reminder = reminder();
    let mut taking = std::pin::pin!(seats.take());
    let seat = loop {
        tokio::select! {
            seat = &mut taking => break seat,
            () = stopped(&mut stop) => return None,
            _ = reminder.tick() => telling.note("waits for other calls of this client").await,
        }
    };
    let course = GatewayCallProgress {
        reach,
        seat,
        key: Ulid::new().to_string(),
        called,
        telling,
        stop,
    };
    course.run().await
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|it| *it).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn reminder() -> tokio::time::Interval {
    let mut reminder = tokio::time::interval_at(Instant::now() + REMINDER, REMINDER);
    reminder.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    reminder
}

struct GatewayCallProgress<'a> {
    reach: &'a DaemonReach,
    seat: GatewaySeat<'a>,
    key: String,
    called: GatewayCall,
    telling: ProgressNotifications,
    stop: watch::Receiver<bool>,
}

/// Why a call has no turn.
enum NotBegun {
    /// The daemon does not take it.
    Refused(RpcCallError),
    /// It is not there. It may have the call.
    Away(String),
    CalledOff,
}

impl GatewayCallProgress<'_> {
    async fn run(mut self) -> GatewayCallEnd {
        match self.begin().await {
            Ok((link, sent)) => {
                self.seat.made();
                self.follow(link, sent).await
            }
            Err(NotBegun::CalledOff) => None,
            Err(NotBegun::Away(why)) => Some(Ok(content::failed(&unknown(&why)))),
            Err(NotBegun::Refused(error)) => Some(self.refused(&error)),
        }
    }

    fn refused(&self, error: &RpcCallError) -> Result<Map<String, Value>, RpcProblem> {
        if is_unknown_tool(error) {
            let message = format!("Unknown tool: {}", self.called.name);
            return Err(RpcProblem::new(INVALID_PARAMS, message));
        }
        let hint = error.hint.as_ref().map(|it| format!(" (hint: {it})"));
        let hint = hint.unwrap_or_default();
        let text = format!("[aish] the call did not run: {}{hint}", error.message);
        Ok(content::failed(&text))
    }

    async fn open(&mut self) -> Result<DaemonLink, NotBegun> {
        let give_up = Instant::now() + DAEMON_BACK_WITHIN;
        loop {
            let opened = tokio::select! {
                opened = self.reach.open(DaemonWait::UntilBack) => opened,
                () = stopped(&mut self.stop) => return Err(NotBegun::CalledOff),
            };
            match opened {
                Ok(link) => return Ok(link),
                Err(failure) if Instant::now() >= give_up => {
                    return Err(NotBegun::Away(failure.message));
                }
                Err(_) => self.telling.note("waits for aishd to be back").await,
            }
        }
    }

    async fn begin(&mut self) -> Result<(DaemonLink, SendResult), NotBegun> {
        let mut link = self.open().await?;
        let mut params = self.params();
        loop {
            let asked = link
                .caller
                .call_within::<Run>(params.clone(), Some(RUN_DEADLINE));
            match asked.await {
                Ok(sent) => return Ok((link, sent)),
                // The key makes it the same turn, whether or not it had arrived.
                Err(error) if error.is_transient() => link = self.open().await?,
                Err(error) if error.kind == CallFailure::Deadline => {
                    return Err(NotBegun::Away(error.message));
                }
                Err(error) if is_gone(&error) && self.seat.renew() => params = self.params(),
                Err(error) => return Err(NotBegun::Refused(error)),
            }
        }
    }

    fn params(&self) -> ToolRunParams {
        let number = match self.seat.number() {
            1 => String::new(),
            number => format!(" ({number})"),
        };
        let new = self.seat.is_new.then(|| ConversationCreateParams {
            title: Some(format!("mcp {}{number}", self.called.client)),
            model: None,
            cwd: self.reach.around.cwd_text(),
            constraints: None,
            budget: None,
            temporary: false,
        });
        ToolRunParams {
            conversation: self.seat.conversation,
            // Literal: what a client sends is data, and means no result of another call.
            calls: vec![json!({
                "jsonrpc": "2.0",
                "id": CALL,
                "method": "tools/call",
                "literal": true,
                "params": {"name": self.called.name, "arguments": self.called.arguments},
            })],
            new,
            idempotency_key: self.key.clone(),
            mode: SendMode::Queue,
            on_confirm: Some(OnConfirm {
                then: UnattendedAction::Ask,
                allow: vec![],
                timeout_ms: Some(CONFIRM_TIMEOUT_MS),
            }),
        }
    }

    async fn follow(&mut self, mut link: DaemonLink, sent: SendResult) -> GatewayCallEnd {
        let mut turn = LoggedTurn {
            id: sent.turn,
            conversation: self.seat.conversation,
            cursor: Cursor {
                epoch: link.hello.epoch,
                seq: Seq(sent.seq.0.saturating_sub(1)),
            },
            waits: None,
            is_edited: false,
            result: None,
            end: None,
        };
        if let Err(ended) = self.attach(&mut link, &turn).await {
            return ended;
        }
        let mut reminder = reminder();
        let mut give_up: Option<Instant> = None;
        while turn.end.is_none() {
            tokio::select! {
                event = link.events.recv() => match event {
                    Some(event) => match turn.take(&event) {
                        Some(CallMessage::Progress(progress)) => self.telling.on_progress(&progress).await,
                        Some(CallMessage::Waits(why)) => self.telling.note(why).await,
                        None => {}
                    },
                    None => {
                        match self.open().await {
                            Ok(opened) => link = opened,
                            Err(why) => return why.ended(),
                        }
                        if let Err(ended) = self.attach(&mut link, &turn).await {
                            return ended;
                        }
                    }
                },
                () = stopped(&mut self.stop), if give_up.is_none() => {
                    give_up = Some(Instant::now() + CANCELLED_WITHIN);
                    // It may have ended by itself meanwhile.
                    let _over = link.caller.call::<Cancel>(TurnParams { turn: turn.id }).await;
                }
                () = at(give_up) => return None,
                _ = reminder.tick() => {
                    if let Some(why) = &turn.waits {
                        self.telling.note(why).await;
                    }
                }
            }
        }
        if *self.stop.borrow() {
            return None;
        }
        Some(Ok(match (turn.result, turn.end) {
            (Some(_), _) if turn.is_edited && self.called.as_asked => content::failed(
                "[aish] the user changed what was asked for, and let that run instead",
            ),
            (Some(said), _) => {
                content::result(&link.caller, turn.conversation, said, self.called.form).await
            }
            (None, Some(CallEnd::Finished(finished))) => {
                content::failed(&without_result(&finished))
            }
            (None, Some(CallEnd::Lost) | None) => {
                content::failed(&unknown("the daemon's store is another one now"))
            }
        }))
    }

    /// From here on the events of the turn come.
    async fn attach(
        &mut self,
        link: &mut DaemonLink,
        turn: &LoggedTurn,
    ) -> Result<(), GatewayCallEnd> {
        loop {
            let params = AttachParams {
                id: turn.conversation,
                since: ReplayStart::Cursor(turn.cursor),
                // What a call says of itself comes only to those who want text as it is written.
                deltas: true,
            };
            match link.caller.call::<Attach>(params).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_transient() => {
                    *link = self.open().await.map_err(NotBegun::ended)?;
                }
                Err(error) => return Err(NotBegun::Away(error.message).ended()),
            }
        }
    }
}

impl NotBegun {
    /// What becomes of a call that the daemon may have.
    fn ended(self) -> GatewayCallEnd {
        match self {
            Self::CalledOff => None,
            Self::Away(why) => Some(Ok(content::failed(&unknown(&why)))),
            Self::Refused(error) => Some(Ok(content::failed(&unknown(&error.message)))),
        }
    }
}

fn is_unknown_tool(error: &RpcCallError) -> bool {
    error.is_not_found() && error.message.contains("unknown tool")
}

/// The conversation is not there any more: somebody has deleted it, or the store is another one.
fn is_gone(error: &RpcCallError) -> bool {
    error.is_not_found() && !is_unknown_tool(error)
}

fn unknown(why: &str) -> String {
    format!("[aish] {why}; the effect of this call is unknown")
}

/// Of a turn that ended before its call had a reply.
fn without_result(ended: &TurnFinished) -> String {
    if let Some(error) = &ended.error {
        return format!("[aish] {}", error.message);
    }
    match ended.stop_reason {
        StopReason::Cancelled => "[aish] cancelled before it ran".to_owned(),
        StopReason::Interrupted => {
            "[aish] the daemon ended before it ran; nothing was done".to_owned()
        }
        _ => unknown("the call has no result"),
    }
}

/// What the log has of the call so far.
struct LoggedTurn {
    id: TurnId,
    conversation: ConversationId,
    cursor: Cursor,
    /// What it waits for, for the client to be reminded of.
    waits: Option<&'static str>,
    /// A person chose other arguments.
    is_edited: bool,
    result: Option<ToolResult>,
    end: Option<CallEnd>,
}

enum CallEnd {
    Finished(Box<TurnFinished>),
    /// The store is not the one that had it.
    Lost,
}

enum CallMessage {
    Progress(Box<ToolProgress>),
    Waits(&'static str),
}

impl LoggedTurn {
    fn take(&mut self, event: &WireEvent) -> Option<CallMessage> {
        let event = &event.event;
        if let Event::ResyncRequired(_) = &event.data {
            self.end = Some(CallEnd::Lost);
        }
        if event.turn != Some(self.id) {
            return None;
        }
        if let Some(seq) = event.seq {
            self.cursor.seq = seq;
        }
        match &event.data {
            Event::ConfirmRequested(_) => {
                self.waits = Some("waits for a person to allow it: aishctl confirm ls");
                return self.waits.map(CallMessage::Waits);
            }
            Event::TurnQueued(_) => {
                self.waits = Some("waits for other turns of its conversation");
                return self.waits.map(CallMessage::Waits);
            }
            Event::TurnStarted(_) => self.waits = None,
            Event::ConfirmResolved(resolved) => {
                self.waits = None;
                self.is_edited |= resolved.edited.is_some();
            }
            Event::ToolProgress(said) => return Some(CallMessage::Progress(said.clone())),
            Event::ToolResult(result) => self.result = Some(ToolResult::clone(result)),
            Event::TurnFinished(finished) => {
                self.end = Some(CallEnd::Finished(finished.clone()));
            }
            _ => {}
        }
        None
    }
}
