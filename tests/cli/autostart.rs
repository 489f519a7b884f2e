//! A daemon that starts by itself: once, however many clients want it, whatever the last one left behind.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::{fs, thread};

use aish_testkit::process::{kill9, wait_gone};
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Chance, Upstream, World, surroundings};
use rustix::process::{Pid, Signal, kill_process};

const CLIENTS: usize = 10;
const ROUNDS: usize = 50;

/// What the round before has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// It was asked to end, and has.
    Ended,
    /// It was killed; its socket is still there.
    Killed,
    /// A socket that nobody listens on, made by somebody else.
    StaleSocket,
    /// It is asked to end while the clients come.
    Ending,
}

fn end(world: &World, before: Before) {
    let pids = world.daemon_pids();
    for pid in &pids {
        match before {
            Before::Killed => kill9(*pid),
            Before::Ended | Before::StaleSocket | Before::Ending => terminate(*pid),
        }
        if before != Before::Ending {
            wait_gone(*pid);
        }
    }
    if before == Before::StaleSocket {
        fs::create_dir_all(world.socket().parent().unwrap()).unwrap();
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(world.socket().parent().unwrap(), private).unwrap();
        drop(fs::remove_file(world.socket()));
        drop(UnixListener::bind(world.socket()).unwrap());
    }
}

fn terminate(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}

/// Ten clients at the same moment, fifty times: one daemon, ten whole answers, every time.
/// `AISH_TEST_ROUNDS` makes it longer.
#[test]
fn ten_clients_at_once_start_one_daemon() {
    let upstream = Upstream::start();
    upstream.answer_with(|request| Answer::pieces(["to ", &request.question(), "\nall of it"]));
    let world = World::with(&upstream);
    let mut chance = Chance::new();
    let rounds = surroundings::count("AISH_TEST_ROUNDS").unwrap_or(ROUNDS);
    let befores = [
        Before::Ended,
        Before::Killed,
        Before::StaleSocket,
        Before::Ending,
    ];
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for round in 0..rounds {
        let before = *chance.pick(&befores);
        *seen.entry(format!("{before:?}")).or_default() += 1;
        end(&world, before);
        let mut started = 0;
        thread::scope(|scope| {
            let asking: Vec<_> = (0..CLIENTS)
                .map(|it| {
                    let question = format!("{round}.{it}");
                    let run = world.ctl(&["ask", &question]);
                    (question, scope.spawn(|| run.run()))
                })
                .collect();
            for (question, asking) in asking {
                let finished = asking.join().unwrap();
                let whole =
                    finished.code == 0 && finished.out() == format!("to {question}\nall of it\n");
                assert!(whole, "round {round}, {before:?}: {}", finished.report());
                started += finished.err().matches("[aish] started aishd").count();
            }
        });
        // One that was ending may still have answered the first of them.
        let allowed = if before == Before::Ending {
            0..=1
        } else {
            1..=1
        };
        assert!(
            allowed.contains(&started),
            "round {round}, {before:?}: {started} started one"
        );
        let daemons = world.daemon_pids();
        assert_eq!(1, daemons.len(), "round {round}, {before:?}: {daemons:?}");
        let holder = fs::read_to_string(world.path("state/aish/lock"))
            .or_else(|_| fs::read_to_string(world.path("state/aish/store/lock")));
        assert!(
            holder.unwrap().contains(&daemons[0].to_string()),
            "the lock names it"
        );
    }
    println!("{rounds} rounds of {CLIENTS} clients after {seen:?}");
    let asked = upstream.requests().len();
    assert_eq!(
        rounds * CLIENTS,
        asked,
        "every question reached the model once"
    );
    upstream.finish();
}

#[test]
fn only_who_asks_starts_one() {
    let world = World::new();
    for args in [
        &["status"][..],
        &["log"],
        &["conv", "ls"],
        &["conv", "wait"],
        &["cancel"],
        &["queue"],
        &["model", "list"],
        &["reload"],
        &["retry"],
        &["rpc", "daemon/ping"],
        &["search", "x"],
        &["ask", "--socket", "elsewhere.sock", "why"],
        &["attach", "--socket", "elsewhere.sock"],
        &["conv", "new", "x", "--socket", "elsewhere.sock"],
    ] {
        let finished = world.ctl(args).run().code(6);
        assert!(
            finished.err().contains("cannot reach aishd at "),
            "{}",
            finished.report()
        );
        assert!(
            finished.err().contains("(no such file)\nhint: "),
            "{}",
            finished.report()
        );
        assert_eq!(Vec::<u32>::new(), world.daemon_pids(), "{args:?}");
    }
    drop(world.ctl(&["status", "--format", "tmux"]).run().ok());
    assert_eq!(Vec::<u32>::new(), world.daemon_pids());
    for args in [&["conv", "new", "x"][..], &["attach"], &["ask", "why"]] {
        let finished = world.ctl(args).run().ok();
        let told = format!("{}{}", finished.out(), finished.err());
        assert_eq!(
            args[0] != "conv",
            told.contains("[aish] started aishd "),
            "{told}"
        );
        let daemons = world.daemon_pids();
        assert_eq!(1, daemons.len(), "{args:?}");
        end(&world, Before::Ended);
    }
}

/// Output and exit of who starts it are not the daemon's: a pipe ends with the client, and so does Ctrl-C.
#[test]
fn the_daemon_is_on_its_own() {
    let world = World::new();
    drop(
        world
            .ctl(&["ask", "why"])
            .env("SECRET_TOKEN", "s3cret")
            .env("LD_LIBRARY_PATH", "/nowhere")
            .cwd(world.work())
            .run()
            .ok(),
    );
    let pid = world.daemon_pids()[0];
    let about = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).unwrap();
    assert_eq!(Path::new("/"), about("cwd"));
    assert_eq!(Path::new("/dev/null"), about("fd/0"));
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    assert_eq!(fields[3], pid.to_string(), "it leads a session of its own");
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environ = String::from_utf8(environ).unwrap();
    let names: Vec<&str> = environ
        .split_terminator('\0')
        .map(|it| it.split('=').next().unwrap())
        .collect();
    let fits =
        |it: &&str| ["PATH", "HOME", "SHELL", "LANG", "TZ"].contains(it) || it.starts_with("XDG_");
    assert!(names.len() > 5 && names.iter().all(fits), "{names:?}");
    let log = world.path("state/aish/aishd.log");
    assert_eq!(0o600, fs::metadata(log).unwrap().mode() & 0o777);
}

/// A key of the client's shell: lent at hello, sent to its server, in no environment, file or line.
#[test]
fn a_key_of_the_shell_is_lent_and_kept_nowhere() {
    let upstream = Upstream::start();
    let world = World::new();
    let preset = upstream.preset("test", "key_env = \"MY_TEST_KEY\"");
    world.write_config(&format!("default_model = \"test\"\n{preset}"));
    upstream.secret("k3y-of-the-shell");
    let ask = || {
        world
            .ctl(&["ask", "-v", "why"])
            .env("MY_TEST_KEY", "k3y-of-the-shell")
            .run()
            .ok()
    };
    let finished = ask();
    let sent = upstream.wait_requests(1);
    assert_eq!(
        Some("Bearer k3y-of-the-shell"),
        sent.header("authorization")
    );
    let pid = world.daemon_pids()[0];
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environ).contains("MY_TEST_KEY"));
    assert!(!finished.report().contains("k3y"));
    end(&world, Before::Ended);
    let found = world
        .program(Path::new("/bin/grep"), &["-rl", "k3y-of-the-shell", "."])
        .cwd(world.path(""))
        .run();
    assert_eq!((1, ""), (found.code, found.out()));
    let without = world.ctl(&["ask", "why"]).run().code(4);
    assert!(without.err().contains("MY_TEST_KEY"), "{}", without.err());
    upstream.finish();
}

#[test]
fn without_a_runtime_directory_a_private_one_is_used() {
    let world = World::new();
    let uid = rustix::process::getuid();
    for own in [
        format!("/run/user/{uid}"),
        format!("/tmp/aish-{uid}/aishd.sock"),
    ] {
        if Path::new(&own).exists() {
            println!("skipped: {own} is there, and other daemons may use it");
            return;
        }
    }
    let ask = |args: &[&str]| {
        world
            .ctl(args)
            .without_env("XDG_RUNTIME_DIR")
            .env("TMPDIR", world.path("run"))
            .run()
    };
    let unset = ask(&["ask", "why"]).ok();
    assert!(
        unset.err().contains("[aish] started aishd"),
        "{}",
        unset.err()
    );
    let status = ask(&["--json", "status"]).ok().json();
    let socket = Path::new(status["socket"].as_str().unwrap());
    let folder = fs::metadata(socket.parent().unwrap()).unwrap();
    assert_eq!(
        (0o700, rustix::process::getuid().as_raw()),
        (folder.mode() & 0o777, folder.uid())
    );
    let daemons = world.daemon_pids();
    assert_eq!(
        vec![u64::from(daemons[0])],
        vec![status["server"]["pid"].as_u64().unwrap()]
    );
    end(&world, Before::Ended);
    assert!(!socket.exists());
}

/// Who was not told of a service manager asks for the end all the same.
#[test]
fn what_a_command_has_started_is_stopped_as_a_service_is() {
    let world = World::new();
    drop(world.ctl(&["ask", "why"]).run().ok());
    let pid = world.daemon_pids()[0];
    let stopped = world.ctl(&["service", "stop"]).run().ok();
    assert_eq!(
        format!("aishd {pid} ended; the next aishctl ask, or aish, starts another\n"),
        stopped.out()
    );
    until_true("no daemon to be left", || world.daemon_pids().is_empty());
    let nothing = world.ctl(&["service", "stop"]).run().code(6);
    assert!(
        nothing.err().contains("the service is not installed"),
        "{}",
        nothing.err()
    );
}

#[test]
fn a_runtime_directory_open_to_others_is_refused() {
    let world = World::new();
    let folder = world.path("run/aish");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = world.ctl(&["ask", "why"]).run().code(6);
    let expected = format!(
        "aishctl: {0} is open to others (mode 755)\nhint: chmod 700 {0}\n",
        folder.display()
    );
    assert_eq!(expected, refused.err());
    assert_eq!(Vec::<u32>::new(), world.daemon_pids());
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    drop(world.ctl(&["ask", "why"]).run().ok());
}

/// Many set it so where no session manager does. One name for all users would belong to the first of them.
#[test]
fn a_runtime_directory_for_everybody_holds_a_private_place_of_each_user() {
    let world = World::new();
    let shared = world.path("run");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    drop(world.ctl(&["ask", "why"]).run().ok());
    let uid = rustix::process::getuid().as_raw();
    let folder = shared.join(format!("aish-{uid}"));
    let status = world.ctl(&["--json", "status"]).run().ok().json();
    let socket = folder.join("aishd.sock");
    assert_eq!(Some(socket.to_str().unwrap()), status["socket"].as_str());
    let about = fs::metadata(&folder).unwrap();
    assert_eq!((0o700, uid), (about.mode() & 0o777, about.uid()));
    end(&world, Before::Ended);
    // Somebody else was there first: nothing of theirs is used.
    fs::remove_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(world.work(), &folder).unwrap();
    let refused = world.ctl(&["ask", "why"]).run().code(6);
    assert!(
        refused.err().contains("is not a directory of yours"),
        "{}",
        refused.report()
    );
}

/// A daemon that went away between two questions is no fault of the second.
#[test]
fn a_question_after_a_kill_is_answered_by_the_next_daemon() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    for turn in 1..=3 {
        drop(world.ctl(&["ask", "-C", "proj", "why"]).run().ok());
        assert_eq!(2 * turn, upstream.wait_requests(turn).messages().len());
        end(&world, Before::Killed);
        until_true("no daemon to be left", || world.daemon_pids().is_empty());
    }
}
