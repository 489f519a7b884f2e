//! `mcp serve`: the daemon's tools for any MCP client, over stdin and stdout. The gateway keeps nothing: what is
//! offered, what may run and who is asked is decided by the daemon, and each call is a turn of a conversation there.
//!
//! Both eras of MCP are spoken, side by side: requests that state their revision are answered in the stateless one of
//! 2026-07-28, others in the session that `initialize` began.

mod call_progress;
mod completion;
mod content;
mod context;
mod conversation_pool;
mod lines;
mod message;
mod offered;
mod progress_notifications;
mod prompts;
mod replies;
mod requests;
mod revision;
mod server_resources;
mod stdout_lines;
mod subscriptions;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use clap::Args;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::conversation_pool::SeatPool;
use self::lines::{GatewayLines, LineRead, MAX_LINE_BYTES};
use self::message::{GatewayMessage, INVALID_REQUEST, MessageLine, RpcProblem, answer};
pub use self::offered::ToolSelection;
use self::offered::{KnownTools, OfferedTools};
use self::replies::LineReplies;
use self::revision::McpRevision;
use self::stdout_lines::GatewayOutlet;
use self::subscriptions::{ClientSubscriptions, GatewayNews, ListChange};
use crate::client::conversation_choice;
use crate::client::daemon_link::{DaemonReach, DaemonWait};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::signals::ClientSignals;

/// How long calls that are called off at the end may take to end.
const LEAVE_WITHIN: Duration = Duration::from_secs(6);
/// A client that does not read the last lines is not waited for.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
For an MCP client's configuration:

  {\"mcpServers\": {\"aish\": {\"command\": \"aishctl\", \"args\": [\"mcp\", \"serve\"]}}}

A daemon is started if none runs, and once more when a call finds none. Calls pass the same gate as a model's: what is
asked about waits in `aishctl confirm ls` and on every attached terminal, for ten minutes.
Each gateway has conversations of its own; -C NAME lets it use that one.")]
pub struct ServeArgs {
    /// Only these: a tool (fs__read_file), or all of one provider (fs__*)
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    pub tools: Vec<ToolSelection>,
}

/// What all parts of one gateway know.
#[derive(Debug)]
struct Gateway {
    reach: DaemonReach,
    seats: SeatPool,
    out: GatewayOutlet,
    offered: watch::Receiver<KnownTools>,
    session: Mutex<GatewaySession>,
    /// Requests that run, each with what calls it off.
    running: Mutex<HashMap<String, watch::Sender<bool>>>,
    subscriptions: ClientSubscriptions,
    /// Of all providers, if this is empty.
    wanted: Vec<ToolSelection>,
}

/// What `initialize` and its like have settled.
#[derive(Clone, Debug, Default)]
struct GatewaySession {
    /// `None`: nobody said `initialize`.
    revision: Option<McpRevision>,
    /// The client is ready to hear of changes.
    is_ready: bool,
    /// What it calls itself; empty while nobody said.
    client: String,
    log_level: Option<usize>,
}

/// Serves until the input ends, a signal comes, or nobody reads.
pub async fn serve(
    reach: DaemonReach,
    global: &GlobalArgs,
    args: &ServeArgs,
    signals: &mut ClientSignals,
    stdin: impl AsyncRead + Unpin,
    stdout: impl AsyncWrite + Unpin,
) -> Result<Exit, Failure> {
    let conversation = prepared(&reach, global).await?;
    signals.listen().map_err(|error| {
        Failure::new(Exit::FAILED, format!("cannot listen for signals: {error}"))
    })?;
    let (out, said) = GatewayOutlet::new();
    let (into_offered, offered) = watch::channel(KnownTools::default());
    let gateway = Arc::new(Gateway {
        reach: reach.clone(),
        seats: SeatPool::new(conversation),
        out,
        offered,
        session: Mutex::default(),
        running: Mutex::default(),
        subscriptions: ClientSubscriptions::default(),
        wanted: args.tools.clone(),
    });
    let mut keeper = JoinSet::new();
    keeper.spawn(context::keep(Arc::clone(&gateway)));
    keeper.spawn(subscriptions::keep(Arc::clone(&gateway)));
    keeper.spawn(offered::keep(
        reach,
        conversation,
        args.tools.clone(),
        into_offered,
    ));
    let (leave, leaving) = watch::channel(None);
    let mut serving = pin!(gateway.serve(stdin, leaving));
    let mut writing = pin!(stdout_lines::write(said, stdout));
    // A client that does not read holds up what is to be said to it, and not the end.
    let mut give_up: Option<Instant> = None;
    let mut is_read = true;
    let exit = loop {
        let leaves_with = tokio::select! {
            exit = &mut serving => break exit,
            _nobody_reads = &mut writing, if is_read => {
                is_read = false;
                Exit::DONE
            }
            signal = signals.next() => signal.exit(),
            () = at(give_up) => break (*leave.borrow()).unwrap_or(Exit::DONE),
        };
        leave.send_replace(Some(leaves_with));
        give_up.get_or_insert(Instant::now() + LEAVE_WITHIN + LAST_LINES_WITHIN);
    };
    keeper.abort_all();
    if is_read {
        let written = async { tokio::join!(gateway.out.end(), writing) };
        let _too_slow = tokio::time::timeout(LAST_LINES_WITHIN, written).await;
    }
    Ok(exit)
}

/// Returns at that time, or never.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The conversation that was named, once the daemon has been found to be one that can be served.
async fn prepared(
    reach: &DaemonReach,
    global: &GlobalArgs,
) -> Result<Option<ConversationId>, Failure> {
    let link = reach.open(DaemonWait::No).await.map_err(|failure| {
        // A daemon refuses the hello of what it started: through a gateway it would offer its own tools to itself,
        // each of them again under another name.
        if failure.refused != Some(ErrorKind::ForbiddenRole) {
            return failure;
        }
        let message = "this gateway was started by the aishd that it would serve";
        Failure::new(Exit::USAGE, message)
            .hint("take it out of mcp.servers: a daemon has its own tools already")
    })?;
    match &global.conversation {
        Some(name) => Ok(Some(
            conversation_choice::by_name(&link.caller, name).await?.id,
        )),
        None => Ok(None),
    }
}

/// What may wake the gateway.
enum GatewayWake {
    Read(std::io::Result<LineRead>),
    Offered,
    Leave(Exit),
}

impl Gateway {
    async fn serve(
        self: &Arc<Self>,
        stdin: impl AsyncRead + Unpin,
        mut leaving: watch::Receiver<Option<Exit>>,
    ) -> Exit {
        let mut lines = GatewayLines::new(BufReader::new(stdin));
        let mut tasks = JoinSet::new();
        let mut offered = self.offered.clone();
        let mut known: Option<Arc<OfferedTools>> = None;
        let exit = loop {
            let wake = tokio::select! {
                read = lines.next() => GatewayWake::Read(read),
                Ok(()) = offered.changed() => GatewayWake::Offered,
                Ok(exit) = leaving.wait_for(Option::is_some) => {
                    GatewayWake::Leave((*exit).unwrap_or(Exit::DONE))
                }
                Some(_ended) = tasks.join_next() => continue,
            };
            match wake {
                GatewayWake::Read(Ok(LineRead::Line(line))) => self.line(&line, &mut tasks).await,
                GatewayWake::Read(Ok(LineRead::TooLong)) => {
                    self.one(
                        message::too_long(MAX_LINE_BYTES),
                        &LineReplies::one(&self.out),
                        &mut tasks,
                    )
                    .await;
                }
                GatewayWake::Read(Ok(LineRead::End) | Err(_)) => break Exit::DONE,
                GatewayWake::Offered => {
                    let now = offered.borrow_and_update().tools().cloned();
                    if known.is_some() && self.tells_other_tools(known.as_deref(), now.as_deref()) {
                        self.tell(GatewayNews::List(ListChange::Tools)).await;
                    }
                    known = now;
                }
                GatewayWake::Leave(exit) => break exit,
            }
        };
        self.leave(tasks).await;
        exit
    }

    /// Calls off what runs, and lets it end.
    async fn leave(&self, mut tasks: JoinSet<()>) {
        for stop in self.running.lock().values() {
            stop.send_replace(true);
        }
        let ended = async { while tasks.join_next().await.is_some() {} };
        let _too_slow = tokio::time::timeout(LEAVE_WITHIN, ended).await;
        self.end_listening().await;
    }

    async fn line(self: &Arc<Self>, line: &[u8], tasks: &mut JoinSet<()>) {
        let batched = self
            .session
            .lock()
            .revision
            .is_some_and(McpRevision::has_batches);
        match message::read(line) {
            MessageLine::Blank => {}
            MessageLine::One(message) => {
                self.one(message, &LineReplies::one(&self.out), tasks).await;
            }
            MessageLine::Batch(all) if batched => {
                let replies = LineReplies::batch(&self.out);
                for message in all {
                    self.one(message, &replies, tasks).await;
                }
                replies.done().await;
            }
            MessageLine::Batch(_) => {
                let problem = RpcProblem::new(INVALID_REQUEST, "this revision has no batches");
                self.out.write(&answer(&Value::Null, Err(problem))).await;
            }
        }
    }

    async fn one(
        self: &Arc<Self>,
        message: GatewayMessage,
        replies: &LineReplies,
        tasks: &mut JoinSet<()>,
    ) {
        match message {
            GatewayMessage::Reply => {}
            GatewayMessage::Broken { id, error } => replies.give(answer(&id, Err(error))).await,
            GatewayMessage::Notification { method, params } => self.notified(&method, &params),
            GatewayMessage::Request { id, method, params } => {
                self.request(id, &method, params, replies, tasks).await;
            }
        }
    }

    /// Whether this client is told of other tools now.
    fn tells_other_tools(&self, before: Option<&OfferedTools>, now: Option<&OfferedTools>) -> bool {
        let client = self.session.lock().client.clone();
        match (before, now) {
            (Some(before), Some(now)) => !before.tools_for(&client).eq(now.tools_for(&client)),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        }
    }
}
