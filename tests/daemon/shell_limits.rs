//! What commands run with, what they may take, how they are ended, and where.

use std::fs;

use aish_proto::attach::ReplayStart;
use aish_proto::event::CwdChanged;
use aish_proto::kept::{ReadResult, ReadResultParams};
use aish_proto::shell::{Cancel as CancelOwn, CancelParams, Run, ShellEnding};
use aish_proto::turn::{Cancel, TurnParams};
use aish_testkit::wait::until_true;
use aish_testkit::{Client, Follow};

use crate::shell::{Scene, allow, ends, finished, own, run};

#[test]
fn a_command_has_the_environment_that_its_asker_may_give_and_no_terminal() {
    let scene = Scene::new("[shell]\nenv_from_client = [\"PATH\", \"LANG\", \"MINE\"]\n");
    let client = Client::connect(&scene.world.socket());
    let wanted = client.hello_with(
        "pts/5",
        &[
            ("LANG", "xx"),
            ("MINE", "m"),
            ("AWS_SECRET", "s"),
            ("SHELL", "/bin/sh"),
        ],
    );
    assert_eq!(Vec::<String>::new(), wanted.wanted_environment);
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let end = run(
        &client,
        &mut follow,
        own(
            conversation,
            "echo $LANG $MINE [$AWS_SECRET] $TERM; test -t 0 || echo none; umask; cut -d ' ' -f 6 /proc/$$/stat",
        ),
    );
    let lines: Vec<&str> = end.output.lines().collect();
    assert_eq!("xx m [] dumb", lines[0], "{}", end.output);
    assert_eq!("none", lines[1]);
    assert!(lines[2].ends_with("022"), "{}", end.output);
    let stat = fs::read_to_string(format!("/proc/{}/stat", scene.daemon.pid())).unwrap();
    let of_daemon = stat.split(' ').nth(5).unwrap();
    assert_ne!(of_daemon, lines[3], "a session of its own");
}

/// What only looks like a repository is none: git would run what its settings name.
#[test]
fn settings_of_a_directory_that_is_no_repository_run_nothing() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let trap = "mkdir -p d/objects d/refs; echo 'ref: refs/heads/x' > d/HEAD; \
        printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = ./\\nfsmonitor = \"touch %s/sprung #\"\\n' \"$PWD\" > d/config; \
        git -C d status; test -e sprung && echo sprung; \
        env -u GIT_CONFIG_COUNT git -C d status >/dev/null; test -e sprung && echo with its own settings";
    let end = run(&client, &mut follow, own(conversation, trap));
    let told: Vec<&str> = end.output.lines().collect();
    assert!(told[0].contains("safe.bareRepository"), "{}", end.output);
    assert_eq!(Some(&"with its own settings"), told.last());
    assert!(!told.contains(&"sprung"), "{}", end.output);
}

#[test]
fn limits_end_what_does_not_end_and_nothing_is_left() {
    let scene = Scene::new("[shell]\ntimeout = \"1s\"\nmax_output_bytes = 65536\n");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    // It comes to its own end, and what is kept of it is its beginning and its end.
    let endless = run(
        &client,
        &mut follow,
        own(conversation, "yes | head -n 100000"),
    );
    assert_eq!(
        (ShellEnding::Exited, 200_000),
        (endless.ending, endless.bytes)
    );
    assert!(endless.output.len() < 20_000 && endless.kept.is_some());
    let kept = endless.kept.unwrap();
    let read = client.done::<ReadResult>(ReadResultParams {
        conversation,
        result: kept.result,
        offset: 65000,
        bytes: None,
    });
    assert!((65536..66000).contains(&read.bytes), "{}", read.bytes);
    assert_eq!("y\n", &read.text[..2]);
    let slow = run(
        &client,
        &mut follow,
        own(conversation, "echo first; sleep 7001"),
    );
    assert_eq!(
        (ShellEnding::TimedOut, "first\n"),
        (slow.ending, slow.output.as_str())
    );
    for command in [
        "sleep 7002 & echo started",
        "setsid sleep 7003 & echo started",
        "nohup sleep 7004 >/dev/null 2>&1 & echo started",
        "trap '' TERM; (trap '' TERM; sleep 7005) & echo started",
    ] {
        let end = run(&client, &mut follow, own(conversation, command));
        assert!(end.output.contains("started"), "{command}: {end:?}");
        assert_eq!(ShellEnding::Exited, end.ending, "{command}");
    }
    until_true("no sleep is left", || {
        !scene.world.running("sleep").iter().any(|it| *it > 0)
    });
    let binary = run(
        &client,
        &mut follow,
        own(
            conversation,
            "head -c 3000 /dev/urandom; printf '\\0\\033[2J'",
        ),
    );
    assert_eq!(
        (ShellEnding::Exited, Some(0)),
        (binary.ending, binary.exit_code)
    );
    for (command, expected) in [
        ("exit 3", (ShellEnding::Exited, Some(3), None)),
        ("kill -9 $$", (ShellEnding::Signalled, None, Some(9))),
        (
            "surely-no-such-program",
            (ShellEnding::Exited, Some(127), None),
        ),
    ] {
        let end = run(&client, &mut follow, own(conversation, command));
        assert_eq!(
            expected,
            (end.ending, end.exit_code, end.signal),
            "{command}"
        );
    }
    assert!(scene.daemon.rss_kib() < 200 << 10);
}

#[test]
fn a_cancel_ends_a_command_and_keeps_what_it_printed() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let began = client.done::<Run>(own(conversation, "echo begun; sleep 7011"));
    follow.until_kind("shellOutput");
    let params = CancelParams {
        conversation,
        call: began.call.clone(),
    };
    assert!(client.done::<CancelOwn>(params.clone()).cancelled);
    let end = finished(&mut follow, &began.call);
    assert_eq!(
        (ShellEnding::Cancelled, "begun\n"),
        (end.ending, end.output.as_str())
    );
    assert!(!client.done::<CancelOwn>(params).cancelled, "it is over");
    until_true("the sleep is gone", || {
        scene.world.running("sleep").is_empty()
    });

    let (conversation, turn, confirm) = scene.asked(&client, "CMD: echo begun; sleep 7012");
    let mut follow = client.attach(conversation, ReplayStart::Start);
    allow(&client, &confirm);
    follow.until_kind("shellOutput");
    client.done::<Cancel>(TurnParams { turn });
    follow.until_finished(turn);
    let end = ends(follow.events_so_far()).remove(0);
    assert_eq!(
        (ShellEnding::Cancelled, "begun\n"),
        (end.ending, end.output.as_str())
    );
    until_true("the sleep is gone", || {
        scene.world.running("sleep").is_empty()
    });
}

#[test]
fn cd_alone_changes_the_directory_of_the_conversation() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let work = scene.world.work();
    fs::create_dir_all(work.join("sub/deep")).unwrap();
    std::os::unix::fs::symlink(work.join("sub"), work.join("link")).unwrap();
    fs::write(work.join("file"), "").unwrap();
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let here = |follow: &mut Follow| {
        let end = run(&client, follow, own(conversation, "pwd -L"));
        end.output.trim_end().to_owned()
    };
    for (command, expected) in [
        ("cd sub/deep", work.join("sub/deep")),
        ("cd ..", work.join("sub")),
        ("cd -", work.join("sub/deep")),
        ("cd /", "/".into()),
        ("cd -", work.join("sub/deep")),
    ] {
        let end = run(&client, &mut follow, own(conversation, command));
        assert_eq!(Some(0), end.exit_code, "{command}: {}", end.output);
        assert_eq!(
            expected.display().to_string(),
            here(&mut follow),
            "{command}"
        );
    }
    let absolute = format!("cd {}", work.join("link").display());
    run(&client, &mut follow, own(conversation, &absolute));
    let changed = follow.events_so_far().iter().rev();
    let changed = changed
        .filter_map(|it| it.read::<CwdChanged>())
        .next()
        .unwrap();
    assert_eq!(work.join("link").display().to_string(), changed.cwd);
    for (command, why) in [
        ("cd nowhere", "no such directory"),
        ("cd ../file", "not a directory"),
        ("cd a b", "one directory"),
    ] {
        let end = run(&client, &mut follow, own(conversation, command));
        assert_eq!(Some(1), end.exit_code);
        assert!(end.output.contains(why), "{command}: {}", end.output);
    }
    let end = run(&client, &mut follow, own(conversation, "(cd /tmp && pwd)"));
    assert_eq!("/tmp\n", end.output);
    assert_eq!(work.join("link").display().to_string(), here(&mut follow));
}

/// What is printed costs no more than what is kept of it, and the command comes to its own end.
#[test]
fn of_a_flood_the_beginning_and_the_end_are_kept_and_it_costs_no_memory() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    run(&client, &mut follow, own(conversation, "true"));
    let before = scene.daemon.rss_kib();
    for (command, bytes) in [
        ("head -c 100000000 /dev/zero | tr '\\0' x", 100_000_000),
        ("head -c 20000000 /dev/zero", 20_000_000),
        // What is no text takes three bytes for each of its own.
        ("head -c 10000000 /dev/zero | tr '\\0' '\\377'", 30_000_000),
    ] {
        let with_end = format!("{command}; echo the end; exit 7");
        let end = run(&client, &mut follow, own(conversation, &with_end));
        assert_eq!(
            (ShellEnding::Exited, Some(7), bytes + 8),
            (end.ending, end.exit_code, end.bytes),
            "{command}"
        );
        assert!(end.output.ends_with("the end\n"), "{command}");
        let shown = end.output.chars().count();
        assert!(shown < 20_000 && end.kept.is_some(), "{command}");
        let after = scene.daemon.rss_kib();
        // A zero byte is six as the log spells it.
        assert!(
            after < 300 << 10,
            "{command}: {before} KiB and then {after} KiB"
        );
    }
    until_true("nothing is left", || {
        ["head", "tr", "cat"]
            .iter()
            .all(|it| scene.world.running(it).is_empty())
    });
    // It lives on.
    let end = run(&client, &mut follow, own(conversation, "echo fine"));
    assert_eq!("fine\n", end.output);
}

/// What waits for a terminal ends and says why.
#[test]
fn programs_that_want_a_terminal_end_with_a_word_about_it() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    for command in [
        "vim file",
        "vi file",
        "top",
        "tmux new-session",
        "cat < /dev/tty",
        "read -p name: name < /dev/tty",
    ] {
        let end = run(&client, &mut follow, own(conversation, command));
        let last = end.output.lines().last().unwrap_or_default();
        if end.exit_code != Some(127) {
            assert_eq!(
                "[aish] commands have no terminal here; what needs one runs in a shell of your own, whose directory and variables do not last here",
                last,
                "{command}: {end:?}"
            );
        }
        assert!(end.ms < Some(9_000), "{command}: {end:?}");
    }
    let end = run(&client, &mut follow, own(conversation, "cat; echo over"));
    assert_eq!("over\n", end.output, "there is nothing to read");
}
