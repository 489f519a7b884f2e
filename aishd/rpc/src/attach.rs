//! `conversation/attach`: one task for each subscription, which reads the log and the live text from its
//! own position and writes at its client's pace (architecture, decision 4).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aish_proto::attach::{Attach, AttachParams, AttachResult, Detach, ReplayStart};
use aish_proto::envelope::EventData;
use aish_proto::error::ErrorKind;
use aish_proto::event::{self as wire, PresentClient};
use aish_proto::id::{Seq, SubscriptionId, TurnId};
use aish_proto::limits::PAGE_BYTES;
use aish_proto::method::Empty;
use aish_proto::todo::Todo;
use aish_proto::turn::QueuedTurn;
use aishd_config::live::{ConfigChange, ConfigStatus};
use aishd_conversation::questions::allowances::AllowanceBook;
use aishd_conversation::request_error::RequestError;
use aishd_conversation::view::follow::{FollowPage, LogFollower};
use aishd_conversation::view::live_item::{LiveItem, TextChannel, UnseenText};
use aishd_conversation::view::viewers::AttendingViewer;
use aishd_log::event::Record;
use aishd_mcp_messages::server::ServerSnapshot;
use aishd_platform::clock;
use aishd_tools::{ToolRunner, Toolset};
use futures_util::FutureExt as _;
use jsonrpsee::RpcModule;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::answerer::answerer;
use super::attached_clients::AttachedPlace;
use super::connection::ClientConnection;
use super::encoded_events::DeltaKey;
use super::method_error::MethodError;
use super::outbox::OutgoingLines;
use super::{
    MethodCall, RpcServer, UnsentGuard, auto_approve, event_conversion, mcp, notices, register,
    shell, tool_run,
};
use crate::log_owner::LogOwner;
use crate::notification::head;

/// What comes at the beginning goes out together up to so much.
const TOGETHER_BYTES: usize = 16 << 10;
/// Pauses while the store cannot be read.
const RETRY: Duration = Duration::from_millis(500);

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Attach, _, _>(module, attach);
    register::<Detach, _, _>(module, detach);
}

async fn attach(call: MethodCall<Attach>) -> Result<AttachResult, MethodError> {
    let MethodCall {
        server,
        connection,
        after_reply,
        params,
    } = call;
    let handle = server.directory.open(params.id).await?;
    let mut notices = if let Some(looked) = connection.notices.take(params.id).await {
        looked
    } else {
        let cwd = handle.view().borrow().state.cwd.clone();
        notices::of(&server, &cwd).await
    };
    notices.extend(notices::proposed(&server, params.id));
    notices.extend(notices::changes(&server, &handle).await);
    let (subscription, detached) = connection.subscribe(Some(params.id))?;
    let follower = handle.follow(Seq(0), params.deltas);
    let attending = connection.is_attended().then(|| handle.attend());
    let allowances = server.directory.allowances();
    let place = allowances.arrive(params.id, connection.client);
    let allowances = allowances.watch();
    let present = connection.present();
    let seat = server
        .attached
        .enter(params.id, subscription, present, place);
    // Before the reply: what changes while the client is sent the past is news to it.
    let mut servers = server.hub.servers();
    let known_servers = servers.borrow_and_update().clone();
    let tools = server.directory.tools().clone();
    let task = Subscription {
        log: LogOwner {
            epoch: server.about.epoch,
            conversation: Some(params.id),
        },
        head: head(subscription),
        id: subscription,
        params,
        seat,
        allowances,
        present: vec![],
        standing: server.config.watch_status(),
        servers,
        known_servers,
        known_tools: tools.toolset(),
        tools,
        detached,
        connection,
        untold: Some(server.untold()),
        server,
        attending,
        told: None,
    };
    after_reply.start(task.run(follower));
    Ok(AttachResult {
        subscription,
        notices,
    })
}

async fn detach(call: MethodCall<Detach>) -> Result<Empty, MethodError> {
    let subscription = call.params.subscription;
    let known = call.connection.subscriptions.lock().remove(&subscription);
    let (conversation, detached) = known.ok_or_else(|| {
        MethodError::new(
            ErrorKind::NotFound,
            "no such subscription on this connection",
        )
        .hint("conversation/attach gives one")
    })?;
    detached.cancel();
    if let Some(conversation) = conversation {
        call.server.attached.leave(conversation, subscription);
    }
    Ok(Empty {})
}

/// A subscription while it lives.
struct Subscription {
    server: Arc<RpcServer>,
    connection: Arc<ClientConnection>,
    id: SubscriptionId,
    /// What stands before each of its events.
    head: String,
    params: AttachParams,
    log: LogOwner,
    seat: AttachedPlace,
    /// What clients let run unasked.
    allowances: watch::Receiver<AllowanceBook>,
    /// Who was there when it was last said.
    present: Vec<PresentClient>,
    /// How the configuration stands.
    standing: watch::Receiver<Arc<ConfigStatus>>,
    servers: watch::Receiver<Arc<ServerSnapshot>>,
    /// As the client was last told of them.
    known_servers: Arc<ServerSnapshot>,
    tools: ToolRunner,
    known_tools: Toolset,
    detached: CancellationToken,
    /// Until the client has been sent the last event before the daemon stops.
    untold: Option<UnsentGuard>,
    /// While a person looks.
    attending: Option<AttendingViewer>,
    /// What was last said of the conversation's state.
    told: Option<wire::State>,
}

/// Why a subscription ends.
enum SubscriptionEnd {
    /// The client has gone, was cut, or detached.
    Quiet,
    /// The conversation was deleted.
    Deleted,
}

impl Subscription {
    async fn run(mut self, mut follower: LogFollower) {
        let end = match self.replay(&mut follower).await {
            Ok(()) => self.live(follower).await,
            Err(end) => end,
        };
        if matches!(end, SubscriptionEnd::Deleted) {
            let reason = "the conversation was deleted".to_owned();
            let _gone = self.send(None, &wire::ResyncRequired { reason }).await;
        }
        self.connection.subscriptions.lock().remove(&self.id);
    }

    /// Snapshot, stored events up to it, `replayComplete`.
    async fn replay(&mut self, follower: &mut LogFollower) -> Result<(), SubscriptionEnd> {
        let view = follower.now();
        let head = view.state.last_seq;
        let from = match self.params.since {
            ReplayStart::Start => Seq(0),
            ReplayStart::Now => head,
            ReplayStart::Tail(n) => tail(head, n),
            ReplayStart::Cursor(cursor) if cursor.epoch == self.log.epoch && cursor.seq <= head => {
                cursor.seq
            }
            ReplayStart::Cursor(cursor) => {
                let reason = if cursor.epoch == self.log.epoch {
                    format!("the log ends at {head}, before {}", cursor.seq)
                } else {
                    "the store was replaced since".to_owned()
                };
                self.send(None, &wire::ResyncRequired { reason }).await?;
                tail(head, 100)
            }
        };
        let (queue, todos) = loop {
            let handle = follower.handle();
            let queue = super::turn::queue(handle, &view.state);
            let both = queue.and_then(|it| Ok((it, handle.todos(&view.state)?)));
            match both {
                Ok(both) => break both,
                Err(error) => self.wait_for_store(&error).await?,
            }
        };
        let todos = event_conversion::todos_of(todos);
        let snapshot = self.snapshot(follower, &view, queue, todos);
        let turn = view.state.running.as_ref().map(|it| it.turn);
        let mut lines = OutgoingLines::default();
        self.line(
            &mut lines,
            self.log.ephemeral(turn, clock::now(), &snapshot).into(),
        );
        follower.begin_at(from);
        while follower.cursor() < head {
            if lines.bytes() > TOGETHER_BYTES {
                self.write(&std::mem::take(&mut lines)).await?;
            }
            match follower.records_until(head, PAGE_BYTES) {
                Ok(records) if records.is_empty() => break,
                Ok(records) => self.records(&mut lines, &records),
                Err(error) => {
                    self.write(&std::mem::take(&mut lines)).await?;
                    self.wait_for_store(&error).await?;
                }
            }
        }
        let through = follower.cursor();
        let complete = wire::ReplayComplete { through };
        self.line(
            &mut lines,
            self.log.ephemeral(None, clock::now(), &complete).into(),
        );
        self.write(&lines).await
    }

    fn snapshot(
        &mut self,
        follower: &mut LogFollower,
        view: &aishd_conversation::view::ConversationView,
        queue: Vec<QueuedTurn>,
        todos: Vec<Todo>,
    ) -> wire::Snapshot {
        let state = &view.state;
        let mut running = state.running.as_ref().map(|it| wire::RunningTurn {
            turn: it.turn,
            item: it.items,
            offset: 0,
            text: String::new(),
        });
        if let (Some(running), Some(live), true) = (&mut running, &view.live, self.params.deltas) {
            (running.offset, running.text) = live.tail(PAGE_BYTES);
            running.item = live.item;
            follower.skip_live(live, running.offset, &running.text);
        }
        let cut = self
            .connection
            .peer
            .pid
            .and_then(|it| self.server.cut.lock().remove(&it));
        wire::Snapshot {
            title: state.title().to_owned(),
            state: event_conversion::activity(state),
            model: state.model.clone(),
            cwd: state.cwd.clone(),
            constraints: event_conversion::constraints(state),
            last_seq: state.last_seq,
            running,
            command: shell::running(state),
            norris: super::norris::run(state),
            queue,
            todos,
            held: state.is_held(),
            pending_confirms: super::confirm::pending(&self.server, self.params.id, state),
            presence: {
                self.present = self.present_now();
                self.present.clone()
            },
            waits: view.waits_for_store.clone(),
            notice: cut,
        }
    }

    /// Live events until somebody goes.
    async fn live(&mut self, mut follower: LogFollower) -> SubscriptionEnd {
        // Both are waited for once and not anew for every page: a fast answer has thousands, for each client.
        let detached = self.detached.clone();
        let mut detached = pin!(detached.cancelled());
        let mut stop = self.server.stop.subscribe();
        let stopping = async { stop.wait_for(Option::is_some).await.is_ok() };
        let mut stopping = pin!(stopping.fuse());
        loop {
            let result = tokio::select! {
                biased;
                () = &mut detached => return SubscriptionEnd::Quiet,
                true = &mut stopping => self.say_stopping().await,
                Ok(()) = self.standing.changed() => {
                    let now = self.standing.borrow_and_update().clone();
                    self.say_reloaded(&now).await
                }
                Ok(()) = self.seat.presence.changed() => self.say_presence().await,
                Ok(()) = self.allowances.changed() => self.say_presence().await,
                Ok(()) = self.servers.changed() => {
                    let now = self.servers.borrow_and_update().clone();
                    let before = std::mem::replace(&mut self.known_servers, now);
                    self.say_servers(&before, &self.known_servers).await
                }
                Ok(()) = self.tools.changed() => {
                    let now = self.tools.toolset();
                    let before = std::mem::replace(&mut self.known_tools, now);
                    self.say_tools(&before, &self.known_tools).await
                }
                // Last, because a fast stream always has one.
                page = follower.next(PAGE_BYTES) => match page {
                    Ok(FollowPage::Ended) => match self.reopen(&mut follower).await {
                        Ok(()) => Ok(()),
                        Err(end) => return end,
                    },
                    Ok(page) => self.send_and_tell(page, &follower).await,
                    Err(error) => self.wait_for_store(&error).await,
                },
            };
            if let Err(end) = result {
                return end;
            }
        }
    }

    fn present_now(&mut self) -> Vec<PresentClient> {
        let allowances = self.allowances.borrow_and_update().of(self.params.id);
        let clients = self.seat.presence.borrow_and_update().clone();
        auto_approve::presence(&clients, &allowances)
    }

    async fn say_presence(&mut self) -> Result<(), SubscriptionEnd> {
        let clients = self.present_now();
        if clients == self.present {
            return Ok(());
        }
        self.present.clone_from(&clients);
        self.send(None, &wire::Presence { clients }).await
    }

    async fn say_servers(
        &self,
        before: &ServerSnapshot,
        now: &ServerSnapshot,
    ) -> Result<(), SubscriptionEnd> {
        for server in mcp::changed(before, now) {
            self.send(None, &wire::McpStatus { server }).await?;
        }
        Ok(())
    }

    async fn say_tools(&self, before: &Toolset, now: &Toolset) -> Result<(), SubscriptionEnd> {
        match tool_run::changed(before, now) {
            Some(changed) => self.send(None, &changed).await,
            None => Ok(()),
        }
    }

    async fn say_stopping(&self) -> Result<(), SubscriptionEnd> {
        let Some(stopping) = self.server.stop.borrow().clone() else {
            return Ok(());
        };
        let event = wire::Shutdown {
            reason: stopping.reason,
            deadline_at: clock::rfc3339(stopping.deadline_at),
        };
        self.send(None, &event).await
    }

    /// Once to each connection, however many subscriptions it has.
    async fn say_reloaded(&self, now: &ConfigStatus) -> Result<(), SubscriptionEnd> {
        let told = &self.connection.told_of_config;
        if told.fetch_max(now.number, Ordering::Relaxed) >= now.number {
            return Ok(());
        }
        self.send(None, &reloaded(now)).await
    }

    /// The actor closed because nothing happened; the conversation is still there.
    async fn reopen(&mut self, follower: &mut LogFollower) -> Result<(), SubscriptionEnd> {
        loop {
            match self.server.directory.open(self.params.id).await {
                Ok(handle) => {
                    *follower = handle.follow(follower.cursor(), self.params.deltas);
                    self.attending = self.connection.is_attended().then(|| handle.attend());
                    return Ok(());
                }
                Err(RequestError::Missing) => return Err(SubscriptionEnd::Deleted),
                Err(RequestError::Draining) => {
                    // Everything was sent, so the daemon need not wait for this one.
                    self.untold = None;
                    self.detached.cancelled().await;
                    return Err(SubscriptionEnd::Quiet);
                }
                Err(error) => self.wait_for_store(&error).await?,
            }
        }
    }

    async fn wait_for_store(
        &self,
        error: &(dyn std::error::Error + Sync),
    ) -> Result<(), SubscriptionEnd> {
        tracing::warn!(conversation = %self.params.id, %error, "a follower waits for the store");
        tokio::select! {
            () = tokio::time::sleep(RETRY) => Ok(()),
            () = self.detached.cancelled() => Err(SubscriptionEnd::Quiet),
        }
    }

    async fn send_and_tell(
        &mut self,
        page: FollowPage,
        follower: &LogFollower,
    ) -> Result<(), SubscriptionEnd> {
        self.send_page(page).await?;
        let state = follower.state();
        if state.last_seq != follower.cursor() {
            return Ok(());
        }
        let turn = state.running.as_ref().map(|it| it.turn);
        let now = wire::State {
            state: event_conversion::activity(&state),
            queued: event_conversion::queued(&state),
            turn,
            command: shell::running(&state),
            waits: follower.now().waits_for_store,
        };
        if self.told.as_ref() == Some(&now) {
            return Ok(());
        }
        self.told = Some(now.clone());
        self.send(turn, &now).await
    }

    async fn send_page(&self, page: FollowPage) -> Result<(), SubscriptionEnd> {
        let mut lines = OutgoingLines::default();
        match page {
            FollowPage::Records(records) => self.records(&mut lines, &records),
            FollowPage::Live { live, pieces } => {
                for piece in &pieces {
                    let text = self.delta(&live, piece);
                    self.line(&mut lines, text);
                }
            }
            FollowPage::Printed(parts) => {
                for (printing, part) in parts {
                    let event = shell::printed(self.log, &printing, part);
                    self.line(&mut lines, event.into());
                }
            }
            FollowPage::Said(words) => {
                for word in words {
                    self.line(
                        &mut lines,
                        self.log.progress_event(&word, clock::now()).into(),
                    );
                }
            }
            FollowPage::Changed | FollowPage::Ended => return Ok(()),
        }
        self.write(&lines).await
    }

    fn records(&self, lines: &mut OutgoingLines, records: &[Arc<Record>]) {
        for record in records {
            let encode = || self.log.stored(record);
            let text = self.seat.encoded.event(record.seq, encode);
            self.line(lines, text);
        }
    }

    fn delta(&self, live: &LiveItem, piece: &UnseenText) -> Arc<String> {
        let key = DeltaKey {
            turn: live.turn,
            item: live.item,
            channel: match &piece.channel {
                TextChannel::Text => 0,
                TextChannel::Reasoning => 1,
                TextChannel::Arguments { call, .. } => call.saturating_add(2),
            },
            offset: piece.offset,
            bytes: piece.text.len(),
            gap: piece.gap,
        };
        let encode = || self.log.delta(live.turn, live.item, clock::now(), piece);
        self.seat.encoded.delta(key, encode)
    }

    async fn send<D: EventData>(
        &self,
        turn: Option<TurnId>,
        data: &D,
    ) -> Result<(), SubscriptionEnd> {
        let mut lines = OutgoingLines::default();
        let event = self.log.ephemeral(turn, clock::now(), data);
        self.line(&mut lines, event.into());
        self.write(&lines).await
    }

    /// Adds the notification around an encoded event.
    fn line(&self, lines: &mut OutgoingLines, event: Arc<String>) {
        self.server.counters.events.fetch_add(1, Ordering::Relaxed);
        lines.push_str(&self.head);
        lines.push_shared(event);
        lines.push_str("}}\n");
    }

    async fn write(&self, lines: &OutgoingLines) -> Result<(), SubscriptionEnd> {
        self.connection.outbox.send(lines).await.map_err(|cut| {
            self.server.note_cut(&self.connection, cut);
            SubscriptionEnd::Quiet
        })
    }
}

/// What is told of a reading of the configuration.
pub(super) fn reloaded(now: &ConfigStatus) -> wire::ConfigReloaded {
    let ConfigChange { keys, values, by } = now.changed.clone();
    wire::ConfigReloaded {
        changed: keys,
        values,
        by: by.map(answerer),
        errors: now.errors.clone(),
        restart_needed: now.restart_needed.clone(),
    }
}

fn tail(head: Seq, n: u32) -> Seq {
    Seq(head.0.saturating_sub(u64::from(n)))
}
