//! What a model is told of commands: by the bytes that its server received.

use aish_proto::confirm::Decision;
use aish_proto::context::{ContextPreviewParams, Preview};
use aish_proto::conversation::{ConversationLimits, SetConstraints, SetConstraintsParams};
use aish_proto::id::ConversationId;
use aish_proto::turn::{OnConfirm, Send, UnattendedAction};
use aish_testkit::client::question;
use aish_testkit::{Answer as Said, Client};

use crate::norris;
use crate::registry::started;
use crate::shell::{Scene, allow};

/// The system message of the last request.
fn system(scene: &Scene) -> String {
    let requests = scene.upstream.requests();
    requests.last().unwrap().messages().remove(0).1
}

fn asked(client: &Client, conversation: ConversationId, then: UnattendedAction) {
    let mut params = question(conversation, "what is here?");
    params.on_confirm = Some(OnConfirm {
        then,
        ..OnConfirm::default()
    });
    client.wait_turn(client.done::<Send>(params).turn);
}

/// Whether a model is told, where an asker says this of questions to a person.
#[track_caller]
fn check(scene: &Scene, client: &Client, then: UnattendedAction, told: bool) {
    asked(client, scene.conversation(client), then);
    let system = system(scene);
    assert_eq!(told, system.contains("CMD:"), "{then:?}: {system}");
    assert_eq!(told, system.contains("\n[shell]\n"), "{then:?}: {system}");
}

#[test]
fn a_model_is_told_how_to_propose_commands_and_of_shell_system_and_directory() {
    let scene = Scene::new("");
    scene.upstream.answer_with(|_| Said::text("I see."));
    let client = scene.world.stranger();
    client.hello_with(
        "pts/5",
        &[("SHELL", "/bin/bash"), ("PATH", "/usr/bin:/bin")],
    );
    let conversation = scene.conversation(&client);
    asked(&client, conversation, UnattendedAction::Ask);
    let first = system(&scene);
    assert!(first.starts_with("You are aish, "), "{first}");
    for part in [
        "(Linux ",
        "its shell is bash)",
        "begins with `CMD:`, outside of code fences",
        "A person is asked about each before it runs",
        "with the next message of the person",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    let work = scene.world.work();
    assert!(
        first.contains(&format!("in the directory {}", work.display())),
        "{first}"
    );

    // A prompt cache holds it: the same bytes for the next question, and for one that nobody asks.
    asked(&client, conversation, UnattendedAction::Ask);
    assert_eq!(first, system(&scene));
    let preview = client.done::<Preview>(ContextPreviewParams {
        conversation,
        text: Some("and now?".to_owned()),
        attachments: vec![],
        model: None,
        on_confirm: None,
    });
    client.wait_turn(client.ask(conversation, "and now?"));
    let sent = scene.upstream.requests().pop().unwrap();
    assert_eq!(preview.body.as_bytes(), sent.body);
    scene.upstream.finish();
}

#[test]
fn a_model_is_told_of_commands_only_where_one_can_run() {
    let scene = Scene::new("");
    scene.upstream.answer_with(|_| Said::text("I see."));
    let client = scene.world.client();
    check(&scene, &client, UnattendedAction::Ask, true);
    check(&scene, &client, UnattendedAction::AskAttended, false);
    check(&scene, &client, UnattendedAction::Deny, false);

    let conversation = scene.conversation(&client);
    client.done::<SetConstraints>(SetConstraintsParams {
        id: conversation,
        constraints: ConversationLimits {
            read_only: true,
            ..ConversationLimits::default()
        },
    });
    asked(&client, conversation, UnattendedAction::Ask);
    assert!(!system(&scene).contains("CMD:"), "{}", system(&scene));

    for (config, then, told) in [
        (
            "[permissions]\ndeny = [\"shell__run\"]",
            UnattendedAction::Ask,
            false,
        ),
        ("[shell]\nconfirm = false", UnattendedAction::Deny, true),
        (
            "[context]\nsystem_prompt = \"You are a pirate.\"",
            UnattendedAction::Ask,
            true,
        ),
    ] {
        let scene = Scene::new(config);
        scene.upstream.answer_with(|_| Said::text("I see."));
        check(&scene, &scene.world.client(), then, told);
    }
}

#[test]
fn what_is_told_of_the_directory_changes_with_the_turn_and_not_before() {
    let scene = Scene::new("[shell]\nfeed_back = true");
    std::fs::create_dir(scene.world.work().join("src")).unwrap();
    let client = scene.world.person("pts/5");
    let (conversation, turn, confirm) = scene.asked(&client, "CMD: cd src");
    assert!(system(&scene).contains("comes to you at once"));
    allow(&client, &confirm);
    client.wait_turn(turn);
    let requests = scene.upstream.requests();
    let systems: Vec<String> = requests
        .iter()
        .map(|it| it.messages().remove(0).1)
        .collect();
    assert_eq!(2, systems.len());
    assert_eq!(systems[0], systems[1]);
    client.wait_turn(client.ask(conversation, "where am I?"));
    let work = scene.world.work();
    assert!(
        system(&scene).contains(&format!("in the directory {}/src,", work.display())),
        "{}",
        system(&scene)
    );
}

#[test]
fn a_run_is_told_of_commands_where_they_can_run() {
    let scene = norris::Scene::for_real();
    let _daemon = started(&scene.world);
    scene.model_says(&["CMD: pwd", "CMD: rm -rf x", "DONE:"]);
    let mut run = norris::launch(&scene.world, |_| {});
    run.answer(Decision::Deny);
    let _ended = norris::outcome(&mut run);
    let requests = scene.upstream.requests();
    let systems: Vec<String> = requests
        .iter()
        .map(|it| it.messages().remove(0).1)
        .collect();
    assert!(
        systems.iter().all(|it| *it == systems[0]),
        "one system message for the whole run: {systems:?}"
    );
    for part in [
        "\n[shell]\nThis machine is Linux ",
        "stands outside of code fences",
        "Commands run in the directory ",
        "write a line that begins with `CMD:`",
    ] {
        assert!(systems[0].contains(part), "{part}: {}", systems[0]);
    }
    assert!(!systems[0].contains("A person is asked about each"));
}
