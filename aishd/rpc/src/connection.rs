//! One client: reading its lines, answering its calls, remembering what it may do.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::AsFd as _;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aish_proto::daemon::{self, ClientInfo};
use aish_proto::error::ErrorKind;
use aish_proto::event::PresentClient;
use aish_proto::id::{BlobId, ClientId, ConversationId, SubscriptionId};
use aish_proto::limits::{
    CALLS_IN_FLIGHT, FIRST_REQUEST_MS, LINE_FROM_DAEMON_BYTES, LINE_TO_DAEMON_BYTES, SUBSCRIPTIONS,
};
use aish_proto::method::{ClientRole, Method as _};
use aishd_conversation::history::import::ImportSession;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::environment::ClientVariables;
use aishd_log::tool_name::Alias;
use aishd_rules::policy::Policy;
use futures_util::FutureExt as _;
use interprocess::local_socket::tokio::Stream;
use jsonrpsee::types::error::{
    METHOD_NOT_FOUND_CODE, METHOD_NOT_FOUND_MSG, OVERSIZED_RESPONSE_CODE,
};
use jsonrpsee::types::{ErrorObjectOwned, Id, Params};
use jsonrpsee::{ConnectionId, Extensions, MethodCallback, MethodResponse, Methods};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, Interest};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::method_error::{AS_DRIVER, MethodError};
use super::outbox::{ClientOutbox, ConnectionCut};
use super::request_line::{RequestEntry, RequestLine, read};
use super::socket_peer::SocketPeer;
use super::{RpcServer, notices};

/// How much is read from the socket at a time.
const READ_BYTES: usize = 16 << 10;

/// What is known of one client.
pub(super) struct ClientConnection {
    pub(super) client: ClientId,
    pub(super) peer: SocketPeer,
    pub(super) outbox: ClientOutbox,
    greeting: Mutex<Option<ClientGreeting>>,
    /// With the conversation of each, if it has one.
    pub(super) subscriptions:
        Mutex<HashMap<SubscriptionId, (Option<ConversationId>, CancellationToken)>>,
    pub(super) blobs: Mutex<HashMap<BlobId, String>>,
    /// What is being imported; it goes with the connection.
    pub(super) import: Mutex<Option<ImportSession>>,
    /// Held by the one change that is being made for this client; the others wait in the order of their lines.
    pub(super) change: tokio::sync::Mutex<()>,
    /// The last reading of the configuration that this client was told of.
    pub(super) told_of_config: AtomicU64,
    pub(super) notices: notices::NoticeLookahead,
    /// Cancelled when the connection is over.
    pub(super) over: CancellationToken,
}

type ConnectionTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work of one call that begins when its reply has been written, such as the events of a subscription.
#[derive(Clone, Default)]
pub(super) struct AfterReply(Arc<Mutex<Vec<ConnectionTask>>>);

impl AfterReply {
    pub(super) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.lock().push(Box::pin(task));
    }
}

#[derive(Clone, Debug)]
struct ClientGreeting {
    info: ClientInfo,
    role: ClientRole,
    given: GivenEnvironment,
}

/// What a client gives of its own environment.
#[derive(Clone, Default)]
pub(super) struct GivenEnvironment {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) umask: Option<u32>,
}

/// Values may be secrets.
impl std::fmt::Debug for GivenEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GivenEnvironment").finish_non_exhaustive()
    }
}

impl ClientConnection {
    /// Takes the client's introduction; it may be said again with the same identity.
    pub(super) fn greet(&self, info: ClientInfo, role: ClientRole, given: GivenEnvironment) {
        *self.greeting.lock() = Some(ClientGreeting { info, role, given });
    }

    /// What commands of this client run with.
    pub(super) fn environment(&self, server: &RpcServer) -> ClientVariables {
        let rules = server.directory.policy().shell.env_from_client.clone();
        let greeting = self.greeting.lock();
        let Some(ClientGreeting { info, given, .. }) = greeting.as_ref() else {
            return ClientVariables::default();
        };
        let GivenEnvironment { variables, umask } = given.clone();
        ClientVariables::taken(variables, umask, info.tty.clone(), &rules)
    }

    pub(super) fn may_call(
        &self,
        method: &str,
        needed: ClientRole,
        policy: &Policy,
    ) -> Result<(), MethodError> {
        if method == daemon::Ping::NAME {
            return Ok(());
        }
        self.peer.may_call(method, needed, policy)?;
        if method == daemon::Hello::NAME {
            return Ok(());
        }
        let greeting = self.greeting.lock();
        let Some(greeting) = greeting.as_ref() else {
            return Err(
                MethodError::new(ErrorKind::NotInitialized, "daemon/hello comes first")
                    .hint("aishctl rpc METHOD says it by itself"),
            );
        };
        if greeting.role < needed {
            let message = format!(
                "{method} needs the role {needed:?}, and this client is an {:?}",
                greeting.role
            );
            return Err(
                MethodError::new(ErrorKind::ForbiddenRole, message.to_lowercase()).hint(AS_DRIVER),
            );
        }
        Ok(())
    }

    /// A process that this daemon started is a tool: it may ask whether the daemon is there, and do what the configuration
    /// grants its server or tool.
    pub(super) fn is_of_ours(&self) -> bool {
        self.peer.is_of_ours()
    }

    /// Whose program it is, if the daemon started it.
    pub(super) fn provider(&self) -> Option<&Alias> {
        self.peer.provider()
    }

    /// Who answers, when this client does.
    pub(super) fn person(&self) -> AnsweringPerson {
        let present = self.present();
        AnsweringPerson {
            client: self.client,
            name: present.name,
            tty: present.tty,
            pid: self.peer.pid,
            uid: self.peer.uid,
        }
    }

    /// A person who could answer a confirm sits at it.
    pub(super) fn is_attended(&self) -> bool {
        self.present().tty.is_some() && self.may_answer()
    }

    pub(super) fn may_answer(&self) -> bool {
        self.present().role >= ClientRole::Approver && !self.is_of_ours()
    }

    /// A place for one more subscription, and what ends it.
    pub(super) fn subscribe(
        &self,
        conversation: Option<ConversationId>,
    ) -> Result<(SubscriptionId, CancellationToken), MethodError> {
        let subscription = SubscriptionId(aishd_platform::clock::ulid());
        let detached = self.over.child_token();
        let mut subscriptions = self.subscriptions.lock();
        if subscriptions.len() >= SUBSCRIPTIONS {
            let message = format!("{SUBSCRIPTIONS} subscriptions are open on this connection");
            return Err(MethodError::new(ErrorKind::Overloaded, message)
                .hint("conversation/detach one first"));
        }
        subscriptions.insert(subscription, (conversation, detached.clone()));
        Ok((subscription, detached))
    }

    /// How others see this client.
    pub(super) fn present(&self) -> PresentClient {
        let greeting = self.greeting.lock();
        let greeting = greeting.as_ref();
        PresentClient {
            client_id: self.client,
            name: greeting.map(|it| it.info.name.clone()).unwrap_or_default(),
            tty: greeting.and_then(|it| it.info.tty.clone()),
            pid: self.peer.pid,
            role: greeting.map_or(ClientRole::Observer, |it| it.role),
            auto_approves: None,
        }
    }
}

/// Serves one client to its end.
pub(super) async fn serve(
    server: Arc<RpcServer>,
    methods: Methods,
    stream: Stream,
    peer: SocketPeer,
) {
    let stream = Arc::new(stream);
    let stall = Duration::from_millis(server.limits.client_stall_ms);
    let over = server.closing.child_token();
    let connection = Arc::new(ClientConnection {
        client: ClientId(aishd_platform::clock::ulid()),
        peer,
        outbox: ClientOutbox::new(stream.clone(), stall, over.clone()),
        greeting: Mutex::default(),
        subscriptions: Mutex::default(),
        blobs: Mutex::default(),
        import: Mutex::default(),
        told_of_config: AtomicU64::new(0),
        change: tokio::sync::Mutex::default(),
        notices: notices::NoticeLookahead::default(),
        over,
    });
    server.counters.connected.fetch_add(1, Ordering::Relaxed);
    let mut client = ClientReader {
        server: server.clone(),
        connection: connection.clone(),
        methods,
        tasks: JoinSet::new(),
        calls: Arc::new(Semaphore::new(CALLS_IN_FLIGHT)),
    };
    client.end_with_its_grant();
    client.run(&stream).await;
    connection.over.cancel();
    client.tasks.shutdown().await;
    server.counters.connected.fetch_sub(1, Ordering::Relaxed);
}

/// The reading side of a connection, and its tasks.
struct ClientReader {
    server: Arc<RpcServer>,
    connection: Arc<ClientConnection>,
    methods: Methods,
    tasks: JoinSet<()>,
    calls: Arc<Semaphore>,
}

/// The next line, or why there is none.
enum NextLine {
    Line(Vec<u8>),
    /// It was longer than a line may be; it has been skipped.
    TooLong,
    End,
}

impl ClientReader {
    /// What is open of a program that the daemon started ends when less is granted to it than when it came.
    fn end_with_its_grant(&mut self) {
        let mut policy = self.server.config.policy();
        let connection = self.connection.clone();
        let Some(granted) = connection.peer.grant(&policy.borrow()) else {
            return;
        };
        self.tasks.spawn(async move {
            while policy.changed().await.is_ok() {
                if connection.peer.grant(&policy.borrow()) < Some(granted) {
                    return connection.over.cancel();
                }
            }
        });
    }

    async fn run(&mut self, stream: &Stream) {
        let mut lines = ClientLines::default();
        let first = Duration::from_millis(FIRST_REQUEST_MS);
        let over = self.connection.over.clone();
        let mut greeted = false;
        loop {
            while self.tasks.try_join_next().is_some() {}
            let next = tokio::select! {
                next = lines.next(stream) => next,
                () = tokio::time::sleep(first), if !greeted => {
                    tracing::debug!(client = %self.connection.client, "no request in time");
                    return;
                }
                () = over.cancelled() => return,
            };
            greeted = true;
            match next {
                NextLine::End => break,
                NextLine::TooLong => {
                    let message = format!(
                        "a line of more than {LINE_TO_DAEMON_BYTES} bytes; send large input by blob/put"
                    );
                    let error = MethodError::new(ErrorKind::TooLarge, message).into_error();
                    self.send_line(&error_line(Id::Null, error)).await;
                }
                NextLine::Line(line) => self.take(line).await,
            }
        }
        // The client says no more, but may still read: it gets what it has asked for, subscriptions apart.
        let all = u32::try_from(CALLS_IN_FLIGHT).unwrap_or(u32::MAX);
        tokio::select! {
            _all_answered = self.calls.acquire_many(all) => {}
            () = closed_by_peer(stream) => {}
            () = over.cancelled() => {}
        }
    }

    async fn take(&mut self, line: Vec<u8>) {
        // Who sends more than may be unanswered is not read until something was answered.
        let permit = tokio::select! {
            permit = self.calls.clone().acquire_owned() => permit,
            () = self.connection.over.cancelled() => return,
        };
        let Ok(permit) = permit else { return };
        let task = answer(
            self.server.clone(),
            self.connection.clone(),
            self.methods.clone(),
            line,
        );
        let mut task = Box::pin(with_permit(permit, self.connection.over.clone(), task));
        // Calls begin in the order of their lines: each gets as far as it can before the next line is read.
        // Without a budget, since one that was sent away for having used it up would not have begun.
        let begun = futures_util::poll!(tokio::task::unconstrained(task.as_mut()));
        if begun.is_pending() {
            self.tasks.spawn(task);
        }
    }

    async fn send_line(&self, text: &str) {
        if self.connection.outbox.write(text.as_bytes()).await.is_err() {
            self.connection.over.cancel();
        }
    }
}

/// Waits until nobody is there to read either.
async fn closed_by_peer(stream: &Stream) {
    // A second descriptor has a readiness of its own; that of the first one belongs to the writers.
    let Stream::UdSocket(socket) = stream;
    let second = socket.inner().as_fd().try_clone_to_owned();
    let Ok(watched) = second.and_then(|it| UnixStream::from_std(it.into())) else {
        return std::future::pending().await;
    };
    while let Ok(ready) = watched.ready(Interest::WRITABLE).await {
        if ready.is_write_closed() {
            return;
        }
        // Says that this was taken note of, so that the next change is waited for.
        let _noted = watched.try_io(Interest::WRITABLE, || {
            Err::<(), _>(io::ErrorKind::WouldBlock.into())
        });
    }
}

async fn with_permit(
    permit: OwnedSemaphorePermit,
    over: CancellationToken,
    task: impl Future<Output = Option<Vec<ConnectionTask>>>,
) {
    let follow_ups = task.await;
    // What follows the reply is no call any more.
    drop(permit);
    let Some(follow_ups) = follow_ups else { return };
    let follow_ups = AssertUnwindSafe(futures_util::future::join_all(follow_ups));
    if follow_ups.catch_unwind().await.is_err() {
        // A subscription that says nothing more would look like a conversation in which nothing happens.
        tracing::error!("what followed a reply panicked; its connection ends");
        over.cancel();
    }
}

/// Answers one line, and returns what is to go on after the answer.
async fn answer(
    server: Arc<RpcServer>,
    connection: Arc<ClientConnection>,
    methods: Methods,
    line: Vec<u8>,
) -> Option<Vec<ConnectionTask>> {
    let after = AfterReply::default();
    let reply = match read(&line) {
        RequestLine::Empty => return None,
        RequestLine::Bad(error) => error_line(Id::Null, error),
        RequestLine::One(entry) => {
            let mut text = one(
                &server,
                &connection,
                &methods,
                entry,
                &after,
                /*in_batch*/ false,
            )
            .await?;
            text.push('\n');
            text
        }
        RequestLine::Batch(entries) => {
            let calls = entries.into_iter().map(|it| {
                one(
                    &server,
                    &connection,
                    &methods,
                    it,
                    &after,
                    /*in_batch*/ true,
                )
            });
            let replies: Vec<String> = futures_util::future::join_all(calls)
                .await
                .into_iter()
                .flatten()
                .collect();
            if replies.is_empty() {
                return None;
            }
            format!("[{}]\n", replies.join(","))
        }
    };
    if let Err(cut) = connection.outbox.write(reply.as_bytes()).await {
        server.note_cut(&connection, cut);
        return None;
    }
    Some(std::mem::take(&mut *after.0.lock()))
}

/// Serves one call; a notification has no answer.
async fn one(
    server: &RpcServer,
    caller: &Arc<ClientConnection>,
    methods: &Methods,
    entry: RequestEntry<'_>,
    after: &AfterReply,
    in_batch: bool,
) -> Option<String> {
    let (id, method, params) = match entry {
        RequestEntry::Notification => return None,
        RequestEntry::Bad(id, error) => return Some(error_text(id, error)),
        RequestEntry::Call { id, method, params } => (id.into_owned(), method, params),
    };
    server.counters.calls.fetch_add(1, Ordering::Relaxed);
    let subscribes = [
        aish_proto::attach::Attach::NAME,
        aish_proto::confirm::Watch::NAME,
        aish_proto::log::Tail::NAME,
    ];
    if in_batch && subscribes.contains(&&*method) {
        let error = MethodError::envelope("a subscription cannot be part of a batch").into_error();
        return Some(error_text(id, error));
    }
    let Some((name, callback)) = methods.method_with_name(&method) else {
        let error =
            ErrorObjectOwned::owned(METHOD_NOT_FOUND_CODE, METHOD_NOT_FOUND_MSG, Some(method));
        return Some(error_text(id, error));
    };
    let params = Params::new(params).into_owned();
    let mut extensions = Extensions::new();
    extensions.insert(caller.clone());
    extensions.insert(after.clone());
    let response = match callback {
        MethodCallback::Async(call) => {
            let call = call(
                id.clone(),
                params,
                ConnectionId(0),
                LINE_FROM_DAEMON_BYTES - 1,
                extensions,
            );
            let span = tracing::info_span!("call", client = %caller.client, %id, method = name);
            AssertUnwindSafe(call).catch_unwind().instrument(span).await
        }
        MethodCallback::Sync(_)
        | MethodCallback::Subscription(_)
        | MethodCallback::Unsubscription(_) => {
            let error =
                MethodError::internal("the method is registered in another way than all others")
                    .into_error();
            Ok(MethodResponse::error(id.clone(), error))
        }
    };
    match response {
        Ok(response) if response.as_error_code() == Some(OVERSIZED_RESPONSE_CODE) => {
            let error = too_large(name).into_error();
            Some(error_text(id, error))
        }
        Ok(response) => Some(response.into_json().get().to_owned()),
        Err(_panic) => {
            tracing::error!(method = name, "a handler panicked");
            let error = MethodError::internal("the handler failed").into_error();
            Some(error_text(id, error))
        }
    }
}

/// What was asked for was done, and does not fit into a line.
fn too_large(method: &str) -> MethodError {
    let most = LINE_FROM_DAEMON_BYTES >> 20;
    let message = format!("the answer to {method} is longer than a line may be ({most} MiB)");
    MethodError::new(ErrorKind::TooLarge, message)
}

fn error_text(id: Id<'static>, error: ErrorObjectOwned) -> String {
    MethodResponse::error(id, error)
        .into_json()
        .get()
        .to_owned()
}

fn error_line(id: Id<'static>, error: ErrorObjectOwned) -> String {
    let mut text = error_text(id, error);
    text.push('\n');
    text
}

impl RpcServer {
    /// The connection can take nothing more: it ends, and a client that was too slow is told so when it is back.
    pub(super) fn note_cut(&self, connection: &ClientConnection, cut: ConnectionCut) {
        if cut == ConnectionCut::Stalled && !connection.over.is_cancelled() {
            self.counters.cut.fetch_add(1, Ordering::Relaxed);
            let reason = format!(
                "this client read nothing for {} ms and was cut",
                self.limits.client_stall_ms
            );
            tracing::warn!(client = %connection.client, pid = connection.peer.pid, "{reason}");
            if let Some(pid) = connection.peer.pid {
                let mut cut = self.cut.lock();
                // Reasons that nobody comes back for must not pile up.
                if cut.len() >= 64 {
                    cut.clear();
                }
                cut.insert(pid, reason);
            }
        }
        connection.over.cancel();
    }
}

/// Bytes that have been read, cut into lines.
#[derive(Debug, Default)]
struct ClientLines {
    read: Vec<u8>,
    /// Bytes at the front of `read` that hold no line feed.
    searched: usize,
    /// The line being read is too long and its beginning has been thrown away.
    skipping: bool,
}

impl ClientLines {
    /// Cancel-safe: bytes that were read are kept.
    async fn next(&mut self, stream: &Stream) -> NextLine {
        let mut stream = stream;
        loop {
            if let Some(end) = self.read[self.searched..]
                .iter()
                .position(|it| *it == b'\n')
            {
                let rest = self.read.split_off(self.searched + end + 1);
                let mut line = std::mem::replace(&mut self.read, rest);
                line.pop();
                self.searched = 0;
                if std::mem::take(&mut self.skipping) || line.len() >= LINE_TO_DAEMON_BYTES {
                    return NextLine::TooLong;
                }
                return NextLine::Line(line);
            }
            self.searched = self.read.len();
            if self.skipping || self.searched >= LINE_TO_DAEMON_BYTES {
                self.skipping = true;
                self.read.clear();
                self.searched = 0;
            }
            self.read.reserve(READ_BYTES);
            match stream.read_buf(&mut self.read).await {
                Ok(0) | Err(_) => return NextLine::End,
                Ok(_) => {}
            }
        }
    }
}
