//! A catalog of models that somebody hands over: it counts at once and after a restart, says what a model costs and takes in,
//! and is taken away again. What is no catalog changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use aish_proto::conversation::{ConversationParams, StatusOf};
use aish_testkit::{Answer, Upstream, World};
use serde_json::{Value, json};

use crate::context::asked;
use crate::usage::said;

/// As models.dev has it: whose server it is, the address says.
fn catalog_of(upstream: &Upstream) -> Value {
    json!({
        "somebody": {
            "id": "somebody", "name": "Somebody", "env": ["SOMEBODY_KEY"], "api": upstream.endpoint(),
            "models": {"test-model": {
                "id": "test-model", "name": "Test", "attachment": false, "tool_call": true, "temperature": false,
                "limit": {"context": 54321, "output": 4321},
                "cost": {"input": 2, "output": 10, "cache_read": 0.5},
            }},
        },
        "elsewhere": {"id": "elsewhere", "models": {"other": {"limit": {"context": 1}}}},
        "anthropic": {"id": "anthropic", "models": {"claude-opus-4-7": {"limit": {"context": 7777}}}},
    })
}

fn configured(upstream: &Upstream) -> World {
    let world = World::new();
    let test = upstream.preset("test", "temperature = 0.5");
    let known = "[models.known]\nendpoint = \"https://api.anthropic.com/v1\"\nmodel = \"claude-opus-4-7\"\n";
    world.write_config(&format!("default_model = \"test\"\n{test}\n{known}"));
    world
}

fn out(world: &World, words: &[&str]) -> String {
    world.ctl(words).run().ok().out().to_owned()
}

/// Answers with this many tokens.
fn counted() -> Answer {
    Answer::text("fine").usage(Some((1000, 100)))
}

#[test]
fn what_is_handed_over_counts_at_once_and_until_it_is_taken_away() {
    let upstream = Upstream::start();
    upstream.answer_with(|_request| counted());
    let world = configured(&upstream);
    let daemon = world.daemon().spawn();
    let show = |name: &str| out(&world, &["model", "show", name]);
    let sent_temperature = || upstream.requests().last().unwrap().json()["temperature"].clone();
    let client = world.client();
    let conversation = client.create();
    asked(&client, conversation, "hello");
    assert_eq!(json!(0.5), sent_temperature());
    let of_the_program = || {
        let (test, known) = (show("test"), show("known"));
        assert!(test.contains("does not know it"), "{test}");
        assert!(known.contains("1000000 tokens"), "{known}");
    };
    of_the_program();
    let before = out(&world, &["model", "catalog"]);
    assert!(
        before.contains("came with the program") && !before.contains("handed over"),
        "{before}"
    );

    let file = world.work().join("api.json");
    fs::write(&file, catalog_of(&upstream).to_string()).unwrap();
    let updated = world.ctl(&["model", "catalog", "update", "api.json"]);
    let updated = updated.cwd(world.work()).run().ok().out().to_owned();
    assert!(
        updated.contains("handed over")
            && updated.contains("models.dev")
            && updated.contains("1 others are left out"),
        "{updated}"
    );
    let kept = world.state().join("models.tsv");
    assert_eq!(
        0o600,
        fs::metadata(&kept).unwrap().permissions().mode() & 0o777
    );
    let check = || {
        let shown = show("test");
        for part in [
            "54321 tokens",
            "at most 4321 tokens",
            "$2.00 in, $0.50 cached, $10.00 out",
            "knows it, as of",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        // Newer than the one of the program, which still knows what it costs.
        let shown = show("known");
        assert!(
            shown.contains("7777 tokens") && shown.contains("$5.00 in"),
            "{shown}"
        );
    };
    check();
    let status = || {
        client
            .done::<StatusOf>(ConversationParams { id: conversation })
            .usage
    };
    let unpriced = said(&status());
    asked(&client, conversation, "and now");
    // A thousand tokens in and a hundred out, at that price.
    assert_ne!(unpriced, said(&status()));
    assert_eq!(Some(3_000_000), status().cost_usd.map(|it| it.nanos));
    assert_eq!(Value::Null, sent_temperature());

    // It outlives the daemon, and may be piped in.
    drop(client);
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    check();
    let reset = out(&world, &["model", "catalog", "reset"]);
    assert!(!reset.contains("handed over"), "{reset}");
    of_the_program();
    let piped = world.ctl(&["model", "catalog", "update", "-"]);
    let piped = piped.stdin(catalog_of(&upstream).to_string()).run().ok();
    assert!(piped.out().contains("handed over"), "{}", piped.out());
    check();
    upstream.finish();
}

#[test]
fn what_is_no_catalog_changes_nothing_and_stops_nothing() {
    let upstream = Upstream::start();
    let world = configured(&upstream);
    let daemon = world.daemon().spawn();
    let refused = |text: &str| {
        let run = world.ctl(&["model", "catalog", "update", "-"]);
        let run = run.stdin(text).run();
        assert!(!run.err().contains("invalid params"), "{}", run.err());
        run.err().to_owned()
    };
    for (text, expected) in [
        ("<html>", "is no catalog of models: it is no JSON"),
        ("[]", "expected an object of providers or of models"),
        (
            "{\"models\": [1]}",
            "neither models.dev's api.json (providers",
        ),
    ] {
        let said = refused(text);
        assert!(said.contains(expected), "{said}");
    }
    let missing = world
        .ctl(&["model", "catalog", "update", "nothing.json"])
        .run();
    assert!(
        missing.err().contains("nothing.json: No such file"),
        "{}",
        missing.err()
    );
    assert_eq!(0, daemon.terminate());

    // Somebody wrote into it.
    let kept = world.state().join("models.tsv");
    fs::write(&kept, "# 2026-01-02 models.dev: \nnothing\n").unwrap();
    let _daemon = world.daemon().spawn();
    let shown = out(&world, &["model", "show", "known"]);
    assert!(shown.contains("1000000 tokens"), "{shown}");
    let checked = world.ctl(&["rpc", "config/check", "{}"]).run().ok();
    assert!(
        checked
            .out()
            .contains("no catalog of models: line 2 is no model of a catalog"),
        "{}",
        checked.out()
    );
    out(&world, &["model", "catalog", "reset"]);
    assert!(!kept.exists());
}
