//! What the shell of a command leaves to the next ones, whoever wanted them: the directory in which it ended, and what it exported.

use std::fs;
use std::path::Path;

use aish_proto::attach::ReplayStart;
use aish_proto::changes::{ChangesParams, List as ListChanges, Undo};
use aish_proto::confirm::{Answer, AnswerParams, Decision};
use aish_proto::event::CwdChanged;
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::shell::ShellRunParams;
use aish_testkit::{Asked as _, Client, Follow};

use crate::consent::{pending, with};
use crate::file_changes::{keep, shown};
use crate::shell::{Scene, allow, own, run};
use crate::shell_tool::{Scene as ToolScene, replies};
use crate::tools::events;
use crate::trial::try_it;

/// Runs a person's command; `None`: it was ended.
fn prints(client: &Client, follow: &mut Follow, wanted: ShellRunParams) -> (Option<i32>, String) {
    let end = run(client, follow, wanted);
    (end.exit_code, end.output)
}

fn from_now_on(directory: &Path) -> String {
    format!(
        "[aish] commands run in {} from now on\n",
        directory.display()
    )
}

/// What each shell is told, whether it moves the conversation into `sub`, and how it ends.
#[track_caller]
fn check(shell: &str, commands: &[(&str, bool, Option<i32>)]) {
    if !Path::new(shell).exists() {
        return;
    }
    let scene = Scene::new("[shell]\ntimeout = \"2s\"\n");
    let client = scene.world.stranger();
    client.hello_with("pts/5", &[("SHELL", shell), ("PATH", "/usr/bin:/bin")]);
    let work = scene.world.work();
    let (sub, base) = (work.join("sub"), format!("cd {}", work.display()));
    fs::create_dir(&sub).unwrap();
    std::os::unix::fs::symlink(&work, work.join("here")).unwrap();
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    for (command, moves, code) in commands {
        let end = prints(&client, &mut follow, own(conversation, command));
        assert_eq!(*code, end.0, "{shell}: {command}: {}", end.1);
        assert_eq!(
            *moves,
            end.1.contains(&from_now_on(&sub)),
            "{shell}: {command}: {}",
            end.1
        );
        let expected = if *moves { &sub } else { &work };
        let here = prints(&client, &mut follow, own(conversation, "pwd")).1;
        assert_eq!(
            format!("{}\n", expected.display()),
            here,
            "{shell}: {command}"
        );
        run(&client, &mut follow, own(conversation, &base));
    }
    let gone = "mkdir gone && cd gone && rmdir ../gone";
    let told = prints(&client, &mut follow, own(conversation, gone)).1;
    let expected = "gone, where nothing can go on (no such directory): commands run in ";
    assert!(told.contains(expected), "{shell}: {told}");
    let here = prints(&client, &mut follow, own(conversation, "pwd")).1;
    assert_eq!(format!("{}\n", work.display()), here, "{shell}");
    let moved = commands.iter().filter(|it| it.1).count();
    let told = events::<CwdChanged>(&client, conversation);
    assert_eq!(2 * moved, told.len(), "there and back again: {told:?}");
}

const IN_EACH_SHELL: [(&str, bool, Option<i32>); 7] = [
    ("mkdir -p sub && cd sub && echo made", true, Some(0)),
    ("cd sub; ls nothing-here", true, Some(2)),
    ("cd sub; exit 3", true, Some(3)),
    ("cd sub; cd ..", false, Some(0)),
    ("cd here; true", false, Some(0)),
    ("cd sub; exec true", false, Some(0)),
    ("cd sub; sleep 7101", false, None),
];

fn of_posix() -> Vec<(&'static str, bool, Option<i32>)> {
    let own = [
        ("(cd sub; true)", false, Some(0)),
        ("cd sub | cat", false, Some(0)),
        ("cd sub; kill -9 $$", false, None),
        ("cd sub & wait", false, Some(0)),
        ("set -e; cd sub; false; cd ..", true, Some(1)),
    ];
    [&IN_EACH_SHELL[..], &own].concat()
}

#[test]
fn commands_go_on_where_the_one_before_ended_in_sh() {
    check("/bin/sh", &of_posix());
}

#[test]
fn commands_go_on_where_the_one_before_ended_in_bash() {
    check("/usr/bin/bash", &of_posix());
}

#[test]
fn commands_go_on_where_the_one_before_ended_in_zsh() {
    check("/usr/bin/zsh", &of_posix());
}

#[test]
fn commands_go_on_where_the_one_before_ended_in_fish() {
    let own = [
        ("sh -c 'cd sub'", false, Some(0)),
        ("cd sub; kill -9 $fish_pid", false, None),
    ];
    check("/usr/bin/fish", &[&IN_EACH_SHELL[..], &own].concat());
}

/// What one exports the other has, in the same conversation and nowhere else.
#[test]
fn commands_of_people_and_of_models_have_one_environment_and_one_directory() {
    let scene = ToolScene::new("");
    let work = scene.world.work();
    fs::create_dir_all(work.join("a/b")).unwrap();
    fs::write(work.join("activate"), "export VENV=on\n").unwrap();
    scene.runs(&[
        "echo \"$Q $VENV $B\"; pwd",
        "mkdir -p b/made && cd b/made && export OF_MODEL=1 && pwd",
        "pwd",
    ]);
    let (conversation, other) = (
        crate::files::created(&scene.world, &scene.client),
        crate::files::created(&scene.world, &scene.client),
    );
    let client = &scene.client;
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let mut runs = |command: &str| prints(client, &mut follow, own(conversation, command)).1;
    assert_eq!("", runs("export Q=1"));
    assert_eq!("", runs(". ./activate"));
    assert_eq!(from_now_on(&work.join("a")), runs("cd a && export B=2"));
    assert_eq!("1 on 2\n", runs("echo \"$Q $VENV $B\""));

    let turn = client.ask(conversation, "do it");
    let mut asked = vec![];
    for _ in 0..3 {
        let confirm = pending(client, conversation);
        allow(client, &confirm);
        asked.push(confirm);
    }
    client.wait_turn(turn);
    let told = replies(&scene.last_request());
    let a = work.join("a").display().to_string();
    assert!(told[0].contains(&format!("\n1 on 2\n{a}\n")), "{told:?}");
    let command = |at: usize| &asked[at].request.command().asked;
    let names: Vec<&str> = command(0)
        .lasting
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(vec!["B", "Q", "VENV"], names);
    let made = work.join("a/b/made");
    assert_eq!(
        [a, made.display().to_string()],
        [1, 2].map(|at| asked[at].request.call().cwd.clone())
    );
    assert!(told[1].contains(&from_now_on(&made)), "{told:?}");
    assert!(
        told[2].contains(&format!("\n{}\n", made.display())),
        "{told:?}"
    );

    let here = runs("echo \"$OF_MODEL $Q\"; pwd");
    assert_eq!(format!("1 1\n{}\n", made.display()), here);
    let mut follow = client.attach(other, ReplayStart::Start);
    let there = prints(client, &mut follow, own(other, "echo \"[$Q]\"; pwd")).1;
    assert_eq!(format!("[]\n{}\n", work.display()), there);
}

/// A person's command that begins elsewhere takes the conversation along where it goes, and nowhere if it stays there.
#[test]
fn a_command_that_begins_elsewhere_moves_only_where_it_goes_itself() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let work = scene.world.work();
    fs::create_dir_all(work.join("a/b")).unwrap();
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let mut from_a = |command: &str| {
        let params = ShellRunParams {
            cwd: Some(work.join("a").display().to_string()),
            ..own(conversation, command)
        };
        prints(&client, &mut follow, params).1
    };
    assert_eq!("", from_a("true"));
    assert_eq!("", from_a("cd .. && true"), "it is there already");
    assert_eq!(from_now_on(&work.join("a/b")), from_a("cd b && true"));
}

/// What files of a person set at each start would pile up from command to command.
#[test]
fn what_a_shell_reads_at_its_start_is_exported_by_no_command() {
    for (shell, file, text) in [
        ("/usr/bin/zsh", "z/.zshenv", "export PATH=/of-start:$PATH\n"),
        (
            "/usr/bin/fish",
            "z/fish/config.fish",
            "set -gx PATH /usr/sbin /of-start $PATH\n",
        ),
    ] {
        if !Path::new(shell).exists() {
            continue;
        }
        let scene =
            Scene::new("[shell]\nenv_from_client = [\"PATH\", \"ZDOTDIR\", \"XDG_CONFIG_HOME\"]\n");
        scene.world.write(format!("work/{file}"), text);
        let folder = scene.world.work().join("z").display().to_string();
        let client = scene.world.stranger();
        client.hello_with(
            "pts/5",
            &[
                ("SHELL", shell),
                ("PATH", "/usr/bin:/bin"),
                ("ZDOTDIR", &folder),
                ("XDG_CONFIG_HOME", &folder),
            ],
        );
        let conversation = scene.conversation(&client);
        let mut follow = client.attach(conversation, ReplayStart::Start);
        for _ in 0..3 {
            let path = prints(
                &client,
                &mut follow,
                own(conversation, "/usr/bin/printenv PATH"),
            )
            .1;
            assert_eq!(1, path.matches("/of-start:").count(), "{shell}: {path}");
        }
    }
}

fn pwd_after(scene: &ToolScene, conversation: ConversationId) -> String {
    let mut follow = scene.client.attach(conversation, ReplayStart::Start);
    prints(&scene.client, &mut follow, own(conversation, "pwd")).1
}

/// What was made by a kept command and gone to goes with it when that is taken back.
#[test]
fn an_undo_leaves_nobody_in_a_directory_that_it_removes() {
    let scene = ToolScene::new("");
    scene.runs(&["mkdir -p deep/made && cd deep/made"]);
    let (conversation, turn) = scene.ask();
    let confirm = pending(&scene.client, conversation);
    if try_it(&scene.client, &confirm).is_none() {
        return;
    }
    keep(&scene.client, &shown(&scene.client, conversation));
    scene.client.wait_turn(turn);
    let work = scene.world.work().display().to_string();
    assert_eq!(
        format!("{work}/deep/made\n"),
        pwd_after(&scene, conversation)
    );
    let changes = scene.client.done::<ListChanges>(Empty {}).kept[0].changes;
    scene.client.done::<Undo>(ChangesParams { changes });
    assert_eq!(format!("{work}\n"), pwd_after(&scene, conversation));
    let mut follow = scene.client.attach(conversation, ReplayStart::Start);
    let moved = follow.until(|it| {
        it.read::<CwdChanged>()
            .is_some_and(|it| it.cwd == work && it.from.ends_with("deep/made"))
    });
    assert_eq!(None, moved.turn, "a person did that");
}

/// Of what was only tried nothing moves; what was hidden from it is no place to go on.
#[test]
fn a_trial_moves_a_conversation_when_it_is_kept_and_not_into_what_was_hidden() {
    let scene = ToolScene::new("");
    scene.world.write("home/.ssh/id", "a key of a person\n");
    let work = scene.world.work();
    let sub = work.join("sub");
    for (command, keeps, expected) in [
        ("mkdir sub && cd sub && touch made", false, &work),
        ("mkdir sub && cd sub && touch made", true, &sub),
        ("touch made; cd ~/.ssh", true, &work),
        ("touch more; ln -s ~/.ssh link; cd link", true, &work),
    ] {
        scene.runs(&[command]);
        let (conversation, turn) = scene.ask();
        let confirm = pending(&scene.client, conversation);
        if try_it(&scene.client, &confirm).is_none() {
            return;
        }
        let tried = shown(&scene.client, conversation);
        if keeps {
            keep(&scene.client, &tried);
        } else {
            scene.client.done::<Answer>(AnswerParams {
                reason: Some("no".to_owned()),
                ..with(&tried, Decision::Deny)
            });
        }
        scene.client.wait_turn(turn);
        let told = replies(&scene.last_request());
        assert_eq!(
            expected == &sub,
            told[0].contains(&from_now_on(&sub)),
            "{command}: {told:?}"
        );
        assert_eq!(
            keeps && expected == &work,
            told[0].contains("it was hidden from the command"),
            "{command}: {told:?}"
        );
        assert_eq!(
            format!("{}\n", expected.display()),
            pwd_after(&scene, conversation),
            "{command}"
        );
    }
}
