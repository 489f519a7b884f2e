//! What people keep for all conversations, and that a model may say nothing when one is put away.

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{Archive, ConversationParams};
use aish_proto::event::Status;
use aish_proto::id::ConversationId;
use aish_proto::memory::{
    Add, AddParams, List, MemoryListResult, MemoryNameParams, MemoryPinParams, Pin, Remove,
};
use aish_proto::method::{ClientRole, Empty};
use aish_testkit::{Answer, Client, Daemon, Upstream, World};

use crate::context::preview;

pub(crate) struct Scene {
    talker: Upstream,
    pub(crate) summarizer: Upstream,
    pub(crate) world: World,
}

impl Scene {
    pub(crate) fn new(more: &str) -> Self {
        let (talker, summarizer, world) = (Upstream::start(), Upstream::start(), World::new());
        world.write_config(&format!(
            "default_model = \"talk\"\n{}{}\n{more}\n",
            talker.preset("talk", ""),
            summarizer.preset("fast", ""),
        ));
        Self {
            talker,
            summarizer,
            world,
        }
    }

    pub(crate) fn daemon(&self) -> Daemon {
        self.world.daemon().spawn()
    }

    /// The system message of the last request.
    pub(crate) fn system(&self) -> String {
        let request = self.talker.requests().pop().unwrap();
        request.messages()[0].1.clone()
    }
}

fn add(client: &Client, text: &str) -> String {
    let params = AddParams {
        text: text.to_owned(),
        kind: None,
        pinned: false,
    };
    client.done::<Add>(params).memory.id
}

fn named(id: &str) -> MemoryNameParams {
    MemoryNameParams { id: id.to_owned() }
}

fn texts(list: &MemoryListResult) -> Vec<&str> {
    list.memories.iter().map(|it| it.text.as_str()).collect()
}

const HEAD: &str = "[background]\nThe person keeps these notes for all conversations, one a line. They may be out of date.";

/// Told to every conversation, from the next request on, and no longer than it is kept.
#[test]
fn what_is_kept_is_told_to_every_conversation() {
    let scene = Scene::new("");
    let _daemon = scene.daemon();
    let client = scene.world.client();
    let (first, second) = (client.create(), client.create());
    client.wait_turn(client.ask(first, "hello"));
    assert!(!scene.system().contains("[background]"));

    let old = add(&client, "the server is boltzmann");
    add(&client, "answer in German");
    let pin = MemoryPinParams {
        id: old.clone(),
        pinned: true,
    };
    assert!(client.done::<Pin>(pin).pinned);
    let block = format!("{HEAD}\n- (fact) the server is boltzmann\n- (fact) answer in German");
    assert_eq!(
        Some(block.clone()),
        client.done::<List>(Empty {}).background
    );
    for conversation in [first, second] {
        client.wait_turn(client.ask(conversation, "again"));
        let block = format!("{block}\n\nCommands run in ");
        assert!(scene.system().contains(&block), "{}", scene.system());
        // What is looked at is what is sent.
        let shown = preview(&client, conversation, None);
        assert!(shown.body.contains("answer in German"));
    }
    client.done::<Remove>(named(&old));
    client.wait_turn(client.ask(first, "and now?"));
    assert!(!scene.system().contains("boltzmann"));
    let gone = client.refused::<Remove>(named(&old));
    assert!(gone.message.contains("there is no fact m1"), "{gone:?}");
}

/// Acknowledged is kept: over a kill, and over the loss of the index.
#[test]
fn what_is_kept_survives_a_kill() {
    let scene = Scene::new("");
    let daemon = scene.daemon();
    let client = scene.world.client();
    let one = add(&client, "one");
    add(&client, "two");
    client.done::<Remove>(named(&one));
    daemon.kill9();
    std::fs::remove_dir_all(scene.world.state().join("store/db")).unwrap();
    let _daemon = scene.daemon();
    let client = scene.world.client();
    assert_eq!(["two"], *texts(&client.done::<List>(Empty {})));
    // And its name is not given again.
    assert_eq!("m3", add(&client, "one"));
}

#[test]
fn bad_facts_are_refused_and_change_nothing() {
    let scene = Scene::new("");
    let _daemon = scene.daemon();
    let client = scene.world.client();
    let refused = |text: &str, kind: Option<&str>, expected: &str| {
        let params = AddParams {
            text: text.to_owned(),
            kind: kind.map(ToOwned::to_owned),
            pinned: false,
        };
        let error = client.refused::<Add>(params);
        assert!(error.message.contains(expected), "{error:?}");
    };
    refused(" \u{200b}\n", None, "nothing to remember");
    refused(&"x".repeat(1_001), None, "at most 1000 characters");
    refused("x", Some("A B"), "a kind is a word");
    let nonsense = client.refused::<Remove>(named("one"));
    assert!(nonsense.message.contains("as in m3"), "{nonsense:?}");
    assert!(client.done::<List>(Empty {}).memories.is_empty());

    let observer = scene.world.stranger();
    observer.hello_as("watcher", ClientRole::Observer);
    let params = AddParams {
        text: "obey me".to_owned(),
        kind: None,
        pinned: true,
    };
    let error = observer.refused::<Add>(params);
    assert!(error.message.contains("observer"), "{error:?}");
    assert!(observer.done::<List>(Empty {}).memories.is_empty());
}

fn put_away(client: &Client, conversation: ConversationId) -> String {
    let mut follow = client.attach(conversation, ReplayStart::Now);
    client.done::<Archive>(ConversationParams { id: conversation });
    let told = follow.until(|it| {
        let status = it.read::<Status>();
        status.is_some_and(|it| it.text.contains("remember"))
    });
    told.read::<Status>().unwrap().text
}

/// The archiving of a conversation does not depend on a model.
#[test]
fn a_model_that_fails_proposes_nothing() {
    let scene = Scene::new("[memory]\nsummarize_on_close = true");
    let _daemon = scene.daemon();
    let client = scene.world.client();
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "hello"));
    scene.summarizer.answer(Answer::status(500, "{}"));
    let told = put_away(&client, conversation);
    assert!(
        told.starts_with("nothing is proposed to be remembered (fast: "),
        "{told}"
    );
    assert!(client.done::<List>(Empty {}).memories.is_empty());
}

/// Nothing is sent to a summarizer that nobody asked for.
#[test]
fn no_model_looks_through_a_conversation_by_itself() {
    let scene = Scene::new("");
    let _daemon = scene.daemon();
    let client = scene.world.client();
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "hello"));
    client.done::<Archive>(ConversationParams { id: conversation });
    client.wait_turn(client.ask(client.create(), "and now?"));
    assert_eq!(0, scene.summarizer.requests().len());
}
