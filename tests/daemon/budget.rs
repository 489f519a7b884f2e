//! Budgets: what stops the next request, what people are told, and that it holds over restarts and for many at once.

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{
    ConversationCreateParams, ConversationParams, ConversationStatus, Create, SetBudget, StatusOf,
};
use aish_proto::daemon::Reload;
use aish_proto::event::{BudgetChanged, BudgetReached, Status};
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::turn::{Send, StopReason};
use aish_proto::usage::{
    BudgetKind, ConversationBudget, Get, SetBudgetParams, UsageGetParams, Usd,
};
use aish_testkit::client::question;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Client, Upstream, World};

use crate::fallback::Scene;
use crate::tools::events;
use crate::usage::{PRICE, priced, said};

/// Each answer that nothing else is said of takes 12 tokens, which cost this.
const ONE: u64 = 64_000;

fn tokens(tokens: u64) -> ConversationBudget {
    ConversationBudget {
        tokens: Some(tokens),
        usd: None,
    }
}

fn nanos(nanos: u64) -> ConversationBudget {
    ConversationBudget {
        tokens: None,
        usd: Some(Usd { nanos }),
    }
}

fn set(client: &Client, id: ConversationId, budget: Option<ConversationBudget>) {
    client.done::<SetBudget>(SetBudgetParams { id, budget });
}

fn status(client: &Client, id: ConversationId) -> ConversationStatus {
    client.done::<StatusOf>(ConversationParams { id })
}

fn asked(client: &Client, id: ConversationId) -> Option<StopReason> {
    client.wait_turn(client.ask(id, "hello")).stop_reason
}

/// `turn/send` is refused, and nothing of it is kept.
#[track_caller]
fn refused(client: &Client, id: ConversationId, what: &str, hint: &str) {
    let before = status(client, id).last_seq;
    let error = client.refused::<Send>(question(id, "and now?"));
    assert_eq!("budgetExceeded", error.kind());
    assert!(error.message.contains(what), "{}", error.message);
    let said = error.data["hint"].as_str().unwrap_or_default();
    assert!(said.contains(hint), "{said}");
    assert_eq!(before, status(client, id).last_seq);
}

#[test]
fn a_question_beyond_the_budget_is_refused_until_the_budget_is_raised() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let client = world.client();
    let budget = tokens(20);
    let id = client.done::<Create>(ConversationCreateParams {
        cwd: "/".to_owned(),
        budget: Some(budget),
        ..ConversationCreateParams::default()
    });
    let id = id.id;
    assert_eq!(Some(budget), status(&client, id).budget);
    assert_eq!(Some(StopReason::End), asked(&client, id));
    assert_eq!(
        Some(StopReason::End),
        asked(&client, id),
        "12 of 20 is not all"
    );
    let (what, hint) = ("24 tokens of 20 tokens", "aishctl conv budget");
    refused(&client, id, what, hint);
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    refused(&client, id, what, hint);
    assert_eq!(2, upstream.requests().len());
    set(&client, id, Some(tokens(25)));
    assert_eq!(Some(StopReason::End), asked(&client, id));
    refused(&client, id, "36 tokens of 25 tokens", hint);
    set(&client, id, None);
    assert_eq!(None, status(&client, id).budget);
    assert_eq!(Some(StopReason::End), asked(&client, id));
    let changes: Vec<BudgetChanged> = events(&client, id);
    let changes: Vec<_> = changes.into_iter().map(|it| it.budget).collect();
    assert_eq!(vec![Some(tokens(25)), None], changes);
}

/// Also between the rounds of one turn, where the question had been let through.
#[test]
fn a_turn_stops_before_the_request_that_would_go_beyond() {
    let upstream = Upstream::start();
    let more = "[tools]\nbuiltin = true\nmax_depth = 50\n[mcp.auto_approve]\n\"aish__*\" = true\n";
    let world = priced(&upstream, more);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    set(&client, id, Some(nanos(3 * ONE - 1)));
    let mut calls = 0;
    upstream.answer_with(move |_| {
        calls += 1;
        Answer::stream().then_call(0, &format!("c{calls}"), "aish__time", "{}")
    });
    let record = client.wait_turn(client.ask(id, "again and again"));
    assert_eq!(Some(StopReason::Budget), record.stop_reason);
    assert_eq!("21+15 192000 3x 0", said(&record.usage.unwrap()));
    assert_eq!(3, upstream.requests().len());
    let reached: Vec<BudgetReached> = events(&client, id);
    assert_eq!(1, reached.len());
    let it = &reached[0];
    assert_eq!(
        (
            BudgetKind::ConversationUsd,
            Some(3 * ONE - 1),
            Some(3 * ONE),
            None
        ),
        (
            it.budget,
            it.amounts.limit_usd.map(|it| it.nanos),
            it.amounts.spent_usd.map(|it| it.nanos),
            it.amounts.limit_tokens
        )
    );
    assert!(it.hint.contains(&id.to_string()), "{}", it.hint);
    refused(&client, id, "$0.000192 of $0.000191999", "--usd");
}

#[test]
fn a_question_that_waited_ends_without_being_asked() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    set(&client, id, Some(tokens(10)));
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let running = client.ask(id, "first");
    gate.wait_request();
    let waiting = [client.ask(id, "second"), client.ask(id, "third")];
    gate.finish();
    assert_eq!(Some(StopReason::End), client.wait_turn(running).stop_reason);
    for turn in waiting {
        assert_eq!(Some(StopReason::Budget), client.wait_turn(turn).stop_reason);
    }
    assert_eq!(1, upstream.requests().len());
    let reached: Vec<BudgetReached> = events(&client, id);
    assert_eq!(2, reached.len());
}

#[test]
fn a_second_try_elsewhere_is_a_request_like_others() {
    let scene = Scene::new(/*fallback*/ true, "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let id = client.create();
    set(&client, id, Some(tokens(10)));
    // It took the whole request, and said nothing.
    scene.local.answer(Answer::stream().then_stall());
    assert_eq!(Some(StopReason::Budget), asked(&client, id));
    assert_eq!((1, 0), scene.counts());
}

#[test]
fn a_summary_beyond_the_budget_is_not_made() {
    let (talker, summarizer) = (Upstream::start(), Upstream::start());
    let world = World::new();
    world.write_config(&format!(
        "default_model = \"talk\"\n{}{}[context]\nmax_turns = 3\nsummarize_on_evict = true\n",
        talker.preset("talk", "price = { input = 0, output = 0 }"),
        summarizer.preset("fast", PRICE),
    ));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    // Nothing may be spent, and what costs nothing goes on.
    set(&client, id, Some(nanos(0)));
    for _ in 0..4 {
        assert_eq!(Some(StopReason::End), asked(&client, id));
    }
    let mut follow = client.attach(id, ReplayStart::Start);
    let told = follow.until(|it| {
        it.read::<Status>()
            .is_some_and(|it| it.text.contains("without a summary"))
    });
    let told = told.read::<Status>().unwrap().text;
    assert!(told.contains("is used up: $0.00 of $0.00"), "{told}");
    let reached: Vec<BudgetReached> = events(&client, id);
    assert_eq!(1, reached.len());
    assert_eq!(0, summarizer.requests().len());
}

fn capped(upstream: &Upstream, limit: &str) -> String {
    let (paid, local) = (upstream.preset("paid", PRICE), upstream.preset("local", ""));
    format!("default_model = \"paid\"\n{paid}{local}[limits]\ndaily_spend_usd = {limit}\n")
}

#[test]
fn a_day_has_one_budget_for_all_and_it_holds_over_restarts() {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&capped(&upstream, "0.0001"));
    let daemon = world.daemon().spawn();
    let client = world.client();
    let (one, other) = (client.create(), client.create());
    assert_eq!(Some(StopReason::End), asked(&client, one));
    assert_eq!(Some(StopReason::End), asked(&client, other));
    let (what, hint) = ("$0.000128 of $0.0001", "limits.daily_spend_usd");
    refused(&client, one, what, hint);
    refused(&client, client.create(), what, hint);
    // Without a price it may cost anything.
    let mut unpriced = question(one, "hello");
    unpriced.model = Some("local".to_owned());
    assert_eq!("budgetExceeded", client.refused::<Send>(unpriced).kind());
    daemon.kill9();
    let daemon = world.daemon().spawn();
    let client = world.client();
    refused(&client, other, what, hint);
    // A change counts at once.
    world.write_config(&capped(&upstream, "1"));
    client.done::<Reload>(Empty {});
    assert_eq!(Some(StopReason::End), asked(&client, other));
    let today = client.done::<Get>(UsageGetParams::default()).today;
    assert_eq!(
        (3 * ONE, Some(1_000_000_000)),
        (today.spent_usd.nanos, today.limit_usd.map(|it| it.nanos))
    );
    assert_eq!(0, daemon.terminate());
}

/// What is under way is counted with what it is expected to cost, so that many do not run past the limit together.
#[test]
fn two_conversations_at_once_do_not_both_go_beyond_the_day() {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&capped(&upstream, "0.001"));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let (one, other) = (client.create(), client.create());
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = client.ask(one, "hello");
    gate.wait_request();
    refused(
        &client,
        other,
        "expected of requests under way",
        "limits.daily_spend_usd",
    );
    gate.text("done");
    gate.finish();
    assert_eq!(Some(StopReason::End), client.wait_turn(turn).stop_reason);
    // It was cheaper than that.
    assert_eq!(Some(StopReason::End), asked(&client, other));
    let today = client.done::<Get>(UsageGetParams::default()).today;
    assert_eq!(
        (2 * ONE, 0),
        (today.spent_usd.nanos, today.under_way_usd.nanos)
    );
}

/// Many at the same moment: what goes beyond is no more than one request.
#[test]
fn many_conversations_at_once_go_beyond_by_one_request_at_most() {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&capped(&upstream, "0.001"));
    let _daemon = world.daemon().spawn();
    upstream.answer_with(|_| Answer::text("hi").usage(Some((7, 60))));
    let cost = 7 * 2000 + 60 * 10_000;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let client = world.client();
                let id = client.create();
                for _ in 0..4 {
                    if let Ok(sent) = client.call::<Send>(question(id, "hello")) {
                        client.wait_turn(sent.turn);
                    }
                }
            });
        }
    });
    let client = world.client();
    let today = || client.done::<Get>(UsageGetParams::default()).today;
    until_true("nothing is under way", || today().under_way_usd.nanos == 0);
    let spent = today().spent_usd.nanos;
    assert!((cost..1_000_000 + cost).contains(&spent), "{spent}");
}

/// The request to a model while a tool runs, too.
#[test]
fn a_server_gets_no_model_beyond_the_budget() {
    let Some(scene) = crate::forms::Scene::with("sampling = true") else {
        return;
    };
    let client = scene.world.client();
    let arguments = serde_json::json!({"method": "sampling/createMessage", "asks": [crate::sampling::asked("what?")]});
    let (id, turn) = {
        crate::sampling::model_calls(&scene, "f__ask", arguments, || Answer::text("never"));
        let id = client.create();
        set(&client, id, Some(tokens(12)));
        (id, client.ask(id, "do it"))
    };
    let confirm = crate::forms::pending(&client, id, 1).remove(0);
    let yes = crate::consent::with(&confirm, aish_proto::confirm::Decision::AllowOnce);
    crate::forms::answered(&client, yes);
    assert_eq!(Some(StopReason::Budget), client.wait_turn(turn).stop_reason);
    assert_eq!(1, scene.upstream.requests().len());
    let reached: Vec<BudgetReached> = events(&client, id);
    assert_eq!(
        2,
        reached.len(),
        "once for the server, and once for the turn"
    );
}
