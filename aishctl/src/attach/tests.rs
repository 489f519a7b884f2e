//! What a user of `attach` sees, against a daemon played line by line.

use std::time::Duration;

use aish_proto::daemon::ClientKind;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::*;
use crate::client::connect::CALL_DEADLINE;
use crate::client::daemon_link::tests::reach;
use crate::test_daemon::{self, GatewayPeer, PeerLink};

struct Seen {
    exit: Exit,
    out: String,
}

/// What has been shown so far.
struct Screen {
    out: DuplexStream,
    text: String,
}

impl Screen {
    async fn until(&mut self, text: &str) {
        while !self.text.contains(text) {
            let mut page = [0; 4096];
            let read = self.out.read(&mut page).await.unwrap();
            assert!(read > 0, "{text} never came: {}", self.text);
            self.text
                .push_str(std::str::from_utf8(&page[..read]).unwrap());
        }
    }
}

/// Attaches with a keyboard that the script types on and a screen that it reads.
async fn attach<S>(terminal: bool, script: S) -> Seen
where
    S: AsyncFnOnce(&GatewayPeer, DuplexStream, &mpsc::Sender<TerminalSignal>, &mut Screen),
{
    attach_within(CALL_DEADLINE, terminal, script).await
}

/// The same, and calls may take this long.
async fn attach_within<S>(deadline: Duration, terminal: bool, script: S) -> Seen
where
    S: AsyncFnOnce(&GatewayPeer, DuplexStream, &mpsc::Sender<TerminalSignal>, &mut Screen),
{
    let peer = GatewayPeer::new();
    let (press, signals) = ClientSignals::scripted();
    let mut reach = reach(&peer.socket);
    reach.kind = ClientKind::Line;
    reach.deadline = deadline;
    reach.around.stdin_terminal = terminal;
    let args = AttachArgs {
        conversation: Some(test_daemon::conversation().to_string()),
        pick: false,
        new: false,
        read_only: false,
        tail: 40,
    };
    let window = WindowOptions {
        reach,
        global: GlobalArgs::default(),
        args,
        look: WindowLook::default(),
        signals,
    };
    let (keyboard, stdin) = duplex(1 << 16);
    let (screen, out) = duplex(1 << 20);
    let mut screen = Screen {
        out: screen,
        text: String::new(),
    };
    let window = Box::pin(run(window, BufReader::new(stdin), out));
    let (done, ()) = tokio::join!(window, script(&peer, keyboard, &press, &mut screen));
    screen.out.read_to_string(&mut screen.text).await.unwrap();
    Seen {
        exit: done.unwrap(),
        out: screen.text,
    }
}

async fn greet(peer: &GatewayPeer, last_seq: u64) -> PeerLink {
    let mut link = peer.greet().await;
    let call = link.expect("conversation/status").await;
    link.reply(&call, test_daemon::status("t", 2)).await;
    assert_eq!(
        json!({"tail": 40}),
        link.attach(last_seq, Value::Null).await
    );
    link
}

async fn replayed(link: &mut PeerLink, through: u64) {
    link.event(None, "replayComplete", json!({"through": through}))
        .await;
}

async fn answer(link: &mut PeerLink, seq: u64, text: &str) {
    link.event(
        Some(seq),
        "assistantMessage",
        json!({"item": 0, "text": text, "complete": true, "usage": null}),
    )
    .await;
    link.event(
        Some(seq + 1),
        "turnFinished",
        json!({"stopReason": "end", "text": text, "usage": null}),
    )
    .await;
}

#[tokio::test]
async fn lines_of_a_pipe_are_asked_and_answered_before_it_leaves() {
    let seen = attach(false, async |peer, mut keyboard, _, _| {
        let mut link = greet(peer, 3).await;
        link.event(Some(3), "userMessage", json!({"text": "old question"}))
            .await;
        replayed(&mut link, 3).await;
        keyboard.write_all(b"why?\n\n").await.unwrap();
        drop(keyboard);
        let params = link.sent(4, 0).await;
        assert_eq!("why?", params["text"]);
        link.event(Some(4), "userMessage", json!({"text": "why?"}))
            .await;
        link.event(
            None,
            "textDelta",
            json!({"item": 0, "offset": 0, "text": "be"}),
        )
        .await;
        link.event(
            None,
            "textDelta",
            json!({"item": 0, "offset": 2, "text": "cause\nso"}),
        )
        .await;
        answer(&mut link, 5, "because\nso it is").await;
        link.expect_end().await;
    })
    .await;
    assert_eq!(Exit::DONE, seen.exit);
    assert_eq!(
        "[aish] attached to t (1 here: pts/3 you)\n› old question\n› why?\nbecause\nso it is\n",
        seen.out
    );
}

#[tokio::test]
async fn a_lost_daemon_is_found_again_with_what_was_missed() {
    let seen = attach(false, async |peer, mut keyboard, _, _| {
        let mut link = greet(peer, 1).await;
        replayed(&mut link, 1).await;
        keyboard.write_all(b"why?\n").await.unwrap();
        drop(keyboard);
        // The question arrived; its receipt did not.
        let first = link.expect("turn/send").await.params;
        drop(link);
        let mut link = peer.greet().await;
        let since = link.attach(4, Value::Null).await;
        assert_eq!(json!({"epoch": test_daemon::epoch(), "seq": 1}), since);
        link.event(Some(2), "userMessage", json!({"text": "why?"}))
            .await;
        answer(&mut link, 3, "a\nb").await;
        replayed(&mut link, 4).await;
        assert_eq!(first, link.sent(2, 0).await);
        link.expect_end().await;
    })
    .await;
    assert_eq!(Exit::DONE, seen.exit);
    let rows = seen.out.split_once("trying again\n").unwrap().1;
    assert_eq!("[aish] back (missed 3 lines)\n› why?\na\nb\n", rows);
}

/// A daemon that hangs takes no line with it, and the same key makes one turn of it.
#[tokio::test]
async fn a_line_that_is_not_answered_is_kept_and_sent_again_under_its_key() {
    let seen = attach_within(
        Duration::from_secs(1),
        false,
        async |peer, mut keyboard, _, screen| {
            let mut link = greet(peer, 1).await;
            replayed(&mut link, 1).await;
            keyboard.write_all(b"why?\n").await.unwrap();
            drop(keyboard);
            let first = link.expect("turn/send").await.params;
            screen
                .until("[aish] not answered yet; the line is kept\n")
                .await;
            assert_eq!(first, link.expect("turn/send").await.params);
            drop(link);
            let mut link = peer.greet().await;
            drop(link.attach(1, Value::Null).await);
            replayed(&mut link, 1).await;
            assert_eq!(first, link.sent(2, 0).await);
            answer(&mut link, 3, "because").await;
            link.expect_end().await;
        },
    )
    .await;
    assert_eq!(Exit::DONE, seen.exit);
    assert_eq!(1, seen.out.matches("not answered").count(), "{}", seen.out);
}

#[tokio::test]
async fn ctrl_c_cancels_what_runs_and_only_hints_when_nothing_does() {
    let seen = attach(true, async |peer, keyboard, press, screen| {
        let mut link = greet(peer, 1).await;
        replayed(&mut link, 1).await;
        press.send(TerminalSignal::Interrupt).await.unwrap();
        screen
            .until("Ctrl-D detaches; the conversation goes on\n")
            .await;
        link.event(
            Some(2),
            "turnStarted",
            json!({"model": "fast", "modelId": "m", "source": "configured"}),
        )
        .await;
        link.event(
            None,
            "textDelta",
            json!({"item": 0, "offset": 0, "text": "half\n"}),
        )
        .await;
        screen.until("half\n").await;
        press.send(TerminalSignal::Interrupt).await.unwrap();
        let call = link.expect("turn/cancel").await;
        assert_eq!(json!(test_daemon::turn()), call.params["turn"]);
        link.reply(&call, json!({"cancelled": true})).await;
        let finished = json!({"stopReason": "cancelled", "text": "half\n", "usage": null});
        link.event(Some(3), "turnFinished", finished).await;
        screen.until("[aish] cancelled\n").await;
        drop(keyboard);
        link.expect_end().await;
    })
    .await;
    assert_eq!(Exit::DONE, seen.exit);
}

#[tokio::test]
async fn a_colon_runs_the_command_here() {
    let seen = attach(false, async |peer, mut keyboard, _, _| {
        let mut link = greet(peer, 1).await;
        replayed(&mut link, 1).await;
        keyboard.write_all(b":queue\n").await.unwrap();
        let call = link.expect("conversation/status").await;
        link.reply(&call, test_daemon::status("t", 2)).await;
        let call = link.expect("queue/list").await;
        assert_eq!(
            json!(test_daemon::conversation()),
            call.params["conversation"]
        );
        let queue = json!([{"turn": test_daemon::turn(), "position": 1, "text": "later"}]);
        link.reply(&call, json!({"queue": queue, "held": false}))
            .await;
        keyboard.write_all(b":nonsense\n:quit\n").await.unwrap();
        link.expect_end().await;
    })
    .await;
    assert!(
        seen.out
            .contains(&format!("1  later     {}\n", test_daemon::turn())),
        "{}",
        seen.out
    );
    assert!(
        seen.out
            .contains("[aish] error: unrecognized subcommand 'nonsense'"),
        "{}",
        seen.out
    );
}

#[tokio::test]
async fn a_refused_question_is_told_and_is_the_exit_code() {
    let seen = attach(false, async |peer, mut keyboard, _, _| {
        let mut link = greet(peer, 1).await;
        replayed(&mut link, 1).await;
        keyboard.write_all(b"why?").await.unwrap();
        drop(keyboard);
        let call = link.expect("turn/send").await;
        link.refuse(
            &call,
            aish_proto::error::ErrorKind::Overloaded,
            "the queue is full",
            Some("wait"),
        )
        .await;
        link.expect_end().await;
    })
    .await;
    assert_eq!(Exit::LIMIT, seen.exit);
    assert!(
        seen.out
            .ends_with("[aish] the queue is full\n[aish] hint: wait\n"),
        "{}",
        seen.out
    );
}

#[tokio::test]
async fn a_daemon_lost_during_the_first_replay_is_attached_to_as_if_for_the_first_time() {
    let seen = attach(false, async |peer, keyboard, _, _| {
        let mut link = greet(peer, 2).await;
        link.event(Some(1), "userMessage", json!({"text": "old"}))
            .await;
        drop(link);
        let mut link = peer.greet().await;
        assert_eq!(json!({"tail": 40}), link.attach(2, Value::Null).await);
        link.event(Some(1), "userMessage", json!({"text": "old"}))
            .await;
        link.event(Some(2), "renamed", json!({"title": "new"}))
            .await;
        replayed(&mut link, 2).await;
        drop(keyboard);
        link.expect_end().await;
    })
    .await;
    let rows = seen.out.split_once("attached to t").unwrap().1;
    assert_eq!(1, rows.matches("› old").count(), "{}", seen.out);
    assert!(rows.contains("called new now"), "{}", seen.out);
}

#[tokio::test]
async fn switch_leaves_one_conversation_for_another() {
    let seen = attach(false, async |peer, mut keyboard, _, _| {
        let mut link = greet(peer, 1).await;
        replayed(&mut link, 1).await;
        keyboard.write_all(b":switch other\n").await.unwrap();
        let call = link.expect("conversation/list").await;
        let found = json!({"conversations": [test_daemon::status("other", 7)]});
        link.reply(&call, found).await;
        let call = link.expect("conversation/detach").await;
        // More than the window takes ahead: the reply must come through all the same.
        for n in 0..200 {
            let text = json!({"level": "info", "text": "x"});
            link.event(Some(2 + n), "status", text).await;
        }
        link.reply(&call, json!({})).await;
        let call = link.expect("conversation/attach").await;
        assert_eq!(test_daemon::status("other", 7)["id"], call.params["id"]);
        link.attached(&call, 1, Value::Null).await;
        replayed(&mut link, 1).await;
        drop(keyboard);
        link.expect_end().await;
    })
    .await;
    assert_eq!(2, seen.out.matches("attached to t").count(), "{}", seen.out);
}
