//! The shared context in the store: the index of it is a fold of the journal, live, after a restart and when it
//! is built anew.

use aish_proto::id::Seq;
use aishd_log::event::Event;
use aishd_log::resource::{
    ChangeAuthor, ResourceChanged, ResourceData, ResourceName, ResourceOutcome, ResourceStatus,
};
use aishd_log::time::Timestamp;
use serde_json::json;

use super::super::Store;
use super::{Author as Writer, block_on, conversation};

fn name(text: &str) -> ResourceName {
    text.parse().unwrap()
}

/// `created a 1 LENGTH`: what was changed, its name, its revision, and the length of the text that is its data.
fn event(words: &str) -> Event {
    let words: Vec<&str> = words.split(' ').collect();
    let [change, of, revision, length] = words[..] else {
        panic!("{words:?}");
    };
    let by = ChangeAuthor::Provider("data-tool".parse().unwrap());
    let change = match change {
        "created" => ResourceOutcome::Created,
        "updated" => ResourceOutcome::Updated,
        _ => ResourceOutcome::Deleted,
    };
    let text = "x".repeat(length.parse().unwrap());
    Event::ResourceChanged(Box::new(ResourceChanged {
        name: name(of),
        change,
        revision: revision.parse().unwrap(),
        by: by.clone(),
        data: (change != ResourceOutcome::Deleted).then(|| ResourceData::of(&json!(text)).unwrap()),
        created: (change == ResourceOutcome::Updated).then_some((Timestamp(5), by)),
    }))
}

fn write(store: &Store, writer: &mut Writer, events: &[&str]) {
    let events = events.iter().map(|it| (event(it), None)).collect();
    let commit = writer.commit(events);
    writer.took(&commit);
    block_on(store.commit(commit)).unwrap();
}

/// Every resource as `name revision bytes created-at seq`.
fn listed(store: &Store, number: u64) -> Vec<String> {
    let all = store.resources(conversation(number), None, usize::MAX);
    let row = |(name, head): (ResourceName, aishd_log::resource::ResourceHead)| {
        let (loaded, data) = store
            .resource_data(conversation(number), &name)
            .unwrap()
            .unwrap();
        assert_eq!((head.clone(), head.bytes), (loaded, data.bytes()), "{name}");
        let created = if head.created_at == Timestamp(5) {
            "5"
        } else {
            "now"
        };
        format!(
            "{name} {} {} {created} {}",
            head.revision, head.bytes, head.seq
        )
    };
    all.unwrap().into_iter().map(row).collect()
}

fn gone(store: &Store, number: u64, of: &str) -> u64 {
    match store.resource(conversation(number), &name(of)).unwrap() {
        ResourceStatus::Gone(last) => last,
        ResourceStatus::There(head) => panic!("it is there: {head:?}"),
    }
}

#[test]
fn the_index_is_the_same_live_after_a_restart_and_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (mut one, mut other) = (Writer::new(1), Writer::new(2));
    write(&store, &mut one, &["created b 1 10", "created a/x 1 9000"]);
    write(&store, &mut other, &["created b 1 1"]);
    // Changes of one name in one commit, too.
    write(
        &store,
        &mut one,
        &["updated b 2 20", "updated b 3 30", "created c 1 1"],
    );
    write(&store, &mut one, &["deleted c 2 0", "created a 1 1048574"]);
    let expected = ["a 1 1048576 now 7", "a/x 1 9002 now 2", "b 3 32 5 4"];
    let check = |store: &Store, when: &str| {
        assert_eq!(expected.to_vec(), listed(store, 1), "{when}");
        assert_eq!(vec!["b 1 3 now 1"], listed(store, 2), "{when}");
        assert_eq!((2, 0), (gone(store, 1, "c"), gone(store, 1, "d")), "{when}");
        let state = store.load(conversation(1)).unwrap().unwrap().state;
        assert_eq!((3, Seq(7)), (state.resources, state.last_seq), "{when}");
    };
    check(&store, "live");
    store.close();
    let store = Store::open(dir.path()).unwrap();
    check(&store, "after a restart");
    store.close();
    drop(store);
    std::fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    check(&store, "built anew");
    let blobs = super::files_in(&dir.path().join("db/blobs"));
    assert_eq!(
        0,
        blobs.len(),
        "no value is so long that sled gives it a file"
    );
}

#[test]
fn lists_go_on_behind_a_name_and_end_with_their_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for number in 1..=3 {
        let mut writer = Writer::new(number);
        let events = [
            "created a 1 1",
            "created a-b 1 1",
            "created b 1 1",
            "created z 1 1",
        ];
        write(&store, &mut writer, &events);
    }
    let page = |after: Option<&str>, limit| {
        let after = after.map(name);
        let page = store.resources(conversation(2), after.as_ref(), limit);
        let names = page.unwrap().into_iter().map(|it| it.0.to_string());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!("a a-b b z", page(None, 10));
    assert_eq!("a a-b", page(None, 2));
    assert_eq!("b z", page(Some("a-b"), 2));
    assert_eq!(
        "b z",
        page(Some("a-c"), 9),
        "one that is not there any more"
    );
    assert_eq!("", page(Some("z"), 9));
}

#[test]
fn a_conversation_that_is_deleted_takes_its_resources_along() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for number in 1..=2 {
        let events = ["created a 1 1", "created b 1 1", "deleted b 2 0"];
        write(&store, &mut Writer::new(number), &events);
    }
    block_on(store.delete(conversation(1), vec![])).unwrap();
    let check = |store: &Store| {
        assert!(listed(store, 1).is_empty());
        assert_eq!((0, 2), (gone(store, 1, "b"), gone(store, 2, "b")));
        assert_eq!(1, listed(store, 2).len());
    };
    check(&store);
    store.close();
    drop(store);
    std::fs::remove_dir_all(dir.path().join("db")).unwrap();
    check(&Store::open(dir.path()).unwrap());
}
