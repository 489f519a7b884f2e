//! The service under a real service manager: `systemd --user` of an ordinary user, in namespaces
//! of its own. `tests/prepare-systemd.sh` prepares it, as root; without it these skip and say so.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aish_testkit::process::Run;
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{Running, built, repository};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// No model is configured and none is looked for: the demo answers.
const CONFIG: &str = "[discovery]\nservers = []\n";

/// A service manager with a home, which has the programs in `bin`. It ends with the value.
struct Manager {
    home: TempDir,
    user: String,
    uid: u32,
    /// The process in whose namespaces it lives.
    inside: u32,
    _keeper: Running,
}

impl Manager {
    /// `None` where it is not prepared, which is said.
    fn start() -> Option<Self> {
        // The programs lie in TARGET/PROFILE.
        let prepared = built("aishctl").ancestors().nth(2)?.join("systemd");
        let Ok(user) = fs::read_to_string(prepared.join("stamp")) else {
            println!("skipped: run tests/prepare-systemd.sh as root, and see what it says");
            return None;
        };
        Some(Self::prepared(user.trim().to_owned()))
    }

    fn prepared(user: String) -> Self {
        let home = tempfile::Builder::new()
            .prefix("a-sd-")
            .tempdir_in("/tmp")
            .unwrap();
        let bin = home.path().join("bin");
        let config = home.path().join(".config/aish");
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&config).unwrap();
        for name in ["aishd", "aishctl", "aish"] {
            fs::copy(built(name), bin.join(name)).unwrap();
        }
        fs::write(config.join("config.toml"), CONFIG).unwrap();
        let path = home.path().to_str().unwrap().to_owned();
        let outside = |program: &str, args: &[&str]| {
            let env = [(
                OsString::from("PATH"),
                OsString::from("/usr/sbin:/usr/bin:/sbin:/bin"),
            )];
            Run::new(Path::new(program), args, &env, Path::new("/"))
        };
        let owner = format!("{user}:{user}");
        drop(outside("chown", &["-R", &owner, &path]).run().ok());
        let uid = outside("id", &["-u", &user]).run().ok();
        let uid = uid.out().trim().parse().unwrap();
        let script = repository::top().join("tests/user-manager.sh");
        let mut keeper = outside("bash", &[script.to_str().unwrap(), &user, &path]).spawn();
        keeper.line_with("ready");
        let children = format!("/proc/{0}/task/{0}/children", keeper.pid());
        let children = fs::read_to_string(children).unwrap();
        let inside = children.split_whitespace().next().unwrap().parse().unwrap();
        Self {
            home,
            user,
            uid,
            inside,
            _keeper: keeper,
        }
    }

    /// A program inside, as the user.
    fn program(&self, program: &str, args: &[&str]) -> Run {
        let (target, uid) = (self.inside.to_string(), self.uid.to_string());
        let mut all = vec![
            "--target",
            &target,
            "--mount",
            "--pid",
            "--cgroup",
            "--",
            "setpriv",
            "--reuid",
            &uid,
            "--regid",
            &uid,
            "--init-groups",
            program,
        ];
        all.extend(args);
        let home = self.home.path().as_os_str().to_owned();
        let env = [
            ("HOME", home),
            ("USER", self.user.clone().into()),
            ("LOGNAME", self.user.clone().into()),
            ("XDG_RUNTIME_DIR", format!("/run/user/{}", self.uid).into()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
            ("LANG", "C.UTF-8".into()),
            ("SHELL", "/bin/sh".into()),
        ];
        let env = env.map(|(name, value)| (OsString::from(name), value));
        Run::new(Path::new("/usr/bin/nsenter"), &all, &env, self.home.path())
    }

    fn ctl(&self, args: &[&str]) -> Run {
        let program = self.home.path().join("bin/aishctl");
        self.program(program.to_str().unwrap(), args)
    }

    fn systemctl(&self, args: &[&str]) -> Run {
        let all = [&["--user"], args].concat();
        self.program("systemctl", &all)
    }

    /// A property of the service.
    fn property(&self, name: &str) -> String {
        let wanted = format!("--property={name}");
        let shown = self.systemctl(&["show", "aishd.service", &wanted, "--value"]);
        shown.run().ok().out().trim().to_owned()
    }

    /// The daemon's process, as seen from outside; `None` when none runs.
    fn daemon(&self) -> Option<u32> {
        let bin = self.home.path().join("bin/aishd");
        let processes = fs::read_dir("/proc").unwrap();
        processes
            .filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok())
            .find(|pid: &u32| {
                fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|it| it == bin)
                    && fs::read_to_string(format!("/proc/{pid}/stat"))
                        .is_ok_and(|it| !it.contains(") Z "))
            })
    }

    fn wait_daemon(&self) -> u32 {
        until("a daemon", PATIENCE, || self.daemon())
    }

    fn kill9(&self) {
        let pid = self.wait_daemon();
        let id = Pid::from_raw(pid.cast_signed()).unwrap();
        kill_process(id, Signal::KILL).unwrap();
        until_true("the end of the daemon", || self.daemon() != Some(pid));
    }

    /// The socket, where those outside can look at it.
    fn socket(&self) -> PathBuf {
        let their_root = Path::new("/proc")
            .join(self.inside.to_string())
            .join("root");
        let user = their_root.join("run/user").join(self.uid.to_string());
        user.join("aish/aishd.sock")
    }

    fn unit(&self, name: &str) -> PathBuf {
        self.home.path().join(".config/systemd/user").join(name)
    }

    /// A drop-in for the service.
    fn drop_in(&self, text: &str) {
        let folder = self.unit("aishd.service.d");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("test.conf"), text).unwrap();
        drop(self.systemctl(&["daemon-reload"]).run().ok());
    }

    /// Nothing of aish is left.
    #[track_caller]
    fn assert_clean(&self) {
        assert_eq!(None, self.daemon(), "a daemon is left");
        assert!(!self.socket().exists(), "a socket is left");
    }
}

/// From nothing to a service and back, as a person does it.
#[test]
fn it_is_installed_starts_with_its_first_client_reloads_and_goes() {
    let Some(manager) = Manager::start() else {
        return;
    };
    install(&manager);
    examine_units(&manager);
    begin_with_a_client(&manager);
    reload_and_read_the_log(&manager);
    let before = manager.wait_daemon();
    let restarted = manager.ctl(&["service", "restart"]).run().ok();
    assert!(
        restarted.out().contains("started again"),
        "{}",
        restarted.out()
    );
    assert_ne!(before, manager.wait_daemon());
    assert!(manager.socket().exists());
    uninstall(&manager);
}

fn install(manager: &Manager) {
    let shown = manager.ctl(&["service", "install", "--print"]).run().ok();
    assert!(shown.out().contains("WatchdogSec=30"), "{}", shown.out());
    assert!(!manager.unit("aishd.service").exists());

    let installed = manager.ctl(&["service", "install"]).run().ok();
    assert!(
        installed.out().contains("starts with its first client"),
        "{}",
        installed.out()
    );
    let text = fs::read_to_string(manager.unit("aishd.service")).unwrap();
    let start = format!(
        "ExecStart={}/bin/aishd --foreground",
        manager.home.path().display()
    );
    assert!(text.contains(&start), "{text}");
    assert_eq!(None, manager.daemon(), "nobody has asked for it yet");
    let again = manager.ctl(&["service", "install"]).run().ok();
    assert_eq!(
        2,
        again.out().matches("unchanged").count(),
        "{}",
        again.out()
    );
}

fn examine_units(manager: &Manager) {
    let units = [manager.unit("aishd.service"), manager.unit("aishd.socket")];
    let [service, socket] = units.each_ref().map(|it| it.to_str().unwrap());
    let verified = manager.program("systemd-analyze", &["--user", "verify", service, socket]);
    let verified = verified.run().ok();
    assert_eq!("", verified.err(), "it says something about the units");
    let security = manager.program(
        "systemd-analyze",
        &["--user", "security", "--no-pager", "aishd.service"],
    );
    let score = security.run();
    let score = score.out().lines().last().unwrap_or_default().to_owned();
    println!("systemd-analyze --user security: {score}");
    assert!(
        score.contains("UNSAFE"),
        "the page on security says UNSAFE: {score}"
    );
}

fn begin_with_a_client(manager: &Manager) {
    let asked = manager.ctl(&["ask", "who are you?"]).run().ok();
    assert!(asked.out().contains("demo"), "{}", asked.report());
    assert!(
        !asked.err().contains("started aishd"),
        "the service manager did: {}",
        asked.err()
    );
    let pid = manager.wait_daemon();
    drop(manager.systemctl(&["start", "aishd"]).run().ok());
    assert_eq!(pid, manager.wait_daemon(), "it ran already");
    assert_eq!(
        ("active", "30s"),
        (
            &*manager.property("ActiveState"),
            &*manager.property("WatchdogUSec")
        )
    );
    until_true("a status that means something", || {
        manager.property("StatusText") == "1 conversation open"
    });
    let status = manager.ctl(&["service", "status"]).run().ok();
    assert!(
        status.out().contains("active (running) · pid"),
        "{}",
        status.out()
    );
    let doctor = manager.ctl(&["doctor"]).run().ok();
    let found = doctor
        .out()
        .contains(" service   installed, but lingering is off");
    assert!(found, "{}", doctor.out());
}

fn reload_and_read_the_log(manager: &Manager) {
    let pid = manager.wait_daemon();
    let config = manager.home.path().join(".config/aish/config.toml");
    fs::write(&config, format!("{CONFIG}[logging]\nlevel = \"debug\"\n")).unwrap();
    drop(manager.systemctl(&["reload", "aishd"]).run().ok());
    until_true("the reload in the log", || {
        let logs = manager.ctl(&["logs"]).run().ok();
        logs.out().contains("logging.level")
    });
    assert_eq!(
        (pid, "active"),
        (manager.wait_daemon(), &*manager.property("ActiveState"))
    );

    let logs = manager.ctl(&["service", "logs", "-n", "100"]).run().ok();
    assert!(logs.out().contains("ready"), "{}", logs.out());
    let records = ["-o", "json", "--user-unit", "aishd.service", "--no-pager"];
    let records = manager.program("journalctl", &records).run().ok();
    if records.out().is_empty() {
        println!("no journal is kept here: the log came from the daemon");
    } else {
        let ready = records
            .out()
            .lines()
            .find(|it| it.contains("ready resumed"));
        let ready: serde_json::Value = serde_json::from_str(ready.unwrap()).unwrap();
        assert_eq!(
            "6", ready["PRIORITY"],
            "the level is the journal's own: {ready:#}"
        );
        let message = ready["MESSAGE"].as_str().unwrap();
        assert!(message.starts_with("aishd::daemon: ready"), "{message}");
    }
}

fn uninstall(manager: &Manager) {
    let gone = manager.ctl(&["service", "uninstall"]).run().ok();
    assert_eq!(2, gone.out().matches("removed").count(), "{}", gone.out());
    manager.assert_clean();
    assert!(!manager.unit("aishd.socket").exists());
    let nothing = manager.ctl(&["service", "uninstall"]).run().ok();
    assert_eq!("nothing is installed\n", nothing.out());
    // Without a service, aishctl starts one by itself again.
    let asked = manager.ctl(&["ask", "still there?"]).run().ok();
    assert!(asked.err().contains("started aishd"), "{}", asked.err());
    drop(manager.ctl(&["rpc", "daemon/shutdown"]).run().ok());
    until_true("its end", || manager.daemon().is_none());
}

/// Killed with a client attached, and stopped with one: the client is told, comes back where one comes back, and
/// nothing is left where none does.
#[test]
fn a_client_that_is_attached_lives_through_a_kill_and_is_told_of_a_stop() {
    let Some(manager) = Manager::start() else {
        return;
    };
    drop(manager.ctl(&["service", "install", "--now"]).run().ok());
    drop(manager.ctl(&["conv", "new", "proj"]).run().ok());
    let mut window = manager.ctl(&["attach", "proj"]).spawn();
    window.line_with("attached");
    window.write("hello there\n");
    window.line_with("demo");
    for round in 1..=3 {
        // A turn that is cut in the middle would hold the next question back.
        drop(manager.ctl(&["conv", "wait", "proj"]).run().ok());
        let before = manager.wait_daemon();
        manager.kill9();
        // Its reconnecting alone starts the next one.
        until_true("the next daemon", || {
            manager.daemon().is_some_and(|it| it != before)
        });
        window.line_with("back");
        window.write(&format!("round {round}?\n"));
        window.line_with("demo");
    }
    assert_eq!("3", manager.property("NRestarts"));
    drop(manager.ctl(&["service", "stop"]).run().ok());
    manager.assert_clean();
    assert_eq!("success", manager.property("Result"));
    // Somebody stopped it: a window does not start it again, and says so in the end.
    window.line_with("aishd stops");
    drop(window.wait().code(6));
    manager.assert_clean();
    let state = manager.ctl(&["service", "status"]).run().code(6);
    assert!(state.out().contains("inactive"), "{}", state.out());
    // An installed socket unit is what a client starts.
    let asked = manager.ctl(&["ask", "and now?"]).run().ok();
    assert!(
        !asked.err().contains("[aish] started aishd"),
        "{}",
        asked.err()
    );
    assert_eq!("active", manager.property("ActiveState"));
    drop(
        manager
            .systemctl(&["stop", "aishd.socket", "aishd.service"])
            .run()
            .ok(),
    );
    manager.assert_clean();
}

/// A writer that hangs is a daemon that stores nothing: the service manager ends it and starts another. One that is
/// only idle is left alone.
#[test]
fn a_hung_store_is_noticed_by_the_watchdog() {
    let Some(manager) = Manager::start() else {
        return;
    };
    drop(manager.ctl(&["service", "install"]).run().ok());
    let watched = "[Service]\nWatchdogSec=2\nTimeoutAbortSec=2\n";
    manager.drop_in(watched);
    drop(manager.ctl(&["ask", "hello"]).run().ok());
    let idle = manager.wait_daemon();
    let fed = || {
        manager
            .property("WatchdogTimestampMonotonic")
            .parse::<u64>()
            .unwrap()
    };
    let first = fed();
    // Three of its periods, counted by the food.
    until_true("three periods of an idle daemon", || {
        fed() > first + 6_000_000
    });
    assert_eq!(
        (idle, "0"),
        (manager.wait_daemon(), &*manager.property("NRestarts"))
    );

    manager.drop_in(&format!(
        "{watched}Environment=AISH_FAILPOINT=store.after_write=hang@4\n"
    ));
    drop(manager.ctl(&["service", "restart"]).run().ok());
    let hung = manager.wait_daemon();
    let mut asking = vec![];
    let replaced = until("the watchdog", Duration::from_secs(60), || {
        // Each question writes; one of them hangs the writer, and its client with it.
        if asking.len() < 4 {
            asking.push(
                manager
                    .ctl(&["ask", "--no-stdin", "does it still write?"])
                    .spawn(),
            );
        }
        manager.daemon().filter(|it| *it != hung)
    });
    assert_ne!(hung, replaced);
    manager.drop_in(watched);
    assert_ne!("0", manager.property("NRestarts"));
    drop(asking);
    drop(manager.ctl(&["service", "restart"]).run().ok());
    let asked = manager.ctl(&["ask", "back?"]).run().ok();
    assert!(asked.out().contains("demo"), "{}", asked.report());
    drop(manager.ctl(&["service", "stop"]).run().ok());
    manager.assert_clean();
}

/// What is there already is not trampled on: a daemon that somebody started, units that somebody changed.
#[test]
fn a_daemon_by_hand_and_units_of_a_person_are_respected() {
    let Some(manager) = Manager::start() else {
        return;
    };
    let asked = manager.ctl(&["ask", "first"]).run().ok();
    assert!(asked.err().contains("started aishd"), "{}", asked.err());
    let by_hand = manager.wait_daemon();
    let installed = manager.ctl(&["service", "install"]).run().ok();
    assert!(
        installed.out().contains("which was idle"),
        "{}",
        installed.out()
    );
    assert_ne!(Some(by_hand), manager.daemon());
    drop(manager.ctl(&["ask", "second"]).run().ok());
    assert_eq!(
        "active",
        manager.property("ActiveState"),
        "the service answers now"
    );

    let unit = manager.unit("aishd.service");
    let text = fs::read_to_string(&unit).unwrap();
    fs::write(&unit, format!("{text}# mine\n")).unwrap();
    let refused = manager.ctl(&["service", "install"]).run().code(9);
    assert!(
        refused.err().contains("--force") && refused.err().contains("systemctl --user edit"),
        "{}",
        refused.err()
    );
    drop(manager.ctl(&["service", "uninstall"]).run().code(9));
    assert!(fs::read_to_string(&unit).unwrap().ends_with("# mine\n"));
    let forced = manager.ctl(&["service", "install", "--force"]).run().ok();
    assert!(forced.out().contains("replaced"), "{}", forced.out());
    assert_eq!(text, fs::read_to_string(&unit).unwrap());

    // Without its socket unit the daemon makes the socket itself, and removes it.
    drop(manager.ctl(&["service", "stop"]).run().ok());
    let alone = text
        .replace("Requires=aishd.socket\n", "")
        .replace("After=aishd.socket\n", "");
    fs::write(&unit, alone).unwrap();
    drop(manager.systemctl(&["daemon-reload"]).run().ok());
    drop(manager.systemctl(&["start", "aishd.service"]).run().ok());
    drop(manager.ctl(&["status"]).run().ok());
    drop(manager.systemctl(&["stop", "aishd.service"]).run().ok());
    manager.assert_clean();

    // A configuration that cannot be used is no reason to try again for ever.
    let config = manager.home.path().join(".config/aish/config.toml");
    fs::write(&config, "nonsense = 1\n").unwrap();
    drop(manager.systemctl(&["start", "aishd.service"]).run().code(1));
    let refused = manager.ctl(&["ask", "why?"]).run().code(78);
    assert!(
        refused.err().contains("the service aishd did not start")
            && refused.err().contains("nonsense"),
        "{}",
        refused.err()
    );
    assert_eq!(
        ("78", "0"),
        (
            &*manager.property("ExecMainStatus"),
            &*manager.property("NRestarts")
        )
    );
    // One unit that somebody has removed does not keep the other.
    fs::remove_file(&unit).unwrap();
    drop(manager.ctl(&["service", "uninstall", "--force"]).run().ok());
    manager.assert_clean();
    assert!(!manager.unit("aishd.socket").exists());
}
