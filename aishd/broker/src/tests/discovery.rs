//! Which model answers somebody who configured none, with servers of every kind on this machine.

use aishd_log::event::PresetSource;
use aishd_model::model_settings::ModelSettings;
use aishd_model::preset::Backend;
use aishd_model::reply::Delta;

use super::scripted::{Server, Step, head, preset, write};
use super::without_keys;

const CHAT: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"h"}}]}"#;

fn json(body: &str) -> Vec<Step> {
    vec![
        head("200 OK", "content-type: application/json\r\n"),
        write(body),
    ]
}

fn list(owner: &str, ids: &[&str]) -> String {
    let models: Vec<serde_json::Value> = ids
        .iter()
        .map(|id| serde_json::json!({"id": id, "owned_by": owner, "meta": {"n_ctx": 4096}}))
        .collect();
    serde_json::json!({"object": "list", "data": models}).to_string()
}

/// A server that lists these models, of which only those named `good…` answer.
async fn server(owner: &'static str, ids: &'static [&'static str]) -> Server {
    Server::answering(move |request| {
        if request.starts_with("GET /v1/models ") {
            json(&list(owner, ids))
        } else if request.contains(r#""model":"good"#) {
            json(CHAT)
        } else {
            vec![
                head("500 No", ""),
                write("{\"error\":{\"message\":\"cannot load\"}}"),
            ]
        }
    })
    .await
}

async fn check(servers: &[&str], name: &str, model: &str, notices: &[&str]) {
    let models = ModelSettings {
        local_servers: servers.iter().map(|url| (*url).to_owned()).collect(),
        ..ModelSettings::default()
    };
    let discovery = without_keys().discover(&models).await;
    let notices: Vec<String> = notices.iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(notices, discovery.notices);
    assert_eq!(
        (name, model),
        (
            discovery.preset.name.as_str(),
            discovery.preset.model.as_str()
        )
    );
    let expected = if name == "demo" {
        PresetSource::Demo
    } else {
        PresetSource::Discovered
    };
    assert_eq!(expected, discovery.preset.source);
}

#[tokio::test]
async fn the_first_server_with_a_model_that_answers_is_taken() {
    let dead = "http://127.0.0.1:9/v1";
    let page = Server::start(vec![
        head("200 OK", "content-type: text/html\r\n"),
        write("<html>"),
    ])
    .await;
    let stuck = Server::start(vec![Step::Hang]).await;
    let broken = server("vllm", &["bad"]).await;
    let only_embeddings = server("library", &["nomic-embed-text"]).await;
    let good = server(
        "llamacpp",
        &["text-embedding-3", "bad", "good-7b", "good-8b"],
    )
    .await;
    let later = server("library", &["good-later"]).await;
    let (broken_at, empty_at, good_at) = (&broken.address, &only_embeddings.address, &good.address);
    check(
        &[dead, &page.url(), &stuck.url(), &broken.url(), &only_embeddings.url(), &good.url(), &later.url()],
        "llamacpp",
        "good-7b",
        &[
            &format!("found vLLM at {broken_at}, but no model that answers (bad: transport: HTTP 500: cannot load)"),
            &format!("found Ollama at {empty_at}, but no model that answers (it lists none for chat)"),
            &format!("no config; found llama.cpp at {good_at} with good-7b — using it for now; to keep it: aishctl model add NAME --endpoint {} --id good-7b", good.url().trim_end_matches('/')),
        ],
    )
    .await;
    let trials = later
        .seen
        .lock()
        .iter()
        .filter(|seen| seen.starts_with("POST"))
        .count();
    assert_eq!(0, trials);
}

#[tokio::test]
async fn nothing_found_is_the_demo_and_says_so() {
    let demo = "answering with the built-in demo: a script, not a model";
    check(
        &["http://127.0.0.1:9", "http://127.0.0.1:9/v1"],
        "demo",
        "demo",
        &["no model configured, none found on this machine (tried a local server, a local server)", demo],
    )
    .await;
    check(&[], "demo", "demo", &["no model configured", demo]).await;
}

#[tokio::test]
async fn only_this_machine_is_asked() {
    // Were it asked, this server would win: it is the same one under a name that is not this machine's for certain.
    let good = server("library", &["good"]).await;
    let port = good.address.rsplit(':').next().unwrap();
    let elsewhere = format!("http://0.0.0.0:{port}/v1");
    let demo = "answering with the built-in demo: a script, not a model";
    check(
        &[&elsewhere, "http://192.0.2.1:80/v1"],
        "demo",
        "demo",
        &["no model configured", demo],
    )
    .await;
    assert!(good.seen.lock().is_empty());
}

#[tokio::test]
async fn a_probe_says_what_each_server_serves() {
    let local = server("library", &["good", "other"]).await;
    let mine =
        Server::answering(|_| vec![head("401 No", ""), write("key sk-secret-1234 unknown")]).await;
    let models = ModelSettings {
        presets: [("mine".to_owned(), preset(&mine.url()).into())].into(),
        default: None,
        local_servers: vec![local.url(), mine.url()],
        ..ModelSettings::default()
    };
    let probes = without_keys().probe(&models, None).await;
    let said: Vec<_> = probes
        .iter()
        .map(|probe| {
            (
                probe.preset.as_deref(),
                probe.endpoint.clone(),
                probe.models.clone(),
            )
        })
        .collect();
    let expected = [
        (
            Some("test"),
            mine.url(),
            Err("transport: HTTP 401: key [key] unknown".to_owned()),
        ),
        (
            None,
            local.url(),
            Ok(vec!["good".to_owned(), "other".to_owned()]),
        ),
    ];
    assert_eq!(expected, said[..]);
    let seen = mine.seen.lock()[0].to_lowercase();
    assert!(
        seen.contains("authorization: bearer sk-secret-1234\r\n"),
        "{seen}"
    );
}

#[tokio::test]
async fn the_demo_answers_through_the_broker() {
    let preset = aishd_model::preset::Preset::demo();
    assert_eq!(Backend::Demo, preset.backend);
    let mut deltas = 0;
    let body = r#"{"messages":[{"role":"user","content":"hello there"}]}"#.to_owned();
    let reply = without_keys()
        .stream(&preset, body, |delta| {
            assert!(matches!(delta, Delta::Text(_)));
            deltas += 1;
        })
        .await
        .unwrap();
    assert!(reply.text.contains("hello there") && deltas > 50);
}
