//! The socket and the lock: one daemon for one store, for one user alone.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use aish_proto::place::SOCKET_PATH_BYTES;
use aish_testkit::{World, wait};

#[test]
fn the_socket_is_for_its_owner_alone_and_goes_with_the_daemon() {
    let world = World::new();
    let daemon = world.daemon().spawn();
    let mode = |path: &std::path::Path| fs::symlink_metadata(path).unwrap().mode() & 0o777;
    assert_eq!(0o600, mode(&world.socket()));
    assert_eq!(0o700, mode(world.socket().parent().unwrap()));
    assert_eq!(0o700, mode(&world.state()));
    let open = walk(&world.state())
        .into_iter()
        .filter(|it| mode(it) & 0o077 != 0);
    assert_eq!(Vec::<std::path::PathBuf>::new(), open.collect::<Vec<_>>());
    assert_eq!(0, daemon.terminate());
    assert!(!world.socket().exists());
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

/// The second one says who is there, and changes nothing.
#[test]
fn a_second_daemon_is_refused() {
    let world = World::new();
    let daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    for _ in 0..10 {
        assert_eq!(Err(75), world.daemon().spawn_or_exit().map(|it| it.pid()));
    }
    let other_socket = world.path("run/aish/other.sock");
    let elsewhere = world
        .daemon()
        .arg("--socket")
        .arg(&other_socket)
        .spawn_or_exit();
    assert_eq!(
        Err(75),
        elsewhere.map(|it| it.pid()),
        "the store is taken, whatever the socket"
    );
    let log = world.log_text();
    assert!(log.contains(&format!("pid {}", daemon.pid())), "{log}");
    let status = aish_proto::conversation::ConversationParams { id: conversation };
    client.done::<aish_proto::conversation::StatusOf>(status);
    assert!(!other_socket.exists());
}

#[test]
fn a_dead_socket_is_replaced_and_a_live_one_never() {
    let world = World::new();
    world.daemon().spawn().kill9();
    assert!(world.socket().exists(), "kill -9 leaves it");
    let daemon = world.daemon().spawn();
    world.client().create();
    assert_eq!(0, daemon.terminate());
    let _stranger = UnixListener::bind(world.socket()).unwrap();
    assert_eq!(Err(75), world.daemon().spawn_or_exit().map(|it| it.pid()));
    assert!(world.socket().exists());
}

#[test]
fn what_is_in_the_way_is_not_removed() {
    let world = World::new();
    let directory = world.socket().parent().unwrap().to_path_buf();
    fs::create_dir_all(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(world.socket(), "precious").unwrap();
    assert_eq!(Err(1), world.daemon().spawn_or_exit().map(|it| it.pid()));
    assert_eq!("precious", fs::read_to_string(world.socket()).unwrap());
    assert!(
        world.log_text().contains("is no socket"),
        "{}",
        world.log_text()
    );
}

#[test]
fn a_directory_that_is_open_to_others_is_refused() {
    let world = World::new();
    let directory = world.socket().parent().unwrap().to_path_buf();
    fs::create_dir_all(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(Err(78), world.daemon().spawn_or_exit().map(|it| it.pid()));
    assert!(
        world.log_text().contains("must be 0700"),
        "{}",
        world.log_text()
    );
}

/// A path that no client could connect to is refused at once, and named.
#[test]
fn a_path_of_108_bytes_is_too_long() {
    let world = World::new();
    let start = world.path("run").display().to_string();
    let path = |bytes: usize| format!("{start}/{}/s", "d".repeat(bytes - start.len() - 3));
    let too_long = path(SOCKET_PATH_BYTES + 1);
    assert_eq!(108, too_long.len());
    let refused = world
        .daemon()
        .arg("--socket")
        .arg(&too_long)
        .spawn_or_exit();
    assert_eq!(Err(78), refused.map(|it| it.pid()));
    let log = world.log_text();
    assert!(
        log.contains("108 bytes long") && log.contains(&too_long),
        "{log}"
    );
    let fits = path(SOCKET_PATH_BYTES);
    let _daemon = world.daemon().arg("--socket").arg(&fits).spawn();
    aish_testkit::Client::connect(std::path::Path::new(&fits)).hello();
}

#[test]
fn a_state_directory_that_cannot_be_written_is_a_clear_error() {
    let world = World::new();
    fs::write(world.path("state/file"), "").unwrap();
    let state = world.path("state/file/below");
    let refused = world.daemon().arg("--state").arg(&state).spawn_or_exit();
    assert!(refused.is_err());
    let log = world.log_text();
    assert!(log.contains(&state.display().to_string()), "{log}");
    assert!(!world.socket().exists(), "nothing is left behind");
}

/// systemd's socket: taken over as it is, and left alone at the end.
#[test]
fn a_socket_of_the_service_manager_is_adopted() {
    let world = World::new();
    let socket = world.path("run/activated.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let daemon = world.daemon().activated(listener).spawn();
    let client = aish_testkit::Client::connect(&socket);
    client.hello();
    client.create();
    assert!(!world.socket().exists(), "it makes none of its own");
    assert_eq!(0, daemon.terminate());
    assert!(socket.exists(), "the service manager keeps it");
}

/// Clients are told, what runs gets its time and is then ended as interrupted.
#[test]
fn a_stop_is_told_and_ends_within_its_time() {
    use aish_testkit::{Answer, Upstream};
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let mut daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut follow = client.attach(conversation, aish_proto::attach::ReplayStart::Now);
    follow.until_kind("replayComplete");
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = client.ask(conversation, "for ever");
    gate.text("a beginning");
    follow.until_kind("textDelta");
    let params = aish_proto::daemon::ShutdownParams {
        if_idle: true,
        deadline_ms: None,
    };
    assert_eq!(
        "busy",
        client
            .refused::<aish_proto::daemon::Shutdown>(params)
            .kind()
    );
    let params = aish_proto::daemon::ShutdownParams {
        if_idle: false,
        deadline_ms: Some(100),
    };
    client.done::<aish_proto::daemon::Shutdown>(params);
    follow.until_kind("shutdown");
    let end = follow.until_finished(turn);
    assert_eq!("interrupted", end.data["stopReason"]);
    assert_eq!("a beginning", end.data["text"]);
    assert_eq!(0, daemon.wait_exit());
    wait::until_true("the socket goes", || !world.socket().exists());
}

/// Who is told `ready` may end it in the same moment, and it still ends in order.
#[test]
fn a_signal_right_after_ready_is_an_ordered_stop() {
    let world = World::new();
    for _ in 0..20 {
        assert_eq!(0, world.daemon().spawn().terminate());
        assert!(!world.socket().exists());
    }
}
