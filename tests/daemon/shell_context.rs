//! Where an output of a command goes: with the next genuine question, once, whatever is asked again or copied.

use aish_proto::attach::ReplayStart;
use aish_proto::context::{ContextPreviewParams, Preview};
use aish_proto::conversation::{Fork, ForkParams, Search, SearchParams};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::turn::{AgainParams, Continue, FailureClass, Retry, StopReason};
use aish_testkit::{Answer as Said, Client};

use crate::shell::{Scene, allow, own, run};

fn again(conversation: ConversationId, turn: Option<TurnId>, key: &str) -> AgainParams {
    AgainParams {
        conversation,
        turn,
        idempotency_key: key.to_owned(),
        model: None,
        accept_cost: false,
    }
}

fn has(scene: &Scene, outputs: [&str; 2]) -> [bool; 2] {
    let said = scene.last_question();
    outputs.map(|it| said.contains(&format!("{it}\n```")))
}

#[test]
fn a_retry_leaves_what_waits_and_the_next_question_takes_it_once() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (conversation, turn, confirm) = scene.asked(&client, "CMD: echo proposed");
    allow(&client, &confirm);
    client.wait_turn(turn);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    run(&client, &mut follow, own(conversation, "echo mine"));
    scene.upstream.answer_with(|_| Said::text("I see."));
    let both = ["proposed", "mine"];
    let fork = client
        .done::<Fork>(ForkParams {
            id: conversation,
            at_seq: None,
        })
        .id;
    let retried = client.done::<Retry>(again(conversation, None, "one")).turn;
    client.wait_turn(retried);
    assert_eq!("do it", scene.last_question());
    client.wait_turn(client.ask(conversation, "what was that?"));
    assert_eq!([true; 2], has(&scene, both));
    assert!(scene.last_question().ends_with("what was that?"));
    let first = scene.last_question();
    let retried = client.done::<Retry>(again(conversation, None, "two")).turn;
    client.wait_turn(retried);
    assert_eq!(first, scene.last_question());
    client.wait_turn(client.ask(conversation, "and?"));
    assert_eq!("and?", scene.last_question());
    let whole = scene.upstream.requests().last().unwrap().messages();
    let times = whole.iter().filter(|(_, it)| it.contains("mine\n```"));
    assert_eq!(1, times.count(), "{whole:?}");

    // The copy has them waiting too, and goes its own way.
    client.wait_turn(client.ask(fork, "in the copy"));
    assert_eq!([true; 2], has(&scene, both));
    client.wait_turn(client.ask(fork, "later"));
    assert_eq!("later", scene.last_question());
    scene.upstream.finish();
}

#[test]
fn a_continuation_leaves_what_waits() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    scene.upstream.answer_with(|_| Said::text("I see."));
    let turn = client.ask(conversation, "begin");
    client.wait_turn(turn);
    run(&client, &mut follow, own(conversation, "echo mine"));
    let on = client
        .done::<Continue>(again(conversation, Some(turn), "on"))
        .turn;
    client.wait_turn(on);
    assert!(!scene.last_question().contains("mine"));
    client.wait_turn(client.ask(conversation, "and now?"));
    assert!(scene.last_question().contains("mine\n```"));
    scene.upstream.finish();
}

/// Whether a search says of each hit that it left the context.
fn left(client: &Client, conversation: ConversationId, query: &str) -> Vec<bool> {
    let found = client.done::<Search>(SearchParams {
        query: query.to_owned(),
        id: Some(conversation),
        include_archived: false,
        cursor: None,
        limit: None,
    });
    found.hits.iter().map(|it| it.left_context).collect()
}

#[test]
fn a_search_knows_where_the_question_is_that_took_an_output_along() {
    let scene = Scene::new("[context]\nmax_turns = 3\n");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    scene.upstream.answer_with(|_| Said::text("I see."));
    let ask = |text: &str| {
        let turn = client.ask(conversation, text);
        client.wait_turn(turn);
        turn
    };
    ask("one");
    run(&client, &mut follow, own(conversation, "echo po''melo"));
    let two = ask("two");
    assert_eq!(vec![false], left(&client, conversation, "pomelo"));
    ask("three");
    assert_eq!(vec![false], left(&client, conversation, "pomelo"));
    ask("four");
    assert_eq!(vec![true], left(&client, conversation, "pomelo"));
    run(&client, &mut follow, own(conversation, "echo per''simmon"));
    assert_eq!(vec![false], left(&client, conversation, "persimmon"));
    scene.world.write_config(&format!(
        "{}\n[context]\nmax_turns = 6\n",
        scene.upstream.config("test")
    ));
    client.done::<aish_proto::daemon::Reload>(aish_proto::method::Empty {});
    client.done::<aish_proto::context::Restore>(aish_proto::context::RestoreParams {
        conversation,
        turn: Some(two),
        event: None,
    });
    assert_eq!(vec![false], left(&client, conversation, "pomelo"));
    ask("five");
    let told = scene.upstream.requests().last().unwrap().messages();
    for output in ["pomelo\n```", "persimmon\n```"] {
        let times = told.iter().filter(|(_, it)| it.contains(output));
        assert_eq!(1, times.count(), "{output}: {told:?}");
    }
    scene.upstream.finish();
}

/// What was printed is no reason to refuse the question, and a turn that failed loses nothing of it.
#[test]
fn long_outputs_are_shortened_and_a_retry_of_a_turn_that_failed_takes_them_along() {
    let scene = Scene::new("context_tokens = 8000\n");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    for number in ["one", "two"] {
        let command = format!("echo fir''st-{number}; seq 20000; echo la''st-{number}");
        run(&client, &mut follow, own(conversation, &command));
    }
    let shown = client.done::<Preview>(ContextPreviewParams {
        conversation,
        text: Some("what was that?".to_owned()),
        attachments: vec![],
        model: None,
        on_confirm: None,
    });
    assert_eq!((2, None), (shown.shortened, shown.too_long));
    scene.upstream.answer(Said::status(400, "{}"));
    let failed = client.wait_turn(client.ask(conversation, "what was that?"));
    assert_eq!(Some(StopReason::Upstream), failed.stop_reason);
    scene.upstream.answer_with(|_| Said::text("I see."));
    let retried = client.done::<Retry>(again(conversation, None, "one")).turn;
    let record = client.wait_turn(retried);
    assert_eq!(Some(StopReason::End), record.stop_reason);
    let said = scene.last_question();
    for printed in ["first-one\n", "last-one\n", "first-two\n", "last-two\n"] {
        assert_eq!(1, said.matches(printed).count(), "{printed}: {said}");
    }
    // Each says how to read what is left out, and the model is offered what it reads with.
    let marks = said.matches("so that the question fits the context; to read on: ");
    assert_eq!(2, marks.count(), "{said}");
    let sent = scene.upstream.requests().last().unwrap().json();
    assert!(sent["tools"].to_string().contains("read_result"), "{sent}");
    scene.upstream.finish();
}

/// Many short ones cannot be shortened; what to do then is said, and works.
#[test]
fn outputs_that_leave_no_room_are_named_and_the_next_question_goes_without_them() {
    let scene = Scene::new("context_tokens = 2000\n");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    for _ in 0..12 {
        run(&client, &mut follow, own(conversation, "seq 200"));
    }
    let failed = client.wait_turn(client.ask(conversation, "what was that?"));
    let error = failed.error.unwrap();
    assert_eq!(FailureClass::ContextOverflow, error.class);
    let said = &error.message;
    assert!(
        said.contains(" what 12 commands printed that go with it, shortened already, ")
            && said.contains("a new question goes without those outputs"),
        "{said}"
    );
    scene.upstream.answer_with(|_| Said::text("I see."));
    let record = client.wait_turn(client.ask(conversation, "well then"));
    assert_eq!(Some(StopReason::End), record.stop_reason);
    assert_eq!("well then", scene.last_question());
    scene.upstream.finish();
}
