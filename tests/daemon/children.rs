//! Child processes as the kernel shows them: started behind a trampoline, ended as a tree, whoever dies first.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aish_testkit::daemon::DaemonBuilder;
use aish_testkit::process::{kill9, wait_gone};
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{Daemon, World};
use aishd_process::Children;
use aishd_process::child::OutputExtent;
use aishd_process::spec::{ChildExit, ChildPrivileges, ChildSpec, KernelLimits, StandardStream};

/// A tree that will not end when it is asked to: a program that ignores SIGTERM, a grandchild in a session of its own, and
/// one that was forked twice.
const STUBBORN: &str = "trap '' TERM
setsid sleep 7777 &
(setsid sh -c 'sleep 7777 & sleep 7777 &' &)
sleep 7777";
/// How many `sleep`s a stubborn tree has.
const STUBBORN_SLEEPS: usize = 4;
/// Two seconds of grace, and what a busy machine adds.
const ALL_GONE: Duration = Duration::from_secs(30);

fn children(world: &World) -> Children {
    let trampoline = PathBuf::from(env!("CARGO_BIN_EXE_aishd"));
    let text = |it: std::ffi::OsString| it.into_string().unwrap();
    let base: BTreeMap<String, String> = world
        .env()
        .into_iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect();
    Children::behind(trampoline, base)
}

/// A shell with this script, in the world's working directory.
fn sh(world: &World, script: &str) -> ChildSpec {
    let mut spec = ChildSpec::new("sh", world.work());
    spec.args = vec!["-c".to_owned(), script.to_owned()];
    spec
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let result = runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await });
    let result = result.expect("it comes to its end");
    runtime.shutdown_background();
    result
}

/// What the program printed, at most 64 KiB, and how it ended.
fn output(world: &World, spec: &ChildSpec) -> (String, OutputExtent, ChildExit) {
    run(async {
        let child = children(world).spawn(spec).await.unwrap();
        let output = child.output(64 << 10).await.unwrap();
        let text = String::from_utf8(output.bytes).unwrap();
        (text, output.extent, output.exit)
    })
}

fn none_left(world: &World, name: &str, limit: Duration) {
    until(&format!("the end of all {name}"), limit, || {
        world.running(name).is_empty().then_some(())
    });
}

#[test]
fn a_program_ends_as_it_ends_and_says_what_it_says() {
    let world = World::new();
    #[track_caller]
    fn check(world: &World, script: &str, printed: &str, exit: ChildExit) {
        let expected = (printed.to_owned(), OutputExtent::Whole, exit);
        assert_eq!(expected, output(world, &sh(world, script)), "{script}");
    }
    check(&world, "", "", ChildExit::Code(0));
    check(&world, "printf 'a\nb'; exit 3", "a\nb", ChildExit::Code(3));
    check(&world, "kill -KILL $$", "", ChildExit::Signal(9));
    check(&world, "kill 0", "", ChildExit::Signal(15));
    check(
        &world,
        "pwd",
        &format!("{}\n", world.work().display()),
        ChildExit::Code(0),
    );
    check(&world, "cat; echo end", "end\n", ChildExit::Code(0));
    check(&world, "umask", "0077\n", ChildExit::Code(0));
    none_left(&world, "sh", ALL_GONE);
}

#[test]
fn what_cannot_be_started_says_why() {
    let world = World::new();
    world.write("plain", "no program");
    #[track_caller]
    fn check(world: &World, program: &str, cwd: &Path, expected: &str) {
        let mut spec = ChildSpec::new(program, cwd);
        spec.env.insert("SECRET".to_owned(), "s3cret".to_owned());
        let error = run(async { children(world).spawn(&spec).await }).unwrap_err();
        let cause = std::error::Error::source(&error).map(|it| format!(": {it}"));
        let text = format!("{error}{}", cause.unwrap_or_default());
        assert!(
            text.contains(expected) && !text.contains("s3cret"),
            "{text}"
        );
    }
    let work = world.work();
    let plain = world.path("plain").display().to_string();
    check(
        &world,
        "no-such-program",
        &work,
        "find no-such-program: No such file",
    );
    check(&world, "/no/such", &work, "find /no/such: No such file");
    check(&world, &plain, &work, "plain: Permission denied");
    check(&world, "/", &work, "execute /: Permission denied");
    check(
        &world,
        "sh",
        Path::new("/no/such"),
        "enter /no/such: No such file",
    );
    check(&world, "s\0h", &work, "Invalid argument");
    check(&world, &"x".repeat(5 << 20), &work, "bytes long");
    none_left(&world, "aish-child", ALL_GONE);
}

#[test]
fn a_hundred_megabytes_are_cut_and_the_program_does_not_hang() {
    let world = World::new();
    let script = "trap 'echo stopped >&2' PIPE; head -c 100000000 /dev/zero | tr '\\0' x";
    let (text, extent, _exit) = output(&world, &sh(&world, script));
    assert_eq!((64 << 10, OutputExtent::Cut), (text.len(), extent));
}

/// Half a second, and not for as long as somebody holds the pipe.
#[test]
fn a_grandchild_that_holds_the_output_does_not_hold_us() {
    let world = World::new();
    let script = "setsid sleep 7777 & echo done";
    let expected = ("done\n".to_owned(), OutputExtent::Held, ChildExit::Code(0));
    assert_eq!(expected, output(&world, &sh(&world, script)));
    none_left(&world, "sleep", ALL_GONE);
}

#[test]
fn the_environment_the_session_and_the_descriptors_are_clean() {
    let world = World::new();
    let mut spec = sh(
        &world,
        "env | cut -d= -f1 | sort | tr '\\n' ' '; ls /proc/self/fd | tr '\\n' ' '
        cut -d' ' -f5,6 /proc/$$/stat; ulimit -c; readlink /proc/self/fd/0",
    );
    spec.env.insert("DECLARED".to_owned(), "1".to_owned());
    let (text, _, exit) = output(&world, &spec);
    assert_eq!(ChildExit::Code(0), exit);
    let lines: Vec<&str> = text.lines().collect();
    // PWD is the shell's own; the fourth descriptor is the folder that `ls` reads.
    let names = "DECLARED HOME LANG PATH PWD SHELL TERM TZ XDG_CONFIG_DIRS XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME";
    let (first, group_and_session) = lines[0].rsplit_once(" 0 1 2 3 ").unwrap();
    assert_eq!(names, first);
    let (group, session) = group_and_session.split_once(' ').unwrap();
    assert_ne!(group, session, "the trampoline leads the session");
    assert_ne!(session, own_session());
    assert_eq!(["0", "/dev/null"], lines[1..]);
}

fn own_session() -> String {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    stat.split(' ').nth(5).unwrap().to_owned()
}

/// The specification travels over the socket: `ps` shows neither arguments nor environment of the program twice.
#[test]
fn the_trampoline_shows_no_secret() {
    let world = World::new();
    let mut spec = sh(
        &world,
        "echo up; read line; echo $0 $S3CRET_NAME >/dev/null",
    );
    spec.args.push("s3cret-argument".to_owned());
    spec.env
        .insert("S3CRET_NAME".to_owned(), "s3cret-value".to_owned());
    spec.stdin = StandardStream::Piped;
    run(async {
        let child = children(&world).spawn(&spec).await.unwrap();
        let trampoline = parent_of(child.pid());
        // What only root can read says nothing, which is as good.
        let read = |it: &str| fs::read(format!("/proc/{trampoline}/{it}")).unwrap_or_default();
        assert_eq!(b"aish-child\0--child\0", &read("cmdline")[..]);
        assert_eq!(b"aish-child\n", &read("comm")[..]);
        assert_eq!(b"", &read("environ")[..]);
        assert_eq!(ChildExit::Code(0), child.end(ALL_GONE).await);
    });
}

fn parent_of(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit(") ").next().unwrap();
    rest.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn limits_are_those_that_were_given() {
    let world = World::new();
    let mut spec = sh(
        &world,
        "ulimit -n; ulimit -t; grep NoNewPrivs /proc/$$/status; head -c 5000 /dev/zero >big; echo $?",
    );
    spec.limits = KernelLimits {
        open_files: Some(100),
        file_bytes: Some(4096),
        cpu_seconds: Some(7),
        processes: None,
        memory_bytes: None,
    };
    spec.privileges = ChildPrivileges::NoNew;
    let (text, _, _) = output(&world, &spec);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(["100", "7", "NoNewPrivs:\t1"], lines[..3]);
    assert_ne!("0", lines[3]);
    assert_eq!(4096, fs::metadata(world.work().join("big")).unwrap().len());
}

/// Standard input closed, then SIGTERM, then SIGKILL; and it returns when nothing is left.
#[test]
fn a_child_is_asked_to_end_before_it_is_forced() {
    let world = World::new();
    #[track_caller]
    fn check(world: &World, script: &str, exit: ChildExit, at_least_ms: u64) {
        let mut spec = sh(world, &format!("echo up\n{script}"));
        spec.stdin = StandardStream::Piped;
        run(async {
            let mut child = children(world).spawn(&spec).await.unwrap();
            let mut up = [0; 3];
            let stdout = child.stdout.as_mut().unwrap();
            tokio::io::AsyncReadExt::read_exact(stdout, &mut up)
                .await
                .unwrap();
            let started = Instant::now();
            assert_eq!(
                exit,
                child.end(Duration::from_millis(500)).await,
                "{script}"
            );
            let took = started.elapsed();
            assert!(
                took >= Duration::from_millis(at_least_ms),
                "{script}: {took:?}"
            );
        });
        assert_eq!(Vec::<u32>::new(), world.running("sleep"), "{script}");
    }
    check(&world, "cat; exit 5", ChildExit::Code(5), 0);
    check(
        &world,
        "trap 'exit 6' TERM; while :; do sleep 0.1; done",
        ChildExit::Code(6),
        500,
    );
    check(
        &world,
        "trap '' TERM; while :; do sleep 1; done",
        ChildExit::Signal(9),
        2_500,
    );
    check(&world, "kill -STOP $$", ChildExit::Signal(15), 500);
    check(&world, STUBBORN, ChildExit::Signal(9), 2_500);
    // The program ends at once, and what it left is ended too.
    check(&world, "setsid sleep 7777 & exit 0", ChildExit::Code(0), 0);
}

/// Processes that replace themselves all the time are caught all the same.
#[test]
fn one_that_forks_as_fast_as_it_can_is_caught() {
    let world = World::new();
    world.write("hop", "trap '' TERM\nsh \"$0\" &\nexit 0\n");
    world.write("bomb", "trap '' TERM\nfor i in 1 2 3 4 5 6; do sleep 7777 & done\nwhile :; do sh -c : & wait $!; done\n");
    for script in ["exec sh ../hop", "exec sh ../bomb"] {
        run(async {
            let child = children(&world).spawn(&sh(&world, script)).await.unwrap();
            let started = Instant::now();
            let _code = child.end(Duration::from_millis(300)).await;
            println!("{script}: {:?}", started.elapsed());
        });
        assert_eq!(Vec::<u32>::new(), world.running("sh"), "{script}");
        assert_eq!(Vec::<u32>::new(), world.running("sleep"), "{script}");
    }
}

/// Neither the trampoline nor the program gets what the daemon's own parent left open.
#[test]
fn what_the_daemon_was_started_with_goes_no_further() {
    let world = World::new();
    let careless = daemon_after(&world, "exec 7</etc/passwd 9>/dev/null");
    let daemon = daemon_with_trees(&world, careless, 1);
    let trampoline = children_of(daemon.pid())[0];
    assert_eq!(["0", "1", "2"], fds_of(children_of(trampoline)[0])[..]);
    if rustix::process::geteuid().is_root() {
        // Nobody else may look.
        assert!(fds_of(daemon.pid()).contains(&"7".to_owned()));
        assert_eq!(["0", "1", "2"], fds_of(trampoline)[..]);
    }
}

/// A daemon that a script starts in its own place, after this.
fn daemon_after<'a>(world: &'a World, before: &str) -> DaemonBuilder<'a> {
    let daemon = env!("CARGO_BIN_EXE_aishd");
    world.write(
        "start",
        &format!("#!/bin/sh\n{before}\nexec {daemon} \"$@\"\n"),
    );
    let script = world.path("start");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&script, executable).unwrap();
    world.daemon().binary(script)
}

fn fds_of(pid: u32) -> Vec<String> {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut fds: Vec<String> = folder
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    fds.sort();
    fds
}

/// A shell with this script and a limit of processes. The kernel counts them by user, and does not limit root: then they
/// are another user's.
fn limited(world: &World, processes: u64, user: u32, script: &str) -> ChildSpec {
    let mut spec = sh(world, script);
    if rustix::process::geteuid().is_root() {
        spec = ChildSpec::new("setpriv", "/");
        let ids = [format!("--reuid={user}"), format!("--regid={user}")];
        let rest = ["--clear-groups", "sh", "-c", script].map(str::to_owned);
        spec.args = [&ids[..], &rest[..]].concat();
    }
    spec.limits.processes = Some(processes);
    spec
}

#[test]
fn a_limit_of_processes_holds_and_what_it_held_ends() {
    let world = World::new();
    let many = "for i in $(seq 300); do sleep 7777 & done";
    run(async {
        let mut child = children(&world)
            .spawn(&limited(&world, 200, 39_771, many))
            .await
            .unwrap();
        assert_eq!(
            ChildExit::Code(2),
            child.wait().await,
            "the shell cannot fork"
        );
        let left = world.running("sleep").len();
        assert!((10..200).contains(&left), "{left}");
        let _ended_before = child.end(Duration::ZERO).await;
    });
    assert_eq!(Vec::<u32>::new(), world.running("sleep"));
}

/// Whoever kills a bomb one by one makes room for more of it.
#[test]
fn a_fork_bomb_at_its_limit_ends() {
    let world = World::new();
    let go = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    // It ends with the file, so that a test that fails leaves a machine that works.
    let bomb = "trap '' TERM; while [ -e \"$GO\" ]; do sh -c \"$BOMB\" & sh -c \"$BOMB\" & wait; done 2>/dev/null";
    let mut spec = limited(&world, 60, 39_772, bomb);
    spec.env.insert("BOMB".to_owned(), bomb.to_owned());
    spec.env
        .insert("GO".to_owned(), go.path().display().to_string());
    run(async {
        let child = children(&world).spawn(&spec).await.unwrap();
        until_true("the bomb", || world.running("sh").len() > 10);
        let started = Instant::now();
        let _killed = child.end(Duration::ZERO).await;
        println!("the bomb: {:?}", started.elapsed());
    });
    assert_eq!(Vec::<u32>::new(), world.running("sh"));
}

/// A daemon that asks for as many keys as there are questions; each key command is a stubborn tree.
fn daemon_with_trees(world: &World, daemon: DaemonBuilder<'_>, trees: usize) -> Daemon {
    let quoted = serde_json::to_string(STUBBORN).unwrap();
    world.write_config(&format!(
        "default_model = \"m\"\n[models.m]\nendpoint = \"http://127.0.0.1:9\"\nmodel = \"m\"\nkey_cmd = [\"sh\", \"-c\", {quoted}]\n"
    ));
    let daemon = daemon.spawn();
    let client = world.client();
    for _ in 0..trees {
        let conversation = client.create();
        client.ask(conversation, "why?");
    }
    until_true("all trees", || {
        world.running("sleep").len() == trees * STUBBORN_SLEEPS
    });
    daemon
}

fn children_of(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .filter_map(|it| fs::read_to_string(it.ok()?.path().join("children")).ok())
        .flat_map(|it| {
            it.split_whitespace()
                .map(|it| it.parse().unwrap())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// Nothing is left, whatever it was, and however the daemon ends.
#[test]
fn fifty_trees_end_with_a_daemon_that_is_killed() {
    let world = World::new();
    let daemon = daemon_with_trees(&world, world.daemon(), 50);
    let trampolines = children_of(daemon.pid());
    let killed = Instant::now();
    daemon.kill9();
    none_left(&world, "sleep", ALL_GONE);
    none_left(&world, "sh", ALL_GONE);
    trampolines.into_iter().for_each(wait_gone);
    println!("all gone after {:?}", killed.elapsed());
}

#[test]
fn fifty_trees_end_with_a_daemon_that_is_asked_to() {
    let world = World::new();
    let daemon = daemon_with_trees(&world, world.daemon(), 50);
    let trampolines = children_of(daemon.pid());
    let asked = Instant::now();
    assert_eq!(0, daemon.terminate());
    println!("ended after {:?}", asked.elapsed());
    let left: Vec<u32> = ["sleep", "sh"]
        .iter()
        .flat_map(|it| world.running(it))
        .collect();
    assert_eq!(Vec::<u32>::new(), left);
    for pid in trampolines {
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}

/// What a killed trampoline leaves comes to the daemon, which ends and reaps it. What was there before is left alone.
#[test]
fn trees_whose_trampolines_are_killed_end_too() {
    let world = World::new();
    let beside = daemon_after(&world, "tail -f /dev/null >/dev/null 2>&1 &");
    let daemon = daemon_with_trees(&world, beside, 5);
    let stranger = world.running("tail");
    assert_eq!(1, stranger.len());
    for trampoline in children_of(daemon.pid()) {
        if !stranger.contains(&trampoline) {
            kill9(trampoline);
        }
    }
    none_left(&world, "sleep", ALL_GONE);
    none_left(&world, "sh", ALL_GONE);
    until_true("no zombies", || children_of(daemon.pid()) == stranger);
    assert_eq!(0, daemon.terminate());
    assert_eq!(stranger, world.running("tail"));
}

/// The daemon's own environment may hold keys.
#[test]
fn a_key_command_sees_no_more_than_it_needs() {
    let world = World::new();
    world.write_config(
        "default_model = \"m\"\n[models.m]\nendpoint = \"http://127.0.0.1:9\"\nmodel = \"m\"\n\
         key_cmd = [\"sh\", \"-c\", \"env | cut -d= -f1 | sort >$HOME/names; mv $HOME/names $HOME/seen; echo k\"]\n",
    );
    let daemon = world
        .daemon()
        .env("SOME_API_KEY", "s3cret")
        .env("LC_TIME", "C");
    let daemon = daemon.spawn();
    let client = world.client();
    let turn = client.ask(client.create(), "why?");
    let _nobody_is_at_that_port = client.wait_turn(turn);
    let seen = fs::read_to_string(world.path("home/seen")).unwrap();
    let expected = "HOME LANG LC_TIME PATH PWD SHELL TERM TZ XDG_RUNTIME_DIR";
    assert_eq!(expected, seen.lines().collect::<Vec<_>>().join(" "));
    until_true("no zombies", || children_of(daemon.pid()).is_empty());
}
