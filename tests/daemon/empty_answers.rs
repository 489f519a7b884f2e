//! A server that answers with nothing, whatever it calls that: each question gets a failure of its kind, and nothing in
//! the daemon falls over.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use aish_proto::attach::ReplayStart;
use aish_proto::event::Status;
use aish_proto::model::{Probe, ProbeParams};
use aish_proto::turn::{FailureClass, StopReason};
use aish_testkit::{Answer, Upstream, World};

use crate::context::asked;

/// Bodies with nothing in them, under any status and type.
fn nothings() -> Vec<Answer> {
    let kinds = ["text/event-stream", "application/json", "text/html", ""];
    let mut all = vec![];
    for code in [200, 201, 202, 204] {
        for kind in kinds {
            all.push(Answer::status(code, "").header("content-type", kind));
        }
    }
    for space in ["\n", " \r\n\r\n ", "\u{feff}", "\u{feff}\n"] {
        all.push(Answer::status(200, space));
    }
    all
}

#[test]
fn a_question_that_is_answered_with_nothing_says_so() {
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&upstream.config("test"));
    let daemon = world.daemon().spawn();
    let client = world.client();
    for answer in nothings() {
        let shown = format!("{answer:?}");
        upstream.answer(answer);
        let record = client.wait_turn(client.ask(client.create(), "hello"));
        let error = record.error.unwrap();
        assert_eq!(
            (
                Some(StopReason::Upstream),
                FailureClass::Rejected,
                "api: the server sent nothing"
            ),
            (record.stop_reason, error.class, error.message.as_str()),
            "{shown}"
        );
    }
    let log = daemon.log_text();
    assert!(
        !log.contains("panic") && !log.contains("internal error"),
        "{log}"
    );
}

/// A server that has nothing to say to anything.
fn deaf() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            drop(stream.read(&mut head));
            drop(stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"));
        }
    });
    address
}

/// The others who read what a server says: the list of models, and who sums up.
#[test]
fn lists_and_summaries_of_nothing_are_failures_too() {
    let (talker, summarizer, world) = (Upstream::start(), Upstream::start(), World::new());
    let deaf = deaf();
    world.write_config(&format!(
        "default_model = \"talk\"\n{}\n{}\n[models.deaf]\nendpoint = \"http://{deaf}\"\nmodel = \"m\"\n[context]\nmax_turns = 3\nsummarize_on_evict = true\n",
        talker.preset("talk", ""),
        summarizer.preset("fast", ""),
    ));
    summarizer.answer_with(|_request| Answer::status(200, ""));
    let daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Start);
    for text in ["one", "two", "three", "four"] {
        asked(&client, conversation, text);
    }
    let told = follow.until(|it| {
        it.read::<Status>()
            .is_some_and(|it| it.text.contains("without a summary"))
    });
    let told = told.read::<Status>().unwrap().text;
    assert!(told.contains("the server sent nothing"), "{told}");
    let servers = client.done::<Probe>(ProbeParams::default()).servers;
    let deaf = servers
        .iter()
        .find(|it| it.preset.as_deref() == Some("deaf"));
    assert_eq!(
        Some("api: the server sent nothing"),
        deaf.and_then(|it| it.error.as_deref())
    );
    let log = daemon.log_text();
    assert!(
        !log.contains("panic") && !log.contains("internal error"),
        "{log}"
    );
}
