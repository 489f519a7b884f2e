//! `route` and `fallback` as people and scripts type them.

use aish_testkit::{Answer, Upstream, World};
use serde_json::Value;

struct Scene {
    fast: Upstream,
    deep: Upstream,
    world: World,
}

impl Scene {
    fn new() -> Self {
        let (fast, deep, world) = (Upstream::start(), Upstream::start(), World::new());
        let cloud = deep.preset("cloud", "");
        world.write_config(&format!(
            "default_model = \"fast\"\n{}{}{cloud}",
            fast.preset("fast", ""),
            deep.preset("deep", ""),
        ));
        Self { fast, deep, world }
    }

    /// Exit code, stdout and stderr.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let done = self.world.ctl(args).run();
        (done.code, done.out().to_owned(), done.err().to_owned())
    }

    #[track_caller]
    fn check(&self, args: &[&str], expected: &str) {
        let (code, stdout, stderr) = self.run(args);
        assert_eq!((0, expected), (code, stdout.as_str()), "{args:?}: {stderr}");
    }

    fn json(&self, args: &[&str]) -> Value {
        let (_, stdout, stderr) = self.run(args);
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout} {stderr}"))
    }
}

#[test]
fn a_text_can_be_tried_and_classes_looked_at_while_routing_is_off() {
    let scene = Scene::new();
    let _daemon = scene.world.daemon().spawn();
    scene.check(&["route"], "routing is off (routing.auto)\n");
    scene.check(
        &["route", "check", "why error: cannot find -lssl"],
        "code (\"error:\" near the start) → deep (routing currently disabled)\n",
    );
    scene.check(
        &["route", "check", "why", "not?"],
        "reasoning (\"why\") → no preset of its own: fast answers (routing currently disabled)\n",
    );
    let json = scene.json(&["route", "check", "ls /tmp", "--json"]);
    assert_eq!(
        ("default", "none"),
        (
            json["class"].as_str().unwrap(),
            json["rule"].as_str().unwrap()
        )
    );
    assert_eq!(
        (Value::Null, false.into()),
        (json["model"].clone(), json["enabled"].clone())
    );
    let (_, classes, _) = scene.run(&["route", "classes"]);
    let rows: Vec<Vec<&str>> = classes
        .lines()
        .map(|it| it.split_whitespace().collect())
        .collect();
    assert_eq!(vec!["code", "deep"], rows[1], "{classes}");
    assert!(
        classes.ends_with("(routing currently disabled)\n"),
        "{classes}"
    );
}

#[test]
fn what_is_switched_on_routes_the_next_question_and_says_so() {
    let scene = Scene::new();
    let _daemon = scene.world.daemon().spawn();
    let (_, on, _) = scene.run(&["route", "on"]);
    assert!(on.starts_with("routing is on (by "), "{on}");
    scene.check(
        &["route", "check", "src/main.rs"],
        "code (a source file) → deep\n",
    );
    let (code, stdout, stderr) = scene.run(&["ask", "fix src/main.rs"]);
    assert_eq!(
        (0, "Hello from the model.\n"),
        (code, stdout.as_str()),
        "{stderr}"
    );
    assert!(
        stderr.contains("[aish] routed to deep (code: a source file)"),
        "{stderr}"
    );
    let json = scene.json(&["ask", "--json", "fix src/main.rs"]);
    assert_eq!(
        ("deep", "code"),
        (
            json["model"].as_str().unwrap(),
            json["routed"].as_str().unwrap()
        )
    );
    let json = scene.json(&["ask", "--json", "hello"]);
    assert_eq!(
        ("fast".into(), Value::Null),
        (json["model"].clone(), json["routed"].clone())
    );
    let (_, shown, _) = scene.run(&["config", "show", "--origin"]);
    let line = shown
        .lines()
        .find(|it| it.starts_with("routing.auto = "))
        .unwrap();
    assert!(
        line.starts_with("routing.auto = true  # (runtime, by "),
        "{line}"
    );
    let (_, status, _) = scene.run(&["status"]);
    assert!(
        status.contains("routing        on · 2 routed · fallback off · 0 fell back\n"),
        "{status}"
    );
    assert_eq!(2, scene.json(&["status", "--json"])["routing"]["routed"]);
    // The turn says where it went.
    let (_, shown, _) = scene.run(&["ask", "-C", "t", "x"]);
    drop(shown);
    let made = scene.json(&["ask", "--json", "./x"]);
    let id = made["conversation"].as_str().unwrap();
    let (_, shown, _) = scene.run(&["conv", "show", id]);
    assert!(shown.contains("last turn deep · code (a path)"), "{shown}");
    let (_, log, _) = scene.run(&["log", id, "--json"]);
    assert!(
        log.contains("routeDecided") && log.contains("\"rule\":\"path\""),
        "{log}"
    );
    scene.run(&["route", "reset"]);
    scene.check(&["route"], "routing is off (routing.auto)\n");
}

#[test]
fn fallback_is_offered_where_it_would_help_and_then_helps() {
    let scene = Scene::new();
    let _daemon = scene.world.daemon().spawn();
    let down = || scene.fast.answer(Answer::status(503, "{}"));
    down();
    let (code, _, stderr) = scene.run(&["ask", "hello"]);
    assert_eq!(5, code, "{stderr}");
    assert!(
        stderr.contains("[aish] routing.fallback is off: fast is not answering (HTTP 503)"),
        "{stderr}"
    );
    assert!(stderr.contains("aishctl fallback on"), "{stderr}");
    let (_, on, _) = scene.run(&["fallback", "on"]);
    assert!(
        on.starts_with("fallback is on: where a server looks down, cloud is asked once (by "),
        "{on}"
    );
    down();
    let (code, stdout, stderr) = scene.run(&["ask", "hello"]);
    assert_eq!(
        (0, "Hello from the model.\n"),
        (code, stdout.as_str()),
        "{stderr}"
    );
    assert!(
        stderr.contains("[aish] local fast failed (HTTP 503); retrying via cloud"),
        "{stderr}"
    );
    // Both fail: one error, and the other as its cause.
    down();
    scene
        .deep
        .answer(Answer::status(500, r#"{"error":{"message":"also"}}"#));
    let (code, _, stderr) = scene.run(&["ask", "hello"]);
    assert_eq!(5, code, "{stderr}");
    assert!(
        stderr.contains("transport: HTTP 500: also (because before that: transport: HTTP 503:"),
        "{stderr}"
    );
    down();
    scene.deep.answer(Answer::status(401, "{}"));
    let json = scene.json(&["ask", "--json", "hello"]);
    assert_eq!("unauthorized", json["error"]["class"]);
    assert!(
        json["error"]["cause"]
            .as_str()
            .unwrap()
            .starts_with("transport: HTTP 503"),
        "{json}"
    );
    let routing = &scene.json(&["status", "--json"])["routing"];
    assert_eq!(
        (3.into(), 2.into()),
        (
            routing["fallbacks"].clone(),
            routing["fallbacksFailed"].clone()
        )
    );
    let (_, text, _) = scene.run(&["metrics"]);
    assert!(text.contains("aish_fallbacks_total 3\n"), "{text}");
    scene.run(&["fallback", "off"]);
    down();
    assert_eq!(5, scene.run(&["ask", "hello"]).0);
}
