//! What a preset says of its requests: it arrives as each dialect has it. An effort that a server refuses is sent as the nearest
//! one that it takes, which is said once, remembered and forgotten.

use aish_testkit::upstream::Request;
use aish_testkit::{Answer, Upstream, World};
use serde_json::{Value, json};

use crate::context::{asked, preview};
use crate::optional::statuses;

fn configured(upstream: &Upstream, model: &str, keys: &str) -> World {
    let world = World::new();
    let preset = upstream.preset("test", keys).replace("test-model", model);
    world.write_config(&format!("default_model = \"test\"\n{preset}"));
    world
}

fn said_effort(request: &Request) -> Value {
    let body = request.json();
    let places = [
        &body["reasoning_effort"],
        &body["reasoning"]["effort"],
        &body["output_config"]["effort"],
    ];
    places
        .into_iter()
        .find(|it| !it.is_null())
        .cloned()
        .unwrap_or_default()
}

#[test]
fn an_effort_that_a_server_refuses_becomes_the_nearest_that_it_takes() {
    for (api, model, wished, message, sent, told) in [
        (
            "chat",
            "test-model",
            "minimal",
            json!({"error": {"param": "reasoning_effort", "message": "Unsupported value: 'minimal' is not supported with this model. Supported values are: 'low', 'medium', and 'high'."}}),
            "low",
            "low, medium, high",
        ),
        (
            "responses",
            "test-model",
            "xhigh",
            json!({"error": {"param": "reasoning.effort", "message": "Unsupported value: 'xhigh' is not supported with this model. Supported values are: 'low' and 'medium'."}}),
            "medium",
            "low, medium",
        ),
        (
            "messages",
            "claude-opus-4-7",
            "max",
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "output_config.effort: Input should be 'low', 'medium' or 'high'"}}),
            "high",
            "low, medium, high",
        ),
    ] {
        let upstream = Upstream::start();
        let (refusal, refused) = (message.to_string(), json!(wished));
        upstream.answer_with(move |request| {
            if said_effort(request) == refused {
                Answer::status(400, &refusal)
            } else {
                Answer::text("fine")
            }
        });
        let keys = format!("api = \"{api}\"\neffort = \"{wished}\"");
        let world = configured(&upstream, model, &keys);
        let daemon = world.daemon().spawn();
        let expected = format!("{model} takes no effort `{wished}`: asked again with `{sent}`");
        assert_eq!(vec![expected], statuses(&world.client()), "{api}");
        let efforts: Vec<Value> = upstream.requests().iter().map(said_effort).collect();
        assert_eq!(vec![json!(wished), json!(sent)], efforts, "{api}");
        assert_eq!(0, daemon.terminate());
        let _daemon = world.daemon().spawn();
        assert_eq!(Vec::<String>::new(), statuses(&world.client()), "{api}");
        let ctl = |words: &[&str]| world.ctl(words).run().ok().out().to_owned();
        let shown = ctl(&["model", "show", "test"]);
        assert!(
            shown.contains(&format!("is not sent: an effort other than {told}")),
            "{shown}"
        );
        ctl(&["model", "forget", "test"]);
        assert_eq!(1, statuses(&world.client()).len(), "{api}");
        upstream.finish();
    }
}

/// Nothing that it takes makes it think.
#[test]
fn an_effort_without_a_neighbour_is_left_out() {
    let upstream = Upstream::start();
    upstream.answer_with(|request| {
        if said_effort(request).is_null() {
            return Answer::text("fine");
        }
        let error = json!({"error": {"message": "`reasoning_effort` must be one of `none` or `default`, others are not supported"}});
        Answer::status(400, &error.to_string())
    });
    let world = configured(&upstream, "test-model", "effort = \"high\"");
    let _daemon = world.daemon().spawn();
    let told = "test-model cannot be told how much to think: asked again without that";
    assert_eq!(vec![told], statuses(&world.client()));
}

#[test]
fn what_a_preset_says_arrives_and_what_it_omits_does_not() {
    for (api, keys, expected) in [
        (
            "chat",
            "omit = [\"stream_options\"]\nextra = { seed = 7, stop = [\"END\"] }",
            json!({"top_p": 0.5, "verbosity": "low", "stream_options": null, "seed": 7, "stop": ["END"]}),
        ),
        (
            "responses",
            "omit = [\"include\"]\nextra = { text = { format = { type = \"text\" } }, safety_identifier = \"me\" }",
            json!({"top_p": 0.5, "text": {"verbosity": "low", "format": {"type": "text"}}, "include": null,
                "safety_identifier": "me"}),
        ),
        (
            "messages",
            "extra = { metadata = { user_id = \"me\" }, max_tokens = 77 }",
            json!({"top_p": 0.5, "verbosity": null, "text": null, "metadata": {"user_id": "me"}, "max_tokens": 77}),
        ),
    ] {
        let upstream = Upstream::start();
        let keys = format!("api = \"{api}\"\ntop_p = 0.5\nverbosity = \"low\"\n{keys}");
        let world = configured(&upstream, "test-model", &keys);
        let _daemon = world.daemon().spawn();
        let client = world.client();
        let conversation = client.create();
        let shown = preview(&client, conversation, Some("hi")).body;
        asked(&client, conversation, "hi");
        let request = upstream.requests().pop().unwrap();
        let body = request.json();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(value, &body[name], "{api} {name}: {body}");
        }
        assert_eq!(shown, String::from_utf8_lossy(&request.body), "{api}");
        upstream.finish();
    }
}

/// What somebody added by hand is not taken out behind their back.
#[test]
fn a_refusal_of_what_a_preset_adds_is_an_error_with_the_place_to_change() {
    let upstream = Upstream::start();
    let error = json!({"error": {"message": "Unsupported parameter: 'top_p' is not supported with this model.", "param": "top_p"}});
    upstream.answer_with(move |request| {
        if request.json()["top_p"].is_null() {
            Answer::text("fine")
        } else {
            Answer::status(400, &error.to_string())
        }
    });
    let world = configured(&upstream, "test-model", "extra = { top_p = 0.5 }");
    let daemon = world.daemon().spawn();
    let client = world.client();
    let record = client.wait_turn(client.ask(client.create(), "hello"));
    let failed = format!("{:?}", record.error.unwrap());
    assert!(
        failed.contains("take top_p out of models.test.extra"),
        "{failed}"
    );
    assert_eq!(1, upstream.requests().len());
    drop(client);
    drop(daemon);
    // As a key of its own it is.
    let world = configured(&upstream, "test-model", "top_p = 0.5");
    let _daemon = world.daemon().spawn();
    let told = "test-model takes no `top_p`: asked again without it";
    assert_eq!(vec![told], statuses(&world.client()));
}
