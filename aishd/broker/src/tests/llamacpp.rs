//! The broker against llama.cpp's own server. `tests/prepare-llamacpp.sh` prepares it; without it this skips.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use aishd_dialect::prompt::{Prompt, PromptItem, PromptPurpose, PromptTool};
use aishd_log::api_dialect::ApiDialect;
use aishd_log::turn_error::FailureClass;
use aishd_model::model_settings::ModelSettings;
use aishd_model::preset::{Backend, KeySource, Preset};
use aishd_model::reply::{Delta, FinishReason, RequestFailure};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::scripted::preset;
use super::without_keys;

struct Llama {
    child: Child,
    url: String,
}

impl Llama {
    /// `None` where it is not prepared, which is said.
    async fn start(arguments: &[&str]) -> Option<Self> {
        // The test program lies in target/PROFILE/deps.
        let program = std::env::current_exe().unwrap();
        let prepared = program.ancestors().nth(3)?.join("llamacpp");
        if !prepared.join("stamp").exists() {
            println!(
                "skipped: run tests/prepare-llamacpp.sh for {}",
                prepared.display()
            );
            return None;
        }
        let project: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut child = Command::new(prepared.join("venv/bin/python"))
            .arg(project.join("tests/data/llamacpp/serve.py"))
            .arg(prepared.join("scripted.gguf"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some(url) = line.strip_prefix("LISTEN ") {
                    return url.to_owned();
                }
            }
            panic!("the server ended before it was ready");
        };
        let url = tokio::time::timeout(Duration::from_secs(60), ready)
            .await
            .unwrap();
        Some(Self { child, url })
    }

    fn preset(&self, key: KeySource) -> Preset {
        let mut preset = preset(&self.url);
        preset.model = "scripted".to_owned();
        if let Backend::Http(endpoint) = &mut preset.backend {
            endpoint.key = key;
        }
        preset
    }
}

fn body(content: &str, tools: bool) -> String {
    let mut body = json!({
        "model": "scripted",
        "stream": true,
        "stream_options": {"include_usage": true},
        "temperature": 0.2,
        "messages": [{"role": "user", "content": content}],
    });
    if tools {
        body["tools"] = json!([{"type": "function", "function": {
            "name": "files__list", "description": "lists",
            "parameters": {"type": "object", "properties": {"path": {"type": "string", "enum": ["/etc", "/tmp"]}}, "required": ["path"]},
        }}]);
    }
    body.to_string()
}

#[tokio::test]
async fn a_real_server_streams_and_calls_and_refuses() {
    let Some(llama) = Llama::start(&["--key", "sk-local", "--ping", "1"]).await else {
        return;
    };
    let broker = without_keys();
    let preset = llama.preset(KeySource::Literal("sk-local".to_owned()));
    let ask = |content: &str, tools| broker.stream(&preset, body(content, tools), |_| {});

    let mut deltas = Vec::new();
    let reply = broker
        .stream(&preset, body("hello", false), |delta| {
            let Delta::Text(text) = delta else {
                panic!("{delta:?}")
            };
            deltas.push(text.to_owned());
        })
        .await
        .unwrap();
    let sentence =
        "Hello from the scripted local model: one two three four five six seven eight nine ten.";
    assert_eq!(sentence, reply.text);
    assert_eq!(sentence, deltas.concat());
    assert!(deltas.len() > 10, "{}", deltas.len());
    assert_eq!(
        (Some(FinishReason::Stop), None, Some(19)),
        (
            reply.finish,
            reply.served_by,
            reply.usage.and_then(|usage| usage.output)
        )
    );

    let reply = ask("hello", true).await.unwrap();
    assert_eq!(Some(FinishReason::ToolCalls), reply.finish);
    let call = &reply.calls[0];
    assert_eq!(
        ("files__list", r#"{"path":"/etc"}"#, None),
        (
            call.name.as_str(),
            call.arguments.as_str(),
            call.broken.as_deref()
        )
    );

    let broken = ask(&"word ".repeat(2_000), false).await.unwrap_err();
    assert_eq!(FailureClass::ContextOverflow, broken.failure.class());

    let stranger = llama.preset(KeySource::None);
    let asked = broker.stream(&stranger, body("hello", false), |_| {});
    assert_eq!(
        "transport: HTTP 401: Invalid API Key",
        asked.await.unwrap_err().failure.to_string()
    );
}

#[tokio::test]
async fn a_real_server_is_free_after_a_cancel_and_may_be_killed() {
    let Some(mut llama) = Llama::start(&[]).await else {
        return;
    };
    let broker = without_keys();
    let preset = llama.preset(KeySource::None);

    let mut endless = String::new();
    let (began, mut begun) = tokio::sync::watch::channel(false);
    let asked = broker.stream(&preset, body("pleaselong", false), |delta| {
        if let Delta::Text(text) = delta {
            endless.push_str(text);
            began.send_replace(true);
        }
    });
    tokio::select! {
        reply = asked => panic!("{reply:?}"),
        seen = begun.wait_for(|begun| *begun) => assert!(*seen.unwrap()),
    }
    assert!(endless.starts_with(" tick"), "{endless:?}");
    let asked = broker.stream(&preset, body("hello", false), |_| {});
    let soon = tokio::time::timeout(Duration::from_secs(60), asked).await;
    soon.expect("the server still writes what nobody reads")
        .unwrap();

    let mut arrived = String::new();
    let pid = llama.child.id().unwrap();
    let broken = broker
        .stream(&preset, body("pleaselong", false), |delta| {
            if let Delta::Text(text) = delta {
                if arrived.is_empty() {
                    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
                    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
                }
                arrived.push_str(text);
            }
        })
        .await
        .unwrap_err();
    assert_eq!(RequestFailure::Cut, broken.failure);
    assert_eq!(arrived, broken.partial.text);
    llama.child.wait().await.unwrap();
}

#[tokio::test]
async fn a_real_server_is_found() {
    let Some(llama) = Llama::start(&[]).await else {
        return;
    };
    let models = ModelSettings {
        local_servers: vec![llama.url.clone()],
        ..ModelSettings::default()
    };
    let broker = without_keys();
    let discovery = broker.discover(&models).await;
    let place = llama.url.trim_start_matches("http://");
    assert_eq!(
        [format!(
            "no config; found llama.cpp at {place} with scripted — using it for now; to keep it: aishctl model add NAME --endpoint {}/v1 --id scripted",
            llama.url
        )],
        discovery.notices[..]
    );
    assert_eq!(Some(4096), discovery.preset.context_tokens);
    let reply = broker
        .stream(&discovery.preset, body("hello", false), |_| {})
        .await
        .unwrap();
    assert!(reply.text.starts_with("Hello from"), "{}", reply.text);
}

/// A call, its result, and what the model makes of it, in each of the dialects that the server speaks.
#[tokio::test]
async fn it_is_spoken_to_in_every_dialect() {
    let Some(llama) = Llama::start(&[]).await else {
        return;
    };
    let schema =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let tools = vec![PromptTool {
        name: "weather",
        description: "The weather of a city.",
        schema: &schema,
    }];
    for api in ApiDialect::ALL {
        let mut preset = preset(&llama.url);
        preset.model = "scripted".to_owned();
        let Backend::Http(endpoint) = &mut preset.backend else {
            panic!("{preset:?}");
        };
        (endpoint.api, endpoint.key) = (api, KeySource::None);
        let prompt = |items| Prompt {
            system: "be brief",
            items,
            tools: tools.clone(),
            purpose: PromptPurpose::Conversation { key: Some("k") },
            ..Prompt::default()
        };
        let asks = || PromptItem::User {
            text: "What is the weather?".into(),
            pictures: vec![],
        };
        let body = aishd_dialect::encode(&preset, &prompt(vec![asks()]));
        let reply = without_keys().stream(&preset, body, |_| {}).await.unwrap();
        let call = &reply.calls[0];
        assert_eq!(
            ("weather", None),
            (call.name.as_str(), call.broken.as_ref()),
            "{api:?}"
        );
        assert_eq!(Some(FinishReason::ToolCalls), reply.finish, "{api:?}");
        assert!(reply.usage.unwrap().input.unwrap() > 0, "{api:?}");
        let items = vec![
            asks(),
            PromptItem::Assistant {
                text: "".into(),
                calls: &reply.calls,
                extra: None,
                sealed: None,
            },
            PromptItem::Tool {
                call: &call.id,
                content: "sunny".into(),
                pictures: vec![],
            },
        ];
        let body = aishd_dialect::encode(&preset, &prompt(items));
        let reply = without_keys().stream(&preset, body, |_| {}).await.unwrap();
        assert!(reply.text.contains("result"), "{api:?}: {}", reply.text);
        assert_eq!(Some(FinishReason::Stop), reply.finish, "{api:?}");
    }
}
