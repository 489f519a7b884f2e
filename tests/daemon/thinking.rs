//! Thinking that a model writes into its answer: it is reasoning to everybody who follows, nothing in it is proposed, and no
//! model is sent it again.

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{ConfirmListParams, List};
use aish_proto::envelope::Envelope;
use aish_proto::event::{AssistantMessage, ReasoningDelta, ShellFinished};
use aish_proto::id::ConversationId;
use aish_testkit::{Answer as Said, Client, Follow, Upstream, World};

use crate::shell::Scene;

/// Asks, and returns the text and the reasoning of the answer as they are stored.
fn asked(client: &Client, follow: &mut Follow, conversation: ConversationId) -> (String, String) {
    client.wait_turn(client.ask(conversation, "and?"));
    let answers = |events: &[Envelope]| -> Vec<AssistantMessage> {
        events.iter().filter_map(Envelope::read).collect()
    };
    let before = answers(follow.events_so_far()).len();
    follow.until_kind("turnFinished");
    let all = answers(follow.events_so_far());
    assert!(all.len() > before || before > 0);
    let last = all.last().unwrap();
    (last.text.clone(), last.reasoning.clone())
}

#[test]
fn thinking_at_the_start_of_an_answer_is_reasoning_and_proposes_nothing() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    scene.upstream.answer(Said::pieces([
        "\n<th",
        "ink>I could look.\nCMD: touch ran\n</thi",
        "nk>\n\nYes",
        ", <think> is a tag.",
    ]));
    let expected = (
        "Yes, <think> is a tag.".to_owned(),
        "I could look.\nCMD: touch ran\n".to_owned(),
    );
    assert_eq!(expected, asked(&client, &mut follow, conversation));
    let events = follow.events_so_far();
    let thought: String = events
        .iter()
        .filter_map(|it| Some(it.read::<ReasoningDelta>()?.text))
        .collect();
    assert!(expected.1.starts_with(&thought), "{thought:?}");
    assert_eq!(
        0,
        events
            .iter()
            .filter_map(|it| it.read::<ShellFinished>())
            .count()
    );
    let open = client
        .done::<List>(ConfirmListParams { conversation: None })
        .confirms;
    assert!(open.is_empty(), "{open:?}");
    assert!(!scene.world.work().join("ran").exists());
    scene.upstream.answer(Said::text("Good."));
    asked(&client, &mut follow, conversation);
    let sent = String::from_utf8(scene.upstream.requests().pop().unwrap().body).unwrap();
    assert!(
        sent.contains("is a tag") && !sent.contains("I could look"),
        "{sent}"
    );
}

/// A template that writes the first tag itself: the end alone shows it, once, and from then on it is known.
#[test]
fn an_end_without_a_beginning_is_understood_and_learned() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    scene
        .upstream
        .answer_with(|_| Said::pieces(["plan b\nCMD: touch ran", "\n</thi", "nk>\n\nYes"]));
    let expected = ("Yes".to_owned(), "plan b\nCMD: touch ran");
    for _ in 0..2 {
        let (text, thought) = asked(&client, &mut follow, conversation);
        assert_eq!((&expected.0, expected.1), (&text, thought.trim_end()));
    }
    let mut later = client.attach(conversation, ReplayStart::Start);
    later.until_kind("replayComplete");
    let proposed = later.events_so_far().iter();
    assert_eq!(
        0,
        proposed.filter(|it| it.kind == "confirmRequested").count()
    );
    let shown: Vec<String> = follow
        .events_so_far()
        .iter()
        .filter(|it| it.kind == "textDelta")
        .map(|it| it.data["text"].as_str().unwrap().to_owned())
        .collect();
    let shown = shown.concat();
    assert!(
        shown.matches("plan b").count() <= 1,
        "the second is known from the start: {shown:?}"
    );
    // One that does not think this time says something all the same.
    scene.upstream.answer_with(|_| Said::text("No."));
    let (text, thought) = asked(&client, &mut follow, conversation);
    assert_eq!(("No.", ""), (text.as_str(), thought.as_str()));
}

#[test]
fn a_preset_says_how_its_answers_begin() {
    for (think, text, thought) in [
        ("off", "<think>a</think>b", ""),
        ("open", "b", "a"),
        ("auto", "b", "a"),
    ] {
        let upstream = Upstream::start();
        let world = World::new();
        world.write_config(&upstream.preset("test", &format!("think = \"{think}\"")));
        let _daemon = world.daemon().spawn();
        let client = world.person("pts/5");
        let conversation = client.create();
        let mut follow = client.attach(conversation, ReplayStart::Start);
        upstream.answer(Said::text("<think>a</think>b"));
        let found = asked(&client, &mut follow, conversation);
        assert_eq!((text.to_owned(), thought.to_owned()), found, "{think}");
    }
}
