//! `usage`, `conv budget`, and what a budget that is used up looks like to people and scripts (exit code 10).

use aish_testkit::{Answer, Daemon, Upstream, World};
use serde_json::Value;

use crate::shell::shell;

const PRICE: &str = "price = { input = 2.0, output = 10.0 }";

fn world(more: &str) -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::new();
    let (paid, local) = (upstream.preset("paid", PRICE), upstream.preset("local", ""));
    world.write_config(&format!("default_model = \"paid\"\n{paid}{local}{more}"));
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

#[track_caller]
fn ok(world: &World, line: &str) -> String {
    let finished = shell(world, &format!("aishctl {line}")).run().ok();
    finished.out().to_owned()
}

/// The day is another one each time.
fn today(text: &str, world: &World) -> String {
    text.replace(&day(world), "TODAY")
}

fn day(world: &World) -> String {
    let usage: Value = serde_json::from_str(&ok(world, "--json usage")).unwrap();
    usage["today"]["day"].as_str().unwrap().to_owned()
}

#[test]
fn usage_tells_what_was_taken_by_day_by_model_and_by_conversation() {
    let (upstream, world, _daemon) = world("");
    assert_eq!(
        "day (UTC)  requests  input  cached  output  cost\n\
         total      0         –      –       –       –\n\
         today, TODAY UTC: $0.00\n",
        today(&ok(&world, "usage"), &world)
    );
    drop(ok(&world, "conv new work"));
    drop(ok(&world, "ask -C work one"));
    drop(ok(&world, "ask -C work -m local two"));
    upstream.answer(Answer::text("three").usage(Some((1000, 100))));
    drop(ok(&world, "ask -C work three"));
    assert_eq!(
        "day (UTC)   requests  input  cached  output  cost\n\
         TODAY  3         1014   –       110     $0.003064+\n\
         total       3         1014   –       110     $0.003064+\n\
         + without 1 request of presets that have no price (models.NAME.price)\n\
         today, TODAY UTC: $0.003064\n",
        today(&ok(&world, "usage"), &world)
    );
    assert_eq!(
        "model               requests  input  cached  output  cost\n\
         paid (test-model)   2         1007   –       105     $0.003064\n\
         local (test-model)  1         7      –       5       –\n\
         total               3         1014   –       110     $0.003064+\n\
         since TODAY\n\
         + without 1 request of presets that have no price (models.NAME.price)\n\
         today, TODAY UTC: $0.003064\n",
        today(
            &ok(&world, &format!("usage --by model --since {}", day(&world))),
            &world
        )
    );
    let by_conv = ok(&world, "usage --by conv");
    assert!(
        by_conv.contains("\nwork          3         1014   –       110     $0.003064+\n"),
        "{by_conv}"
    );
    let json: Value =
        serde_json::from_str(&ok(&world, "--json usage --by model --since 2026-01-01")).unwrap();
    assert_eq!("2026-01-01", json["since"]);
    assert_eq!(
        0.003_064,
        json["rows"][0]["usage"]["costUsd"].as_f64().unwrap()
    );
    assert_eq!(Value::Null, json["rows"][1]["usage"]["costUsd"]);
    assert_eq!(1, json["total"]["unpriced"]);
    let status = ok(&world, "conv status work");
    assert!(status.contains("  usage     3 requests, 1124 tokens, $0.003064+ (1 request without a price not counted)\n"), "{status}");
    let finished = shell(&world, "aishctl usage --since yesterday")
        .run()
        .code(2);
    assert!(
        finished.err().contains("is no time"),
        "{}",
        finished.report()
    );
}

#[test]
fn an_answer_as_json_has_what_it_took_and_no_cost_where_nobody_knows_it() {
    let (upstream, world, _daemon) = world("");
    let report = |line: &str| -> Value { serde_json::from_str(&ok(&world, line)).unwrap() };
    let paid = report("--json ask hello");
    assert_eq!(0.000_064, paid["cost_usd"].as_f64().unwrap());
    assert_eq!(
        (7, false),
        (
            paid["usage"]["input_tokens"].as_u64().unwrap(),
            paid["usage"]["estimated"].as_bool().unwrap()
        )
    );
    assert_eq!(Value::Null, report("--json ask -m local hello")["cost_usd"]);
    upstream.answer(Answer::text("uncounted").usage(None));
    let believed = report("--json ask hello");
    assert_eq!(true, believed["usage"]["estimated"]);
    assert!(believed["cost_usd"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_budget_that_is_used_up_is_exit_code_10_with_what_to_do() {
    let (_upstream, world, _daemon) =
        world("[tools]\nbuiltin = true\n[mcp.auto_approve]\n\"aish__*\" = true\n");
    drop(ok(&world, "conv new work"));
    assert_eq!(
        "work: 0 requests, 0 tokens\n",
        ok(&world, "conv budget work")
    );
    assert_eq!(
        "work: 0 requests, 0 tokens of 20, $0.00 of $0.50\n",
        ok(&world, "conv budget work --tokens 20 --usd 0.5")
    );
    // What is not said stays.
    assert_eq!(
        "work: 0 requests, 0 tokens of 10, $0.00 of $0.50\n",
        ok(&world, "conv budget work --tokens 10")
    );
    drop(ok(&world, "ask -C work one"));
    let finished = shell(&world, "aishctl ask -C work two").run().code(10);
    assert_eq!("", finished.out());
    let text = "aishctl: the budget of this conversation is used up: 12 tokens of 10 tokens\nhint: aishctl conv budget";
    assert!(finished.err().contains(text), "{}", finished.report());
    let finished = shell(&world, "aishctl --json ask -C work two")
        .run()
        .code(10);
    let report: Value = serde_json::from_str(finished.out()).unwrap();
    assert_eq!("budget", report["error"]["class"]);
    assert_eq!(
        "work: 1 request, 12 tokens, $0.000064\n",
        ok(&world, "conv budget work --off")
    );
    drop(ok(&world, "ask -C work two"));
    let wrong = shell(&world, "aishctl conv budget work --usd much")
        .run()
        .code(2);
    assert!(
        wrong.err().contains("no amount of US dollars"),
        "{}",
        wrong.report()
    );
}

#[test]
fn a_turn_that_a_budget_stops_ends_with_its_line_and_the_same_code() {
    let (upstream, world, _daemon) =
        world("[tools]\nbuiltin = true\n[mcp.auto_approve]\n\"aish__*\" = true\n");
    drop(ok(&world, "conv new work"));
    drop(ok(&world, "conv budget work --usd 0.0001"));
    let mut calls = 0;
    upstream.answer_with(move |_| {
        calls += 1;
        Answer::stream().then_call(0, &format!("c{calls}"), "aish__time", "{}")
    });
    let mut window = world.ctl_spawn(&["attach", "work"]);
    window.line_with("[aish] attached to work (");
    let finished = shell(&world, "aishctl ask -C work again").run().code(10);
    let line = "[aish] the budget of this conversation is used up: $0.000128 of $0.0001";
    assert!(finished.err().contains(line), "{}", finished.report());
    assert!(
        finished
            .err()
            .contains("aishctl: the budget is used up\nhint: aishctl conv budget"),
        "{}",
        finished.report()
    );
    window.line_with(&format!("{line}; aishctl conv budget"));
    window.write(":usage --by model\n");
    window.line_with("paid (test-model)");
    window.write(":conv budget --off\n");
    window.line_with("[aish] this conversation has no budget any more (");
}

#[test]
fn a_days_limit_that_cannot_be_counted_is_told_and_one_that_is_reached_stops() {
    let (_upstream, world, _daemon) = world("[limits]\ndaily_spend_usd = 0.00005\n");
    let check = shell(&world, "aishctl config check").run();
    let said = format!("{}{}", check.out(), check.err());
    assert!(
        said.contains("cannot count what these presets cost") && said.contains("models.local"),
        "{said}"
    );
    let doctor = shell(&world, "aishctl doctor").run();
    assert!(doctor.out().contains("spending"), "{}", doctor.report());
    drop(ok(&world, "ask one"));
    let finished = shell(&world, "aishctl ask two").run().code(10);
    assert!(
        finished
            .err()
            .contains("(limits.daily_spend_usd) is used up: $0.000064 of $0.00005"),
        "{}",
        finished.report()
    );
    assert!(ok(&world, "usage").contains("$0.000064 of $0.00005 (limits.daily_spend_usd)"));
}
