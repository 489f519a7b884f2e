//! `aishctl mcp login` with a browser, and without one on this machine; a call that needs it asks for it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use aish_testkit::pty::OnTerminal;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Daemon, Screen, Upstream, World, built, repository};

use crate::confirm::say_until;
use crate::shell::shell_on_terminal;
use crate::terminal_asked::wait_asked;

/// The server and its authorization server, as long as this lives.
struct Guarded {
    child: Child,
    port: u16,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl Guarded {
    fn start() -> Self {
        let script = repository::top().join("tests/data/mcp/oauth_server.py");
        let mut command = Command::new("python3");
        let command = command
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { child, port }
    }

    fn ask(&self, request: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!(
            "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

fn world(server: &Guarded) -> World {
    let world = World::new();
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    world.write_config(&format!("[mcp.servers.guarded]\nurl = \"{url}\"\n"));
    world
}

fn listed(world: &World) -> String {
    world.ctl(&["mcp", "list"]).run().ok().out().to_owned()
}

#[track_caller]
fn until_it_is(world: &World, state: &str) {
    until_true(state, || listed(world).contains(state));
}

/// A browser that agrees to everything.
fn browser(world: &World) -> String {
    let script = "import sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n";
    world.write("browser.py", script);
    format!("python3 {}", world.path("browser.py").display())
}

#[test]
fn a_browser_comes_back_to_the_command_that_opened_it() {
    let server = Guarded::start();
    let world = world(&server);
    let _daemon = world.daemon().spawn();
    until_it_is(&world, "needs sign-in");
    assert!(listed(&world).contains("hint: aishctl mcp login guarded"));
    let login = || {
        world
            .ctl(&["mcp", "login", "guarded"])
            .env("BROWSER", browser(&world))
            .run()
    };
    let done = login().ok();
    assert_eq!("signed in to guarded\n", done.out());
    let origin = format!("http://127.0.0.1:{}", server.port);
    for said in [
        format!("  at   {origin}\n"),
        "  for  files:read\n".to_owned(),
        format!("  {origin}/authorize?"),
    ] {
        assert!(done.err().contains(&said), "{}", done.err());
    }
    until_it_is(&world, " ready ");
    // Where it listened is known there already.
    let _again = login().ok();
    assert!(server.ask("GET /seen", "").contains("\"registered\": 1"));
    server.ask("POST /knobs", "{\"deny\": true}");
    let refused = login().code(3);
    assert!(
        refused
            .err()
            .contains("refused: access_denied (no <b>thanks</b>)"),
        "{}",
        refused.err()
    );
    let out = world.ctl(&["mcp", "logout", "guarded"]).run().ok();
    assert!(
        out.out().starts_with("signed out of guarded"),
        "{}",
        out.out()
    );
    until_it_is(&world, "needs sign-in");
    // The same for all at once, of which there is none now.
    let none = world.ctl(&["mcp", "logout", "--all"]).run().ok();
    assert_eq!("nobody is signed in to any server\n", none.out());
    server.ask("POST /knobs", "{\"deny\": false}");
    let _again = login().ok();
    until_it_is(&world, " ready ");
    let out = world.ctl(&["mcp", "logout", "--all"]).run().ok();
    assert!(
        out.out().starts_with("signed out of guarded"),
        "{}",
        out.out()
    );
    until_it_is(&world, "needs sign-in");
}

#[test]
fn without_a_browser_here_the_address_is_pasted() {
    let server = Guarded::start();
    let world = world(&server);
    let _daemon = world.daemon().spawn();
    until_it_is(&world, "needs sign-in");
    let mut terminal = OnTerminal::spawn(
        &world,
        &built("aishctl"),
        &["mcp", "login", "guarded", "--paste"],
    );
    terminal.wait_for("then paste the address");
    let seen = terminal.seen();
    let target = format!("http://127.0.0.1:{}", server.port);
    let url = seen
        .split_whitespace()
        .find(|it| it.starts_with(&format!("{target}/authorize?")));
    let answer = server.ask(
        &format!("GET {}", url.unwrap().strip_prefix(&target).unwrap()),
        "",
    );
    let location = answer.lines().find_map(|it| it.strip_prefix("location: "));
    terminal.key(&format!("{}\n", location.unwrap()));
    terminal.wait_for("signed in to guarded");
    assert_eq!(0, terminal.wait());
    until_it_is(&world, " ready ");
    let nothing = world
        .ctl(&["mcp", "login", "guarded", "--paste"])
        .stdin("\n")
        .run();
    assert!(
        nothing.err().contains("no address was pasted"),
        "{}",
        nothing.err()
    );
    let wrong = world
        .ctl(&["mcp", "login", "guarded", "--paste"])
        .stdin("http://127.0.0.1:1/callback?code=1&state=2\n")
        .run();
    assert!(
        wrong.err().contains("belongs to another sign-in"),
        "{}",
        wrong.err()
    );
}

/// Somebody has signed in, and the server has taken that back since: the model's next call needs a person.
struct TakenBack {
    server: Guarded,
    world: World,
    upstream: Upstream,
    _daemon: Daemon,
}

fn taken_back() -> TakenBack {
    let server = Guarded::start();
    let upstream = Upstream::start();
    let world = World::new();
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    world.write_config(&format!(
        "{}\n[mcp.servers.guarded]\nurl = \"{url}\"\n[mcp.auto_approve]\n\"guarded__*\" = true\n",
        upstream.config("fast")
    ));
    let daemon = world.daemon().spawn();
    until_it_is(&world, "needs sign-in");
    let login = world.ctl(&["mcp", "login", "guarded"]);
    let _signed_in = login.env("BROWSER", browser(&world)).run().ok();
    until_it_is(&world, " ready ");
    server.ask(
        "POST /knobs",
        "{\"expire\": true, \"refresh\": \"invalid_grant\"}",
    );
    upstream.answer(
        Answer::stream()
            .then_call(0, "a", "guarded__look", "{}")
            .finish(Some("tool_calls")),
    );
    upstream.answer(Answer::text("I have looked."));
    TakenBack {
        server,
        world,
        upstream,
        _daemon: daemon,
    }
}

impl TakenBack {
    /// A terminal with a browser behind it.
    fn terminal(&self, line: &str) -> OnTerminal {
        let browser = browser(&self.world);
        shell_on_terminal(&self.world, &format!("BROWSER='{browser}' exec {line}"))
    }

    /// The call ran, once, and the model has its result.
    fn has_looked(&self) {
        let said = self.upstream.wait_requests(2);
        let body = String::from_utf8_lossy(&said.body).into_owned();
        assert!(body.contains("done look"), "{body}");
        let seen = self.server.ask("GET /seen", "");
        assert!(seen.contains("\"calls\": 1"), "{seen}");
    }
}

#[test]
fn a_yes_to_a_sign_in_opens_the_browser_and_the_call_goes_on() {
    let scene = taken_back();
    let mut asking = scene.terminal("aishctl ask 'look around'");
    asking.wait_for("sign in to guarded?");
    asking.wait_for("[y]es, in a browser");
    scene.server.ask("POST /knobs", "{\"refresh\": \"ok\"}");
    say_until(&mut asking, "y\n", |it| it.seen().contains("/authorize?"));
    asking.wait_for("I have looked.");
    assert_eq!(0, asking.wait(), "{}", asking.seen());
    scene.has_looked();
}

#[test]
fn the_window_takes_a_yes_to_a_sign_in_too() {
    let scene = taken_back();
    let aish = built("aish").display().to_string();
    let line = format!("BROWSER='{}' exec {aish}", browser(&scene.world));
    let mut window = Screen::spawn(&scene.world, Path::new("/bin/sh"), &["-c", &line], 100, 30);
    window.wait_for("attached to");
    window.key("look around\r");
    wait_asked(&window, "c1", "sign in to guarded?");
    scene.server.ask("POST /knobs", "{\"refresh\": \"ok\"}");
    window.key("y\r");
    window.wait_for("I have looked.");
    scene.has_looked();
    window.key("\u{4}");
    assert_eq!(0, window.wait_end());
}

#[test]
fn a_no_to_a_sign_in_is_told_to_the_model() {
    let scene = taken_back();
    let mut asking = scene.terminal("aishctl ask 'look around'");
    asking.wait_for("sign in to guarded?");
    say_until(&mut asking, "n not tonight\n", OnTerminal::has_ended);
    asking.wait_for("I have looked.");
    assert_eq!(3, asking.wait(), "{}", asking.seen());
    let said = scene.upstream.wait_requests(2);
    let body = String::from_utf8_lossy(&said.body).into_owned();
    assert!(body.contains("denied by user: not tonight"), "{body}");
    assert!(scene.server.ask("GET /seen", "").contains("\"calls\": 0"));
}

#[test]
fn a_sign_in_from_elsewhere_answers_the_question_of_a_script() {
    let scene = taken_back();
    let mut asking = scene.terminal("aishctl ask 'look around'");
    asking.wait_for("sign in to guarded?");
    scene.server.ask("POST /knobs", "{\"refresh\": \"ok\"}");
    let login = scene.world.ctl(&["mcp", "login", "guarded"]);
    let _signed_in = login.env("BROWSER", browser(&scene.world)).run().ok();
    asking.wait_for("I have looked.");
    assert_eq!(0, asking.wait(), "{}", asking.seen());
    scene.has_looked();
}
