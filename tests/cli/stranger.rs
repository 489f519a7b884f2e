//! A socket that somebody else listens on: it hears nothing of ours.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use aish_testkit::World;

/// Accepts one client and says how much it heard.
const LISTENS: &str = r#"
use IO::Socket::UNIX;
$| = 1;
my $listener = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die;
print "ready\n";
my $client = $listener->accept;
print sysread($client, my $heard, 1), "\n";
"#;

#[test]
fn a_socket_of_another_user_gets_no_word() {
    let can = |program: &str| Path::new("/usr/bin").join(program).exists();
    if !rustix::process::geteuid().is_root() || !can("setpriv") || !can("perl") {
        println!("skipped: only root can be two users, with setpriv and perl");
        return;
    }
    let world = World::new();
    let place = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let socket = place.path().join("aishd.sock");
    let mut stranger = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--clear-groups",
            "/usr/bin/perl",
            "-e",
            LISTENS,
        ])
        .arg(&socket)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(stranger.stdout.take().unwrap()).lines();
    assert_eq!("ready", said.next().unwrap().unwrap());
    let asked = world
        .ctl(&[
            "ask",
            "--socket",
            socket.to_str().unwrap(),
            "a private question",
        ])
        .run();
    assert_eq!(6, asked.code);
    assert!(
        asked.err().contains("the daemon there is another user's"),
        "{}",
        asked.err()
    );
    assert_eq!("0", said.next().unwrap().unwrap());
    stranger.wait().unwrap();
}
