//! `mcp/complete`: what servers of every revision say that an argument may become, and what is kept of servers that mean no
//! good.

use std::time::{Duration, Instant};

use aish_proto::mcp::{List, ServerState};
use aish_proto::mcp_complete::{Complete, CompleteParams};
use aish_proto::method::Empty;
use aish_testkit::wait::until_true;
use aish_testkit::{Client, Daemon, World, repository};

/// A world with the server in each of these modes, by which it is called.
fn world(modes: &[&str]) -> (World, Daemon, Client) {
    let script = repository::top().join("tests/data/mcp/offering.py");
    let world = World::new();
    let all = modes.iter().map(|it| {
        format!("[mcp.servers.{it}]\ncommand = \"python3\"\nargs = [{script:?}, {it:?}]\n")
    });
    world.write_config(&all.collect::<String>());
    let daemon = world.daemon().spawn();
    let client = world.client();
    until_true("the servers are ready", || {
        let all = client.done::<List>(Empty {}).servers;
        all.iter().all(|it| it.state == ServerState::Ready)
    });
    (world, daemon, client)
}

fn city(alias: &str, value: &str) -> CompleteParams {
    CompleteParams {
        alias: alias.to_owned(),
        prompt: Some("visit".to_owned()),
        template: None,
        argument: "city".to_owned(),
        value: value.to_owned(),
        arguments: [].into(),
    }
}

fn values(client: &Client, params: CompleteParams) -> Vec<String> {
    client.done::<Complete>(params).values
}

#[test]
fn servers_of_every_revision_complete_prompts_and_templates() {
    let modes = ["first", "session", "modern"];
    let (_world, _daemon, client) = world(&modes);
    for alias in modes {
        assert_eq!(
            vec!["Berlin", "Bern"],
            values(&client, city(alias, "Ber")),
            "{alias}"
        );
        let found = client.done::<Complete>(city(alias, ""));
        assert_eq!(
            (4, Some(4), false),
            (found.values.len(), found.total, found.more)
        );
        let number = CompleteParams {
            prompt: None,
            template: Some("note://{number}".to_owned()),
            argument: "number".to_owned(),
            ..city(alias, "1")
        };
        assert_eq!(vec!["1", "12"], values(&client, number), "{alias}");
        // What else is filled in goes along, where the revision has a place for it.
        let german = CompleteParams {
            arguments: [("country".to_owned(), "Germany".to_owned())].into(),
            ..city(alias, "Be")
        };
        let expected = if alias == "first" {
            vec!["Berlin", "Bern"]
        } else {
            vec!["Berlin"]
        };
        assert_eq!(expected, values(&client, german), "{alias}");
    }
    let listed = client.done::<List>(Empty {}).servers;
    assert!(listed.iter().all(|it| it.completions), "{listed:?}");
}

#[test]
fn what_a_server_completes_with_shows_all_that_it_is() {
    let (_world, _daemon, client) = world(&["hostile"]);
    assert_eq!(vec!["Bfine"], values(&client, city("hostile", "B")));
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for_and_errors_are_told() {
    let (_world, _daemon, client) = world(&["bare", "session", "slow"]);
    let refused = |params: CompleteParams| {
        let error = client.refused::<Complete>(params);
        (error.kind().to_owned(), error.message)
    };
    let began = Instant::now();
    let (kind, why) = refused(city("slow", "B"));
    assert_eq!("MCP server slow gave no answer within 3 s", why);
    assert_eq!("mcpFailed", kind);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    let (_, why) = refused(city("bare", "B"));
    assert_eq!("the MCP server bare announces no completions", why);
    let (kind, _) = refused(city("nobody", "B"));
    assert_eq!("notFound", kind);
    let unknown = CompleteParams {
        prompt: Some("nothing".to_owned()),
        ..city("session", "B")
    };
    assert_eq!("there is no such thing", refused(unknown).1);
    for (prompt, template) in [(None, None), (Some("a"), Some("b"))] {
        let params = CompleteParams {
            prompt: prompt.map(str::to_owned),
            template: template.map(str::to_owned),
            ..city("session", "")
        };
        let why = refused(params).1;
        assert!(why.ends_with("prompt or template, one of them"), "{why}");
    }
    let long = refused(city("session", &"x".repeat(8193)));
    assert!(long.1.contains("value has at most 8192 bytes"), "{long:?}");
}
