//! What somebody types when something is wrong: `doctor`, `logs`, `metrics`, and `service` where there is none.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Finished, Upstream, World, repository};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The outcome and the words of one check.
#[track_caller]
fn found(report: &Value, name: &str) -> (String, String) {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|it| it["check"] == name);
    let check = check.unwrap_or_else(|| panic!("no check {name} in {report:#}"));
    let words = format!("{} → {}", check["detail"].as_str().unwrap(), check["fix"]);
    (check["outcome"].as_str().unwrap().to_owned(), words)
}

#[track_caller]
fn check(finished: &Finished, name: &str, outcome: &str, part: &str) {
    let (got, words) = found(&finished.json(), name);
    assert!(
        got == outcome && words.contains(part),
        "{name}: {got}: {words}"
    );
}

#[test]
fn all_is_well() {
    let upstream = Upstream::start();
    upstream.models(&["test-model"]);
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let report = world.ctl(&["doctor", "--json"]).run().ok();
    check(&report, "daemon", "ok", "socket 0600 in 0700");
    check(&report, "config", "ok", "config.toml");
    check(&report, "model test", "ok", "test-model is there");
    check(&report, "store", "ok", "free");
    check(&report, "terminal", "ok", "C.UTF-8");
    let text = world.ctl(&["doctor"]).run().ok();
    assert!(
        text.out().starts_with("aish ") && text.out().ends_with("all is well\n"),
        "{}",
        text.out()
    );
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let lists_others = Upstream::start();
    lists_others.models(&["another"]);
    let world = World::new();
    let preset = |name: &str, endpoint: &str, more: &str| {
        format!("[models.{name}]\nendpoint = \"{endpoint}\"\nmodel = \"test-model\"\n{more}\n")
    };
    // A server that takes connections and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}/v1", listener.local_addr().unwrap());
    world.write_config(
        &[
            "default_model = \"others\"\n".to_owned(),
            preset("others", &lists_others.endpoint(), ""),
            preset(
                "keyless",
                &lists_others.endpoint(),
                "key_env = \"NOBODY_HAS_THIS\"",
            ),
            preset("nobody", &Upstream::nobody(), ""),
            preset("silent", &silent, ""),
        ]
        .concat(),
    );
    let _daemon = world.daemon().spawn();
    let began = Instant::now();
    let report = world
        .ctl(&["doctor", "--json"])
        .env("LANG", "C")
        .run()
        .code(1);
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    check(&report, "model others", "warn", "does not list test-model");
    check(&report, "model keyless", "fail", "export NOBODY_HAS_THIS");
    check(&report, "model nobody", "fail", "start that server");
    check(&report, "model silent", "fail", "start that server");
    check(&report, "terminal", "warn", "export LANG");
    let text = world.ctl(&["doctor"]).run().code(1);
    assert!(text.out().contains("3 failed, 2 warned"), "{}", text.out());
}

/// A key of this shell is lent by looking.
#[test]
fn a_key_of_this_shell_is_lent() {
    let upstream = Upstream::start();
    upstream.models(&["test-model"]);
    let world = World::new();
    world.write_config(&upstream.preset("test", "key_env = \"LENT_KEY\""));
    let _daemon = world.daemon().spawn();
    let report = world
        .ctl(&["doctor", "--json"])
        .env("LENT_KEY", "l3nt-by-this-shell")
        .run()
        .ok();
    check(&report, "model test", "ok", "is there");
    assert!(!report.report().contains("l3nt"));
}

/// A daemon that hangs is a finding, and hangs nobody.
#[test]
fn a_daemon_that_is_not_there_or_hangs() {
    let world = World::new();
    let report = world.ctl(&["doctor", "--json"]).run().ok();
    check(
        &report,
        "daemon",
        "warn",
        "starts with the first aishctl ask",
    );
    let daemon = world.daemon().spawn();
    daemon.signal(Signal::STOP);
    let began = Instant::now();
    let report = world.ctl(&["doctor", "--json"]).run().code(1);
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    check(&report, "daemon", "fail", &format!("pid {}", daemon.pid()));
    let began = Instant::now();
    drop(world.ctl(&["logs"]).run());
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
    let pid = Pid::from_raw(daemon.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    drop(world.ctl(&["doctor"]).run().ok());
}

#[test]
fn the_log_is_shown_from_memory_and_from_the_file_of_one_that_ended() {
    let world = World::new();
    let nothing = world.ctl(&["logs"]).run().code(6);
    assert!(
        nothing.err().contains("cannot reach aishd"),
        "{}",
        nothing.err()
    );
    drop(world.ctl(&["ask", "why"]).run().ok());
    let last = world.ctl(&["logs", "-n", "1"]).run().ok();
    assert_eq!(1, last.out().lines().count(), "{}", last.out());
    let mut following = world.ctl(&["logs", "-f", "-n", "5"]).spawn();
    following.line_with("ready");
    world.write_config("[ui]\ntheme = \"dark\"\n");
    following.line_with("configuration read again");
    drop(world.ctl(&["rpc", "daemon/shutdown"]).run().ok());
    // It does not start one by itself; the next question does.
    while !world.daemon_pids().is_empty() {
        std::thread::yield_now();
    }
    let of_file = world.ctl(&["logs", "-n", "3"]).run().ok();
    assert!(
        of_file
            .out()
            .starts_with("[aish] aishd does not run; the end of "),
        "{}",
        of_file.out()
    );
    assert!(
        of_file.out().trim_end().ends_with("stopped"),
        "{}",
        of_file.out()
    );
    drop(world.ctl(&["ask", "again"]).run().ok());
    following.line_with("was started again");
    following.line_with("ready");
    following.signal(Signal::INT);
    drop(following.wait());
}

/// Every line is a comment or a sample, as Prometheus reads them.
#[test]
fn metrics_are_in_the_text_format() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let text = world.ctl(&["metrics"]).run().ok();
    let same = world.ctl(&["status", "--format", "prometheus"]).run().ok();
    let names = |text: &str| -> Vec<String> {
        let samples = text.lines().filter(|it| !it.starts_with('#'));
        samples
            .map(|it| it.split(' ').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(text.out()), names(same.out()));
    assert!(names(text.out()).len() >= 9);
    let mut typed: Option<String> = None;
    for line in text.out().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["#", "HELP", name, ..] => assert!(name.starts_with("aish_"), "{line}"),
            ["#", "TYPE", name, kind] => {
                assert!(["counter", "gauge"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                typed = Some(name.to_owned());
            }
            [name, value] => {
                assert_eq!(typed.as_deref(), Some(name), "{line}");
                value.parse::<f64>().unwrap();
            }
            _ => panic!("{line}"),
        }
    }
}

#[test]
fn without_a_service_manager_it_says_what_works() {
    let world = World::new();
    for command in ["install", "status"] {
        let refused = world.ctl(&["service", command]).run().code(6);
        assert!(
            refused.err().contains("no service manager"),
            "{}",
            refused.err()
        );
        assert!(
            refused.err().contains("hint: ") && refused.err().contains("aishctl ask"),
            "{}",
            refused.err()
        );
    }
    let mut daemon = world.daemon().spawn();
    let ended = world.ctl(&["service", "restart"]).run().ok();
    assert!(
        ended
            .out()
            .contains("ended; the next aishctl ask, or aish, starts another"),
        "{}",
        ended.out()
    );
    assert_eq!(0, daemon.wait_exit());
    for command in ["start", "stop", "restart"] {
        let refused = world.ctl(&["service", command]).run().code(6);
        assert!(
            refused.err().contains("aishctl service install"),
            "{}",
            refused.err()
        );
    }
    let units = world.ctl(&["service", "install", "--print"]).run().ok();
    assert!(
        units.out().contains("/aishd --foreground"),
        "{}",
        units.out()
    );
    assert!(
        !world.path("config/systemd").exists(),
        "nothing was written"
    );
    let nothing = world.ctl(&["service", "uninstall"]).run().ok();
    assert_eq!("nothing is installed\n", nothing.out());
}

/// Without a daemon the configuration may be the reason (85, 4.5).
#[test]
fn a_configuration_that_no_daemon_can_begin_with_fails() {
    let world = World::new();
    world.write_config("bogus = 1\n");
    let report = world.ctl(&["doctor", "--json"]).run().code(1);
    check(&report, "config", "fail", "aishctl config check");
    world.write("config/aish/env", "A=b\n");
    let env = world.path("config/aish/env");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&env, open).unwrap();
    let report = world.ctl(&["doctor", "--json"]).run().code(1);
    check(&report, "keys", "fail", "chmod 600");
}

#[test]
fn each_mcp_server_is_told_with_what_to_do() {
    let world = World::new();
    let script = repository::top().join("tests/data/mcp/counter.py");
    let marks = world.path("work/marks");
    world.write_config(&format!(
        "[mcp.servers.good]\ncommand = \"python3\"\nargs = [{script:?}, {marks:?}]\n\
         [mcp.servers.gone]\ncommand = \"/nowhere/a-server\"\n\
         [mcp.servers.off]\ncommand = \"python3\"\nenabled = false\n"
    ));
    let _daemon = world.daemon().spawn();
    let report = until("the servers are known", PATIENCE, || {
        let report = world.ctl(&["doctor", "--json"]).run();
        let gone = found(&report.json(), "mcp gone");
        let good = found(&report.json(), "mcp good");
        (gone.0 == "fail" && good.0 != "warn").then_some(report)
    });
    let report = report.code(1);
    check(&report, "mcp off", "ok", "off: enabled = false");
    check(&report, "mcp gone", "fail", "/nowhere/a-server");
    check(&report, "mcp gone", "fail", "aishctl mcp");
    if std::path::Path::new("/usr/bin/python3").exists() {
        check(&report, "mcp good", "ok", "7 tools, protocol 2025-06-18");
    }
}

/// The newest segment of the journal, and the bytes of it.
pub(crate) fn segment(world: &World) -> (PathBuf, Vec<u8>) {
    let journal = std::fs::read_dir(world.path("state/aish/store/journal")).unwrap();
    let newest = journal.map(|it| it.unwrap().path()).max().unwrap();
    let bytes = std::fs::read(&newest).unwrap();
    (newest, bytes)
}

/// What was said is on disk, and no daemon runs.
fn stored() -> World {
    let world = World::new();
    drop(world.ctl(&["ask", "why"]).run().ok());
    stop(&world);
    world
}

/// Ends the daemon, and waits until it is gone.
pub(crate) fn stop(world: &World) {
    drop(world.ctl(&["rpc", "daemon/shutdown"]).run().ok());
    while !world.daemon_pids().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_store_that_lies_there_is_read() {
    let fresh = World::new().ctl(&["doctor", "--json"]).run().ok();
    check(&fresh, "store", "ok", "there is none yet");
    let world = stored();
    let report = world.ctl(&["doctor", "--json"]).run().ok();
    check(&report, "store", "ok", "1 conversation, journal of ");
    let (path, bytes) = segment(&world);
    std::fs::write(&path, [&bytes[..], b"half a li"].concat()).unwrap();
    std::fs::remove_dir_all(world.path("state/aish/store/db")).unwrap();
    let report = world.ctl(&["doctor", "--json"]).run().ok();
    check(
        &report,
        "store",
        "warn",
        "a last write of 9 bytes was not finished",
    );
    check(&report, "store", "warn", "the index is missing");
    assert_eq!(bytes.len() + 9, segment(&world).1.len());
    drop(world.ctl(&["ask", "again"]).run().ok());
}

#[test]
fn a_store_that_does_not_start_is_read_and_says_why() {
    let world = stored();
    std::fs::remove_dir_all(world.path("state/aish/store/journal")).unwrap();
    let report = world.ctl(&["doctor", "--json"]).run().code(1);
    check(&report, "store", "fail", "its journal is gone");
    check(&report, "store", "fail", "aishctl restore BACKUP");
    // After a start that failed its own words stand there too.
    let refused = world.ctl(&["ask", "again"]).run();
    assert_ne!(0, refused.code, "{}", refused.report());
    let report = world.ctl(&["doctor", "--json"]).run().code(1);
    check(&report, "daemon", "fail", "the last one ended with: ");
    check(&report, "daemon", "fail", "its journal is gone");
}
