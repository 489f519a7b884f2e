//! What is no text in a tool's result: a line for the model, the bytes for people, over a restart and in a fork,
//! as long as there is the conversation.

use aish_proto::conversation::{
    ConversationDeleteParams, ConversationParams, Delete, Fork, ForkParams, StatusOf,
};
use aish_proto::event::ToolResult;
use aish_proto::id::{ConversationId, ResultId};
use aish_proto::kept::{
    BlockEncoding, BlockKind, KeptBlock, ReadResult, ReadResultParams, ReadResultResult,
};
use aish_testkit::Client;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::forms::{Scene, told, words};
use crate::tools::events;

/// As many bytes as each read asks for: less than the picture has.
const STEP: u64 = 1000;

fn part(conversation: ConversationId, result: ResultId, offset: u64) -> ReadResultParams {
    ReadResultParams {
        conversation,
        result,
        offset,
        bytes: Some(STEP),
    }
}

/// Reads it piece by piece.
fn whole(client: &Client, conversation: ConversationId, block: &KeptBlock) -> Vec<u8> {
    let mut bytes = vec![];
    while (bytes.len() as u64) < block.bytes {
        let from = bytes.len() as u64;
        let read: ReadResultResult =
            client.done::<ReadResult>(part(conversation, block.result, from));
        assert_eq!((from, block.bytes), (read.offset, read.bytes));
        assert_eq!(Some(&block.mime_type), read.mime_type.as_ref());
        match read.encoding {
            Some(BlockEncoding::Base64) => bytes.extend(BASE64_STANDARD.decode(read.text).unwrap()),
            None => bytes.extend(read.text.into_bytes()),
        }
    }
    bytes
}

fn result_of(client: &Client, conversation: ConversationId, tool: &str) -> ToolResult {
    let results = events::<ToolResult>(client, conversation);
    results.into_iter().find(|it| it.name == tool).unwrap()
}

/// The lines that tell of kept blocks.
fn remarks(client: &Client, conversation: ConversationId) -> usize {
    let words = words(client, conversation);
    words
        .iter()
        .filter(|it| it.contains("aishctl result"))
        .count()
}

/// Resources that are in the result itself, one a text and one not.
#[track_caller]
fn the_model_reads_what_is_text(scene: &Scene, client: &Client, conversation: ConversationId) {
    let reference = |kind: &str| json!({"resourceType": kind, "resourceId": 2});
    for (kind, is_text) in [("Text", true), ("Blob", false)] {
        scene.model_calls(&[("f__get-resource-reference", reference(kind))]);
        client.wait_turn(client.ask(conversation, "and this"));
        let results = events::<ToolResult>(client, conversation);
        let result = results.last().unwrap();
        assert_eq!(1, result.blocks.len(), "{result:?}");
        let resource = &result.blocks[0];
        assert_eq!(BlockKind::Resource, resource.kind);
        assert!(
            resource
                .uri
                .as_ref()
                .unwrap()
                .starts_with("demo://resource/")
        );
        let said = String::from_utf8(whole(client, conversation, resource)).unwrap();
        assert!(said.starts_with("Resource 2: "), "{said}");
        // The model can read on in what is text.
        let arguments = json!({"result": resource.result.to_string()});
        scene.model_calls(&[("aish__read_result", arguments)]);
        client.wait_turn(client.ask(conversation, "read it"));
        let read = events::<ToolResult>(client, conversation).pop().unwrap();
        assert_eq!(is_text, read.ok, "{read:?}");
        let expected = if is_text {
            &*said
        } else {
            "which is no text; the user can save it"
        };
        assert!(read.content.contains(expected), "{read:?}");
    }
}

#[test]
fn what_a_real_server_sends_besides_text_is_kept() {
    let Some(mut scene) = Scene::everything("") else {
        return;
    };
    let client = scene.world.client();
    let calls: [(&str, Value); 3] = [
        ("f__get-tiny-image", json!({})),
        (
            "f__get-annotated-message",
            json!({"messageType": "success", "includeImage": true}),
        ),
        ("f__get-resource-links", json!({"count": 2})),
    ];
    scene.model_calls(&calls);
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "show me"));
    let image = result_of(&client, conversation, "f__get-tiny-image");
    assert_eq!(1, image.blocks.len(), "{image:?}");
    let picture = &image.blocks[0];
    assert_eq!(
        (BlockKind::Image, "image/png"),
        (picture.kind, &*picture.mime_type)
    );
    let line = format!("KiB] kept as {}\n", picture.result);
    assert!(
        image.content.contains("\n[image image/png ") && image.content.contains(&line),
        "{}",
        image.content
    );
    let bytes = whole(&client, conversation, picture);
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.len() as u64 > STEP);
    let annotated = result_of(&client, conversation, "f__get-annotated-message");
    assert_eq!(bytes, whole(&client, conversation, &annotated.blocks[0]));
    let links = result_of(&client, conversation, "f__get-resource-links");
    for link in &links.blocks {
        let block: Value = serde_json::from_slice(&whole(&client, conversation, link)).unwrap();
        assert_eq!("resource_link", block["type"]);
        assert_eq!(link.uri.as_deref(), block["uri"].as_str());
        assert_eq!(BlockKind::Link, link.kind);
    }
    assert_eq!(2, links.blocks.len());
    // The model has read the lines, and is shown the pictures behind them.
    let heard = told(&scene);
    assert_eq!(3, heard.len());
    let digits = &BASE64_STANDARD.encode(&bytes)[..40];
    assert!(heard.contains(&image.content) && !heard.concat().contains(digits));
    let request = scene.upstream.requests().pop().unwrap();
    let sent = String::from_utf8(request.body).unwrap();
    let url = format!("data:image/png;base64,{digits}");
    assert_eq!(2, sent.matches(&url).count());
    assert_eq!(1, remarks(&client, conversation));

    // A killed daemon has all of it again, and says nothing twice.
    scene.daemon.take().unwrap().kill9();
    scene.daemon = Some(scene.world.daemon().spawn());
    scene.connected();
    let client = scene.world.client();
    assert_eq!(bytes, whole(&client, conversation, picture));
    the_model_reads_what_is_text(&scene, &client, conversation);
    assert_eq!(1, remarks(&client, conversation));
    scene.upstream.finish();
}

#[test]
fn a_block_belongs_to_its_conversation() {
    let Some(scene) = Scene::everything("") else {
        return;
    };
    let client = scene.world.client();
    scene.model_calls(&[("f__get-tiny-image", json!({}))]);
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "show me"));
    let picture = result_of(&client, conversation, "f__get-tiny-image")
        .blocks
        .remove(0);
    let bytes = whole(&client, conversation, &picture);
    let is_gone = |conversation| {
        let refused = client.refused::<ReadResult>(part(conversation, picture.result, 0));
        assert_eq!("notFound", refused.kind(), "{refused:?}");
    };
    is_gone(client.create());
    // Beyond its end there is nothing, and no error.
    let read = client.done::<ReadResult>(part(conversation, picture.result, 1 << 40));
    assert_eq!(("", picture.bytes), (&*read.text, read.offset));
    let fork = client.done::<Fork>(ForkParams {
        id: conversation,
        at_seq: None,
    });
    let delete = |id| {
        let title = client.done::<StatusOf>(ConversationParams { id }).title;
        client.done::<Delete>(ConversationDeleteParams {
            id,
            confirm_title: title,
        });
    };
    delete(conversation);
    is_gone(conversation);
    assert_eq!(bytes, whole(&client, fork.id, &picture));
    delete(fork.id);
    is_gone(fork.id);
    scene.upstream.finish();
}
