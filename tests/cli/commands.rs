//! Every other command against a real daemon, for people and as JSON; and what each error says.

use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Daemon, Finished, Upstream, World};
use serde_json::Value;

use crate::shell::shell;

fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

#[track_caller]
fn ok(world: &World, line: &str) -> String {
    let finished = shell(world, &format!("aishctl {line}")).run().ok();
    assert_eq!("", finished.err(), "{}", finished.report());
    finished.out().to_owned()
}

#[track_caller]
fn json(world: &World, line: &str) -> Value {
    let text = ok(world, &format!("--json {line}"));
    assert_eq!(1, text.lines().count(), "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Ends with this code, and stderr says what happened and what to type next.
#[track_caller]
fn refused(world: &World, line: &str, code: i32, what: &str, next: &str) {
    let finished: Finished = shell(world, &format!("aishctl {line}")).run().code(code);
    assert!(
        finished.err().starts_with(&format!("aishctl: {what}")),
        "{}",
        finished.report()
    );
    let hint = finished
        .err()
        .lines()
        .find_map(|it| it.strip_prefix("hint: "));
    assert!(
        hint.is_some_and(|it| it.contains(next)),
        "{}",
        finished.report()
    );
    assert_eq!("", finished.out());
}

#[test]
fn conversations_are_made_named_listed_and_put_away() {
    let (_upstream, world, _daemon) = world();
    let id = ok(&world, "conv new proj").trim().to_owned();
    assert_eq!(26, id.len());
    json(&world, "conv new other");
    let listed = json(&world, "conv ls");
    let titles: Vec<&str> = listed["conversations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["title"].as_str().unwrap())
        .collect();
    assert_eq!(vec!["other", "proj"], titles);
    let table = ok(&world, "conv ls");
    assert!(
        table
            .lines()
            .any(|it| it.starts_with("○") && it.contains("proj") && it.ends_with(&id)),
        "{table}"
    );
    assert!(ok(&world, "conv status proj").starts_with("○ proj\n"));
    assert_eq!(id, json(&world, "conv status proj")["id"].as_str().unwrap());
    assert!(ok(&world, "conv switch proj").contains(&format!("export AISH_CONVERSATION={id}")));
    assert_eq!(
        "proj is called lib now\n",
        ok(&world, "conv rename proj lib")
    );
    assert_eq!(
        "lib is called my new proj now\n",
        ok(&world, "conv rename lib my new proj")
    );
    assert!(json(&world, &format!("conv rename {id} proj")).is_object());
    assert!(
        ok(&world, "conv archive proj").starts_with("proj is archived; aishctl conv unarchive ")
    );
    assert_eq!(
        1,
        json(&world, "conv ls")["conversations"]
            .as_array()
            .unwrap()
            .len()
    );
    assert_eq!(
        id,
        json(&world, "conv ls --archived")["conversations"][0]["id"]
            .as_str()
            .unwrap()
    );
    assert_eq!(
        2,
        json(&world, "conv ls --all")["conversations"]
            .as_array()
            .unwrap()
            .len()
    );
    assert_eq!("proj is back\n", ok(&world, "conv unarchive proj"));
    assert!(
        json(&world, "conv archive other").is_object()
            && json(&world, "conv unarchive other").is_object()
    );
}

#[test]
fn only_who_means_it_deletes() {
    let (_upstream, world, _daemon) = world();
    ok(&world, "conv new proj");
    let made = json(&world, "conv new other");
    refused(
        &world,
        "conv rm proj",
        2,
        "deleting \"proj\" cannot be undone",
        "conv rm",
    );
    refused(
        &world,
        "conv rm prjo --yes",
        8,
        "unknown conversation \"prjo\" — did you mean \"proj\"?",
        "aishctl conv ls",
    );
    let wrong = shell(&world, "aishctl conv rm proj --title x")
        .run()
        .code(2);
    assert!(wrong.err().contains("nothing was deleted"));
    assert_eq!("deleted proj\n", ok(&world, "conv rm proj --yes"));
    assert_eq!(
        made["id"],
        json(&world, "conv rm other --title other")["deleted"]
    );
    assert_eq!(
        0,
        json(&world, "conv ls --all")["conversations"]
            .as_array()
            .unwrap()
            .len()
    );
    refused(
        &world,
        "log",
        8,
        "there is no conversation yet",
        "aishctl ask",
    );
}

#[test]
fn two_of_one_name_are_told_apart_by_id() {
    let (_upstream, world, _daemon) = world();
    let one = ok(&world, "conv new twin");
    let two = ok(&world, "conv new twin");
    refused(
        &world,
        "log twin",
        2,
        "2 conversations are called \"twin\"",
        one.trim(),
    );
    refused(
        &world,
        "log twin",
        2,
        "2 conversations are called \"twin\"",
        two.trim(),
    );
    ok(&world, &format!("log {}", one.trim()));
}

#[test]
fn the_daemon_says_how_it_is() {
    let (_upstream, world, daemon) = world();
    ok(&world, "conv new proj");
    let status = ok(&world, "status");
    assert!(
        status.contains(&format!("pid {}", daemon.pid()))
            && status.contains("conversations  1 · 0 running"),
        "{status}"
    );
    let status = json(&world, "status");
    assert_eq!(
        (u64::from(daemon.pid()), 1),
        (
            status["server"]["pid"].as_u64().unwrap(),
            status["conversations"].as_u64().unwrap()
        )
    );
    assert_eq!("aish ○\n", ok(&world, "status --format tmux"));
    assert!(ok(&world, "status --format prometheus").contains("# TYPE aish"));
    let models = ok(&world, "model list");
    assert!(
        models
            .lines()
            .any(|it| it.starts_with('*') && it.contains("test-model")),
        "{models}"
    );
    assert_eq!(
        "test",
        json(&world, "model ls")["models"][0]["name"]
            .as_str()
            .unwrap()
    );
    assert!(
        ok(&world, "model probe")
            .lines()
            .any(|it| it.starts_with("ok") && it.contains("test-model"))
    );
    assert_eq!(
        Some(true),
        json(&world, "model probe")["servers"][0]["ok"].as_bool()
    );
    assert!(ok(&world, "model test -C proj").starts_with("proj uses test"));
    refused(&world, "model tset -C proj", 8, "", "model");
    assert!(ok(&world, "help exit-codes").contains("  78  the configuration is invalid"));
    assert!(ok(&world, "help conv ls").contains("--archived"));
    assert!(ok(&world, "--version").starts_with("aishctl 0."));
    assert!(
        ok(&world, "").contains("\nConversations:\n")
            && ok(&world, "help").contains("\nConversations:\n")
    );
}

#[test]
fn a_changed_configuration_is_read_and_a_wrong_one_is_not() {
    let (upstream, world, _daemon) = world();
    assert_eq!(
        "nothing new: the files are in force as they are\n",
        ok(&world, "reload")
    );
    world.write_config(&format!(
        "{}{}",
        upstream.config("test"),
        upstream.preset("second", "")
    ));
    // The daemon may have noticed by itself already.
    let reloaded = ok(&world, "reload");
    let new = reloaded.starts_with("changed: models.second");
    assert!(new || reloaded.starts_with("nothing new"), "{reloaded}");
    drop(world.ctl(&["ask", "-m", "second", "why"]).run().ok());
    world.write_config("default_model = 3\n");
    let wrong = shell(&world, "aishctl reload").run().code(78);
    assert!(
        wrong.out().starts_with("the old configuration stays:\n"),
        "{}",
        wrong.report()
    );
    let wrong = shell(&world, "aishctl --json reload").run().code(78);
    assert!(!wrong.json()["errors"].as_array().unwrap().is_empty());
    drop(world.ctl(&["ask", "why"]).run().ok());
}

#[test]
fn a_raw_call_is_as_good_as_any_and_the_schema_needs_no_daemon() {
    let (_upstream, world, daemon) = world();
    ok(&world, "conv new proj");
    let listed = ok(&world, "rpc conversation/list '{\"limit\":1}'");
    assert!(listed.contains("\"title\":\"proj\""), "{listed}");
    assert_eq!(
        listed,
        ok(&world, "rpc conversation/list - <<'X'\n{\"limit\":1}\nX")
    );
    assert_eq!("{}\n", ok(&world, "rpc daemon/ping"));
    let unknown = shell(&world, "aishctl rpc daemon/nonsense").run().code(1);
    assert!(
        unknown.err().contains("daemon/nonsense"),
        "{}",
        unknown.err()
    );
    let invalid = shell(&world, "aishctl rpc conversation/list '{\"limt\":1}'")
        .run()
        .code(1);
    assert!(invalid.err().contains("limt"), "{}", invalid.err());
    assert_eq!(0, daemon.terminate());
    let schema = ok(&world, "rpc --schema");
    let document: Value = serde_json::from_str(&schema).unwrap();
    assert!(document.is_object() && schema.contains("turn/send"));
    refused(
        &world,
        "rpc daemon/ping",
        6,
        "cannot reach aishd at ",
        "starts it",
    );
}

#[test]
fn a_log_is_a_transcript_in_three_forms_and_goes_on() {
    let (upstream, world, _daemon) = world();
    ok(&world, "conv new proj");
    for n in 1..=3 {
        upstream.answer(Answer::text(&format!("answer {n}\nwith \u{1b}[31mcolour")));
        drop(
            world
                .ctl(&["ask", "-C", "proj", &format!("question {n}")])
                .run()
                .ok(),
        );
    }
    let all = ok(&world, "log proj");
    let expected: String = (1..=3)
        .map(|n| format!("› question {n}\nanswer {n}\nwith [31mcolour\n"))
        .collect();
    assert_eq!(expected, all);
    assert_eq!(
        expected[expected.find("› question 3").unwrap()..],
        ok(&world, "log proj -n 1")
    );
    let document = json(&world, "log proj");
    let lines = ok(&world, "--jsonl log proj");
    let events = document["events"].as_array().unwrap();
    assert_eq!(events.len(), lines.lines().count());
    let seqs: Vec<u64> = events
        .iter()
        .map(|it| it["seq"].as_u64().unwrap())
        .collect();
    assert_eq!((1..=seqs.len() as u64).collect::<Vec<_>>(), seqs);
    let mut following = world.ctl_spawn(&["log", "proj", "-f"]);
    following.line_with("answer 3");
    drop(world.ctl(&["ask", "-C", "proj", "question 4"]).run().ok());
    following.line_with("› question 4");
    following.line_with("Hello from the model.");
    following.signal(rustix::process::Signal::INT);
    drop(following.wait().code(130));
}

#[test]
fn a_running_turn_is_waited_for_cancelled_and_asked_again() {
    let (upstream, world, _daemon) = world();
    ok(&world, "conv new proj");
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    ok(&world, "ask -q -C proj --detach first");
    ok(&world, "ask -q -C proj --detach second");
    ok(&world, "ask -q -C proj --detach third");
    gate.text("half");
    gate.wait_written();
    assert_eq!("aish ●1\n", ok(&world, "status --format tmux"));
    let queue = ok(&world, "queue list proj");
    assert!(
        queue.contains("1  second") && queue.contains("2  third"),
        "{queue}"
    );
    let moved = json(&world, "queue move 2 1 -C proj");
    assert_eq!("third", moved["queue"][0]["text"].as_str().unwrap());
    let left = ok(&world, "queue drop 2 -C proj");
    assert!(left.contains("third") && !left.contains("second"), "{left}");
    refused(
        &world,
        "queue drop 9 -C proj",
        8,
        "no waiting turn 9",
        "aishctl queue list",
    );
    let limited = shell(&world, "aishctl --timeout 200ms conv wait proj")
        .run()
        .code(124);
    assert!(limited.err().contains("the time is over"));
    assert_eq!("cancelled in proj\n", ok(&world, "cancel proj"));
    gate.wait_hang_up();
    drop(shell(&world, "aishctl conv wait proj").run());
    assert_eq!(
        Some(false),
        json(&world, "cancel proj")["cancelled"].as_bool()
    );
    assert_eq!("nothing runs in proj\n", ok(&world, "cancel proj"));
    assert_eq!("nothing waits\n", ok(&world, "queue -C proj"));
    upstream.answer(Answer::text("once more"));
    assert_eq!("once more\n", ok(&world, "retry proj"));
    assert_eq!("third", upstream.requests().last().unwrap().question());
    upstream.answer(Answer::text("begun").finish(Some("length")));
    drop(shell(&world, "aishctl ask -C proj more").run().code(7));
    upstream.answer(Answer::text(" and ended"));
    let went_on = json(&world, "continue proj");
    assert_eq!("end", went_on["stop_reason"]);
    assert!(
        went_on["text"].as_str().unwrap().ends_with(" and ended"),
        "{went_on}"
    );
    refused(
        &world,
        "retry proj --turn nonsense",
        2,
        "that is no turn's id",
        "aishctl log --jsonl",
    );
}

/// A daemon that died in the middle: the queue is held until somebody says so.
#[test]
fn a_held_queue_says_so_and_is_resumed() {
    let (upstream, world, daemon) = world();
    ok(&world, "conv new proj");
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    ok(&world, "ask -q -C proj --detach first");
    ok(&world, "ask -q -C proj --detach second");
    gate.wait_request();
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    let held = ok(&world, "queue -C proj");
    assert!(
        held.contains("1  second")
            && held.contains(
                "held: a turn before them was interrupted (aishctl continue, aishctl queue resume)"
            ),
        "{held}"
    );
    assert!(ok(&world, "conv status proj").contains("held"));
    ok(&world, "queue resume proj");
    until_true("the second to be answered", || {
        ok(&world, "log proj").contains("› second\nHello from the model.\n")
    });
}

#[test]
fn what_was_said_is_found_and_copied() {
    let (_upstream, world, _daemon) = world();
    ok(&world, "conv new proj");
    drop(
        world
            .ctl(&["ask", "-C", "proj", "where is the linker script?"])
            .run()
            .ok(),
    );
    drop(world.ctl(&["ask", "-C", "proj", "and now?"]).run().ok());
    let found = ok(&world, "search linker script");
    assert!(
        found.contains("proj") && found.contains("linker script"),
        "{found}"
    );
    assert_eq!(
        ok(&world, "--json search linker"),
        ok(&world, "--json conv search linker")
    );
    let none = ok(&world, "search nowhere-to-be-found");
    assert!(none.len() < 80, "{none}");
    let copy = json(&world, "fork proj");
    let copied = ok(&world, &format!("log {}", copy["id"].as_str().unwrap()));
    assert!(
        copied.contains("› where is the linker script?\nHello from the model.\n"),
        "{copied}"
    );
    ok(&world, "conv fork proj --at 3");
    assert_eq!(
        3,
        json(&world, "conv ls")["conversations"]
            .as_array()
            .unwrap()
            .len()
    );
    refused(
        &world,
        "fork none-such",
        8,
        "unknown conversation \"none-such\"",
        "aishctl conv ls",
    );
}

#[test]
fn a_part_of_an_id_is_enough_wherever_a_conversation_is_named() {
    let (_upstream, world, _daemon) = world();
    let [id, other] =
        ["proj", "other"].map(|it| ok(&world, &format!("conv new {it}")).trim().to_owned());
    let end = &id[20..];
    assert!(ok(&world, &format!("conv status {end}")).starts_with("○ proj\n"));
    assert!(ok(&world, &format!("conv status {}", end.to_lowercase())).starts_with("○ proj\n"));
    drop(ok(&world, &format!("log -C {}", &id[..25])));
    drop(ok(&world, &format!("queue -C {end}")));
    // What is deleted for good unasked is named as a whole.
    refused(
        &world,
        &format!("conv rm --yes {end}"),
        2,
        "deleting \"proj\" cannot be undone",
        &format!("aishctl conv rm {id} --yes"),
    );
    // Ids that were made within the same minutes begin alike.
    let hint = format!("{id} (proj)");
    refused(
        &world,
        &format!("log {}", &id[..6]),
        2,
        "2 conversations have",
        &hint,
    );
    refused(
        &world,
        &format!("log {}", &id[..6]),
        2,
        "2 conversations have",
        &other,
    );
    refused(
        &world,
        &format!("log {}", &id[..3]),
        8,
        "unknown conversation",
        "conv ls",
    );
}
