//! A real llama.cpp server answers. `tests/prepare-llamacpp.sh` prepares it; without it these skip.

use std::path::Path;

use aish_testkit::{Running, World, built, repository};
use rustix::process::Signal;

const SENTENCE: &str =
    "Hello from the scripted local model: one two three four five six seven eight nine ten.";

/// The server; it ends with the value.
struct Llama {
    _server: Running,
    endpoint: String,
}

impl Llama {
    /// `None` where it is not prepared, which is said.
    fn start(world: &World) -> Option<Self> {
        // The programs lie in TARGET/PROFILE.
        let prepared = built("aishctl").ancestors().nth(2)?.join("llamacpp");
        if !prepared.join("stamp").exists() {
            println!(
                "skipped: run tests/prepare-llamacpp.sh for {}",
                prepared.display()
            );
            return None;
        }
        let script = repository::top().join("tests/data/llamacpp/serve.py");
        let model = prepared.join("scripted.gguf");
        let args = [script.to_str()?, model.to_str()?];
        let mut server = world
            .program(&prepared.join("venv/bin/python"), &args)
            .spawn();
        let line = server.line_with("LISTEN ");
        let endpoint = line.trim_start_matches("LISTEN ").to_owned();
        Some(Self {
            _server: server,
            endpoint,
        })
    }
}

#[test]
fn a_preset_of_a_real_server_answers() {
    let world = World::new();
    let Some(llama) = Llama::start(&world) else {
        return;
    };
    world.write_config(&format!(
        "[models.local]\nendpoint = \"{}\"\nmodel = \"scripted\"\n",
        llama.endpoint
    ));
    let plain = world.ctl(&["ask", "hello"]).run().ok();
    assert_eq!(format!("{SENTENCE}\n"), plain.out());
    let report = world.ctl(&["ask", "--json", "hello"]).run().ok().json();
    assert_eq!(
        (SENTENCE, "local"),
        (
            report["text"].as_str().unwrap(),
            report["model"].as_str().unwrap()
        )
    );
    assert!(
        report["usage"]["output_tokens"].as_u64().unwrap() > 10,
        "{report}"
    );
    let mut endless = world.ctl_spawn(&["ask", "--jsonl", "pleaselong"]);
    endless.close_stdin();
    endless.line_with("textDelta");
    endless.signal(Signal::INT);
    let stopped = endless.wait().code(130);
    assert!(
        stopped.out().contains("tick") && stopped.out().contains("\"cancelled\""),
        "{}",
        stopped.out()
    );
    // The server has two places; were the cancelled one still at work, the later ones would wait.
    for _ in 0..3 {
        assert_eq!(
            format!("{SENTENCE}\n"),
            world.ctl(&["ask", "hello"]).run().ok().out()
        );
    }
}

#[test]
fn a_real_server_is_found_without_a_configuration() {
    let world = World::new();
    let Some(llama) = Llama::start(&world) else {
        return;
    };
    world.write_config(&format!(
        "[discovery]\nservers = [\"{}\"]\n",
        llama.endpoint
    ));
    let found = world.ctl(&["ask", "hello"]).run().ok();
    assert_eq!(format!("{SENTENCE}\n"), found.out());
    let place = llama.endpoint.trim_start_matches("http://");
    let told =
        format!("[aish] no config; found llama.cpp at {place} with scripted — using it for now");
    assert!(found.err().lines().any(|it| it == told), "{}", found.err());
    let quiet = world.ctl(&["ask", "-q", "hello"]).run().ok();
    assert_eq!("", quiet.err());
    assert!(Path::new(&world.socket()).exists());
}
