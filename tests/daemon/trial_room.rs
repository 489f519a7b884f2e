//! Room on the disk for what commands write in layers: one that takes more than it may is ended, and that is said.

use std::fs;

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{Decision, Try, TryParams};
use aish_proto::event::ShellFinished;
use aish_proto::shell::ShellEnding;
use aish_testkit::disk::Small;
use aish_testkit::wait::until_true;

use crate::consent::{pending, with};
use crate::norris::{self, launch};
use crate::registry::started;
use crate::shell::Scene;
use crate::trial::try_it;

/// A MiB, which is the least that can be configured.
const LITTLE: &str = "[contain]\nmax_layer_bytes = 1048576\n";
const TOO_MUCH: &str = "dd if=/dev/zero of=big bs=1M count=4 2>/dev/null";

fn layers(scene: &Scene) -> usize {
    let layers = scene.world.path("state/aish/changes/layers");
    let all = fs::read_dir(layers).unwrap().flatten();
    let sets = all.filter(|it| !it.file_name().to_string_lossy().starts_with('.'));
    sets.count()
}

/// One that goes on for ever is ended, and so is one that was faster than anybody could look.
#[test]
fn a_trial_that_writes_too_much_is_ended_and_nothing_of_it_is_held() {
    for then in ["; sleep 100000", ""] {
        let scene = Scene::new(LITTLE);
        let client = scene.world.client();
        let command = format!("CMD: {TOO_MUCH}{then}");
        let (conversation, _, confirm) = scene.asked(&client, &command);
        let params = TryParams {
            confirm: confirm.request.confirm,
            digest: confirm.request.digest.clone(),
        };
        let message = client.call::<Try>(params).unwrap_err().message;
        if !message.contains("it was ended") {
            // Where nothing is tried, that is said.
            println!("skipped: {message}");
            return;
        }
        assert!(
            message.contains("takes more than 1 MiB of the disk (contain.max_layer_bytes)"),
            "{message}"
        );
        until_true("the layers are gone", || layers(&scene) == 0);
        assert!(!scene.world.work().join("big").exists());
        // The question is as before, and the next trial may be a smaller one.
        let still = pending(&client, conversation);
        assert_eq!(confirm.request.confirm, still.request.confirm);
        assert_eq!(None, still.tried);
    }
}

/// The limit is of all that a run changes; what it does not need it can remove, and then it goes on.
#[test]
fn a_run_that_writes_too_much_is_told_and_can_make_room() {
    let tables = format!("[norris]\nsecond_opinion = false\ncontain = \"try\"\n{LITTLE}");
    let scene = norris::Scene::new(&tables);
    let _daemon = started(&scene.world);
    scene.model_says(&[
        "CMD: dd if=/dev/zero of=big bs=1M count=4 2>/dev/null; sleep 100000",
        "CMD: rm big && echo removed",
        "CMD: echo little > little && cat little",
        "DONE: it is in order",
    ]);
    let run = launch(&scene.world, |_| {});
    let confirm = pending(&run.client, run.conversation);
    if confirm.request.why.contains("nothing on this machine") {
        println!("skipped: {}", confirm.request.why);
        return;
    }
    let mut follow = run.client.attach(run.conversation, ReplayStart::Start);
    let mut next = || {
        let event = follow.until(|it| it.read::<ShellFinished>().is_some());
        event.read::<ShellFinished>().unwrap()
    };
    let first = next();
    assert_eq!(ShellEnding::Full, first.ending, "{}", first.output);
    assert!(
        first
            .output
            .contains("[aish] it was ended: what it wrote takes more than 1 MiB"),
        "{}",
        first.output
    );
    assert_eq!("removed\n", next().output);
    assert_eq!("little\n", next().output);
    scene.upstream.finish();
}

/// Whatever is allowed, the disk of the state is never filled: the store has to be able to write.
#[test]
fn a_trial_leaves_room_on_the_disk_of_the_state() {
    let upstream = aish_testkit::Upstream::start();
    let world = aish_testkit::World::with(&upstream);
    let state = world.path("state");
    let Some(_small) = Small::mount(&state, 256 << 20) else {
        return;
    };
    let scene = Scene::of(upstream, world);
    let client = scene.world.client();
    // As fast as a disk is that is not in memory: what is written between two looks has to fit into the reserve.
    let fills =
        "CMD: while :; do head -c 2M /dev/zero >> big || break; sleep 0.01; done; sleep 100000";
    let (conversation, turn, confirm) = scene.asked(&client, fills);
    let params = TryParams {
        confirm: confirm.request.confirm,
        digest: confirm.request.digest,
    };
    let message = client.call::<Try>(params).unwrap_err().message;
    // Where nothing is tried, that is said.
    if message.contains("namespaces are not allowed") {
        println!("skipped: {message}");
        return;
    }
    assert!(
        message.contains("the disk of aish's state has less than 25 MiB left"),
        "{message}"
    );
    let layers = scene.world.path("state/aish/changes/layers");
    until_true("the room is given back", || {
        fs::read_dir(&layers).unwrap().count() == 0
    });
    // What is said next is stored as ever.
    let confirm = pending(&client, conversation);
    client.done::<aish_proto::confirm::Answer>(with(&confirm, Decision::Deny));
    client.wait_turn(turn);
    let (_, _, confirm) = scene.asked(&client, "CMD: echo little > little");
    assert!(try_it(&client, &confirm).is_some());
}
