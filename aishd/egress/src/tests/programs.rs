//! Programs that others wrote, with the variables that a child gets.

use std::process::{Command, Output};

use super::place::{Host, Place, echo};
use crate::proxy_variables;

/// Runs a line of the shell with nothing but the variables of the proxy; `None` where the program is not there.
fn run(place: &Place, program: &str, line: &str) -> Option<Output> {
    let shell = |line: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.envs(proxy_variables(place.proxy.address()));
        command.output().unwrap()
    };
    if !shell(&format!("{program} --version")).status.success() {
        println!("SKIPPED: {program} is not installed");
        return None;
    }
    Some(shell(line))
}

/// All that a line printed, and whether it went well.
#[track_caller]
fn check(place: &Place, program: &str, line: &str, is_well: bool, expected: &str) {
    let Some(output) = run(place, program, line) else {
        return;
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert_eq!(is_well, output.status.success(), "{line}: {said}");
    assert!(said.contains(expected), "{line}: {said}");
}

#[test]
fn curl_finds_its_way() {
    let host = Host::hello();
    let port = host.port();
    let place = Place::allowing(&format!("origin.example:{port}"));
    let proxy = place.proxy.address();
    let well = |line: &str| check(&place, "curl", line, true, "hello");
    well(&format!("curl -sS http://origin.example:{port}/"));
    well(&format!("curl -sS -p http://origin.example:{port}/"));
    well(&format!(
        "curl -sS --proxy socks5h://{proxy} http://origin.example:{port}/"
    ));
    well(&format!(
        "head -c 300000 /dev/zero | curl -sS -T - -H 'Expect:' http://origin.example:{port}/"
    ));
    well(&format!("curl -sS -d a=b http://origin.example:{port}/"));
    let fails = |line: &str, expected: &str| check(&place, "curl", line, false, expected);
    check(
        &place,
        "curl",
        "curl -sS http://other.example/",
        true,
        "aish: other.example:80 is not allowed for this command",
    );
    fails(
        "curl -sSi https://other.example/",
        "aish: other.example:443 is not allowed for this command",
    );
    fails("curl -sS https://other.example/", "403");
    fails(
        &format!("curl -sS --proxy socks5h://{proxy} http://other.example/"),
        "(2)",
    );
    // What curl looks up itself is an address that no rule names.
    fails(
        &format!("curl -sS --proxy socks5://{proxy} http://127.0.0.1:{port}/ --noproxy ''"),
        "(2)",
    );
}

#[test]
fn wget_python_and_git_say_what_was_not_allowed() {
    let host = Host::new(echo);
    let place = Place::allowing(&format!("origin.example:{}", host.port()));
    let text = "aish: other.example:443 is not allowed for this command";
    check(
        &place,
        "wget",
        "wget -O - https://other.example/",
        false,
        text,
    );
    let python = "import urllib.request; urllib.request.urlopen(\"https://other.example/\")";
    check(
        &place,
        "python3",
        &format!("python3 -c '{python}'"),
        false,
        text,
    );
    check(
        &place,
        "git",
        "git ls-remote https://other.example/x.git",
        false,
        "403",
    );
}

#[test]
fn wget_and_python_fetch() {
    let host = Host::hello();
    let port = host.port();
    let place = Place::allowing(&format!("origin.example:{port}"));
    check(
        &place,
        "wget",
        &format!("wget -qO - http://origin.example:{port}/"),
        true,
        "hello",
    );
    let python = format!(
        "import urllib.request as r; print(r.urlopen(\"http://origin.example:{port}/\").read())"
    );
    check(
        &place,
        "python3",
        &format!("python3 -c '{python}'"),
        true,
        "hello",
    );
}
