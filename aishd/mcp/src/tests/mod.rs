//! Sessions with servers that do what real ones have done: each row of the table in the design is a script here. The
//! servers are tests/data/mcp/*.py, over real sockets and pipes.

mod approved;
mod fuzz;
mod http;
mod real;
mod revision;
mod stateless;
mod stdio;
mod tasks;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio as Pipe};
use std::sync::Arc;
use std::time::Duration;

use aishd_log::profile::ChosenProfile;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::{Alias, ToolName};
use aishd_mcp_messages::oauth_settings::OAuthSettings;
use aishd_mcp_messages::outcome::ToolOutcome;
use aishd_mcp_messages::server::{ServerEntry, ServerPhase};
use aishd_mcp_messages::settings::{
    BearerSource, HttpServerSettings, McpSettings, ServerEndpoint, ServerSettings, SessionLimits,
    StdioServerSettings,
};
use aishd_mcp_messages::tool_approval::{ApprovedTool, offered_tool};
use aishd_process::Children;
use aishd_profile::ProfileGround;
use aishd_signin::{SignIn, SignInParts};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::hub::Hub;
use super::{CallNote, ElicitationAnswer, ElicitationCall, FailureSide, ToolCallError};
use crate::call_listener::CallListener;
use crate::hub_parts::HubParts;

/// Longer than anything here takes on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(60);

type Kept = Arc<Mutex<BTreeMap<String, String>>>;

/// A hub with one server `a`.
struct Bench {
    hub: Hub,
    kept: Kept,
    settings: McpSettings,
    /// Ends the server when the test does.
    server: Option<Running>,
    /// Where calls send the forms of their server.
    forms: Option<mpsc::Sender<ElicitationCall>>,
    elicitations: Option<mpsc::Receiver<ElicitationCall>>,
}

struct Running {
    child: Child,
    port: u16,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn script(name: &str) -> PathBuf {
    aish_testkit::repository::top()
        .join("tests/data/mcp")
        .join(name)
}

fn serve(mode: &str, port: u16) -> Running {
    let mut child = Command::new("python3")
        .arg(script("http_server.py"))
        .args([mode, &port.to_string()])
        .stdout(Pipe::piped())
        .spawn()
        .expect("python3 is there");
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let port = line.trim().parse().expect("a port");
    Running { child, port }
}

fn children() -> Children {
    let base = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    Children::behind(aish_testkit::built("aishd"), base)
}

/// Who answers the forms of servers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum People {
    None,
    Some,
}

/// Where forms go, and where they come out.
type Forms = (
    mpsc::Sender<ElicitationCall>,
    mpsc::Receiver<ElicitationCall>,
);

fn hub(kept: &Kept, people: People) -> (Hub, Option<Forms>) {
    let (sender, receiver) = mpsc::channel(4);
    let (recalled, keeping) = (kept.clone(), kept.clone());
    let hub = Hub::new(HubParts {
        profiles: ProfileGround::plain(children()),
        sign_in: SignIn::new(SignInParts {
            directory: "/nowhere".into(),
            environment: Box::new(|_name| None),
            learn: Box::new(|_secret| {}),
            not_renewed: Box::new(|_failed| {}),
            redact: Box::new(str::to_owned),
        }),
        environment: Box::new(|name| (name == "LMCP_TOKEN").then(|| "sesame".to_owned())),
        recall: Box::new(move |key| recalled.lock().get(key).cloned()),
        keep: Box::new(move |key, text| {
            keeping.lock().insert(key.to_owned(), text);
        }),
        roots: Box::new(|| vec![PathBuf::from("/some where")]),
        learn: Box::new(|_secret| {}),
        redact: Box::new(str::to_owned),
        elicitation: people == People::Some,
    });
    (hub, (people == People::Some).then_some((sender, receiver)))
}

fn limits() -> SessionLimits {
    SessionLimits {
        connect: Duration::from_secs(4),
        start: Duration::from_secs(30),
        call: Duration::from_secs(30),
        longest_call: Duration::from_secs(60),
        longest_task: Duration::from_secs(60),
    }
}

fn url(port: u16) -> HttpServerSettings {
    HttpServerSettings {
        url: format!("http://127.0.0.1:{port}/mcp"),
        auth: BearerSource::None,
        headers: BTreeMap::new(),
        oauth: OAuthSettings::default(),
    }
}

fn python(mode: &str) -> StdioServerSettings {
    StdioServerSettings {
        command: "python3".to_owned(),
        args: vec![
            script("stdio_server.py").display().to_string(),
            mode.to_owned(),
        ],
        env: BTreeMap::new(),
        cwd: None,
        contain: ChosenProfile::default(),
    }
}

impl Bench {
    /// A server over HTTP.
    async fn http(mode: &str) -> Self {
        let server = serve(mode, 0);
        let endpoint = ServerEndpoint::Http(url(server.port));
        let mut bench = Self::with(endpoint, limits(), People::None).await;
        bench.server = Some(server);
        bench
    }

    /// A server that is a child.
    async fn stdio(mode: &str) -> Self {
        Self::with(ServerEndpoint::Stdio(python(mode)), limits(), People::None).await
    }

    async fn with(endpoint: ServerEndpoint, limits: SessionLimits, people: People) -> Self {
        Self::of(ServerSettings::of(endpoint), limits, people).await
    }

    async fn of(server: ServerSettings, limits: SessionLimits, people: People) -> Self {
        let kept = Kept::default();
        let (hub, forms) = hub(&kept, people);
        let (forms, elicitations) = forms.unzip();
        let settings = McpSettings {
            limits,
            roots: false,
            import: None,
            servers: BTreeMap::from([(alias(), Arc::new(server))]),
        };
        hub.configure(settings.clone()).await;
        Self {
            hub,
            kept,
            settings,
            server: None,
            forms,
            elicitations,
        }
    }

    async fn until(&self, found: impl Fn(&ServerEntry) -> bool) -> Arc<ServerEntry> {
        let mut servers = self.hub.servers();
        let wait = servers.wait_for(|all| all.get(&alias()).is_some_and(|it| found(it)));
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        match waited {
            Ok(all) => all.unwrap().get(&alias()).unwrap().clone(),
            Err(_elapsed) => panic!("{:?}", self.hub.servers().borrow().list),
        }
    }

    async fn ready(&self) -> Arc<ServerEntry> {
        self.until(|it| it.state == ServerPhase::Ready).await
    }

    async fn failed(&self) -> (String, Option<String>) {
        let status = self
            .until(|it| matches!(it.state, ServerPhase::Failed { .. }))
            .await;
        match &status.state {
            ServerPhase::Failed { why, hint } => (why.clone(), hint.clone()),
            other @ (ServerPhase::Off(_)
            | ServerPhase::Connecting
            | ServerPhase::Ready
            | ServerPhase::NeedsSignIn { .. }) => {
                panic!("{other:?}")
            }
        }
    }

    fn tools(&self) -> Vec<String> {
        let servers = self.hub.servers().borrow().clone();
        servers
            .tools()
            .map(|(name, _)| name.tool().to_owned())
            .collect()
    }

    async fn outcome(&self, tool: &str, arguments: Value) -> Result<ToolOutcome, ToolCallError> {
        let Value::Object(arguments) = arguments else {
            panic!("arguments are an object");
        };
        let name = ToolName::new(alias(), tool).unwrap();
        let never = CancellationToken::new();
        let ears = CallListener {
            notes: None,
            forms: self.forms.clone(),
            ..CallListener::default()
        };
        let call = self
            .hub
            .call(approved(&self.hub, &name), arguments, ears, &never);
        tokio::time::timeout(PATIENCE, call)
            .await
            .expect("every call ends")
    }

    /// What a call gives, in a line.
    async fn call(&self, tool: &str) -> String {
        said(self.outcome(tool, json!({})).await)
    }

    /// What the server was sent: method, headers, params.
    async fn sent(&self) -> Vec<(String, Value, Value)> {
        let port = self.server.as_ref().unwrap().port;
        let log = reqwest::get(format!("http://127.0.0.1:{port}/log"))
            .await
            .unwrap();
        let log: Vec<(Option<String>, Value, Value)> = log.json().await.unwrap();
        let log = log.into_iter();
        log.map(|(method, headers, params)| (method.unwrap_or_default(), headers, params))
            .collect()
    }

    async fn methods(&self) -> Vec<String> {
        self.sent().await.into_iter().map(|it| it.0).collect()
    }
}

/// What a person would be shown of it now.
fn approved(hub: &Hub, name: &ToolName) -> ApprovedTool {
    let servers = hub.servers().borrow().clone();
    let server = servers.get(name.alias());
    let tool = server.zip(servers.tool(name));
    let tool = tool.and_then(|(server, tool)| offered_tool(server, tool));
    match tool {
        Some(tool) => ApprovedTool::of(&tool),
        // Nobody was ever shown it.
        None => ApprovedTool {
            name: name.clone(),
            definition: ContentDigest::of(&[]),
        },
    }
}

fn said(result: Result<ToolOutcome, ToolCallError>) -> String {
    match result {
        Ok(outcome) if outcome.is_error => format!("error result: {}", outcome.text),
        Ok(outcome) => outcome.text,
        Err(error) => match error.side() {
            FailureSide::Dispatch => format!("dispatch failed: {error}"),
            FailureSide::Transport => format!("transport error: {error}"),
            FailureSide::Cancelled => "cancelled".to_owned(),
        },
    }
}

fn alias() -> Alias {
    "a".parse().unwrap()
}

fn hears(notes: mpsc::Sender<CallNote>) -> CallListener {
    CallListener {
        notes: Some(notes),
        ..CallListener::default()
    }
}

/// Notes in a line each.
fn noted(notes: &mut mpsc::Receiver<CallNote>) -> Vec<String> {
    let mut seen = vec![];
    while let Ok(note) = notes.try_recv() {
        seen.push(match note {
            CallNote::Progress {
                progress,
                total,
                message,
            } => format!("{progress}/{total:?} {message:?}"),
            CallNote::Status { message } => format!("status: {message}"),
            CallNote::Log { level, text, .. } => format!("{level}: {text}"),
        });
    }
    seen
}
