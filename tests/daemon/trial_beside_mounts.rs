//! Another file system is mounted below the directory that commands run in, as `sshfs` and others do it: what has no mount below
//! it has layers all the same.

use std::fs;

use aish_proto::attach::ReplayStart;
use aish_proto::shell::ShellEnding;
use aish_testkit::disk::Small;

use crate::shell::Scene;
use crate::trial::{end, keep, try_it};

const COMMAND: &str =
    "CMD: echo new > src/made; echo no > beside; cat far/there; echo no > far/made; echo tried";

#[test]
fn a_command_is_tried_beside_what_is_mounted() {
    let upstream = aish_testkit::Upstream::start();
    let world = aish_testkit::World::with(&upstream);
    let work = world.work();
    let Some(disk) = Small::mount(&work, 16 << 20) else {
        return;
    };
    disk.mount_below("far");
    fs::create_dir(work.join("src")).unwrap();
    fs::write(work.join("far/there"), "far away\n").unwrap();
    let scene = Scene::of(upstream, world);
    let client = scene.world.client();
    let (conversation, _, confirm) = scene.asked(&client, COMMAND);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    assert_eq!(ShellEnding::Exited, tried.ending);
    let refused = tried.output.matches("Read-only file system").count();
    assert_eq!(2, refused, "{}", tried.output);
    assert!(tried.output.contains("far away\n"), "{}", tried.output);
    assert!(tried.output.ends_with("tried\n"), "{}", tried.output);
    let paths: Vec<_> = tried.changed.listed.iter().map(|it| &it.path).collect();
    let made = work.canonicalize().unwrap().join("src/made");
    assert_eq!(vec![made.to_str().unwrap()], paths);
    assert!(!made.exists());

    end(&client, &mut follow, &confirm, keep(&confirm, &tried));
    assert_eq!("new\n", fs::read_to_string(&made).unwrap());
    assert!(!work.join("beside").exists());
}
