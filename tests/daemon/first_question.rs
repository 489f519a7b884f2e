//! A conversation that is made by its first question: one call and one commit, so
//! that there is never a conversation without its question, nor two of them.

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{
    ConversationCreateParams, ConversationDeleteParams, ConversationListParams, Delete, List,
};
use aish_proto::envelope::Envelope;
use aish_proto::id::{ConversationId, Seq};
use aish_proto::turn::{Send as SendTurn, SendParams};
use aish_testkit::client::question;
use aish_testkit::{Client, Follow, Upstream, World};
use ulid::Ulid;

fn first(id: ConversationId, text: &str) -> SendParams {
    SendParams {
        new: Some(ConversationCreateParams {
            title: None,
            model: None,
            cwd: "/".to_owned(),
            constraints: None,
            budget: None,
            temporary: false,
        }),
        ..question(id, text)
    }
}

fn stored(follow: &Follow) -> impl Iterator<Item = &Envelope> {
    follow.events_so_far().iter().filter(|it| it.seq.is_some())
}

fn titles(client: &Client) -> Vec<String> {
    let listed = client
        .done::<List>(ConversationListParams::default())
        .conversations;
    listed.into_iter().map(|it| it.title).collect()
}

#[test]
fn the_first_question_makes_its_conversation_and_the_same_again_finds_it() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let client = world.client();
    let id = ConversationId(Ulid::new());
    let asked = first(id, "why?");
    let sent = client.done::<SendTurn>(asked.clone());
    assert_eq!((2, 0, false), (sent.seq.0, sent.position, sent.duplicate));
    let mut follow = client.attach(id, ReplayStart::Start);
    follow.until_finished(sent.turn);
    let kinds = stored(&follow).map(|it| it.kind.as_str());
    assert_eq!(
        vec![
            "created",
            "userMessage",
            "turnStarted",
            "assistantMessage",
            "turnFinished"
        ],
        kinds.collect::<Vec<_>>()
    );
    // The answer never reached the client: it asks the same of whatever daemon there is.
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let again = client.done::<SendTurn>(asked);
    assert_eq!(
        (sent.turn, sent.seq, true),
        (again.turn, again.seq, again.duplicate)
    );
    // Another question makes another conversation, and is not put into this one.
    let second = client.refused::<SendTurn>(first(id, "and now?"));
    assert_eq!(-32602, second.code);
    assert!(second.message.contains("already"), "{}", second.message);
    assert_eq!(vec!["why?"], titles(&client));
}

#[test]
fn the_same_again_does_not_bring_back_what_was_deleted() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = ConversationId(Ulid::new());
    let asked = first(id, "why?");
    let sent = client.done::<SendTurn>(asked.clone());
    client.wait_turn(sent.turn);
    client.done::<Delete>(ConversationDeleteParams {
        id,
        confirm_title: "why?".to_owned(),
    });
    let again = client.refused::<SendTurn>(asked);
    assert_eq!("notFound", again.kind());
    assert_eq!(Vec::<String>::new(), titles(&client));
}

#[test]
fn a_first_question_that_is_refused_leaves_nothing() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = ConversationId(Ulid::new());
    let refused = client.refused::<SendTurn>(SendParams {
        model: Some("nobody".to_owned()),
        ..first(id, "why?")
    });
    assert_eq!("notFound", refused.kind());
    let relative = client.refused::<SendTurn>(SendParams {
        new: Some(ConversationCreateParams {
            title: None,
            model: None,
            cwd: "here".to_owned(),
            constraints: None,
            budget: None,
            temporary: false,
        }),
        ..question(id, "why?")
    });
    assert_eq!(-32602, relative.code);
    let absent = client.refused::<SendTurn>(question(id, "is it there?"));
    assert_eq!("notFound", absent.kind());
    assert_eq!(Vec::<String>::new(), titles(&client));
    // The id is as free as it was.
    client.done::<SendTurn>(first(id, "why?"));
    assert_eq!(vec!["why?"], titles(&client));
}

#[test]
fn who_attaches_in_the_same_write_waits_for_the_question_and_misses_nothing() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    for _ in 0..20 {
        let client = world.client();
        let id = ConversationId(Ulid::new());
        let sending = client.send::<SendTurn>(first(id, "why?"));
        let mut follow = client.attach(id, ReplayStart::Start);
        let sent = client.reply::<SendTurn>(sending).unwrap();
        follow.until_finished(sent.turn);
        let seqs = stored(&follow).filter_map(|it| it.seq);
        assert_eq!(
            (1..=5).map(Seq).collect::<Vec<_>>(),
            seqs.collect::<Vec<_>>()
        );
    }
}
