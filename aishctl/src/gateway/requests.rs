//! What an MCP client may ask, and what it is answered.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Gateway;
use super::call_progress::{self, GatewayCall};
use super::content::{self, ContentForm};
use super::message::{
    INTERNAL, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MessageParams, RpcProblem, answer,
};
use super::offered::{KnownTools, OfferedTools, output_schema};
use super::progress_notifications::{ProgressNotifications, level};
use super::replies::LineReplies;
use super::revision::{McpRevision, StatedRevision, server, stated_revision, supported};
use super::server_resources::ServerResource;
use crate::render::table;

/// Calls at once, those that wait included.
const MOST_RUNNING: usize = 32;
const LIST_WITHIN: Duration = Duration::from_secs(10);
const CLIENT_COLUMNS: usize = 60;
/// Where a client of the older era has not said from which level on it wants lines of logs.
const USUAL_LEVEL: &str = "info";
const INSTRUCTIONS: &str = "The tools of the aish daemon on this machine, named <provider>__<tool>. A person may have \
to allow a call before it runs, which can take minutes; a call that is denied says so and is not to be repeated.";

type GatewayAnswer = Result<Map<String, Value>, RpcProblem>;

/// What holds for one request.
pub(super) struct RequestTerms {
    pub(super) revision: McpRevision,
    pub(super) client: String,
    /// Lines of its call's log that it wants.
    least: Option<usize>,
}

impl Gateway {
    /// Answers, at once or by a task; every request gets one answer, unless the client calls it off.
    pub(super) async fn request(
        self: &Arc<Self>,
        id: Value,
        method: &str,
        params: MessageParams,
        replies: &LineReplies,
        tasks: &mut JoinSet<()>,
    ) {
        let terms = match stated_revision(&params) {
            Ok(stated) => self.terms(stated),
            Err(problem) => return replies.give(answer(&id, Err(problem))).await,
        };
        let revision = terms.as_ref().map(|it| it.revision);
        let done: GatewayAnswer = match (method, terms) {
            ("initialize", _) if revision != Some(McpRevision::July2026) => {
                Ok(self.initialize(&params))
            }
            ("server/discover", Some(terms)) if terms.revision.is_stateless() => Ok(discovered()),
            ("ping", None) => Ok(Map::new()),
            ("ping", Some(terms)) if !terms.revision.is_stateless() => Ok(Map::new()),
            ("logging/setLevel", Some(terms)) if !terms.revision.is_stateless() => {
                self.set_level(&params)
            }
            ("tools/call", Some(terms)) => {
                return self
                    .start(id, terms, RequestWork::Call(params), replies, tasks)
                    .await;
            }
            ("subscriptions/listen", Some(terms)) if terms.revision.is_stateless() => {
                // Its answer comes when it ends.
                return self.start_listening(id, terms, params, replies, tasks);
            }
            ("resources/subscribe" | "resources/unsubscribe", Some(terms))
                if terms.revision.is_stateless() =>
            {
                let unknown = format!("Method not found: {method}");
                Err(RpcProblem::new(METHOD_NOT_FOUND, unknown))
            }
            (_, None) => Err(RpcProblem::new(
                INVALID_PARAMS,
                "initialize comes first, or _meta states io.modelcontextprotocol/protocolVersion",
            )),
            (_, Some(terms)) => {
                let Some(reading) = ResourceReading::named(method) else {
                    let unknown =
                        RpcProblem::new(METHOD_NOT_FOUND, format!("Method not found: {method}"));
                    return replies.give(answer(&id, Err(unknown))).await;
                };
                let work = RequestWork::Read(reading, params);
                return self.start(id, terms, work, replies, tasks).await;
            }
        };
        let revision = revision.unwrap_or(McpRevision::November2025);
        let done = done.map(|it| match method {
            "server/discover" => revision.list(it),
            _ => revision.finished(it),
        });
        replies.give(answer(&id, done)).await;
    }

    pub(super) fn notified(&self, method: &str, params: &MessageParams) {
        match method {
            "notifications/initialized" => self.session.lock().is_ready = true,
            "notifications/cancelled" => {
                let Some(id) = params.get("requestId") else {
                    return;
                };
                self.subscriptions.end(id);
                if let Some(stop) = self.running.lock().get(&id.to_string()) {
                    stop.send_replace(true);
                }
            }
            // Others tell of nothing that would change anything here.
            _ => {}
        }
    }

    /// `None`: the request belongs to no session and states nothing.
    fn terms(&self, stated: Option<StatedRevision>) -> Option<RequestTerms> {
        let session = self.session.lock();
        match stated {
            Some(stated) => Some(RequestTerms {
                revision: McpRevision::July2026,
                client: stated.client.unwrap_or_default(),
                least: stated.log_level.as_deref().and_then(level),
            }),
            None => Some(RequestTerms {
                revision: session.revision?,
                client: session.client.clone(),
                least: session.log_level.or_else(|| level(USUAL_LEVEL)),
            }),
        }
    }

    fn initialize(&self, params: &MessageParams) -> Map<String, Value> {
        let revision = McpRevision::agreed(params.get("protocolVersion").and_then(Value::as_str));
        let client = params.get("clientInfo").and_then(|it| it.get("name"));
        {
            let mut session = self.session.lock();
            session.revision = Some(revision);
            session.client = client
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
        }
        let mut result = Map::new();
        result.insert("protocolVersion".to_owned(), json!(revision.name()));
        result.insert("capabilities".to_owned(), capabilities());
        result.insert("serverInfo".to_owned(), server());
        result.insert("instructions".to_owned(), json!(INSTRUCTIONS));
        result
    }

    fn set_level(&self, params: &MessageParams) -> GatewayAnswer {
        let wanted = params.get("level").and_then(Value::as_str).and_then(level);
        let wanted =
            wanted.ok_or_else(|| RpcProblem::new(INVALID_PARAMS, "there is no such level"))?;
        self.session.lock().log_level = Some(wanted);
        Ok(Map::new())
    }

    fn start_listening(
        self: &Arc<Self>,
        id: Value,
        terms: RequestTerms,
        params: MessageParams,
        replies: &LineReplies,
        tasks: &mut JoinSet<()>,
    ) {
        // Before the next line is read, which may call it off.
        let opened = self.subscriptions.open(&id);
        let (gateway, replies) = (Arc::clone(self), replies.clone());
        tasks.spawn(async move {
            let listened = match opened {
                Ok(()) => gateway.listen(&id, &terms, &params).await,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = listened {
                replies.give(answer(&id, Err(problem))).await;
            }
            replies.done().await;
        });
    }

    /// Has the work done by a task that its client can call off.
    async fn start(
        self: &Arc<Self>,
        id: Value,
        terms: RequestTerms,
        work: RequestWork,
        replies: &LineReplies,
        tasks: &mut JoinSet<()>,
    ) {
        let key = id.to_string();
        let (stop, stopping) = watch::channel(false);
        let refused = {
            let mut running = self.running.lock();
            if running.contains_key(&key) {
                Some(Err(RpcProblem::new(
                    INVALID_REQUEST,
                    "a request with this id is running",
                )))
            } else if running.len() >= MOST_RUNNING {
                let why = format!("[aish] {MOST_RUNNING} requests are running; nothing was done");
                Some(match &work {
                    RequestWork::Read(..) => Err(RpcProblem::new(INTERNAL, why)),
                    RequestWork::Call(_) => Ok(terms.revision.finished(content::failed(&why))),
                })
            } else {
                running.insert(key.clone(), stop);
                None
            }
        };
        if let Some(refused) = refused {
            return replies.give(answer(&id, refused)).await;
        }
        let (gateway, replies) = (Arc::clone(self), replies.clone());
        tasks.spawn(async move {
            let revision = terms.revision;
            let done = match work {
                RequestWork::Read(reading, params) => {
                    let read = gateway.read(reading, &terms, &params, stopping).await;
                    read.map(|it| it.map(|it| reading.finished(revision, it)))
                }
                RequestWork::Call(params) => {
                    let done = gateway.call(&terms, params, stopping).await;
                    done.map(|it| it.map(|it| revision.finished(it)))
                }
            };
            gateway.running.lock().remove(&key);
            if let Some(done) = done {
                replies.give(answer(&id, done)).await;
            }
            replies.done().await;
        });
    }

    /// What is offered now; a gateway that has just begun waits for it.
    pub(super) async fn offered(&self) -> Result<Arc<OfferedTools>, RpcProblem> {
        let mut offered = self.offered.clone();
        let known = tokio::time::timeout(LIST_WITHIN, offered.wait_for(KnownTools::is_known)).await;
        let known = known.ok().and_then(Result::ok).map(|it| it.clone());
        match known.unwrap_or_default() {
            KnownTools::Tools(offered) => Ok(offered),
            KnownTools::Gone(why) => Err(RpcProblem::new(INTERNAL, why)),
            KnownTools::Nothing => {
                let why = "aishd does not say what tools there are: aishctl status";
                Err(RpcProblem::new(INTERNAL, why))
            }
        }
    }

    async fn read(
        &self,
        reading: ResourceReading,
        terms: &RequestTerms,
        params: &MessageParams,
        stop: watch::Receiver<bool>,
    ) -> call_progress::GatewayCallEnd {
        Some(match reading {
            ResourceReading::Tools => self.list(terms, params).await,
            ResourceReading::Resources => self.resources(&terms.client, params).await,
            ResourceReading::Resource => {
                let uri = params.get("uri").and_then(Value::as_str);
                if let Some(of_server) = uri.and_then(ServerResource::parse) {
                    return self.server_resource(terms, params, of_server, stop).await;
                }
                self.resource(terms.revision, params).await
            }
            ResourceReading::Templates => self.templates(&terms.client).await,
            ResourceReading::Subscribe => self.subscribe(terms, params).await,
            ResourceReading::Unsubscribe => self.unsubscribe(params),
            ResourceReading::Prompts => self.prompts(&terms.client).await,
            ResourceReading::Prompt => self.prompt(params).await,
            ResourceReading::Completion => self.completion(params).await,
        })
    }

    async fn list(&self, terms: &RequestTerms, params: &MessageParams) -> GatewayAnswer {
        let invalid = || RpcProblem::new(INVALID_PARAMS, "Invalid cursor");
        let cursor = match params.get("cursor") {
            None | Some(Value::Null) => None,
            Some(Value::String(cursor)) => Some(cursor.as_str()),
            Some(_) => return Err(invalid()),
        };
        let offered = self.offered().await?;
        let page = offered.page(&terms.client, terms.revision, cursor);
        let (tools, next) = page.ok_or_else(invalid)?;
        let mut result = Map::new();
        result.insert("tools".to_owned(), tools.into());
        if let Some(next) = next {
            result.insert("nextCursor".to_owned(), next.into());
        }
        Ok(result)
    }

    async fn call(
        &self,
        terms: &RequestTerms,
        mut params: MessageParams,
        stop: watch::Receiver<bool>,
    ) -> call_progress::GatewayCallEnd {
        let invalid = |why: &str| Some(Err(RpcProblem::new(INVALID_PARAMS, why)));
        let Some(Value::String(name)) = params.remove("name") else {
            return invalid("\"name\" is a text");
        };
        let arguments = match params.remove("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return invalid("\"arguments\" is an object"),
        };
        let offered = match self.offered().await {
            Ok(offered) => offered,
            Err(problem) => return Some(Err(problem)),
        };
        let Some(tool) = offered.find(&name, &terms.client) else {
            return invalid(&format!("Unknown tool: {name}"));
        };
        let (name, promises) = (
            tool.name.clone(),
            output_schema(tool, terms.revision).is_some(),
        );
        let called = GatewayCall {
            name,
            arguments,
            form: ContentForm {
                revision: terms.revision,
                promises,
            },
            as_asked: false,
            client: shown(&terms.client),
        };
        self.follow_call(terms, &params, called, stop).await
    }

    /// A call of a tool of the daemon's own, with these arguments and no others.
    pub(super) async fn run_call(
        &self,
        terms: &RequestTerms,
        params: &MessageParams,
        name: &str,
        arguments: Map<String, Value>,
        stop: watch::Receiver<bool>,
    ) -> call_progress::GatewayCallEnd {
        let called = GatewayCall {
            name: name.to_owned(),
            arguments,
            form: ContentForm {
                revision: terms.revision,
                promises: false,
            },
            as_asked: true,
            client: shown(&terms.client),
        };
        self.follow_call(terms, params, called, stop).await
    }

    async fn follow_call(
        &self,
        terms: &RequestTerms,
        params: &MessageParams,
        called: GatewayCall,
        stop: watch::Receiver<bool>,
    ) -> call_progress::GatewayCallEnd {
        let token = params.get("_meta").and_then(|it| it.get("progressToken"));
        let telling = ProgressNotifications::new(self.out.clone(), token.cloned(), terms.least);
        call_progress::run(&self.reach, &self.seats, called, telling, stop).await
    }
}

/// What a client calls itself, as people are shown it.
fn shown(client: &str) -> String {
    match table::cut(client, CLIENT_COLUMNS) {
        name if name.is_empty() => "client".to_owned(),
        name => name,
    }
}

/// What a task does.
enum RequestWork {
    Read(ResourceReading, MessageParams),
    Call(MessageParams),
}

/// What can be read without anybody being asked.
#[derive(Clone, Copy, Debug)]
enum ResourceReading {
    Tools,
    Resources,
    Resource,
    Templates,
    Prompts,
    Prompt,
    Completion,
    Subscribe,
    Unsubscribe,
}

impl ResourceReading {
    fn named(method: &str) -> Option<Self> {
        match method {
            "tools/list" => Some(Self::Tools),
            "resources/list" => Some(Self::Resources),
            "resources/read" => Some(Self::Resource),
            "resources/templates/list" => Some(Self::Templates),
            "prompts/list" => Some(Self::Prompts),
            "prompts/get" => Some(Self::Prompt),
            "completion/complete" => Some(Self::Completion),
            "resources/subscribe" => Some(Self::Subscribe),
            "resources/unsubscribe" => Some(Self::Unsubscribe),
            _ => None,
        }
    }

    fn finished(self, revision: McpRevision, result: Map<String, Value>) -> Value {
        match self {
            Self::Tools | Self::Resources | Self::Resource | Self::Templates | Self::Prompts => {
                revision.list(result)
            }
            Self::Prompt | Self::Completion | Self::Subscribe | Self::Unsubscribe => {
                revision.finished(result)
            }
        }
    }
}

fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": true},
        "completions": {},
        "logging": {},
    })
}

fn discovered() -> Map<String, Value> {
    let mut result = Map::new();
    result.insert("supportedVersions".to_owned(), json!(supported()));
    result.insert("capabilities".to_owned(), capabilities());
    result.insert("instructions".to_owned(), json!(INSTRUCTIONS));
    result
}
