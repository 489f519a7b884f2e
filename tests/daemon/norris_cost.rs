//! What runs take: limits of money, budgets that end one, second opinions that are paid for, and what their requests show

use aish_proto::conversation::SetBudget;
use aish_proto::event::{BudgetReached, ModelUsed, NorrisEnded, Status};
use aish_proto::memory;
use aish_proto::norris::{NorrisOutcome, Pause, Resume};
use aish_proto::turn::StopReason;
use aish_proto::usage::{ConversationBudget, RequestPurpose, SetBudgetParams, Usd};
use aish_testkit::{Answer as Said, Upstream, World};

use crate::consent::call_id;
use crate::context::preview;
use crate::norris::{Scene, launch, outcome};
use crate::registry::started;
use crate::usage::PRICE;

/// What one answer of 12 tokens costs at [`PRICE`], in nanos.
const ONE: u64 = 64_000;

fn priced(more: &str) -> Scene {
    let scene = Scene::alone();
    let paid = scene.upstream.preset("paid", PRICE);
    let other = scene.other.preset("other", PRICE);
    scene
        .world
        .write_config(&format!("default_model = \"paid\"\n{paid}{other}{more}\n"));
    scene
}

const ALONE: &str = "[norris]\nsecond_opinion = false";

#[test]
fn a_run_ends_at_its_limit_of_money() {
    let scene = priced(ALONE);
    let _daemon = started(&scene.world);
    scene.model_says(&["job__look", "job__look", "job__look", "DONE:"]);
    let mut run = launch(&scene.world, |it| {
        it.cost_usd = Some(Usd { nanos: 2 * ONE });
    });
    let expected = (
        NorrisOutcome::Limit,
        "$0.000128".to_owned(),
        Some(StopReason::Budget),
    );
    assert_eq!(expected, outcome(&mut run));
    let spent = run.all::<NorrisEnded>()[0].spent;
    assert_eq!((2 * ONE, 24), (spent.cost_usd.nanos, spent.tokens));
    let told = run.all::<Status>();
    assert!(
        told.iter()
            .any(|it| it.text == "the run met its limit of $0.000128"),
        "{told:?}"
    );
}

/// Whose budget it is stands in the reason.
#[test]
fn a_budget_that_is_used_up_ends_a_run_and_says_so() {
    let scene = priced(ALONE);
    let _daemon = started(&scene.world);
    scene.model_says(&["job__look", "job__look", "job__look", "DONE:"]);
    let (stall, gate) = Said::by_hand();
    scene.upstream.answer(stall);
    let mut run = launch(&scene.world, |_| {});
    gate.wait_request();
    let budget = Some(ConversationBudget {
        tokens: None,
        usd: Some(Usd { nanos: ONE }),
    });
    let id = run.conversation;
    run.client.done::<SetBudget>(SetBudgetParams { id, budget });
    gate.delta(&serde_json::json!({"tool_calls": [
        {"index": 0, "id": call_id(), "type": "function", "function": {"name": "job__look", "arguments": "{}"}}
    ]}));
    gate.finish();
    let (how, reason, stop) = outcome(&mut run);
    assert_eq!(
        (NorrisOutcome::Limit, Some(StopReason::Budget)),
        (how, stop)
    );
    assert!(
        reason.starts_with("the budget of this conversation is used up: "),
        "{reason}"
    );
    assert_eq!(1, run.all::<BudgetReached>().len());
    assert_eq!("look", scene.marks());
}

/// The other model is paid like every request, and counts to the run's limits.
#[test]
fn second_opinions_are_paid_for() {
    let scene = priced("");
    let _daemon = started(&scene.world);
    scene.model_says(&["job__look", "DONE: seen"]);
    scene.other.answer(Said::text("yes"));
    let mut run = launch(&scene.world, |_| {});
    let (ended, _) = run.ended();
    assert_eq!("seen", ended.reason);
    assert_eq!(
        (3 * ONE, 36),
        (ended.spent.cost_usd.nanos, ended.spent.tokens)
    );
    let used = run.all::<ModelUsed>();
    assert_eq!(1, used.len());
    assert_eq!(
        (RequestPurpose::Opinion, "other"),
        (used[0].purpose, used[0].model.as_str())
    );
    let record = run.client.wait_turn(run.turn);
    assert_eq!(Some(3), record.usage.map(|it| it.requests));
}

/// No background and no summary, what leaves does so in silence, and the preview is what is sent.
#[test]
fn its_requests_show_the_run_and_neither_memory_nor_summary() {
    let (upstream, summarizer, world) = (Upstream::start(), Upstream::start(), World::new());
    world.write_config(&format!(
        "default_model = \"talk\"\n{}\n{}\n[context]\nmax_turns = 3\nsummarize_on_evict = true\n{ALONE}\n",
        upstream.preset("talk", ""),
        summarizer.preset("fast", ""),
    ));
    summarizer.answer_with(|_| Said::text("They counted apples."));
    let _daemon = world.daemon().spawn();
    let client = world.person("pts/2");
    client.done::<memory::Add>(memory::AddParams {
        text: "the server is boltzmann".to_owned(),
        kind: None,
        pinned: false,
    });
    let mut run = launch(&world, |it| it.goal = "count".to_owned());
    run.ended();
    for text in ["one", "two", "three", "four"] {
        client.wait_turn(client.ask(run.conversation, text));
    }
    let talk = upstream.requests().pop().unwrap().messages().remove(0).1;
    assert!(talk.contains("boltzmann"), "{talk}");
    let (by_hand, gate) = Said::by_hand();
    upstream.answer(by_hand);
    upstream.answer(Said::text("DONE: counted"));
    let mut params = crate::norris::goal(run.conversation, 1);
    params.goal = "count the apples".to_owned();
    let again = client.done::<aish_proto::norris::Start>(params);
    gate.wait_request();
    client.done::<Pause>(run.params());
    gate.text("I think.");
    gate.finish();
    run.follow.until_kind("norrisNudged");
    let shown = preview(&client, run.conversation, None);
    client.done::<Resume>(run.params());
    run.follow.until_finished(again.turn);
    let sent = upstream.requests().pop().unwrap();
    assert_eq!(shown.body, String::from_utf8_lossy(&sent.body));
    let system = sent.messages().remove(0).1;
    assert!(
        system.contains("\n[NORRIS MODE]\n") && system.contains("\n> count the apples\n"),
        "{system}"
    );
    for absent in ["boltzmann", "[background]", "apples."] {
        assert!(!system.contains(absent), "{absent}: {system}");
    }
    let after = preview(&client, run.conversation, Some("and now?"));
    assert!(!after.body.contains("NORRIS MODE"), "{}", after.body);
    assert!(after.body.contains("boltzmann"), "{}", after.body);
}
