//! That nothing is left of a contained child, however it ends.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use aishd_process::contained::Containment;
use aishd_process::spec::ChildExit;
use rustix::process::{Pid, Signal, kill_process};

use crate::Test;
use crate::place::{Place, USERS, User, runtime};

/// The argument that makes this program a daemon with one child.
pub(crate) const DAEMON: &str = "--daemon";
/// Longer than SIGTERM, two seconds and SIGKILL on a busy machine.
const ALL_GONE: Duration = Duration::from_secs(20);

pub(crate) const TESTS: &[Test] = &[
    ("a_stubborn_tree_ends", stubborn),
    ("a_willing_program_ends_at_the_first_signal", willing),
    ("a_tree_ends_with_its_trampoline", with_trampoline),
    ("a_tree_ends_with_the_daemon", with_daemon),
    ("what_is_left_behind_ends_with_the_child", left_behind),
    ("a_fork_bomb_ends", bomb),
    ("an_exit_is_told_as_it_was", exits),
    ("limits_hold_within", limits),
    ("the_program_is_found_from_outside_by_its_number", number),
];

/// Ignores what it can, in several sessions; each of its sleeps takes this long, by which they are known.
fn stubborn_script(mark: u32) -> String {
    format!(
        "trap '' TERM HUP INT; setsid sh -c \"trap '' TERM; sleep {mark} & sleep {mark}; :\" & (sleep {mark} &) ; sleep {mark} & echo up; while :; do sleep {mark}; done"
    )
}

/// Of the machine's processes, those that sleep so long.
fn sleeping(mark: u32) -> Vec<i32> {
    let wanted = format!("sleep\0{mark}\0");
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|it| it.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|it| it == wanted.as_bytes())
        })
        .collect()
}

fn mark() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    100_000 + std::process::id() % 10_000 * 100 + NEXT.fetch_add(1, Ordering::Relaxed)
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < ALL_GONE, "{what}");
        std::thread::yield_now();
    }
}

fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit(") ").next().unwrap();
    rest.split(' ').nth(1).unwrap().parse().unwrap()
}

fn stubborn() {
    for user in USERS {
        let place = Place::new(user);
        let mark = mark();
        runtime().block_on(async {
            let spec = place.sh(&stubborn_script(mark), Some(Containment::default()));
            let child = place.children().spawn(&spec).await.unwrap();
            until("it is up", || sleeping(mark).len() == 5);
            let began = Instant::now();
            let exit = child.end(Duration::ZERO).await;
            let took = began.elapsed();
            assert_eq!(Vec::<i32>::new(), sleeping(mark), "{user:?}");
            assert_eq!(ChildExit::Signal(9), exit);
            println!("{user:?}: {took:?}");
            assert!(took >= Duration::from_secs(2) && took < ALL_GONE);
        });
    }
}

fn willing() {
    let place = Place::new(User::Ordinary);
    let mark = mark();
    runtime().block_on(async {
        let spec = place.sh(&format!("exec sleep {mark}"), Some(Containment::default()));
        let child = place.children().spawn(&spec).await.unwrap();
        until("it is up", || sleeping(mark).len() == 1);
        assert_eq!(ChildExit::Signal(15), child.end(Duration::ZERO).await);
    });
}

fn with_trampoline() {
    for user in [User::Ours, User::Ordinary] {
        let place = Place::new(user);
        let mark = mark();
        runtime().block_on(async {
            let spec = place.sh(&stubborn_script(mark), Some(Containment::default()));
            let mut child = place.children().spawn(&spec).await.unwrap();
            until("it is up", || sleeping(mark).len() == 5);
            let program = i32::try_from(child.pid()).unwrap();
            let trampoline = parent(parent(program));
            let name = fs::read_to_string(format!("/proc/{trampoline}/comm")).unwrap();
            assert_eq!("aish-child\n", name);
            kill_process(Pid::from_raw(trampoline).unwrap(), Signal::KILL).unwrap();
            assert_eq!(ChildExit::Unknown, child.wait().await);
            until("all are gone", || sleeping(mark).is_empty());
        });
    }
}

/// Starts one child and says when it is up; a test ends it.
pub(crate) fn daemon() -> ExitCode {
    let mark = std::env::args().nth(2).unwrap().parse().unwrap();
    let place = Place::new(User::Ordinary);
    runtime().block_on(async {
        let spec = place.sh(&stubborn_script(mark), Some(Containment::default()));
        let mut child = place.children().spawn(&spec).await.unwrap();
        until("it is up", || sleeping(mark).len() == 5);
        println!("{}", place.path("").display());
        child.wait().await;
    });
    ExitCode::SUCCESS
}

fn with_daemon() {
    let mark = mark();
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .arg0("contained-daemon")
        .args([DAEMON, &mark.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut output = BufReader::new(daemon.stdout.take().unwrap());
    output.read_line(&mut said).unwrap();
    assert_eq!(5, sleeping(mark).len());
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    until("all are gone", || sleeping(mark).is_empty());
    fs::remove_dir_all(Path::new(said.trim())).unwrap();
}

fn left_behind() {
    let place = Place::new(User::Ordinary);
    let mark = mark();
    runtime().block_on(async {
        let script = format!("setsid sleep {mark} >/dev/null 2>&1 & exit 7");
        let spec = place.sh(&script, Some(Containment::default()));
        let mut child = place.children().spawn(&spec).await.unwrap();
        assert_eq!(ChildExit::Code(7), child.wait().await);
        until("it stays", || sleeping(mark).len() == 1);
        assert_eq!(ChildExit::Code(7), child.end(Duration::ZERO).await);
        assert_eq!(Vec::<i32>::new(), sleeping(mark));
    });
}

/// Whoever ends it one by one makes room for more of it.
fn bomb() {
    for user in [User::Ours, User::Ordinary] {
        let place = Place::new(user);
        let mark = mark();
        let bomb = format!(
            "trap '' TERM; while :; do sh -c \"$BOMB\" & sleep {mark} & wait; done 2>/dev/null"
        );
        let mut spec = place.sh(&bomb, Some(Containment::default()));
        spec.env.insert("BOMB".to_owned(), bomb);
        spec.limits.processes = Some(60);
        runtime().block_on(async {
            let child = place.children().spawn(&spec).await.unwrap();
            until("it is at its limit", || sleeping(mark).len() > 10);
            let began = Instant::now();
            child.end(Duration::ZERO).await;
            println!("{user:?}: the bomb ended after {:?}", began.elapsed());
            assert_eq!(Vec::<i32>::new(), sleeping(mark));
        });
    }
}

fn exits() {
    let place = Place::new(User::Ours);
    for (script, expected) in [
        ("exit 0", ChildExit::Code(0)),
        ("exit 42", ChildExit::Code(42)),
        ("kill -9 $$", ChildExit::Signal(9)),
        ("kill -SEGV $$", ChildExit::Signal(11)),
        // The first process of a namespace hears nothing from within.
        ("kill -9 1; kill -TERM 1; exit 3", ChildExit::Code(3)),
    ] {
        assert_eq!(expected, place.run(script, Containment::default()).exit);
    }
    let mut spec = place.sh("", Some(Containment::default()));
    spec.program = "/nowhere".to_owned();
    let error = place.try_run(&spec).unwrap_err();
    assert!(
        matches!(error, aishd_process::SpawnError::NotFound { .. }),
        "{error}"
    );
    spec.cwd = place.path("nowhere");
    let error = place.try_run(&spec).unwrap_err();
    assert!(
        matches!(error, aishd_process::SpawnError::Directory { .. }),
        "{error}"
    );
}

fn limits() {
    let place = Place::new(User::Ours);
    let mut spec = place.sh(
        "ulimit -n; ulimit -f; ulimit -c; ulimit -v",
        Some(Containment::default()),
    );
    spec.limits.open_files = Some(100);
    spec.limits.file_bytes = Some(512 * 1000);
    let ran = place.try_run(&spec).unwrap();
    assert_eq!("100\n1000\n0\nunlimited\n", ran.output);
}

fn number() {
    let place = Place::new(User::Ours);
    let mark = mark();
    runtime().block_on(async {
        let spec = place.sh(&format!("exec sleep {mark}"), Some(Containment::default()));
        let child = place.children().spawn(&spec).await.unwrap();
        let pid = i32::try_from(child.pid()).unwrap();
        until("it is up", || sleeping(mark) == [pid]);
        child.end(Duration::ZERO).await;
    });
}
