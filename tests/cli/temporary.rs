//! `ask --temp`: what was asked and answered is gone soon after, whoever was killed meanwhile.

use aish_proto::attach::{Attach, AttachParams, ReplayStart};
use aish_proto::conversation::{ConversationListParams, List, ListState};
use aish_proto::id::ConversationId;
use aish_testkit::process::Running;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Upstream, World};
use rustix::process::Signal;

const SECRET: &str = "the word is xyzzy-42";

fn conversations(world: &World) -> Vec<ConversationId> {
    let params = ConversationListParams {
        state: ListState::All,
        ..ConversationListParams::default()
    };
    let listed = world.client().done::<List>(params).conversations;
    listed.iter().map(|it| it.id).collect()
}

fn wait_gone(world: &World) {
    until_true("the conversation to be gone", || {
        conversations(world).is_empty()
    });
}

/// Whether a file of the store has the text.
fn is_stored(world: &World, text: &str) -> bool {
    let mut folders = vec![world.state()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path)
                && bytes.windows(text.len()).any(|it| it == text.as_bytes())
            {
                return true;
            }
        }
    }
    false
}

#[test]
fn an_answer_that_was_asked_for_so_leaves_no_conversation() {
    let upstream = Upstream::start();
    upstream.answer(Answer::text("fine"));
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let asked = world.ctl(&["ask", "--temp", SECRET]).run().ok();
    assert_eq!("fine\n", asked.out());
    wait_gone(&world);
    until_true("the text to leave the files", || !is_stored(&world, SECRET));
    // The variable of a window means another conversation than this one.
    upstream.answer(Answer::text("fine"));
    let asked = world
        .ctl(&["ask", "--temp", "x"])
        .env("AISH_CONVERSATION", "none");
    drop(asked.run().ok());
}

/// Asks, and waits until both the model and the store have the question: it is written while the model is asked.
fn ask(world: &World, upstream: &Upstream, question: &str) -> (Running, ConversationId) {
    let client = world.ctl_spawn(&["ask", "--no-stdin", "--temp", question]);
    drop(upstream.wait_requests(1));
    until_true("the question to be stored", || {
        !conversations(world).is_empty()
    });
    (client, conversations(world)[0])
}

/// Asks, and the client is killed before there is an answer.
fn ask_and_be_killed(world: &World, upstream: &Upstream, question: &str) {
    let (client, _) = ask(world, upstream, question);
    client.signal(Signal::KILL);
    drop(client.wait());
}

#[test]
fn a_killed_client_leaves_none_either() {
    let upstream = Upstream::start();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    ask_and_be_killed(&world, &upstream, "why?");
    assert_eq!(1, conversations(&world).len());
    gate.text("because");
    gate.finish();
    wait_gone(&world);
}

#[test]
fn a_killed_daemon_takes_it_out_when_it_is_back() {
    let upstream = Upstream::start();
    let (answer, _gate) = Answer::by_hand();
    upstream.answer(answer);
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    ask_and_be_killed(&world, &upstream, SECRET);
    daemon.kill9();
    assert!(is_stored(&world, SECRET));
    let _daemon = world.daemon().spawn();
    wait_gone(&world);
    until_true("the text to leave the files", || !is_stored(&world, SECRET));
}

#[test]
fn it_stays_for_as_long_as_somebody_looks() {
    let upstream = Upstream::start();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let (asking, id) = ask(&world, &upstream, "why?");
    let viewer = world.client();
    drop(viewer.done::<Attach>(AttachParams {
        id,
        since: ReplayStart::Start,
        deltas: true,
    }));
    gate.text("because");
    gate.finish();
    drop(asking.wait().ok());
    // Another one, whose answer came later and at which nobody looks, goes before it.
    upstream.answer(Answer::text("later"));
    drop(world.ctl(&["ask", "--temp", "and then?"]).run().ok());
    until_true("the other one to go", || conversations(&world).len() < 2);
    assert_eq!(vec![id], conversations(&world));
    drop(viewer);
    wait_gone(&world);
}

#[test]
fn it_goes_with_no_other_place() {
    let world = World::new();
    for other in [["--last", ""], ["-C", "x"], ["--detach", ""]] {
        let words = other.iter().filter(|it| !it.is_empty());
        let line: Vec<&str> = ["ask", "--temp"]
            .into_iter()
            .chain(words.copied())
            .chain(["y"])
            .collect();
        let refused = world.ctl(&line).run().code(2);
        assert!(
            refused.err().contains("cannot be used with"),
            "{}",
            refused.err()
        );
    }
}
