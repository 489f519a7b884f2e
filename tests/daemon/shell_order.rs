//! Commands of a conversation run one after another, in the order in which they came.

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{Activity, ConversationParams, StatusOf};
use aish_proto::daemon::{Shutdown, ShutdownParams, Status};
use aish_proto::envelope::Envelope;
use aish_proto::event::{ShellFinished, ShellStarted, Snapshot, State};
use aish_proto::method::Empty;
use aish_proto::shell::{Cancel, CancelParams, Run, RunningCommand, ShellEnding, ShellRunParams};
use aish_proto::turn::StopReason;
use aish_testkit::Asked as _;
use aish_testkit::Client;

use crate::consent::{pending, with};
use crate::shell::{Scene, allow, ends, finished, own};

/// Which commands began and ended, in order.
fn course(events: &[Envelope]) -> Vec<String> {
    let told = events.iter().filter_map(|it| {
        let began = it.read::<ShellStarted>();
        let began = began.map(|it| format!("+{}", it.command));
        began.or_else(|| {
            let ended = it.read::<ShellFinished>()?;
            Some(format!("-{}", ended.command))
        })
    });
    told.collect()
}

fn cancel(client: &Client, run: &ShellRunParams, call: &str) -> bool {
    let params = CancelParams {
        conversation: run.conversation,
        call: call.to_owned(),
    };
    client.done::<Cancel>(params).cancelled
}

/// Runs until the test says so.
const HELD: &str = "echo held; while ! test -e go; do sleep 0.02; done";

fn release(scene: &Scene) {
    std::fs::write(scene.world.work().join("go"), "").unwrap();
}

#[test]
fn lines_that_come_at_once_run_one_after_another_where_the_one_before_left_them() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    std::fs::create_dir(scene.world.work().join("sub")).unwrap();
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let first = client.done::<Run>(own(conversation, HELD));
    assert!(first.seq.is_some());
    let lines = [
        "cd sub",
        "pwd",
        "echo a >> file",
        "echo b >> file; cat file",
    ];
    let calls = lines.map(|it| {
        let taken = client.done::<Run>(own(conversation, it));
        assert_eq!(None, taken.seq, "{it} waits");
        taken.call
    });
    follow.until_kind("shellOutput");
    assert_eq!(vec![format!("+{HELD}")], course(follow.events_so_far()));
    release(&scene);
    let last = finished(&mut follow, &calls[3]);
    assert_eq!("a\nb\n", last.output);
    let mut expected = vec![];
    for it in [HELD].iter().chain(&lines) {
        expected.extend([format!("+{it}"), format!("-{it}")]);
    }
    assert_eq!(expected, course(follow.events_so_far()));
    let pwd = ends(follow.events_so_far()).remove(2).output;
    assert!(pwd.ends_with("/sub\n"), "{pwd}");
}

#[test]
fn what_waits_can_be_taken_back_and_so_many_may_wait() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let held = own(conversation, HELD);
    let first = client.done::<Run>(held.clone());
    let waits = client.done::<Run>(own(conversation, "touch never"));
    let others: Vec<String> = (0..31)
        .map(|_| client.done::<Run>(own(conversation, "true")).call)
        .collect();
    let refused = client.refused::<Run>(own(conversation, "true"));
    assert_eq!("overloaded", refused.kind());
    assert!(cancel(&client, &held, &waits.call));
    let end = finished(&mut follow, &waits.call);
    assert_eq!(
        (ShellEnding::Refused, "[aish] cancelled before it began"),
        (end.ending, end.output.as_str())
    );
    assert!(!cancel(&client, &held, &waits.call), "it is over");
    assert!(cancel(&client, &held, &first.call));
    let end = finished(&mut follow, &first.call);
    assert_eq!(ShellEnding::Cancelled, end.ending);
    assert!(finished(&mut follow, &others[30]).exit_code == Some(0));
    assert_eq!(33, ends(follow.events_so_far()).len());
    assert!(!scene.world.work().join("never").exists());
}

#[test]
fn what_a_model_proposes_waits_for_a_persons_command_and_is_asked_about_anew_where_that_changed_something()
 {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (conversation, turn, confirm) = scene.asked(&client, "CMD: echo proposed");
    let mut follow = client.attach(conversation, ReplayStart::Start);
    client.done::<Run>(own(conversation, HELD));
    allow(&client, &confirm);
    follow.until_kind("shellOutput");
    let moves = client.done::<Run>(own(conversation, "cd /"));
    assert_eq!(None, moves.seq);
    release(&scene);
    follow.until_finished(turn);
    assert_eq!(Some(StopReason::End), client.wait_turn(turn).stop_reason);
    let expected = [
        format!("+{HELD}"),
        format!("-{HELD}"),
        "+echo proposed".to_owned(),
        "-echo proposed".to_owned(),
    ];
    assert_eq!(expected, course(follow.events_so_far())[..4]);
    finished(&mut follow, &moves.call);

    std::fs::remove_file(scene.world.work().join("go")).unwrap();
    scene.model_says("CMD: echo proposed");
    let cwd = scene.world.work().display().to_string();
    let turn = client.ask(conversation, "again");
    let first = pending(&client, conversation);
    let elsewhere = ShellRunParams {
        cwd: Some(cwd.clone()),
        ..own(conversation, HELD)
    };
    client.done::<Run>(elsewhere);
    let moves = client.done::<Run>(own(conversation, &format!("cd {cwd}")));
    allow(&client, &first);
    release(&scene);
    finished(&mut follow, &moves.call);
    let second = pending(&client, conversation);
    assert_eq!(
        ("/", cwd.as_str()),
        (
            first.request.call().cwd.as_str(),
            second.request.call().cwd.as_str()
        )
    );
    client.done::<aish_proto::confirm::Answer>(with(&second, aish_proto::confirm::Decision::Deny));
    client.wait_turn(turn);
}

#[test]
fn a_turn_that_waits_for_a_command_can_be_cancelled_and_a_stop_ends_both() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (conversation, turn, confirm) = scene.asked(&client, "CMD: touch proposed");
    let mut follow = client.attach(conversation, ReplayStart::Start);
    client.done::<Run>(own(conversation, HELD));
    allow(&client, &confirm);
    let params = aish_proto::turn::TurnParams { turn };
    client.done::<aish_proto::turn::Cancel>(params);
    follow.until_finished(turn);
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Cancelled), record.stop_reason);

    scene.model_says("CMD: touch proposed");
    let turn = client.ask(conversation, "again");
    let confirm = pending(&client, conversation);
    allow(&client, &confirm);
    let waits = client.done::<Run>(own(conversation, "touch never"));
    let Scene {
        upstream: _upstream,
        world,
        daemon,
    } = scene;
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    let client = world.person("pts/5");
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Interrupted), record.stop_reason);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    let ended = ends(follow.events_so_far());
    let of = |call: &str| ended.iter().find(|it| it.call == call);
    assert_eq!(ShellEnding::Refused, of(&waits.call).unwrap().ending);
    let endings: Vec<ShellEnding> = ended.iter().map(|it| it.ending).collect();
    assert_eq!(4, endings.len(), "{endings:?}");
    assert_eq!(
        1,
        endings
            .iter()
            .filter(|it| **it == ShellEnding::Cancelled)
            .count(),
        "{endings:?}"
    );
    for file in ["proposed", "never"] {
        assert!(!world.work().join(file).exists(), "{file}");
    }
}

/// What a command prints is streamed from its beginning, also where one before it had the same name.
#[test]
fn each_command_is_streamed_from_its_beginning() {
    let scene = Scene::new("[shell]\nconfirm = false\n");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    for word in ["first-and-long", "second"] {
        scene.model_says(&format!("CMD: echo {word}"));
        let before = follow.events_so_far().len();
        let turn = client.ask(conversation, "do it");
        follow.until_finished(turn);
        let printed: String = follow.events_so_far()[before..]
            .iter()
            .filter_map(|it| it.read::<aish_proto::event::ShellOutput>())
            .map(|it| it.text)
            .collect();
        assert_eq!(format!("{word}\n"), printed);
    }
}

#[test]
fn a_running_command_of_a_person_is_named_by_the_state_and_ended_by_anybody() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let long = format!("sleep 7051  #{}", "é".repeat(200));
    let call = client.done::<Run>(own(conversation, &long)).call;
    let shown = RunningCommand {
        call: call.clone(),
        command: long[..255].to_owned(),
    };
    let states = |it: &Envelope| {
        it.read::<State>()
            .filter(|it| it.state == Activity::Running)
    };
    let told = states(&follow.until(|it| states(it).is_some())).unwrap();
    assert_eq!((None, Some(&shown)), (told.turn, told.command.as_ref()));

    let other = scene.world.person("pts/9");
    let status = other.done::<StatusOf>(ConversationParams { id: conversation });
    assert_eq!(
        (Activity::Running, None, Some(&shown)),
        (status.state, status.turn, status.command.as_ref())
    );
    let mut late = other.attach(conversation, ReplayStart::Now);
    let snapshot = late.until_kind("snapshot").read::<Snapshot>().unwrap();
    assert_eq!(Some(&shown), snapshot.command.as_ref());
    let daemon = other.done::<Status>(Empty {});
    assert_eq!((0, 1), (daemon.running_turns, daemon.running_commands));
    let stop = ShutdownParams {
        if_idle: true,
        deadline_ms: None,
    };
    let busy = other.refused::<Shutdown>(stop);
    assert_eq!("busy", busy.kind());

    let params = CancelParams { conversation, call };
    assert!(other.done::<Cancel>(params).cancelled);
    let of = |it: &Envelope| it.read::<ShellFinished>().is_some();
    let end = follow.until(of);
    let by = end.client.unwrap();
    let began = follow.events_so_far().iter();
    let mut began = began.filter(|it| it.kind == "shellStarted");
    let began_by = began.next_back().unwrap().client.unwrap();
    assert_ne!(began_by, by, "the end says who it was");
    let idle = |it: &Envelope| it.read::<State>().is_some_and(|it| it.command.is_none());
    let idle = follow.until(idle).read::<State>().unwrap();
    assert_eq!(Activity::Idle, idle.state);
}
