//! What is told of all conversations: the list, the status, what each has taken, and where a text was said.

use aish_proto::conversation::{
    Activity, Archive, ConversationCreateParams, ConversationDeleteParams, ConversationListParams,
    ConversationParams, Create, Delete, Fork, ForkParams, List, ListState, Rename, RenameParams,
    Search, SearchParams,
};
use aish_proto::daemon::Status;
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::usage::{Get, UsageGetParams, UsageGrouping};
use aish_testkit::{Answer, Client, Upstream, World};

/// Ids and titles of all pages.
fn listed(client: &Client, state: ListState, title: Option<&str>) -> Vec<(ConversationId, String)> {
    let mut all = vec![];
    let mut cursor = None;
    loop {
        let page = client.done::<List>(ConversationListParams {
            state,
            title: title.map(str::to_owned),
            cursor,
            limit: Some(2),
        });
        let conversations = page.conversations.into_iter();
        all.extend(conversations.map(|it| (it.id, it.title)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return all;
        }
    }
}

fn made(client: &Client, title: Option<&str>) -> ConversationId {
    let made = client.done::<Create>(ConversationCreateParams {
        title: title.map(str::to_owned),
        model: None,
        cwd: "/".to_owned(),
        constraints: None,
        budget: None,
        temporary: false,
    });
    made.id
}

/// Conversations with a hit, in pages of one.
fn said(client: &Client, query: &str, include_archived: bool) -> Vec<ConversationId> {
    let mut all = vec![];
    let mut cursor = None;
    loop {
        let page = client.done::<Search>(SearchParams {
            query: query.to_owned(),
            id: None,
            include_archived,
            cursor,
            limit: Some(1),
        });
        all.extend(page.hits.into_iter().map(|it| it.conversation));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return all;
        }
    }
}

#[test]
fn the_list_is_the_same_after_a_restart_and_where_the_index_is_made_anew() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let mut daemon = world.daemon().spawn();
    let client = world.client();
    let ids: Vec<ConversationId> = ["a", "b", "a", "c", "gone"]
        .into_iter()
        .map(|it| made(&client, Some(it)))
        .collect();
    let untitled = made(&client, None);
    let rename = |id, title: &str| {
        client.done::<Rename>(RenameParams {
            id,
            title: title.to_owned(),
        });
    };
    client.wait_turn(client.ask(ids[0], "papaya"));
    client.wait_turn(client.ask(ids[3], "papaya"));
    client.done::<Archive>(ConversationParams { id: ids[3] });
    let copy = client.done::<Fork>(ForkParams {
        id: ids[0],
        at_seq: None,
    });
    rename(copy.id, "copy");
    client.done::<Delete>(ConversationDeleteParams {
        id: ids[4],
        confirm_title: "gone".to_owned(),
    });
    rename(ids[1], "renamed");
    let open = [
        (ids[1], "renamed"),
        (copy.id, "copy"),
        (ids[0], "a"),
        (untitled, "untitled"),
        (ids[2], "a"),
    ];
    let open = open.map(|(id, title)| (id, title.to_owned()));
    let archived = vec![(ids[3], "c".to_owned())];
    let mut all = open.to_vec();
    // It was put away before the copy was made.
    all.insert(2, archived[0].clone());
    for restart in ["none", "with its index", "without its index"] {
        if restart != "none" {
            assert_eq!(0, daemon.terminate());
            if restart == "without its index" {
                std::fs::remove_dir_all(world.state().join("store/db")).unwrap();
            }
            daemon = world.daemon().spawn();
        }
        let client = world.client();
        assert_eq!(open.to_vec(), listed(&client, ListState::Open, None));
        assert_eq!(archived, listed(&client, ListState::Archived, None));
        assert_eq!(all, listed(&client, ListState::All, None), "{restart}");
        let called = listed(&client, ListState::All, Some("a"));
        assert_eq!(vec![open[2].clone(), open[4].clone()], called);
        let called = listed(&client, ListState::Open, Some("untitled"));
        assert_eq!(vec![open[3].clone()], called);
        assert_eq!(0, listed(&client, ListState::All, Some("b")).len());
        assert_eq!(6, client.done::<Status>(Empty {}).conversations);
        assert_eq!(vec![copy.id, ids[0]], said(&client, "papaya", false));
        let with_archived = vec![copy.id, ids[3], ids[0]];
        assert_eq!(with_archived, said(&client, "papaya", true));
        let usage = client.done::<Get>(UsageGetParams {
            by: UsageGrouping::Conversation,
            since: None,
            max_age_ms: None,
        });
        let mut titles: Vec<_> = usage.rows.into_iter().map(|it| it.title).collect();
        titles.sort();
        assert_eq!(["a", "c"].map(|it| Some(it.to_owned())).to_vec(), titles);
    }
    upstream.finish();
}

#[test]
fn the_status_counts_what_runs_and_what_waits_among_many() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    for _ in 0..5 {
        made(&client, None);
    }
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let busy = made(&client, None);
    let turn = client.ask(busy, "first");
    gate.wait_request();
    let waits = client.ask(busy, "second");
    let status = client.done::<Status>(Empty {});
    let counts = (
        status.conversations,
        status.running_turns,
        status.queued_turns,
    );
    assert_eq!((6, 1, 1), counts);
    let first = client.done::<List>(ConversationListParams {
        limit: Some(1),
        ..ConversationListParams::default()
    });
    let first = &first.conversations[0];
    assert_eq!((busy, Activity::Running), (first.id, first.state));
    gate.finish();
    client.wait_turn(turn);
    client.wait_turn(waits);
    let status = client.done::<Status>(Empty {});
    assert_eq!((0, 0), (status.running_turns, status.queued_turns));
    upstream.finish();
}
