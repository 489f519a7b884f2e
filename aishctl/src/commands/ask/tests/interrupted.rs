//! `ask` that does not come to its end in one go: the daemon goes away, somebody stops it, nobody reads.

use super::*;

#[tokio::test]
async fn a_daemon_that_was_killed_is_waited_for_and_the_answer_goes_on_from_the_cursor() {
    let got = World::new()
        .ask(async |peer, _| {
            let mut link = begin(peer).await;
            delta(&mut link, 0, "half ").await;
            drop(link);
            let mut link = peer.greet().await;
            let running =
                json!({"turn": test_daemon::turn(), "item": 0, "offset": 0, "text": "half of it"});
            let since = link.attach(3, running).await;
            assert_eq!(json!({"epoch": test_daemon::epoch(), "seq": 3}), since);
            link.event(None, "replayComplete", json!({"through": 3}))
                .await;
            finish(&mut link, "half of it is done", "end", Value::Null).await;
        })
        .await;
    assert_eq!((0, "half of it is done\n"), (got.code, got.out.as_str()));
}

#[tokio::test]
async fn a_turn_that_the_restart_interrupted_is_1_and_says_what_to_type() {
    let got = World::new()
        .ask(async |peer, _| {
            let mut link = begin(peer).await;
            delta(&mut link, 0, "half of").await;
            drop(link);
            let mut link = peer.greet().await;
            link.attach(5, Value::Null).await;
            finish(&mut link, "half", "interrupted", Value::Null).await;
        })
        .await;
    assert_eq!((1, "half of\n"), (got.code, got.out.as_str()));
    assert!(got.hint.contains("aishctl retry") && got.hint.contains("aishctl continue"));
}

#[tokio::test]
async fn a_send_whose_reply_was_lost_is_the_same_question_again() {
    let got = World::new()
        .ask(async |peer, _| {
            let mut link = peer.greet().await;
            let first = link.expect("turn/send").await.params;
            drop(link);
            let mut link = peer.greet().await;
            assert_eq!(first, link.sent(2, 0).await);
            link.attach(3, Value::Null).await;
            finish(&mut link, "once", "end", Value::Null).await;
        })
        .await;
    assert_eq!((0, "once\n"), (got.code, got.out.as_str()));
}

#[tokio::test]
async fn a_daemon_that_goes_when_it_has_the_question_is_waited_for() {
    let got = World::new()
        .ask(async |peer, _| {
            let mut link = peer.greet().await;
            link.sent(2, 0).await;
            // Nobody answers what would have been attached to.
            drop(link);
            let mut link = peer.greet().await;
            link.attach(3, Value::Null).await;
            finish(&mut link, "all of it", "end", Value::Null).await;
        })
        .await;
    assert_eq!((0, "all of it\n"), (got.code, got.out.as_str()));
}

#[tokio::test]
async fn a_cursor_that_means_nothing_is_settled_by_the_record() {
    let got = World::new()
        .ask(async |peer, _| {
            let mut link = begin(peer).await;
            delta(&mut link, 0, "all").await;
            link.event(None, "resyncRequired", json!({"reason": "restored"})).await;
            link.event(None, "replayComplete", json!({"through": 0})).await;
            let call = link.expect("turn/get").await;
            let record = json!({"turn": test_daemon::turn(), "conversation": test_daemon::conversation(), "status": "finished", "seq": 2, "stopReason": "end",
                "text": "all of it", "model": "fast", "usage": null, "error": null, "finishedAt": null});
            link.reply(&call, record).await;
        })
        .await;
    assert_eq!((0, "all of it\n"), (got.code, got.out.as_str()));
}

#[tokio::test]
async fn ctrl_c_cancels_prints_what_came_and_exits_130() {
    let world = World::new();
    let shown = world.shown.clone();
    let got = world
        .ask(async |peer, press| {
            let mut link = begin(peer).await;
            delta(&mut link, 0, "some").await;
            shown.notified().await;
            press.send(TerminalSignal::Interrupt).await.unwrap();
            let call = link.expect("turn/cancel").await;
            link.reply(&call, json!({"cancelled": true})).await;
            finish(&mut link, "some more", "cancelled", Value::Null).await;
        })
        .await;
    assert_eq!((130, "some more\n"), (got.code, got.out.as_str()));
}

#[tokio::test]
async fn a_second_ctrl_c_does_not_wait_for_the_daemon() {
    let got = World::new()
        .ask(async |peer, press| {
            let mut link = begin(peer).await;
            press.send(TerminalSignal::Interrupt).await.unwrap();
            link.expect("turn/cancel").await;
            press.send(TerminalSignal::Interrupt).await.unwrap();
            link.expect_end().await;
        })
        .await;
    assert_eq!(130, got.code);
}

#[tokio::test]
async fn sigterm_cancels_and_exits_143() {
    let got = World::new()
        .ask(async |peer, press| {
            let mut link = begin(peer).await;
            press.send(TerminalSignal::Terminate).await.unwrap();
            let call = link.expect("turn/cancel").await;
            link.reply(&call, json!({"cancelled": true})).await;
            finish(&mut link, "", "cancelled", Value::Null).await;
        })
        .await;
    assert_eq!(143, got.code);
}

#[tokio::test]
async fn timeout_cancels_and_exits_124() {
    let mut world = World::new();
    world.global.timeout = Some(Duration::from_millis(30));
    let got = world
        .ask(async |peer, _| {
            let mut link = begin(peer).await;
            delta(&mut link, 0, "some").await;
            let call = link.expect("turn/cancel").await;
            link.reply(&call, json!({"cancelled": true})).await;
            finish(&mut link, "some", "cancelled", Value::Null).await;
        })
        .await;
    assert_eq!((124, "some\n"), (got.code, got.out.as_str()));
}

#[tokio::test]
async fn a_reader_that_goes_away_cancels_the_turn_and_exits_141() {
    let got = World {
        reader_takes: 4,
        ..World::new()
    }
    .ask(async |peer, _| {
        let mut link = begin(peer).await;
        delta(&mut link, 0, "line\n").await;
        delta(&mut link, 5, "more\n").await;
        let call = link.expect("turn/cancel").await;
        assert_eq!(json!(test_daemon::turn()), call.params["turn"]);
        link.reply(&call, json!({"cancelled": true})).await;
        link.expect_end().await;
    })
    .await;
    assert_eq!(
        (141, "line\n", ""),
        (got.code, got.out.as_str(), got.err.as_str())
    );
}

#[tokio::test]
async fn a_reader_that_does_not_read_does_not_hold_ctrl_c_up() {
    let world = World {
        stuck: true,
        ..World::new()
    };
    let shown = world.shown.clone();
    let got = world
        .ask(async |peer, press| {
            let mut link = begin(peer).await;
            delta(&mut link, 0, "stuck").await;
            shown.notified().await;
            press.send(TerminalSignal::Interrupt).await.unwrap();
            link.expect("turn/cancel").await;
            press.send(TerminalSignal::Interrupt).await.unwrap();
            link.expect_end().await;
        })
        .await;
    assert_eq!((130, ""), (got.code, got.out.as_str()));
}

/// The daemon may have the question by then, so its receipt is waited for; but not by who presses again.
#[tokio::test]
async fn a_hung_daemon_does_not_hold_ctrl_c_up() {
    let got = World::new()
        .ask(async |peer, press| {
            let mut link = peer.accept().await;
            for method in ["daemon/hello", "turn/send", "conversation/attach"] {
                link.expect(method).await;
            }
            press.send(TerminalSignal::Interrupt).await.unwrap();
            press.send(TerminalSignal::Interrupt).await.unwrap();
            link.expect_end().await;
        })
        .await;
    assert_eq!(130, got.code);
}

/// What was not received is not sent again, and no key is lent for it.
#[tokio::test]
async fn a_question_that_was_stopped_before_it_was_received_is_not_sent_again() {
    let got = World {
        variables: vec![("A_KEY", "a")],
        ..World::new()
    }
    .ask(async |peer, press| {
        let mut link = peer.accept().await;
        let hello = link.expect("daemon/hello").await;
        let send = link.expect("turn/send").await;
        let attach = link.expect("conversation/attach").await;
        press.send(TerminalSignal::Interrupt).await.unwrap();
        press.reserve_many(press.max_capacity()).await.unwrap();
        link.reply(&hello, test_daemon::hello(&["A_KEY"])).await;
        for call in [&send, &attach] {
            link.refuse(call, ErrorKind::NotInitialized, "hello comes first", None)
                .await;
        }
        link.expect_end().await;
    })
    .await;
    assert_eq!(130, got.code);
}

/// Nor does a hung daemon hold who has said how long.
#[tokio::test(start_paused = true)]
async fn a_hung_daemon_does_not_hold_timeout_up() {
    let mut world = World::new();
    world.global.timeout = Some(Duration::from_millis(20));
    let got = world
        .ask(async |peer, _| peer.accept().await.hang().await)
        .await;
    assert_eq!(124, got.code);
}
