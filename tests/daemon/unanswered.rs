//! What never answers, a directory or a server that might have a model, holds up whoever waits for it and nobody else: it can
//! be cancelled, the daemon can be stopped, and the conversation goes on.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{fs, thread};

use aish_proto::attach::ReplayStart;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::shell::{Cancel as CancelOwn, CancelParams, Run, ShellEnding};
use aish_proto::turn::{Cancel, StopReason, TurnParams};
use aish_testkit::wait::PATIENCE;
use aish_testkit::{Answer as Said, Client, Upstream, World};

use crate::consent::{call_id, pending};
use crate::shell::{Scene, allow, ends, finished, own, run};

/// A daemon that waits for ever for the first directory that it looks at for a `cd`.
fn stalled(more: &str) -> Scene {
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&format!("{}\n{more}", upstream.config("test")));
    fs::create_dir(world.work().join("sub")).unwrap();
    let daemon = world.daemon().failpoint("cd.look=hang").spawn();
    Scene {
        upstream,
        world,
        daemon,
    }
}

/// A turn that has begun to go to a directory, as a person allowed.
fn goes_there(scene: &Scene, client: &Client) -> (ConversationId, TurnId) {
    let (conversation, turn, confirm) = scene.asked(client, "CMD: cd sub");
    let mut follow = client.attach(conversation, ReplayStart::Start);
    allow(client, &confirm);
    follow.until_kind("shellStarted");
    (conversation, turn)
}

#[test]
fn a_directory_that_does_not_answer_holds_up_only_the_commands_behind_it() {
    let scene = stalled("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let call = client.done::<Run>(own(conversation, "cd sub")).call;
    let behind = client.done::<Run>(own(conversation, "pwd"));
    assert_eq!(None, behind.seq, "it waits");
    let answered = client.wait_turn(client.ask(conversation, "and you?"));
    assert_eq!(Some(StopReason::End), answered.stop_reason);
    let params = CancelParams {
        conversation,
        call: call.clone(),
    };
    assert!(client.done::<CancelOwn>(params).cancelled);
    assert_eq!(ShellEnding::Cancelled, finished(&mut follow, &call).ending);
    let here = scene.world.work().display().to_string();
    let printed = finished(&mut follow, &behind.call).output;
    assert_eq!(here, printed.trim_end(), "nothing has moved");
    let again = run(&client, &mut follow, own(conversation, "cd sub"));
    assert_eq!(Some(0), again.exit_code, "{}", again.output);
}

#[test]
fn a_turn_that_goes_to_a_directory_that_does_not_answer_can_be_cancelled() {
    let scene = stalled("");
    let client = scene.world.person("pts/5");
    let (conversation, turn) = goes_there(&scene, &client);
    client.done::<Cancel>(TurnParams { turn });
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Cancelled), record.stop_reason);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_finished(turn);
    assert_eq!(
        ShellEnding::Cancelled,
        ends(follow.events_so_far())[0].ending
    );
    let next = client.wait_turn(client.ask(conversation, "and now?"));
    assert_eq!(Some(StopReason::End), next.stop_reason);
}

#[test]
fn a_directory_that_does_not_answer_ends_the_command_when_its_time_is_over() {
    let scene = stalled("[shell]\ntimeout = \"1s\"\n");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let end = run(&client, &mut follow, own(conversation, "cd sub"));
    assert_eq!(ShellEnding::TimedOut, end.ending);
    assert!(end.output.contains("it does not answer"), "{}", end.output);
}

#[test]
fn the_daemon_stops_while_a_directory_does_not_answer() {
    for by_turn in [false, true] {
        let scene = stalled("");
        let client = scene.world.person("pts/5");
        let conversation = if by_turn {
            goes_there(&scene, &client).0
        } else {
            let conversation = scene.conversation(&client);
            client.done::<Run>(own(conversation, "cd sub"));
            conversation
        };
        assert_eq!(0, scene.daemon.terminate());
        let _daemon = scene.world.daemon().spawn();
        let client = scene.world.person("pts/5");
        let mut follow = client.attach(conversation, ReplayStart::Start);
        let again = run(&client, &mut follow, own(conversation, "cd sub"));
        assert_eq!(Some(0), again.exit_code, "{}", again.output);
    }
}

/// A server that lists a model and is silent when that is to answer for the first time; later it is broken.
struct Silent {
    endpoint: String,
    tried: Receiver<()>,
}

impl Silent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/v1", listener.local_addr().unwrap());
        let (sender, tried) = channel();
        thread::spawn(move || {
            let mut first = Some(sender);
            for stream in listener.incoming().map_while(Result::ok) {
                answer(stream, &mut first);
            }
        });
        Self { endpoint, tried }
    }

    fn config(&self) -> String {
        format!(
            "[tools]\nbuiltin = true\n[discovery]\nservers = [{:?}]\n",
            self.endpoint
        )
    }

    fn wait_tried(&self) {
        self.tried.recv_timeout(PATIENCE).unwrap();
    }
}

fn answer(mut stream: TcpStream, first: &mut Option<Sender<()>>) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    let _headers = lines.take_while(|it| !it.is_empty()).count();
    let models = r#"{"data":[{"id":"slow"}]}"#;
    let (status, body) = match (request.starts_with("GET"), first.take()) {
        (true, kept) => {
            *first = kept;
            ("200 OK", models)
        }
        (false, Some(tried)) => {
            tried.send(()).unwrap();
            // Until whoever asked has gone.
            thread::spawn(move || stream.read_to_end(&mut vec![]));
            return;
        }
        (false, None) => ("500 Internal Server Error", "{}"),
    };
    let length = body.len();
    let _gone = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
}

#[track_caller]
fn check_cancel(client: &Client, conversation: ConversationId, turn: TurnId) {
    assert!(client.done::<Cancel>(TurnParams { turn }).cancelled);
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Cancelled), record.stop_reason);
    let next = client.wait_turn(client.ask(conversation, "and now?"));
    assert_eq!(Some(StopReason::End), next.stop_reason, "{next:?}");
}

#[test]
fn a_turn_is_cancelled_while_a_local_model_is_looked_for() {
    let (silent, world) = (Silent::start(), World::new());
    world.write_config(&silent.config());
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let turn = client.ask(conversation, "anybody?");
    silent.wait_tried();
    check_cancel(&client, conversation, turn);
}

/// As above, of a turn that waited for a person while its daemon was killed.
#[test]
fn a_turn_of_another_daemon_is_cancelled_while_its_local_model_is_looked_for() {
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&format!(
        "[tools]\nbuiltin = true\n[discovery]\nservers = [{:?}]\n",
        upstream.endpoint()
    ));
    upstream.answer(Said::stream().then_call(0, &call_id(), "aish__time", "{}"));
    let daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let turn = client.ask(conversation, "what time is it?");
    pending(&client, conversation);
    daemon.kill9();
    let silent = Silent::start();
    world.write_config(&silent.config());
    let daemon = world.daemon().spawn();
    let client = world.client();
    let confirm = pending(&client, conversation);
    allow(&client, &confirm);
    silent.wait_tried();
    check_cancel(&client, conversation, turn);
    assert_eq!(0, daemon.terminate());
}
