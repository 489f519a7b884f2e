//! A whole daemon on a kernel that lacks something: what every profile says and does there. What cannot be held is asked about
//! or does not run; it never runs with less.

use std::path::{Path, PathBuf};

use aish_proto::confirm::{Decision, Try, TryParams};
use aish_proto::doctor::{CheckOutcome, Doctor};
use aish_proto::event::ShellStarted;
use aish_proto::method::Empty;
use aish_proto::norris::NorrisActivity;
use aish_proto::shell::ShellEnding;
use aish_testkit::daemon::DaemonBuilder;
use aish_testkit::wait::until_true;
use aish_testkit::{World, escapes, repository};

use crate::consent::pending;
use crate::norris::{Scene, launch};
use crate::profiles;
use crate::registry::started_by;
use crate::shell::{self, allow, finished};

/// What is not there.
#[derive(Clone, Copy, Debug)]
enum Lack {
    Landlock,
    /// As where they are switched off.
    UserNamespaces,
}

const ALL_PARTS: [&str; 3] = ["runs", "trials", "profiles"];

impl Lack {
    /// A program that is `aishd` there. `None`, and said why: it cannot be made here.
    fn aishd(self, world: &World) -> Option<PathBuf> {
        let aishd = env!("CARGO_BIN_EXE_aishd");
        let script = match self {
            Self::Landlock => {
                if !escapes::has_python() {
                    println!("skipped: there is no python3");
                    return None;
                }
                let filter = repository::top().join("tests/data/kernels/without_landlock.py");
                format!("exec python3 {} {aishd} \"$@\"", filter.display())
            }
            Self::UserNamespaces => format!(
                "exec unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"' sh {aishd} \"$@\""
            ),
        };
        let program = world.path("aishd-there");
        world.write("aishd-there", &format!("#!/bin/sh\n{script}\n"));
        executable(&program);
        let tried = std::process::Command::new(&program)
            .arg("--version")
            .output();
        let works = tried.is_ok_and(|it| it.status.success());
        if !works {
            println!("skipped: {self:?} cannot be taken away here");
        }
        works.then_some(program)
    }

    fn daemon<'a>(self, world: &'a World) -> Option<DaemonBuilder<'a>> {
        Some(world.daemon().binary(self.aishd(world)?))
    }
}

fn executable(program: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What becomes of a run's first command: the rule that it runs by, or why a person is asked.
fn of_run(lack: Lack, contain: &str, level: u8) -> Option<String> {
    let tables = format!("[norris]\nsecond_opinion = false\ncontain = {contain:?}");
    let scene = Scene::new(&tables);
    let _daemon = started_by(&scene.world, lack.daemon(&scene.world)?);
    scene.model_says(&["CMD: echo here", "DONE: tried"]);
    let mut run = launch(&scene.world, |it| {
        if let Some(levels) = &mut it.levels {
            levels.all = level;
        }
    });
    let mut why = None;
    until_true("the run's end", || match run.state() {
        None => true,
        Some(state) => {
            if state.activity == NorrisActivity::Asking {
                why = Some(run.answer(Decision::Deny).request.why);
            }
            false
        }
    });
    run.ended();
    let ran = run.all::<ShellStarted>().into_iter().next();
    let rule = ran.map(|it| it.rule);
    assert!(rule.is_none() || why.is_none(), "{rule:?} {why:?}");
    rule.or(why)
}

/// What becomes of a trial, and of the same command once a person agrees to its text.
fn of_trial(lack: Lack) -> Option<Result<(), String>> {
    let upstream = aish_testkit::Upstream::start();
    let world = World::with(&upstream);
    let daemon = lack.daemon(&world)?.spawn();
    let scene = shell::Scene {
        upstream,
        world,
        daemon,
    };
    let client = scene.world.client();
    let (conversation, _, confirm) = scene.asked(&client, "CMD: echo made > made");
    let tried = client.call::<Try>(TryParams {
        confirm: confirm.request.confirm,
        digest: confirm.request.digest,
    });
    assert!(!scene.world.work().join("made").exists());
    let mut follow = client.attach(conversation, aish_proto::attach::ReplayStart::Start);
    let confirm = pending(&client, conversation);
    allow(&client, &confirm);
    let call = &confirm.request.subject.call()?.id;
    assert_eq!(ShellEnding::Exited, finished(&mut follow, call).ending);
    assert!(scene.world.work().join("made").exists());
    Some(tried.map(drop).map_err(|error| error.message))
}

/// What tools of each level can do, as [`profiles::SCRIPT`] says it, and whether `doctor` finds each part.
fn of_tools(lack: Lack) -> Option<([String; 3], [bool; 3])> {
    let world = profiles::tools("");
    world.write_config("[norris]\ncontain = \"workspace\"\n");
    let (_daemon, client) = profiles::ready(&world, lack.daemon(&world)?);
    let could = [1, 2, 3].map(|level| profiles::call(&world, &client, level));
    let checks = client.done::<Doctor>(Empty {}).checks;
    let is_ok = ALL_PARTS.map(|part| {
        let check = checks.iter().find(|it| it.check == part);
        check.is_some_and(|it| it.outcome == CheckOutcome::Ok)
    });
    Some((could, is_ok))
}

#[test]
fn without_landlock_all_is_held_but_runs_in_a_workspace_which_ask() {
    let lack = Lack::Landlock;
    let Some(asked) = of_run(lack, "workspace", 2) else {
        return;
    };
    assert!(
        asked.starts_with("HALT: nothing on this machine would hold it: "),
        "{asked}"
    );
    let Some((could, parts)) = of_tools(lack) else {
        return;
    };
    if parts == [false; 3] {
        println!("skipped: this machine holds nothing in namespaces either");
        return;
    }
    assert_eq!([false, true, true], parts);
    assert_eq!(["rt", "rwt", "rwhkt"], could.each_ref().map(String::as_str));
    let rule = |contain, level| of_run(lack, contain, level).unwrap();
    assert_eq!(
        "norris run at level 2, in its copy of the files",
        rule("try", 2)
    );
    assert_eq!(
        "norris run at level 1, where it can write nothing",
        rule("workspace", 1)
    );
    assert_eq!(Some(Ok(())), of_trial(lack));
}

#[test]
fn without_user_namespaces_a_workspace_is_held_and_all_else_is_asked_about_or_refused() {
    let lack = Lack::UserNamespaces;
    let Some((could, parts)) = of_tools(lack) else {
        return;
    };
    assert_eq!([false, false], [parts[1], parts[2]]);
    let [read, workspace, open] = could;
    for said in [read, workspace] {
        assert!(
            said.contains("cannot be held here: user namespaces are not allowed here"),
            "{said}"
        );
    }
    assert_eq!("rwhkt", open);
    let missing = "HALT: nothing on this machine would hold it: user namespaces are not allowed";
    for (contain, level) in [("try", 2), ("workspace", 1)] {
        let asked = of_run(lack, contain, level).unwrap();
        assert!(asked.starts_with(missing), "{asked}");
    }
    let workspace = of_run(lack, "workspace", 2).unwrap();
    if parts[0] {
        assert_eq!("norris run at level 2, inside its boundary", workspace);
    } else {
        assert!(workspace.starts_with("HALT: nothing"), "{workspace}");
    }
    let tried = of_trial(lack).unwrap().unwrap_err();
    assert!(tried.contains("user namespaces are not allowed"), "{tried}");
}
