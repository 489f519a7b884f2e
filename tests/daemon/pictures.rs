//! Pictures that go along with a question: to models in each dialect, the same in every request, over a kill and an export; and
//! those that are refused.

use aish_proto::event::{AttachedPicture, ToolResult, UserMessage};
use aish_proto::id::ConversationId;
use aish_proto::turn::{Attachment, Send};
use aish_testkit::client::question;
use aish_testkit::upstream::Request;
use aish_testkit::{Answer, Client, Daemon, Upstream, World};
use serde_json::{Value, json};

use crate::consent::call_id;
use crate::context::{asked, log, preview, statuses};
use crate::profiles::is_held;
use crate::tools::events;
use crate::{files, transfer};

const APIS: [&str; 3] = ["chat", "responses", "messages"];

/// A white one of 2 by 3 pixels.
pub(crate) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAYAAAC56t6BAAAADklEQVR4nGP4DwUMGAwAQuYX6TviV+QAAAAASUVORK5CYII=";
/// Just what one begins with.
const PDF: &str = "JVBERi0xLjcK";

struct Scene {
    upstream: Upstream,
    world: World,
    daemon: Daemon,
}

impl Scene {
    fn new(api: &str, more: &str) -> Self {
        let (upstream, world) = (Upstream::start(), World::new());
        let preset = upstream.preset("test", &format!("api = \"{api}\"\n{more}"));
        world.write_config(&format!("default_model = \"test\"\n{preset}"));
        let daemon = world.daemon().spawn();
        Self {
            upstream,
            world,
            daemon,
        }
    }
}

fn attached(name: &str, base64: &str) -> Attachment {
    Attachment {
        name: name.to_owned(),
        text: Some(base64.to_owned()),
        blob: None,
        base64: true,
    }
}

/// Asks what these show.
fn asked_with(client: &Client, conversation: ConversationId, files: Vec<Attachment>) {
    let mut params = question(conversation, "what is it?");
    params.attachments = files;
    let turn = client.done::<Send>(params).turn;
    client.wait_turn(turn);
}

fn body(request: &Request) -> String {
    String::from_utf8(request.body.clone()).unwrap()
}

/// The message with the question, as the dialect has it.
fn expected(api: &str) -> Value {
    let text = "what is it?\n\n[picture a.png, 2×3]\n\n[PDF b.pdf]";
    let (png, pdf) = (
        format!("data:image/png;base64,{PNG}"),
        format!("data:application/pdf;base64,{PDF}"),
    );
    match api {
        "chat" => json!([
            {"type": "text", "text": text},
            {"type": "image_url", "image_url": {"url": png}},
            {"type": "file", "file": {"filename": "b.pdf", "file_data": pdf}},
        ]),
        "responses" => json!([
            {"type": "input_text", "text": text},
            {"type": "input_image", "detail": "auto", "image_url": png},
            {"type": "input_file", "filename": "b.pdf", "file_data": pdf},
        ]),
        _ => json!([
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}, "title": "b.pdf"},
            {"type": "text", "text": text},
        ]),
    }
}

fn shown(api: &str, request: &Request) -> Value {
    let body = request.json();
    let list = if api == "responses" {
        "input"
    } else {
        "messages"
    };
    let messages = body[list].as_array().unwrap();
    let asked = messages.iter().find(|it| it["role"] == "user").unwrap();
    let mut content = asked["content"].clone();
    // What a server is to keep is marked in another place each time.
    for part in content.as_array_mut().into_iter().flatten() {
        part.as_object_mut().unwrap().remove("cache_control");
    }
    content
}

#[test]
fn a_question_shows_pictures_in_each_dialect_and_so_does_the_next_daemon() {
    for api in APIS {
        // Without marks, so that each request begins as the one before it.
        let Scene {
            upstream,
            world,
            daemon,
        } = Scene::new(api, "cache = \"off\"");
        let client = world.client();
        let conversation = client.create();
        let files = vec![attached("a.png", PNG), attached("b.pdf", PDF)];
        asked_with(&client, conversation, files);
        let first = upstream.wait_requests(1);
        assert_eq!(expected(api), shown(api, &first), "{api}");
        let messages: Vec<UserMessage> = events(&client, conversation);
        let told: Vec<Option<AttachedPicture>> = messages[0]
            .attachments
            .iter()
            .map(|it| it.picture.clone())
            .collect();
        let picture = |media_type: &str, side: Option<(u32, u32)>, bytes| {
            Some(AttachedPicture {
                media_type: media_type.to_owned(),
                width: side.map(|it| it.0),
                height: side.map(|it| it.1),
                bytes,
                base64: None,
            })
        };
        assert_eq!(
            vec![
                picture("image/png", Some((2, 3)), 71),
                picture("application/pdf", None, 9)
            ],
            told,
            "their bytes are not sent around"
        );
        asked(&client, conversation, "and?");
        drop(client);
        daemon.kill9();
        let _daemon = world.daemon().spawn();
        let client = world.client();
        asked(&client, conversation, "and now?");
        let bodies: Vec<String> = upstream.requests().iter().map(body).collect();
        for (before, after) in bodies.iter().zip(&bodies[1..]) {
            // The list of messages ends there.
            let begun = before.rfind("}]").unwrap();
            let question = before.find("what is it?").unwrap();
            assert!(begun > question, "{api}");
            let same = before
                .bytes()
                .zip(after.bytes())
                .take_while(|(a, b)| a == b);
            let same = same.count();
            let pictures = before
                .rfind(if api == "messages" { PNG } else { PDF })
                .unwrap();
            assert!(same > pictures && same > question, "{api}: {same}");
        }
        upstream.finish();
    }
}

#[test]
fn what_is_no_picture_is_refused_and_nothing_is_kept() {
    let Scene {
        upstream,
        world,
        daemon: _daemon,
    } = Scene::new("chat", "");
    let client = world.client();
    let conversation = client.create();
    let refused = |files: Vec<Attachment>| {
        let mut params = question(conversation, "what is it?");
        params.attachments = files;
        let error = client.refused::<Send>(params);
        (error.kind().to_owned(), error.message)
    };
    let check = |data: &str, why: &str| {
        let (_, message) = refused(vec![attached("a.png", data)]);
        assert!(message.contains(why), "{message}");
    };
    check(
        "PHN2Zz4=",
        "a.png: by its first bytes it is neither a PNG, JPEG, GIF or WebP picture nor a PDF",
    );
    check("no base64!", "a.png: its base64 is broken");
    check(
        "iVBORw0KGgo=",
        "a.png: it begins as a PNG and its size cannot be read",
    );
    let many = vec![attached("a.png", PNG); 21];
    assert_eq!("tooLarge", refused(many).0);
    assert_eq!(0, upstream.requests().len());
    assert!(events::<UserMessage>(&client, conversation).is_empty());
    upstream.finish();
}

#[test]
fn a_model_that_takes_no_pictures_is_told_of_before_anything_is_sent_or_kept() {
    let (upstream, world) = (Upstream::start(), World::new());
    let blind = upstream.preset("blind", "pictures = false");
    let seeing = upstream.preset("seeing", "pictures = true");
    world.write_config(&format!("default_model = \"blind\"\n{blind}\n{seeing}"));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut params = question(conversation, "what is it?");
    params.attachments = vec![attached("a.png", PNG)];
    let error = client.refused::<Send>(params.clone());
    assert_eq!(
        "invalid params: a.png is a PNG, and the preset blind (test-model) takes no pictures; nothing was sent or kept; \
         aishctl ask -m seeing ... asks one that takes it",
        error.message
    );
    assert_eq!(0, upstream.requests().len());
    params.model = Some("seeing".to_owned());
    let turn = client.done::<Send>(params).turn;
    client.wait_turn(turn);
    assert!(body(&upstream.wait_requests(1)).contains(PNG));
    // Who is asked next is told that there was one.
    asked(&client, conversation, "and?");
    let next = body(&upstream.wait_requests(2));
    assert!(!next.contains(PNG), "{next}");
    assert!(
        next.contains("[aish] [picture a.png, 2×3] is not shown: this model takes no pictures"),
        "{next}"
    );
    upstream.finish();
}

/// A server that is not in the catalog says by itself that it takes none, once.
#[test]
fn a_server_that_refuses_pictures_is_asked_without_them() {
    let Scene {
        upstream,
        world,
        daemon: _daemon,
    } = Scene::new("chat", "");
    upstream.answer_with(|request| {
        if body(request).contains(PNG) {
            let words = json!({"error": {"message": "image input is not supported"}});
            return Answer::status(500, &words.to_string());
        }
        Answer::text("I see nothing.")
    });
    let client = world.client();
    let conversation = client.create();
    asked_with(&client, conversation, vec![attached("a.png", PNG)]);
    let second = body(&upstream.wait_requests(2));
    assert!(
        second.contains("[aish] what was here is not shown"),
        "{second}"
    );
    let told = statuses(&log(&client, conversation));
    assert!(
        told.iter()
            .any(|it| it == "test-model takes no pictures: asked again without them"),
        "{told:?}"
    );
    asked(&client, conversation, "and?");
    assert_eq!(3, upstream.requests().len(), "it is known by now");
    let mut params = question(conversation, "and this?");
    params.attachments = vec![attached("b.png", PNG)];
    assert!(
        client
            .refused::<Send>(params)
            .message
            .contains("takes no pictures")
    );
    upstream.finish();
}

/// One that a server cannot read is not sent to it again, and those that it took stay.
#[test]
fn a_picture_that_is_refused_does_not_take_the_others_along() {
    let Scene {
        upstream,
        world,
        daemon,
    } = Scene::new("messages", "");
    upstream.answer_with(|request| {
        if body(request).contains(PDF) {
            let words = json!({"type": "error", "error": {"type": "invalid_request_error",
                "message": "messages.2.content.1: Could not process PDF"}});
            return Answer::status(400, &words.to_string());
        }
        Answer::text("I see.")
    });
    let client = world.client();
    let conversation = client.create();
    asked_with(&client, conversation, vec![attached("a.png", PNG)]);
    asked_with(&client, conversation, vec![attached("b.pdf", PDF)]);
    let cured = body(&upstream.wait_requests(3));
    assert!(cured.contains(PNG) && !cured.contains(PDF), "{cured}");
    let told = statuses(&log(&client, conversation));
    assert!(
        told.iter()
            .any(|it| it.contains("refused a picture: asked again without it")),
        "{told:?}"
    );
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    let client = world.client();
    asked(&client, conversation, "and?");
    let requests = upstream.requests();
    let last = body(requests.last().unwrap());
    assert_eq!(4, requests.len(), "it is known by now");
    assert!(
        last.contains(PNG)
            && last.contains("b.pdf] is not shown: the server of this model refused it"),
        "{last}"
    );
    let mut params = question(conversation, "and this?");
    params.attachments = vec![attached("again.pdf", PDF)];
    let refused = client.refused::<Send>(params);
    assert!(
        refused
            .message
            .contains("has refused the picture again.pdf before"),
        "{}",
        refused.message
    );
    upstream.finish();
}

/// Anthropic takes no picture of more pixels: it is said before anything is sent.
#[test]
fn a_picture_of_too_many_pixels_is_refused_with_what_makes_it_fit() {
    let Scene {
        upstream,
        world,
        daemon: _daemon,
    } = Scene::new("messages", "");
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    png.extend([9_000_u32, 10].iter().flat_map(|it| it.to_be_bytes()));
    png.extend(b"\x08\x02\0\0\0");
    std::fs::write(world.work().join("wide.png"), &png).unwrap();
    let refused = world.ctl(&["ask", "-f", "wide.png", "what is it?"]).run();
    let told = refused.err();
    assert!(told.contains("wide.png has 9000×10 pixels"), "{told}");
    assert!(
        told.contains("magick PICTURE -resize '8000x8000>' SMALLER"),
        "{told}"
    );
    assert!(upstream.requests().is_empty());
    upstream.finish();
}

/// A picture is not counted as the text that it is sent as.
#[test]
fn a_picture_counts_as_what_a_model_reads_of_it() {
    let Scene {
        upstream,
        world,
        daemon: _daemon,
    } = Scene::new("chat", "context_tokens = 8000");
    let client = world.client();
    let conversation = client.create();
    // 400,000 bytes behind the end of the picture, which nobody looks at.
    let padded = format!("{}{}", PNG.trim_end_matches('='), "AAAA".repeat(100_000));
    let padded = &padded[..padded.len() / 4 * 4];
    asked_with(&client, conversation, vec![attached("a.png", padded)]);
    assert!(upstream.wait_requests(1).body.len() > 400_000);
    let after = preview(&client, conversation, None).tokens.total;
    assert!(after < 2_000, "{after}");
    upstream.finish();
}

#[test]
fn an_export_has_pictures_and_an_import_takes_them() {
    let Scene {
        upstream,
        world,
        daemon: _daemon,
    } = Scene::new("chat", "");
    let client = world.client();
    let conversation = client.create();
    let files = vec![attached("a.png", PNG), attached("b.pdf", PDF)];
    asked_with(&client, conversation, files);
    let said = transfer::messages(&client, conversation, false);
    let lines = transfer::lines(&said);
    assert!(lines.contains(PNG) && lines.contains(PDF), "{lines}");
    let other = transfer::imported(&client, &lines, 100).conversation;
    assert_eq!(
        lines,
        transfer::lines(&transfer::messages(&client, other, false))
    );
    asked(&client, other, "and?");
    let request = upstream.wait_requests(2);
    assert_eq!(expected("chat"), shown("chat", &request));
    let events = transfer::pages(
        &client,
        conversation,
        aish_proto::transfer::ExportFormat::Events,
        false,
    );
    let kept = json!(events.0).to_string();
    assert!(kept.contains(PNG) && kept.contains(PDF), "{kept}");
    upstream.finish();
}

/// The file program reads it, and the log keeps it: a model is shown it behind the result.
#[test]
fn a_model_reads_a_picture() {
    for api in APIS {
        let (upstream, world) = (Upstream::start(), World::new());
        let preset = upstream.preset("test", &format!("api = \"{api}\""));
        world.write(
            "machine/aish/config.toml",
            "[tools]\ntodo = false\nweb = false\n",
        );
        world.write_config(&format!("default_model = \"test\"\n{preset}"));
        let content = base64_bytes(PNG);
        std::fs::write(world.work().join("a.png"), content).unwrap();
        let _daemon = world.daemon().spawn();
        let client = world.client();
        if !is_held(&client) {
            return;
        }
        upstream.answer_with(|request| {
            if body(request).contains(PNG) {
                return Answer::text("White.");
            }
            Answer::stream().then_call(0, &call_id(), "files__read", r#"{"file_path":"a.png"}"#)
        });
        let conversation = files::created(&world, &client);
        asked(&client, conversation, "look at a.png");
        let results: Vec<ToolResult> = events(&client, conversation);
        assert!(results[0].ok, "{results:?}");
        let request = upstream.wait_requests(2).json();
        let list = if api == "responses" {
            "input"
        } else {
            "messages"
        };
        let last = request[list].as_array().unwrap().last().unwrap().clone();
        let kind = match api {
            "chat" => last["content"][1]["type"].clone(),
            "responses" => last["output"][1]["type"].clone(),
            _ => last["content"][0]["content"][1]["type"].clone(),
        };
        let expected = match api {
            "chat" => "image_url",
            "responses" => "input_image",
            _ => "image",
        };
        assert_eq!(expected, kind, "{last}");
        upstream.finish();
    }
}

fn base64_bytes(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text
        .bytes()
        .filter_map(|it| digits.iter().position(|d| *d == it));
    let mut bits = 0_u32;
    let mut count = 0;
    let mut bytes = vec![];
    for value in values {
        bits = (bits << 6) | u32::try_from(value).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xFF).unwrap());
        }
    }
    bytes
}
