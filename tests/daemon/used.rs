//! Among capabilities of one name, the provider that a conversation has called is the likelier one there.

use aish_proto::conversation::{Fork, ForkParams};
use aish_proto::id::ConversationId;
use aish_proto::intent::{Route, RouteParams, RoutingOutcome};
use aish_testkit::{Client, Upstream, World};
use serde_json::json;

use crate::registry::{called_in, manifest, started};

/// The outcome and the names in their order.
fn routed(client: &Client, conversation: Option<ConversationId>) -> (RoutingOutcome, Vec<String>) {
    let routing = client.done::<Route>(RouteParams {
        conversation,
        action: "look".to_owned(),
        tool: None,
    });
    let others = routing.candidates.into_iter().map(|it| it.name);
    (
        routing.outcome,
        routing.name.into_iter().chain(others).collect(),
    )
}

#[test]
fn a_provider_that_was_called_comes_first_where_it_was_called() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    world.write("config/aish/tools/data.sh", "echo 1\n");
    for name in ["one", "two"] {
        let text = manifest("1", &["look"]).replace("note-tool", name);
        world.write(format!("config/aish/tools/{name}.toml"), &text);
    }
    let daemon = started(&world);
    let client = world.client();
    let (here, there) = (client.create(), client.create());
    let either = (
        RoutingOutcome::Ambiguous,
        vec!["one__look".to_owned(), "two__look".to_owned()],
    );
    let second = (
        RoutingOutcome::Found,
        vec!["two__look".to_owned(), "one__look".to_owned()],
    );
    assert_eq!(either, routed(&client, Some(here)));
    assert_eq!("1", called_in(&client, here, "two__look", &json!({})));
    assert_eq!(second, routed(&client, Some(here)));
    assert_eq!(either, routed(&client, Some(there)));
    assert_eq!(either, routed(&client, None));
    let copy = client
        .done::<Fork>(ForkParams {
            id: here,
            at_seq: None,
        })
        .id;
    drop(client);
    assert_eq!(0, daemon.terminate());
    let _again = started(&world);
    let client = world.client();
    for id in [here, copy] {
        assert_eq!(second, routed(&client, Some(id)));
    }
    // Both were called: nothing speaks for either.
    assert_eq!("1", called_in(&client, here, "one__look", &json!({})));
    assert_eq!(either, routed(&client, Some(here)));
    upstream.finish();
}
