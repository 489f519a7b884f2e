//! `mcp serve`: the daemon's tools for any MCP client, over stdin and stdout. The gateway keeps nothing: what is
//! offered, what may run and who is asked is decided by the daemon, and each call is a turn of a conversation there.
//!
//! Both eras of MCP are spoken, side by side: requests that state their revision are answered in the stateless one of
//! 2026-07-28, others in the session that `initialize` began.

mod content;
mod context;
mod course;
mod lines;
mod message;
mod offered;
mod outlet;
mod prompts;
mod replies;
mod requests;
mod revision;
mod seats;
mod telling;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use clap::Args;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::context::Changed;
use self::lines::{Lines, MAX_LINE_BYTES, Read};
use self::message::{INVALID_REQUEST, Line, Message, Problem, answer, notification};
pub use self::offered::Wanted;
use self::offered::{Known, Offered};
use self::outlet::Outlet;
use self::replies::Replies;
use self::revision::{Revision, SUBSCRIPTION};
use self::seats::Seats;
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hello::{Reach, Wait};
use crate::resolve;
use crate::signals::Signals;

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
    pub tools: Vec<Wanted>,
}

/// What all parts of one gateway know.
#[derive(Debug)]
struct Gateway {
    reach: Reach,
    seats: Seats,
    out: Outlet,
    offered: watch::Receiver<Known>,
    session: Mutex<Session>,
    /// Requests that run, each with what calls it off.
    running: Mutex<HashMap<String, watch::Sender<bool>>>,
    /// What each `subscriptions/listen` hears of, by its id.
    listening: Mutex<Vec<(Value, Vec<Changed>)>>,
    /// Of all providers, if this is empty.
    wanted: Vec<Wanted>,
}

/// What `initialize` and its like have settled.
#[derive(Clone, Debug, Default)]
struct Session {
    /// `None`: nobody said `initialize`.
    revision: Option<Revision>,
    /// The client is ready to hear of changes.
    is_ready: bool,
    /// What it calls itself; empty while nobody said.
    client: String,
    log_level: Option<usize>,
}

/// Serves until the input ends, a signal comes, or nobody reads.
pub async fn serve(
    reach: Reach,
    global: &Global,
    args: &ServeArgs,
    signals: &mut Signals,
    stdin: impl AsyncRead + Unpin,
    stdout: impl AsyncWrite + Unpin,
) -> Result<Exit, Failure> {
    let conversation = prepared(&reach, global).await?;
    signals.listen().map_err(|error| {
        Failure::new(Exit::FAILED, format!("cannot listen for signals: {error}"))
    })?;
    let (out, said) = Outlet::new();
    let (into_offered, offered) = watch::channel(Known::default());
    let gateway = Arc::new(Gateway {
        reach: reach.clone(),
        seats: Seats::new(conversation),
        out,
        offered,
        session: Mutex::default(),
        running: Mutex::default(),
        listening: Mutex::default(),
        wanted: args.tools.clone(),
    });
    let mut keeper = JoinSet::new();
    keeper.spawn(context::keep(Arc::clone(&gateway)));
    keeper.spawn(offered::keep(
        reach,
        conversation,
        args.tools.clone(),
        into_offered,
    ));
    let (leave, leaving) = watch::channel(None);
    let mut serving = pin!(gateway.serve(stdin, leaving));
    let mut writing = pin!(outlet::write(said, stdout));
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
async fn prepared(reach: &Reach, global: &Global) -> Result<Option<ConversationId>, Failure> {
    let link = reach.open(Wait::No).await.map_err(|failure| {
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
        Some(name) => Ok(Some(resolve::named(&link.caller, name).await?.id)),
        None => Ok(None),
    }
}

/// What may wake the gateway.
enum Wake {
    Read(std::io::Result<Read>),
    Offered,
    Leave(Exit),
}

impl Gateway {
    async fn serve(
        self: &Arc<Self>,
        stdin: impl AsyncRead + Unpin,
        mut leaving: watch::Receiver<Option<Exit>>,
    ) -> Exit {
        let mut lines = Lines::new(BufReader::new(stdin));
        let mut tasks = JoinSet::new();
        let mut offered = self.offered.clone();
        let mut known: Option<Arc<Offered>> = None;
        let exit = loop {
            let wake = tokio::select! {
                read = lines.next() => Wake::Read(read),
                Ok(()) = offered.changed() => Wake::Offered,
                Ok(exit) = leaving.wait_for(Option::is_some) => {
                    Wake::Leave((*exit).unwrap_or(Exit::DONE))
                }
                Some(_ended) = tasks.join_next() => continue,
            };
            match wake {
                Wake::Read(Ok(Read::Line(line))) => self.line(&line, &mut tasks).await,
                Wake::Read(Ok(Read::TooLong)) => {
                    self.one(
                        message::too_long(MAX_LINE_BYTES),
                        &Replies::one(&self.out),
                        &mut tasks,
                    )
                    .await;
                }
                Wake::Read(Ok(Read::End) | Err(_)) => break Exit::DONE,
                Wake::Offered => {
                    let now = offered.borrow_and_update().tools().cloned();
                    if known.is_some() && self.tells_other_tools(known.as_deref(), now.as_deref()) {
                        self.tell_of_change(Changed::Tools).await;
                    }
                    known = now;
                }
                Wake::Leave(exit) => break exit,
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
        let listening = std::mem::take(&mut *self.listening.lock());
        for (id, _) in listening {
            let mut result = serde_json::Map::new();
            result.insert("_meta".to_owned(), json!({ SUBSCRIPTION: id }));
            let goodbye = Revision::July2026.finished(result);
            self.out.say(&answer(&id, Ok(goodbye))).await;
        }
    }

    async fn line(self: &Arc<Self>, line: &[u8], tasks: &mut JoinSet<()>) {
        let batched = self
            .session
            .lock()
            .revision
            .is_some_and(Revision::has_batches);
        match message::read(line) {
            Line::Blank => {}
            Line::One(message) => self.one(message, &Replies::one(&self.out), tasks).await,
            Line::Batch(all) if batched => {
                let replies = Replies::batch(&self.out);
                for message in all {
                    self.one(message, &replies, tasks).await;
                }
                replies.done().await;
            }
            Line::Batch(_) => {
                let problem = Problem::new(INVALID_REQUEST, "this revision has no batches");
                self.out.say(&answer(&Value::Null, Err(problem))).await;
            }
        }
    }

    async fn one(self: &Arc<Self>, message: Message, replies: &Replies, tasks: &mut JoinSet<()>) {
        match message {
            Message::Reply => {}
            Message::Broken { id, error } => replies.give(answer(&id, Err(error))).await,
            Message::Notification { method, params } => self.notified(&method, &params),
            Message::Request { id, method, params } => {
                self.request(id, &method, params, replies, tasks).await;
            }
        }
    }

    /// Whether this client is told of other tools now.
    fn tells_other_tools(&self, before: Option<&Offered>, now: Option<&Offered>) -> bool {
        let client = self.session.lock().client.clone();
        match (before, now) {
            (Some(before), Some(now)) => !before.told(&client).eq(now.told(&client)),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        }
    }

    async fn tell_of_change(&self, changed: Changed) {
        let method = changed.method();
        if self.session.lock().is_ready {
            self.out
                .say(&json!({"jsonrpc": "2.0", "method": method}))
                .await;
        }
        let listening = self.listening.lock().clone();
        for (id, _) in listening
            .iter()
            .filter(|(_, hears)| hears.contains(&changed))
        {
            let params = json!({"_meta": {SUBSCRIPTION: id}});
            self.out.say(&notification(method, &params)).await;
        }
    }
}
