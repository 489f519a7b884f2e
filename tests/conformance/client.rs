//! aishd's own MCP client, driven by the public conformance suite: `mcp-conformance CONTEXT URL`, the context being
//! what the suite says of a scenario. Not shipped.
//!
//! It connects as the daemon does, lists the tools, and calls each, or those that the scenario names. Forms are accepted
//! with their defaults, as a person would who changes nothing.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a driver of tests: what goes wrong is the scenario's failure, and stderr is shown beside it"
)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use aishd_log::tool_name::{Alias, ToolName};
use aishd_mcp::call_listener::CallListener;
use aishd_mcp::hub::Hub;
use aishd_mcp::hub_parts::HubParts;
use aishd_mcp::{ElicitationAnswer, ElicitationCall};
use aishd_mcp_messages::oauth_settings::OAuthSettings;
use aishd_mcp_messages::server::{ServerEntry, ServerPhase};
use aishd_mcp_messages::settings::{
    BearerSource, HttpServerSettings, McpSettings, ServerEndpoint, ServerSettings,
};
use aishd_mcp_messages::tool_approval::{ApprovedTool, offered_tool};
use aishd_process::Children;
use aishd_profile::ProfileGround;
use aishd_signin::{SignIn, SignInParts};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(25);

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let context = arguments.next().unwrap_or_default();
    let url = arguments.next().expect("the suite gives the URL");
    let (sender, forms) = mpsc::channel(4);
    let hub = Hub::new(HubParts {
        profiles: ProfileGround::plain(Children::new(BTreeMap::new())),
        sign_in: SignIn::new(SignInParts {
            directory: "/nowhere".into(),
            environment: Box::new(|_name| None),
            learn: Box::new(|_secret| {}),
            not_renewed: Box::new(|_failed| {}),
            redact: Box::new(str::to_owned),
        }),
        environment: Box::new(|_name| None),
        recall: Box::new(|_key| None),
        keep: Box::new(|_key, _text| {}),
        roots: Box::new(Vec::new),
        learn: Box::new(|_secret| {}),
        redact: Box::new(str::to_owned),
        elicitation: true,
    });
    let worked = tokio::select! {
        worked = tokio::time::timeout(PATIENCE, work(&hub, url, &context, sender)) => worked,
        () = accept(forms) => return ExitCode::FAILURE,
    };
    hub.stop().await;
    match worked {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

/// Whether everything could be done.
async fn work(hub: &Hub, url: String, context: &str, forms: mpsc::Sender<ElicitationCall>) -> bool {
    let alias: Alias = "suite".parse().unwrap();
    let endpoint = ServerEndpoint::Http(HttpServerSettings {
        url,
        auth: BearerSource::None,
        headers: BTreeMap::new(),
        oauth: OAuthSettings::default(),
    });
    let server = ServerSettings::of(endpoint);
    let servers = BTreeMap::from([(alias.clone(), Arc::new(server))]);
    let settings = McpSettings {
        servers,
        ..McpSettings::default()
    };
    hub.configure(settings).await;
    let status = settled(hub, &alias).await;
    for remark in &*status.remarks {
        eprintln!("{remark}");
    }
    if let ServerPhase::Failed { why, .. } = &status.state {
        eprintln!("{why}");
        return false;
    }
    let mut all = true;
    for (tool, arguments) in calls(&status, context) {
        let name = ToolName::new(alias.clone(), &tool).unwrap();
        let listed = status.tools.iter().find(|it| it.name == tool);
        let Some(tool) = listed.and_then(|it| offered_tool(&status, it)) else {
            eprintln!("{name} is not listed");
            all = false;
            continue;
        };
        let never = CancellationToken::new();
        let ears = CallListener {
            forms: Some(forms.clone()),
            ..CallListener::default()
        };
        match hub
            .call(ApprovedTool::of(&tool), arguments, ears, &never)
            .await
        {
            Ok(outcome) => eprintln!("{name}: {}", outcome.text),
            Err(error) => {
                eprintln!("{name}: {error}");
                all = false;
            }
        }
    }
    all
}

async fn settled(hub: &Hub, alias: &Alias) -> Arc<ServerEntry> {
    let mut servers = hub.servers();
    let settled = servers.wait_for(|all| {
        let server = all.get(alias);
        server.is_some_and(|it| matches!(it.state, ServerPhase::Ready | ServerPhase::Failed { .. }))
    });
    settled.await.unwrap().get(alias).unwrap().clone()
}

/// What is to be called: the scenario's own calls, or every tool once.
fn calls(status: &ServerEntry, context: &str) -> Vec<(String, Map<String, Value>)> {
    let context: Value = serde_json::from_str(context).unwrap_or_default();
    if let Some(calls) = context["toolCalls"].as_array() {
        let calls = calls.iter().map(|it| {
            let arguments = it["arguments"].as_object().cloned();
            let name = it["name"].as_str().unwrap_or_default();
            (name.to_owned(), arguments.unwrap_or_default())
        });
        return calls.collect();
    }
    let preserved = status
        .tools
        .iter()
        .find(|it| it.name == "json_schema_2020_12_tool");
    let tools = status.tools.iter().map(|tool| {
        let arguments = match preserved {
            Some(it) if tool.name == "json_schema_echo" => {
                json!({"schema": it.input_schema}).as_object().cloned()
            }
            Some(_) | None => Some(required(&tool.input_schema)),
        };
        (tool.name.clone(), arguments.unwrap_or_default())
    });
    tools.collect()
}

/// Values for the arguments that a schema wants.
fn required(schema: &Value) -> Map<String, Value> {
    let names = schema["required"].as_array().into_iter().flatten();
    let names = names.filter_map(Value::as_str);
    let each = names.map(|name| {
        let value = match schema["properties"][name]["type"].as_str() {
            Some("number" | "integer") => json!(5),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _other => json!("text"),
        };
        (name.to_owned(), value)
    });
    each.collect()
}

async fn accept(mut forms: mpsc::Receiver<ElicitationCall>) {
    while let Some(form) = forms.recv().await {
        let fields = form.params["requestedSchema"]["properties"].clone();
        let fields = fields.as_object().cloned().unwrap_or_default();
        let filled = fields.into_iter().filter_map(|(name, field)| {
            let value = field.get("default").cloned();
            let value = value.or((field["type"] == "boolean").then_some(json!(true)));
            Some((name, value?))
        });
        // Who asked may have left.
        drop(
            form.answer
                .send(ElicitationAnswer::Accepted(filled.collect())),
        );
    }
}
