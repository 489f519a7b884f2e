//! Places for clients: those of people are not taken by programs that the daemon started, which can do next to nothing.

use aish_proto::attach::Since;
use aish_proto::daemon::Ping;
use aish_proto::method::Empty;
use aish_proto::shell::Run;
use aish_testkit::World;

use crate::shell::own;

/// Takes every place that it gets and keeps it, and says what it was told.
const GREEDY: &str = r#"
import json, os, socket, sys, time

def say(connection, method):
    line = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    try:
        connection.sendall((json.dumps(line) + "\n").encode())
        answer = json.loads(connection.makefile().readline())
    except (OSError, ValueError):
        return "closed"
    return answer["error"]["message"] if "error" in answer else "served"

# It cuts itself off from whoever started it.
if os.fork():
    os._exit(0)
os.setsid()
kept, said = [], []
for _ in range(20):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    said.append(say(connection, "daemon/ping"))
    kept.append(connection)
print("served", said.count("served"), flush=True)
print(say(kept[0], "conversation/list"), flush=True)
print(said[-1], flush=True)
print("end", flush=True)
time.sleep(600)
"#;

#[test]
fn what_the_daemon_started_takes_no_persons_place_and_reads_nothing() {
    let world = World::new();
    world.write_config("[limits]\nmax_clients = 3\n");
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut follow = client.attach(conversation, Since::Start);
    world.write("greedy.py", GREEDY);
    let (script, socket) = (world.path("greedy.py"), world.socket());
    let command = format!(
        "python3 {} {}; sleep 600",
        script.display(),
        socket.display()
    );
    client.done::<Run>(own(conversation, &command));
    let mut said = String::new();
    while !said.contains("end\n") {
        let output = follow.until_kind("shellOutput");
        said.push_str(output.data["text"].as_str().unwrap());
    }
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(
        [
            "served 8",
            "conversation/list is not for processes that the daemon started",
            "8 programs that the daemon started are connected already",
        ],
        said[..3]
    );
    // Beside them there is room for as many people as ever.
    let others = [(); 2].map(|()| world.client());
    for other in &others {
        other.done::<Ping>(Empty {});
    }
}
