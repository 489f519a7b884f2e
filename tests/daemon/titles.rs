//! Titles that a model gives conversations: made once, behind the first answer, and never over what a person said.

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{
    ConversationCreateParams, ConversationParams, Create, Rename, RenameParams, StatusOf,
};
use aish_proto::event::{ModelUsed, Renamed};
use aish_proto::usage::RequestPurpose;
use aish_testkit::{Answer, Client, Daemon, Upstream, World};

const PRICE: &str = "price = { input = 2, output = 10 }";

/// One preset talks, and another one gives titles.
fn scene() -> (Upstream, Upstream, World, Daemon) {
    let (talker, titler) = (Upstream::start(), Upstream::start());
    let world = World::new();
    world.write_config(&format!(
        "default_model = \"talk\"\n{}{}[routing]\ntitle_model = \"small\"\n",
        talker.preset("talk", ""),
        titler.preset("small", PRICE),
    ));
    let daemon = world.daemon().spawn();
    (talker, titler, world, daemon)
}

fn title(client: &Client, id: aish_proto::id::ConversationId) -> String {
    client.done::<StatusOf>(ConversationParams { id }).title
}

#[test]
fn a_title_comes_behind_the_first_answer_and_is_paid_for() {
    let (_talker, titler, world, _daemon) = scene();
    let (answer, gate) = Answer::by_hand();
    titler.answer(answer);
    let client = world.client();
    let id = client.create();
    let mut follow = client.attach(id, ReplayStart::Now);
    client.wait_turn(client.ask(id, "why does the linker not find libssl?"));
    gate.wait_request();
    // Nothing waits for it.
    client.wait_turn(client.ask(id, "and now?"));
    assert_eq!("why does the linker not find libssl?", title(&client, id));
    gate.text("\"Missing libssl\"");
    gate.finish();
    let used: ModelUsed = follow.until_kind("modelUsed").read().unwrap();
    assert_eq!(
        ("small", RequestPurpose::Title),
        (used.model.as_str(), used.purpose)
    );
    let renamed: Renamed = follow.until_kind("renamed").read().unwrap();
    assert_eq!("Missing libssl", renamed.title);
    client.wait_turn(client.ask(id, "and again?"));
    assert_eq!("Missing libssl", title(&client, id));
    assert_eq!(1, titler.requests().len());
}

#[test]
fn what_a_person_said_stays() {
    let (_talker, titler, world, _daemon) = scene();
    let client = world.client();
    // A title was given with it, and another one while the model was asked.
    let named = client.done::<Create>(ConversationCreateParams {
        title: Some("given".to_owned()),
        cwd: "/".to_owned(),
        ..ConversationCreateParams::default()
    });
    client.wait_turn(client.ask(named.id, "hello"));
    let id = client.create();
    let (answer, gate) = Answer::by_hand();
    titler.answer(answer);
    client.wait_turn(client.ask(id, "hello"));
    gate.wait_request();
    let mut follow = client.attach(id, ReplayStart::Now);
    let mine = "mine".to_owned();
    client.done::<Rename>(RenameParams { id, title: mine });
    gate.text("Greetings");
    gate.finish();
    follow.until_kind("modelUsed");
    assert_eq!("mine", title(&client, id));
    assert_eq!(1, titler.requests().len(), "nobody was asked for the first");
}
