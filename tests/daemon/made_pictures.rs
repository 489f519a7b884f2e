//! Pictures that a model makes: they are kept beside the answer and can be read, also by the next daemon; the model is shown
//! what it drew with the next question.

use aish_proto::event::{AnswerPictures, AssistantMessage};
use aish_proto::kept::{BlockEncoding, BlockKind, ReadResult, ReadResultParams};
use aish_testkit::{Answer, Upstream, World};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::context::{asked, log, statuses};
use crate::pictures::PNG;
use crate::tools::events;
use crate::transfer;

fn drawn(url: &str) -> Value {
    json!({"images": [{"type": "image_url", "index": 0, "image_url": {"url": url}}]})
}

fn url() -> String {
    format!("data:image/png;base64,{PNG}")
}

#[test]
fn a_model_draws_and_is_shown_what_it_drew() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    // It comes again with the whole message at the end, as some servers have it.
    upstream.answer(
        Answer::stream()
            .then_text("Here it is.")
            .then_delta(&drawn(&url()))
            .then_delta(&drawn(&url())),
    );
    let daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    asked(&client, conversation, "draw");
    let made: Vec<AnswerPictures> = events(&client, conversation);
    assert_eq!(1, made.len());
    let [block] = &made[0].blocks[..] else {
        panic!("{made:?}");
    };
    assert_eq!(
        (0, BlockKind::Image, "image/png", 71),
        (made[0].item, block.kind, &*block.mime_type, block.bytes)
    );
    drop(client);
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let read = client.done::<ReadResult>(ReadResultParams {
        conversation,
        result: block.result,
        offset: 0,
        bytes: None,
    });
    assert_eq!(Some(BlockEncoding::Base64), read.encoding);
    assert_eq!(
        BASE64_STANDARD.decode(PNG).unwrap(),
        BASE64_STANDARD.decode(read.text).unwrap()
    );

    asked(&client, conversation, "make it blue");
    let messages = upstream.wait_requests(2).json()["messages"].clone();
    let line = format!("[picture {}, 2×3]", block.result);
    let (said, question) = (&messages[2], &messages[3]);
    assert_eq!(format!("Here it is.\n\n{line}"), said["content"]);
    assert_eq!(None, said.get("images"), "{said}");
    assert_eq!(
        json!([
            {"type": "text", "text": "make it blue"},
            {"type": "image_url", "image_url": {"url": url()}},
        ]),
        question["content"]
    );
    let exported = transfer::lines(&transfer::messages(&client, conversation, false));
    assert!(exported.contains(&line), "{exported}");
    upstream.finish();
}

/// Nobody fetches what a model names; and what is no picture ends no answer.
#[test]
fn what_lies_elsewhere_is_named_and_what_is_none_is_left_out() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    upstream.answer(Answer::stream().then_delta(&json!({"content": [
        {"type": "text", "text": "Two:\n"},
        {"type": "image_url", "image_url": {"url": "https://pictures.example/1.png"}},
    ]})));
    upstream.answer(
        Answer::stream()
            .then_text("None.")
            .then_delta(&drawn("data:image/png;base64,bm90IGEgcGljdHVyZQ=="))
            .then_delta(&drawn("file:///etc/passwd"))
            .then_delta(&json!({"images": [7, null, {"image_url": 3}]})),
    );
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    asked(&client, conversation, "draw");
    asked(&client, conversation, "again");
    let said: Vec<AssistantMessage> = events(&client, conversation);
    assert_eq!(
        vec![
            "Two:\n![picture](https://pictures.example/1.png)\n",
            "None."
        ],
        said.iter().map(|it| &*it.text).collect::<Vec<_>>()
    );
    let told = statuses(&log(&client, conversation)).join("\n");
    assert!(told.contains("by its first bytes it is neither"), "{told}");
    assert!(
        told.contains("its address is none that can be shown"),
        "{told}"
    );
    let made: Vec<AnswerPictures> = events(&client, conversation);
    assert!(made.is_empty());
    upstream.finish();
}
