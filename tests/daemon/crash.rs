//! kill -9 at every named point: nothing acknowledged is lost, no number is missing or doubled, and a cursor
//! from before goes on.
//!
//! `AISH_TEST_KILLS` says how many kills there are at each point.

use std::thread;
use std::time::Duration;

use aish_proto::attach::{Cursor, ReplayStart};
use aish_proto::event::{AssistantMessage, TurnFinished, UserMessage};
use aish_proto::id::{ConversationId, Epoch, Seq, TurnId};
use aish_proto::turn::{
    QueueList, QueueParams, QueueResume, Send, SendMode, StopReason, TurnStatus,
};
use aish_testkit::client::question;
use aish_testkit::process::kill9;
use aish_testkit::surroundings::kills;
use aish_testkit::{Answer, Chance, Client, Daemon, Follow, Upstream, World};

/// What was promised to the client before the daemon died.
#[derive(Default)]
struct Promised {
    turns: Vec<(TurnId, String)>,
    /// Stored events that were shown.
    shown: Vec<aish_proto::envelope::Envelope>,
}

/// A world with one conversation that has a finished turn in it.
struct Scene {
    upstream: Upstream,
    world: World,
    conversation: ConversationId,
    epoch: Epoch,
    promised: Promised,
}

impl Scene {
    fn new() -> Self {
        let upstream = Upstream::start();
        let world = World::with(&upstream);
        let daemon = world.daemon().spawn();
        let client = world.client();
        let epoch = client.hello().epoch;
        let conversation = client.create();
        let mut scene = Self {
            upstream,
            world,
            conversation,
            epoch,
            promised: Promised::default(),
        };
        scene.ask(&client, "before everything").unwrap();
        let turn = scene.promised.turns[0].0;
        let mut follow = client.attach(conversation, ReplayStart::Start);
        follow.until_finished(turn);
        scene.note(&follow);
        assert_eq!(0, daemon.terminate());
        scene
    }

    /// Asks, and remembers the promise if there is one; a daemon that died on the way promised nothing.
    fn ask(&mut self, client: &Client, text: &str) -> Option<TurnId> {
        let mut params = question(self.conversation, text);
        params.mode = SendMode::Queue;
        let sent =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client.call::<Send>(params)));
        let turn = sent.ok()?.ok()?.turn;
        self.promised.turns.push((turn, text.to_owned()));
        Some(turn)
    }

    fn note(&mut self, follow: &Follow) {
        let stored = follow.events_so_far().iter().filter(|it| it.seq.is_some());
        let known = self.promised.shown.last().and_then(|it| it.seq);
        self.promised
            .shown
            .extend(stored.filter(|it| it.seq > known).cloned());
    }

    /// Takes events until the daemon is gone.
    fn watch_to_the_end(&mut self, mut follow: Follow) {
        while follow.next().is_some() {}
        self.note(&follow);
    }

    /// Everything that was promised is there after a restart, once and in order; and the conversation works.
    #[track_caller]
    fn check(&mut self) {
        let _daemon = self.world.daemon().spawn();
        let client = self.world.client();
        assert_eq!(
            self.epoch,
            client.hello().epoch,
            "the epoch stays over a crash"
        );
        let cursor = self
            .promised
            .shown
            .last()
            .and_then(|it| it.seq)
            .unwrap_or_default();
        let since = ReplayStart::Cursor(Cursor {
            epoch: self.epoch,
            seq: cursor,
        });
        let mut rest = client.attach(self.conversation, since);
        rest.until_kind("replayComplete");
        rest.recording().assert_sound();
        let next = rest.events_so_far().iter().find_map(|it| it.seq);
        assert!(
            next.is_none_or(|it| it == cursor.next()),
            "the cursor goes on: {next:?} after {cursor}"
        );
        client.done::<QueueResume>(QueueParams {
            conversation: self.conversation,
        });
        for (turn, _) in &self.promised.turns {
            let record = client.wait_turn(*turn);
            assert_eq!(TurnStatus::Finished, record.status);
        }
        let mut whole = client.attach(self.conversation, ReplayStart::Start);
        whole.until_kind("replayComplete");
        whole.recording().assert_sound();
        let stored: Vec<_> = whole
            .events_so_far()
            .iter()
            .filter(|it| it.seq.is_some())
            .collect();
        assert_eq!(Some(Seq(1)), stored[0].seq);
        for shown in &self.promised.shown {
            let again = stored.iter().find(|it| it.seq == shown.seq);
            assert_eq!(Some(&shown), again, "what was shown is still so");
        }
        for (turn, text) in &self.promised.turns {
            let asked: Vec<UserMessage> = stored
                .iter()
                .filter(|it| it.turn == Some(*turn))
                .filter_map(|it| it.read())
                .collect();
            assert_eq!(1, asked.len(), "question {text:?} stands once");
            assert_eq!(*text, asked[0].text);
            let ends = stored
                .iter()
                .filter(|it| it.turn == Some(*turn) && it.kind == "turnFinished");
            assert_eq!(1, ends.count(), "turn of {text:?} ends once");
        }
        let queue = client.done::<QueueList>(QueueParams {
            conversation: self.conversation,
        });
        assert!(queue.queue.is_empty() && !queue.held);
        let after = client.wait_turn(client.ask(self.conversation, "and after?"));
        assert_eq!(Some(StopReason::End), after.stop_reason);
    }
}

/// Kills the daemon `kills()` times at this point while a client asks two questions and watches.
#[track_caller]
fn check(point: &str) {
    let mut chance = Chance::new();
    for _ in 0..kills() {
        let mut scene = Scene::new();
        let nth = chance.below(2) + 1;
        let daemon = scene
            .world
            .daemon()
            .failpoint(&format!("{point}=kill@{nth}"))
            .spawn();
        die(&mut scene, daemon, &mut chance, None);
        scene.check();
    }
}

/// Two questions, the second while the first is being answered; the daemon dies somewhere in between, at its
/// failpoint or when the time is over.
fn die(scene: &mut Scene, mut daemon: Daemon, chance: &mut Chance, time: Option<Duration>) {
    let words = chance.below(6) + 3;
    let rest = Duration::from_millis(chance.below(3) as u64);
    scene
        .upstream
        .answer_with(move |_request| Answer::words(words, rest));
    let client = scene.world.client();
    let follow = client.attach(scene.conversation, ReplayStart::Start);
    let asking = scene.world.client();
    let pid = daemon.pid();
    let killer = time.map(|time| {
        thread::spawn(move || {
            thread::park_timeout(time);
            kill9(pid);
        })
    });
    scene.ask(&asking, "first");
    scene.ask(&asking, "second");
    daemon.wait_exit();
    if let Some(killer) = killer {
        killer.join().unwrap();
    }
    scene.watch_to_the_end(follow);
    scene
        .upstream
        .answer_with(|_request| Answer::text("after the crash"));
}

#[test]
fn before_a_question_is_stored() {
    check("ask.before_store");
}

#[test]
fn after_a_question_is_stored() {
    check("ask.after_store");
}

#[test]
fn in_the_middle_of_an_answer() {
    check("stream.mid");
}

#[test]
fn before_the_end_of_a_turn_is_committed() {
    check("turn.before_commit");
}

#[test]
fn after_the_end_of_a_turn_is_committed() {
    check("turn.after_commit");
}

#[test]
fn between_the_write_and_the_sync_of_the_journal() {
    check("store.after_write");
}

#[test]
fn between_the_journal_and_the_index() {
    check("store.after_sync");
}

#[test]
fn between_the_index_and_the_acknowledgement() {
    check("store.after_apply");
}

/// While a second question waits: it stays queued, in its place, and starts when it is let.
#[test]
fn while_a_question_waits() {
    for _ in 0..kills() {
        let mut scene = Scene::new();
        let daemon = scene.world.daemon().spawn();
        let client = scene.world.client();
        let (answer, gate) = Answer::by_hand();
        scene.upstream.answer(answer);
        let running = scene.ask(&client, "running").unwrap();
        gate.text("some text");
        let waiting = scene.ask(&client, "waiting").unwrap();
        daemon.kill9();
        let daemon = scene.world.daemon().spawn();
        let client = scene.world.client();
        assert_eq!(
            Some(StopReason::Interrupted),
            client.wait_turn(running).stop_reason
        );
        let params = QueueParams {
            conversation: scene.conversation,
        };
        let queue = client.done::<QueueList>(params);
        assert!(
            queue.held,
            "it does not start by itself after an interruption"
        );
        assert_eq!(
            vec![waiting],
            queue.queue.iter().map(|it| it.turn).collect::<Vec<_>>()
        );
        assert_eq!(0, daemon.terminate());
        scene.check();
    }
}

/// What had been streamed for a while is kept, marked as incomplete.
#[test]
fn the_text_of_an_interrupted_answer_is_kept_as_far_as_it_was_kept() {
    for _ in 0..kills() {
        let mut scene = Scene::new();
        let daemon = scene.world.daemon().spawn();
        let client = scene.world.client();
        let (answer, gate) = Answer::by_hand();
        scene.upstream.answer(answer);
        let turn = scene.ask(&client, "tell me much").unwrap();
        let mut follow = client.attach(scene.conversation, ReplayStart::Now);
        follow.until_kind("replayComplete");
        // A piece is kept every 250 ms; more than one period passes while these come.
        for number in 0..8 {
            gate.text(&format!("part {number} "));
            follow.until(|it| {
                it.data["text"]
                    .as_str()
                    .is_some_and(|it| it.contains(&format!("part {number}")))
            });
            thread::park_timeout(Duration::from_millis(60));
        }
        daemon.kill9();
        let _daemon = scene.world.daemon().spawn();
        let client = scene.world.client();
        assert_eq!(
            Some(StopReason::Interrupted),
            client.wait_turn(turn).stop_reason
        );
        let mut whole = client.attach(scene.conversation, ReplayStart::Start);
        whole.until_kind("replayComplete");
        let kept: AssistantMessage = whole
            .events_so_far()
            .iter()
            .rev()
            .find_map(|it| it.read())
            .expect("the streamed text is in the log");
        assert!(
            !kept.complete && kept.text.starts_with("part 0 "),
            "{kept:?}"
        );
        let end: TurnFinished = whole
            .events_so_far()
            .iter()
            .rev()
            .find_map(|it| it.read())
            .unwrap();
        assert_eq!(kept.text, end.text);
    }
}

/// Kills during recovery: dying again and again while it starts changes nothing.
#[test]
fn during_recovery() {
    let points = [
        "recover.before_commit",
        "recover.mid",
        "store.after_sync",
        "store.after_apply",
    ];
    let mut chance = Chance::new();
    for _ in 0..kills() {
        let mut scene = Scene::new();
        let daemon = scene.world.daemon().failpoint("stream.mid=kill").spawn();
        die(&mut scene, daemon, &mut chance, None);
        for _ in 0..3 {
            let point = chance.pick(&points);
            let started = scene
                .world
                .daemon()
                .failpoint(&format!("{point}=kill"))
                .spawn_or_exit();
            if let Ok(daemon) = started {
                daemon.kill9();
            }
        }
        scene.check();
    }
}

/// Any moment at all.
#[test]
fn at_random() {
    let mut chance = Chance::new();
    for _ in 0..kills() * 10 {
        let mut scene = Scene::new();
        let daemon = scene.world.daemon().spawn();
        let time = Duration::from_micros(chance.below(20_000) as u64);
        die(&mut scene, daemon, &mut chance, Some(time));
        scene.check();
    }
}

/// kill -9 of a client in mid-turn: the turn goes on, and its place among the clients is free again.
#[test]
fn a_killed_client_takes_nothing_along() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    for _ in 0..kills() {
        let (answer, gate) = Answer::by_hand();
        upstream.answer(answer);
        let mut asking = world.ctl_spawn(&["ask", "--no-stdin", "--jsonl", "what now?"]);
        let line = asking.line_with("turnStarted");
        let started: aish_proto::envelope::Envelope = serde_json::from_str(&line).unwrap();
        gate.text("half ");
        asking.line_with("textDelta");
        asking.signal(rustix::process::Signal::KILL);
        let _killed = asking.wait();
        gate.text("and half");
        gate.finish();
        let record = world.client().wait_turn(started.turn.unwrap());
        assert_eq!(
            (Some(StopReason::End), "half and half"),
            (record.stop_reason, record.text.as_str())
        );
    }
}
