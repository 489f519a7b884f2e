//! A question that waits while nobody is attached: a program tells somebody, with arguments that are ours.

use std::path::PathBuf;

use aish_proto::attach::ReplayStart;
use aish_proto::audit::{AuditKind, AuditListParams, AuditOutcome};
use aish_proto::confirm::{Answer, Decision};
use aish_testkit::World;
use aish_testkit::wait::{PATIENCE, until};

use crate::audit::records;
use crate::consent::{Scene, with};
use crate::permission;

/// A daemon whose program writes its arguments down, one a line.
pub(crate) fn scene(more: &str) -> Scene {
    Scene::new(&format!(
        "[notify]\nafter = \"50ms\"\ncommand = [\"sh\", \"-c\", 'printf \"%s\\n\" \"$@\" >> \"$0\"', \"NOTICES\", \"urgent\"]\n{more}"
    ))
}

fn notices(world: &World) -> PathBuf {
    world.path("work/notices")
}

fn told(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(notices(world)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Puts the path into the configuration: a scene makes its own world.
pub(crate) fn place(scene: Scene) -> Scene {
    let Scene {
        upstream,
        world,
        daemon,
    } = scene;
    assert_eq!(0, daemon.terminate());
    let file = world.config_file();
    let text = std::fs::read_to_string(&file).unwrap();
    world.write_config(&text.replace("NOTICES", &notices(&world).display().to_string()));
    let daemon = world.daemon().spawn();
    Scene {
        upstream,
        world,
        daemon,
    }
}

#[test]
fn a_program_tells_of_a_question_once_and_says_only_what_is_ours() {
    let scene = place(scene(""));
    let client = scene.world.client();
    let (_, turn, confirm) = scene.asked(&client);
    let id = confirm.request.confirm;
    let expected = vec![
        "urgent".to_owned(),
        "aish".to_owned(),
        format!("c1 asks about aish__time: aishctl confirm show {id}"),
    ];
    until("the notice", PATIENCE, || {
        (told(&scene.world).len() >= 3).then_some(())
    });
    client.done::<Answer>(with(&confirm, Decision::Deny));
    client.wait_turn(turn);
    assert_eq!(expected, told(&scene.world));
}

/// A level is told of by provider and number, and on the trail too.
#[test]
fn a_program_tells_of_a_level_that_is_asked_for() {
    let scene = place(scene(""));
    let client = scene.world.client();
    let conversation = client.create();
    let id = permission::wanted(&client, conversation, "data-tool", 2);
    until("the notice", PATIENCE, || {
        (told(&scene.world).len() >= 3).then_some(())
    });
    assert_eq!(
        format!("c1 asks about level 2 for data-tool: aishctl confirm show {id}"),
        told(&scene.world)[2]
    );
    let notice = until("the record", PATIENCE, || {
        let mut all = records(&client, &AuditListParams::default()).into_iter();
        all.find(|it| it.kind == AuditKind::NoticeGiven)
    });
    assert_eq!(
        (Some(id), Some("data-tool"), Some(2)),
        (notice.confirm, notice.provider.as_deref(), notice.to)
    );
}

/// Where `contain` says so, the kernel holds it, and a notice that cannot be given is on the trail as one.
#[test]
fn a_program_that_is_held_to_reading_writes_nothing_down() {
    let scene = place(scene("contain = \"read\"\n"));
    let client = scene.world.client();
    scene.asked(&client);
    let notice = until("the record", PATIENCE, || {
        let mut all = records(&client, &AuditListParams::default()).into_iter();
        all.find(|it| it.kind == AuditKind::NoticeGiven)
    });
    assert_eq!(Some(AuditOutcome::Failed), notice.outcome);
    assert!(!notices(&scene.world).exists());
}

/// Half of its time is over: it is told of once more.
#[test]
fn there_is_one_reminder() {
    let scene = place(scene("[permissions]\nconfirm_timeout = \"2s\"\n"));
    let client = scene.world.client();
    let (_, turn, _) = scene.asked(&client);
    client.wait_turn(turn);
    assert_eq!(6, told(&scene.world).len(), "{:?}", told(&scene.world));
}

/// Who is attached sees it; and a program that is not there stops nothing.
#[test]
fn nobody_is_told_who_looks_or_does_not_want_to() {
    let scene = place(scene("[permissions]\nconfirm_timeout = \"1s\"\n"));
    let person = scene.world.person("pts/1");
    scene.model_calls(&["{}"]);
    let conversation = person.create();
    let mut follow = person.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    person.ask(conversation, "what time is it?");
    follow.until_kind("confirmRequested");
    // Another conversation's question, which nobody looks at, comes later and is told of first.
    let (_, turn, _) = scene.asked(&scene.world.client());
    until("the other notice", PATIENCE, || {
        (told(&scene.world).len() >= 3).then_some(())
    });
    person.wait_turn(turn);
    let all = told(&scene.world);
    assert!(
        all.len() <= 6 && all.iter().filter(|it| *it == "aish").count() <= 2,
        "{all:?}"
    );
    let missing = Scene::new("[notify]\nafter = \"1ms\"\ncommand = [\"/no/such/program\"]\n");
    let client = missing.world.client();
    let (_, turn, confirm) = missing.asked(&client);
    client.done::<Answer>(with(&confirm, Decision::AllowOnce));
    assert_eq!(0, client.wait_turn(turn).denied);
}
