//! Signing in to MCP servers, against a server that wants it and its authorization server, both another's process.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use aish_proto::audit::AuditListParams;
use aish_proto::mcp::{List, McpServerStatus, ServerState};
use aish_proto::mcp_login::{
    Login, LoginCancel, LoginCancelParams, LoginFinish, LoginFinishParams, LoginFinishResult,
    LoginParams, LoginResult, Logout, LogoutParams,
};
use aish_proto::method::Empty;
use aish_proto::turn::{OnConfirm, UnattendedAction};
use aish_testkit::wait::until_true;
use aish_testkit::{Client, Daemon, RpcError, World, repository};
use serde_json::{Value, json};

use crate::audit;
use crate::lists::{call, params, result};

/// The server, as long as this lives.
pub(crate) struct Guarded {
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
    pub(crate) fn start() -> Self {
        let script = repository::top().join("tests/data/mcp/oauth_server.py");
        let mut child = Command::new("python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { child, port }
    }

    pub(crate) fn config(&self) -> String {
        format!(
            "[mcp.auto_approve]\n\"guarded__*\" = true\n[mcp.servers.guarded]\nurl = \"http://127.0.0.1:{}/mcp\"\n",
            self.port
        )
    }

    /// Status, the address that it sends on to, and the body of an answer.
    fn ask(&self, method: &str, target: &str, body: &str) -> (String, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    pub(crate) fn turn(&self, knobs: &Value) {
        self.ask("POST", "/knobs", &knobs.to_string());
    }

    pub(crate) fn seen(&self) -> Value {
        serde_json::from_str(&self.ask("GET", "/seen", "").1).unwrap()
    }

    /// What the browser of a person who agrees is sent to.
    fn browse(&self, url: &str) -> String {
        let target = url.split_once(&format!(":{}", self.port)).unwrap().1;
        let (head, _) = self.ask("GET", target, "");
        let lines = head.lines();
        let mut found = lines.filter_map(|it| it.strip_prefix("location: "));
        found.next_back().expect("a redirect").to_owned()
    }
}

pub(crate) fn world(server: &Guarded) -> World {
    let world = World::new();
    world.write_config(&server.config());
    world
}

/// A daemon with a client, and a server that somebody has to sign in to.
fn needing_sign_in() -> (Guarded, World, Daemon, Client) {
    let server = Guarded::start();
    let world = world(&server);
    let daemon = world.daemon().spawn();
    let client = world.client();
    wait_for(&client, ServerState::NeedsSignIn);
    (server, world, daemon, client)
}

fn status(client: &Client) -> McpServerStatus {
    client.done::<List>(Empty {}).servers.remove(0)
}

#[track_caller]
pub(crate) fn wait_for(client: &Client, state: ServerState) {
    until_true("the server does so", || status(client).state == state);
}

fn begin(client: &Client) -> Result<LoginResult, RpcError> {
    client.call::<Login>(LoginParams {
        alias: "guarded".to_owned(),
        redirect_uri: "http://127.0.0.1:7777/callback".to_owned(),
        scopes: None,
    })
}

fn finish(client: &Client, login: &str, answer: &str) -> Result<LoginFinishResult, RpcError> {
    client.call::<LoginFinish>(LoginFinishParams {
        login: login.to_owned(),
        answer: answer.to_owned(),
    })
}

#[track_caller]
pub(crate) fn sign_in(client: &Client, server: &Guarded) -> LoginResult {
    let begun = begin(client).unwrap();
    let finished = finish(client, &begun.login, &server.browse(&begun.url)).unwrap();
    assert_eq!(None, finished.not_connected);
    begun
}

/// What a tool answers, or why it does not.
fn ask(client: &Client, tool: &str) -> String {
    let conversation = client.create();
    let name = format!("guarded__{tool}");
    let mut run = params(conversation, &[call("1", &name, json!({}))]);
    // As a script without a person does it.
    run.on_confirm = Some(OnConfirm {
        then: UnattendedAction::Deny,
        ..OnConfirm::default()
    });
    let turn = client.done::<aish_proto::tool::Run>(run).turn;
    client.wait_turn(turn);
    result(client, conversation, "1").content
}

/// No secret that the server ever gave stands anywhere but in the one file.
#[track_caller]
fn nothing_is_told(world: &World, server: &Guarded) {
    let seen = server.seen();
    let secrets: Vec<&str> = seen["secrets"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(!secrets.is_empty());
    let backup = world.path("backup");
    let backup = backup.to_str().unwrap();
    let _kept = world.ctl(&["backup", backup]).run().ok();
    let told = world.ctl(&["audit", "--json"]).run().ok();
    let listed = world.ctl(&["mcp", "list", "--json"]).run().ok();
    let examined = world.ctl(&["doctor", "--json"]).run();
    let log = world.log_text();
    let mut texts = vec![
        ("audit".to_owned(), told.out().to_owned()),
        ("list".to_owned(), listed.out().to_owned()),
        ("doctor".to_owned(), examined.out().to_owned()),
        ("log".to_owned(), log),
    ];
    files(world.path("").as_path(), &mut |path| {
        if !path.to_string_lossy().contains("/oauth/") {
            let text = fs::read(path).unwrap_or_default();
            texts.push((
                path.display().to_string(),
                String::from_utf8_lossy(&text).into_owned(),
            ));
        }
    });
    assert!(texts.len() > 5, "{}", texts.len());
    for (place, text) in texts {
        let told = secrets.iter().find(|it| text.contains(**it));
        assert_eq!(None, told, "in {place}");
    }
}

fn files(folder: &Path, each: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&path, each),
            Ok(kind) if kind.is_file() => each(&path),
            Ok(_) | Err(_) => {}
        }
    }
}

/// The file of the sign-in.
fn record(world: &World) -> Option<std::path::PathBuf> {
    let mut found = vec![];
    files(&world.state().join("oauth"), &mut |it| {
        found.push(it.to_owned());
    });
    assert!(found.len() <= 1, "{found:?}");
    found.pop()
}

#[test]
fn a_person_signs_in_and_the_tools_work_also_after_a_restart() {
    let server = Guarded::start();
    let world = world(&server);
    let daemon = world.daemon().spawn();
    let client = world.client();
    wait_for(&client, ServerState::NeedsSignIn);
    let needed = status(&client);
    assert_eq!(Some("needs a person to sign in"), needed.why.as_deref());
    assert_eq!(Some("aishctl mcp login guarded"), needed.hint.as_deref());
    let begun = sign_in(&client, &server);
    let origin = format!("http://127.0.0.1:{}", server.port);
    assert_eq!(
        (origin.clone(), format!("{origin}/mcp")),
        (begun.issuer, begun.resource)
    );
    assert_eq!(vec!["files:read"], begun.scopes);
    assert_eq!(ServerState::Ready, status(&client).state);
    assert_eq!("done look", ask(&client, "look"));
    let standing = status(&client).sign_in.unwrap();
    assert!(standing.signed_in && standing.renews && standing.expires_at.is_some());
    let record = record(&world).unwrap();
    let mode = |it: &Path| fs::metadata(it).unwrap().mode() & 0o777;
    assert_eq!(
        (0o600, 0o700),
        (mode(&record), mode(record.parent().unwrap()))
    );
    daemon.kill9();
    drop(client);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    wait_for(&client, ServerState::Ready);
    assert_eq!("done look", ask(&client, "look"));
    assert_eq!(1, server.seen()["registered"]);
    nothing_is_told(&world, &server);
}

/// One renewal for all who wait; a second use of what is good once would end everything.
#[test]
fn a_token_that_is_over_is_renewed_once_for_all() {
    let (server, world, _daemon, client) = needing_sign_in();
    sign_in(&client, &server);
    for _ in 0..3 {
        server.turn(&json!({"expire": true}));
        let clients: Vec<Client> = (0..12).map(|_| world.client()).collect();
        std::thread::scope(|scope| {
            for client in &clients {
                scope.spawn(|| assert_eq!("done look", ask(client, "look")));
            }
        });
    }
    let seen = server.seen();
    assert_eq!((&json!(0), &json!(36)), (&seen["reused"], &seen["calls"]));
    let renewals = seen["asked"].as_array().unwrap().iter();
    assert_eq!(4, renewals.filter(|it| **it == "POST /token").count());
    // Before it is over it is renewed as well.
    server.turn(&json!({"expires_in": 1, "expire": true}));
    for _ in 0..3 {
        assert_eq!("done look", ask(&client, "look"));
    }
    assert_eq!(json!(0), server.seen()["reused"]);
    nothing_is_told(&world, &server);
}

#[test]
fn a_renewal_that_is_refused_says_what_to_do_and_one_that_fails_loses_nothing() {
    let (server, world, _daemon, client) = needing_sign_in();
    sign_in(&client, &server);
    for broken in ["busy", "page"] {
        server.turn(&json!({"expire": true, "refresh": broken}));
        let said = ask(&client, "look");
        assert!(said.contains("its sign-in cannot be renewed now"), "{said}");
        server.turn(&json!({"refresh": "ok"}));
        until_true("it goes on by itself", || {
            // Each call attaches once more.
            ask(&world.client(), "look") == "done look"
        });
    }
    server.turn(&json!({"expire": true, "refresh": "invalid_grant"}));
    let said = ask(&client, "look");
    assert!(said.contains("needs a person to sign in again"), "{said}");
    assert!(said.ends_with(": aishctl mcp login guarded"), "{said}");
    wait_for(&client, ServerState::NeedsSignIn);
    // Its tools stay offered, and a call is answered at once.
    let said = ask(&client, "look");
    assert!(said.ends_with(": aishctl mcp login guarded"), "{said}");
    let doctor = world.ctl(&["doctor"]).run();
    assert!(
        doctor.out().contains("aishctl mcp login guarded"),
        "{}",
        doctor.out()
    );
    sign_in(&client, &server);
    assert_eq!("done look", ask(&client, "look"));
    let seen = server.seen();
    assert_eq!(
        (&json!(0), &json!(1)),
        (&seen["reused"], &seen["registered"])
    );
    nothing_is_told(&world, &server);
}

#[test]
fn a_call_that_needs_more_says_so_and_runs_when_more_was_granted() {
    let (server, _world, _daemon, client) = needing_sign_in();
    sign_in(&client, &server);
    let said = ask(&client, "write");
    assert!(
        said.contains("wants more than this sign-in was granted (files:write); nothing ran"),
        "{said}"
    );
    assert_eq!("done look", ask(&client, "look"));
    assert_eq!(vec!["files:write"], status(&client).sign_in.unwrap().wanted);
    let begun = sign_in(&client, &server);
    assert_eq!(vec!["files:read", "files:write"], begun.scopes);
    assert_eq!("done write", ask(&client, "write"));
    assert!(status(&client).sign_in.unwrap().wanted.is_empty());
    assert_eq!(json!(2), server.seen()["calls"]);
}

/// Nothing is asked of a token endpoint where anything about the way there is wrong.
#[test]
fn whatever_is_wrong_on_the_way_ends_it_before_there_is_a_token() {
    let (server, world, _daemon, client) = needing_sign_in();
    let check = |knobs: Value, expected: &str| {
        server.turn(&knobs);
        let failed = match begin(&client) {
            Err(failed) => failed,
            Ok(begun) => finish(&client, &begun.login, &server.browse(&begun.url)).unwrap_err(),
        };
        assert!(
            failed.message.contains(expected),
            "{knobs}: {}",
            failed.message
        );
        assert!(
            !failed.message.contains("evil.example/"),
            "{}",
            failed.message
        );
        let right = json!({"issuer": "right", "iss": "right", "pkce": true, "deny": false, "resource": "right",
            "registration": true, "metadata": "right"});
        server.turn(&right);
    };
    check(
        json!({"issuer": "wrong"}),
        "it is about https://evil.example",
    );
    check(json!({"pkce": false}), "it does not list PKCE with S256");
    check(json!({"resource": "wrong"}), "/other, and not about");
    check(
        json!({"registration": false}),
        "registers no clients by itself",
    );
    check(json!({"metadata": "huge"}), "longer than 64 KiB");
    check(
        json!({"metadata": "elsewhere"}),
        "redirects, which is not followed",
    );
    check(json!({"metadata": "page"}), "it is no object of JSON");
    check(
        json!({"metadata": "inside"}),
        "http://10.0.0.1/token is not https",
    );
    check(json!({"iss": "wrong"}), "the answer is not from");
    check(
        json!({"iss": "none"}),
        "the answer does not say who it is from",
    );
    check(
        json!({"iss": "wrong", "deny": true}),
        "the answer is not from",
    );
    check(
        json!({"deny": true}),
        "refused: access_denied (no <b>thanks</b>)",
    );
    // A stray answer changes nothing, and a right one counts once.
    let begun = begin(&client).unwrap();
    let answer = server.browse(&begun.url);
    let stray = finish(&client, &begun.login, "code=x&state=x").unwrap_err();
    assert!(
        stray.message.contains("belongs to another sign-in"),
        "{}",
        stray.message
    );
    let asked = server.seen()["asked"].as_array().unwrap().clone();
    assert!(!asked.contains(&json!("POST /token")), "{asked:?}");
    assert_eq!(None, record(&world));
    finish(&client, &begun.login, &answer).unwrap();
    let again = finish(&client, &begun.login, &answer).unwrap_err();
    assert!(
        again.message.contains("no such sign-in"),
        "{}",
        again.message
    );
    // The first of two that are begun is over, and so is one that was given up.
    let (first, second) = (begin(&client).unwrap(), begin(&client).unwrap());
    finish(&client, &first.login, &server.browse(&first.url)).unwrap_err();
    client.done::<LoginCancel>(LoginCancelParams {
        login: second.login.clone(),
    });
    finish(&client, &second.login, &server.browse(&second.url)).unwrap_err();
    assert_eq!("done look", ask(&client, "look"));
    nothing_is_told(&world, &server);
}

#[test]
fn signing_out_takes_the_tokens_back() {
    let (server, world, _daemon, client) = needing_sign_in();
    sign_in(&client, &server);
    let out = |forget| {
        client.done::<Logout>(LogoutParams {
            alias: "guarded".to_owned(),
            forget,
        })
    };
    assert!(out(false).remarks.is_empty());
    assert_eq!(2, server.seen()["revoked"].as_array().unwrap().len());
    wait_for(&client, ServerState::NeedsSignIn);
    let kept = fs::read_to_string(record(&world).unwrap()).unwrap();
    assert!(
        !kept.contains("access-") && !kept.contains("refresh-"),
        "{kept}"
    );
    sign_in(&client, &server);
    assert_eq!(json!(1), server.seen()["registered"]);
    out(true);
    assert_eq!(None, record(&world));
    sign_in(&client, &server);
    assert_eq!(json!(2), server.seen()["registered"]);
    nothing_is_told(&world, &server);
}

/// The end of the daemon at any point of a renewal: what was on disk counts, and what is lost is said to be.
#[test]
fn a_kill_in_a_renewal_leaves_a_whole_record() {
    for point in ["signin.renewed", "private_file.before_rename"] {
        let server = Guarded::start();
        let world = world(&server);
        // The first that is kept is the sign-in itself.
        let nth = if point == "signin.renewed" { 1 } else { 2 };
        let mut daemon = world
            .daemon()
            .failpoint(&format!("{point}=kill@{nth}"))
            .spawn();
        let client = world.client();
        wait_for(&client, ServerState::NeedsSignIn);
        sign_in(&client, &server);
        server.turn(&json!({"expire": true}));
        let conversation = client.create();
        let run = params(conversation, &[call("1", "guarded__look", json!({}))]);
        client.send::<aish_proto::tool::Run>(run);
        daemon.wait_exit();
        drop(client);
        let _daemon = world.daemon().spawn();
        let client = world.client();
        // The server gave the new one to nobody, and takes the old one for stolen.
        wait_for(&client, ServerState::NeedsSignIn);
        let why = status(&client).why.unwrap();
        assert!(
            why.contains("needs a person to sign in again"),
            "{point}: {why}"
        );
        sign_in(&client, &server);
        assert_eq!("done look", ask(&client, "look"));
        let left: Vec<_> = fs::read_dir(world.state().join("oauth")).unwrap().collect();
        assert_eq!(1, left.len(), "{point}");
    }
}

/// The word of a person for PKCE counts as well where a server is older than metadata of resources.
#[test]
fn pkce_that_nobody_lists_is_assumed_where_a_person_says_so() {
    let check = |key: &str, expected: Option<&str>| {
        let server = Guarded::start();
        server.turn(&json!({"resource_metadata": false, "pkce": false}));
        let world = World::new();
        world.write_config(&format!("{}{key}", server.config()));
        let _daemon = world.daemon().spawn();
        let client = world.client();
        wait_for(&client, ServerState::NeedsSignIn);
        match (begin(&client), expected) {
            (Ok(begun), None) => {
                let answer = server.browse(&begun.url);
                let finished = finish(&client, &begun.login, &answer).unwrap();
                assert_eq!(None, finished.not_connected);
            }
            (Err(failed), Some(expected)) => {
                assert!(failed.message.contains(expected), "{}", failed.message);
            }
            (begun, _) => panic!("{key}: {begun:?}"),
        }
        let asked = server.seen()["asked"].to_string();
        assert!(asked.contains("oauth-protected-resource"), "{asked}");
    };
    check("", Some("it does not list PKCE with S256"));
    check("oauth = { pkce = \"assume\" }\n", None);
}

/// Who signed in to what and out of it is told, by whom and for what; no token is.
#[test]
fn sign_ins_are_told_in_the_audit() {
    let (server, world, _daemon, client) = needing_sign_in();
    sign_in(&client, &server);
    client.done::<Logout>(LogoutParams {
        alias: "guarded".to_owned(),
        forget: false,
    });
    let told = client.done::<aish_proto::audit::List>(AuditListParams::default());
    let told = told.records.into_iter();
    let told = told.filter(|it| it.provider.as_deref() == Some("guarded") && it.by.is_some());
    let said: Vec<String> = told.filter_map(|it| it.because).collect();
    let issuer = format!("http://127.0.0.1:{}", server.port);
    assert_eq!(2, said.len(), "{said:?}");
    for word in ["signed in to", "signed out of"] {
        let expected = format!("{word}, at {issuer}, for files:read");
        assert!(said.contains(&expected), "{said:?}");
    }
    nothing_is_told(&world, &server);
}

/// Once for a failure, whatever is tried again, with the code and no token.
#[test]
fn a_renewal_that_failed_is_told_in_the_audit() {
    let (server, world, _daemon, client) = needing_sign_in();
    sign_in(&client, &server);
    let told = |client: &Client| -> Vec<String> {
        let all = audit::records(client, &AuditListParams::default()).into_iter();
        let ours = all.filter(|it| it.provider.as_deref() == Some("guarded"));
        let said = ours.filter_map(|it| it.because);
        said.filter(|it| it.starts_with("not renewed")).collect()
    };
    let issuer = format!("http://127.0.0.1:{}", server.port);
    let refused = format!("not renewed: its sign-in, at {issuer}: invalid_grant");
    server.turn(&json!({"expire": true, "refresh": "page"}));
    let asked = || server.seen()["asked"].to_string().matches("/token").count();
    // Once for the sign-in, then again and again; it is told once.
    until_true("it was tried more than once", || {
        ask(&world.client(), "look");
        asked() > 2
    });
    until_true("it is told", || told(&client).len() == 1);
    server.turn(&json!({"refresh": "ok"}));
    until_true("it goes on by itself", || {
        ask(&world.client(), "look") == "done look"
    });
    assert_eq!(1, told(&client).len());
    server.turn(&json!({"expire": true, "refresh": "invalid_grant"}));
    ask(&client, "look");
    until_true("it is told too", || told(&client).len() == 2);
    assert!(told(&client).contains(&refused), "{:?}", told(&client));
    ask(&client, "look");
    assert_eq!(2, told(&client).len());
    nothing_is_told(&world, &server);
}
