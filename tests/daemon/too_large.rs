//! What does not fit into a line of the wire is refused as that.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use aish_proto::mcp::{List, ReadResource, ReadResourceParams, ServerState};
use aish_proto::method::Empty;
use aish_testkit::wait::until_true;
use aish_testkit::{Upstream, World, repository};

#[test]
fn an_answer_that_no_line_can_hold_is_refused_and_the_connection_lives() {
    let script = repository::top().join("tests/data/mcp/http_server.py");
    let server = Command::new("python3")
        .arg(script)
        .args(["modern", "0"])
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut server) = server else {
        eprintln!("skipped: there is no python3");
        return;
    };
    let mut port = String::new();
    let said = server.stdout.take().unwrap();
    BufReader::new(said).read_line(&mut port).unwrap();
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&format!(
        "{}\n[mcp.servers.n]\nurl = \"http://127.0.0.1:{}/mcp\"\n",
        upstream.config("test"),
        port.trim()
    ));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    until_true("the server is ready", || {
        let servers = client.done::<List>(Empty {}).servers;
        servers.iter().any(|it| it.state == ServerState::Ready)
    });
    let read = |uri: &str| ReadResourceParams {
        alias: "n".to_owned(),
        uri: uri.to_owned(),
    };
    let refused = client.refused::<ReadResource>(read("note://huge"));
    assert_eq!("tooLarge", refused.kind());
    let small = client.done::<ReadResource>(read("note://1"));
    assert_eq!(1, small.contents.len());
    server.kill().unwrap();
    server.wait().unwrap();
}
