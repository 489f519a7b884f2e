//! What a child can connect to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use aishd_process::contained::{ContainedNetwork, Containment};
use aishd_process::spec::ChildExit;

use crate::Test;
use crate::place::{Place, Ran, USERS, runtime};

pub(crate) const TESTS: &[Test] = &[
    ("the_loopback_within_is_up_and_is_not_ours", own_loopback),
    ("the_listener_that_was_handed_out_is_the_only_way", listener),
    (
        "a_socket_that_was_bound_by_a_relative_path_is_masked",
        relative_socket,
    ),
];

const PYTHON: &str = "/usr/bin/python3";

pub(crate) fn has_python() -> bool {
    let there = std::path::Path::new(PYTHON).exists();
    if !there {
        println!("SKIPPED: {PYTHON} is not installed");
    }
    there
}

fn own_loopback() {
    if !has_python() {
        return;
    }
    const WITHIN: &str = r#"/usr/bin/python3 -c '
import socket, sys
for family, address in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
    s = socket.socket(family)
    try:
        s.bind((address, 0))
    except OSError as e:
        if family == socket.AF_INET: raise
        continue
    s.listen()
    c = socket.create_connection(s.getsockname()[:2])
    a, _ = s.accept()
    c.sendall(b"x")
    assert a.recv(1) == b"x"
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])))
except OSError as e:
    print(e.strerror)
print([name for _, name in socket.if_nameindex()])
' "$PORT""#;
    for user in USERS {
        let outside = TcpListener::bind("127.0.0.1:0").unwrap();
        outside.set_nonblocking(true).unwrap();
        let mut place = Place::new(user);
        let port = outside.local_addr().unwrap().port().to_string();
        place.env.insert("PORT".to_owned(), port);
        let seen = place.well(WITHIN, Containment::default());
        let mut lines = seen.lines();
        assert_eq!(Some("Connection refused"), lines.next(), "{seen}");
        let devices = lines.next().unwrap_or_default();
        assert!(
            !devices.contains("eth") && devices.contains("lo"),
            "{devices}"
        );
        assert!(outside.accept().is_err());
    }
}

fn listener() {
    if !has_python() {
        return;
    }
    const ASK: &str = r#"/usr/bin/python3 -c '
import socket
s = socket.create_connection(("127.0.0.1", 4711))
s.sendall(b"CONNECT")
print(s.recv(100).decode())
try:
    socket.create_connection(("127.0.0.1", 4712))
except OSError as e:
    print(e.strerror)
'"#;
    for user in USERS {
        let place = Place::new(user);
        let contained = Containment {
            network: ContainedNetwork::Listener { port: 4711 },
            ..Containment::default()
        };
        let ran = runtime().block_on(async {
            let spec = place.sh(ASK, Some(contained));
            let mut child = place.children().spawn(&spec).await.unwrap();
            let listener = child.take_listener().unwrap();
            assert!(child.take_listener().is_none());
            assert_eq!(4711, listener.local_addr().unwrap().port());
            let proxy = std::thread::spawn(move || {
                let (mut connection, from) = listener.accept().unwrap();
                assert!(from.ip().is_loopback());
                let mut asked = [0; 7];
                connection.read_exact(&mut asked).unwrap();
                connection.write_all(b"as you like").unwrap();
                asked
            });
            let output = child.output(1 << 10).await.unwrap();
            assert_eq!(b"CONNECT", &proxy.join().unwrap());
            Ran {
                output: String::from_utf8(output.bytes).unwrap(),
                exit: output.exit,
            }
        });
        assert_eq!(ChildExit::Code(0), ran.exit, "{user:?}: {}", ran.output);
        assert_eq!("as you like\nConnection refused\n", ran.output);
    }
}

/// The kernel lists its name as it was written; whoever bound it is still there.
fn relative_socket() {
    if !has_python() {
        return;
    }
    const BIND: &str = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('relative'); s.listen(); print('bound', flush=True); sys.stdin.read()";
    const CONNECT: &str = "/usr/bin/python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ[\"OUT\"] + \"/relative\")'";
    let place = Place::new(USERS[0]);
    let mut bound = Command::new(PYTHON)
        .args(["-c", BIND])
        .current_dir(place.path("outside"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(bound.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert_eq!("bound\n", line);
    let outside = place.try_run(&place.sh(CONNECT, None)).unwrap();
    assert_eq!(ChildExit::Code(0), outside.exit, "{}", outside.output);
    let within = place.run(CONNECT, Containment::default());
    assert_ne!(ChildExit::Code(0), within.exit);
    let is_hidden = ["refused", "Permission"]
        .iter()
        .any(|it| within.output.contains(it));
    assert!(is_hidden, "{}", within.output);
    drop(bound.stdin.take());
    bound.wait().unwrap();
}
