//! Which changes are made, as scripts: what there is, what is wanted, what comes of it.

use aish_proto::id::Seq;
use serde_json::json;

use super::*;

fn author() -> ChangeAuthor {
    ChangeAuthor::Provider("data-tool".parse().unwrap())
}

fn head(revision: u64) -> ResourceHead {
    ResourceHead {
        seq: Seq(4),
        revision,
        bytes: 2,
        created_at: Timestamp(1),
        created_by: ChangeAuthor::Provider("first".parse().unwrap()),
        updated_at: Timestamp(2),
        updated_by: author(),
    }
}

fn wanted(words: &str) -> ResourceChange {
    let mut words = words.split(' ');
    let (action, name) = (words.next().unwrap(), words.next().unwrap());
    let number = words.next().map(|it| it.parse().unwrap());
    let data = || ResourceData::of(&json!({"n": 1})).unwrap();
    let action = match action {
        "create" => ResourceAction::Create(data()),
        "put" => ResourceAction::Put(data(), number),
        "update" => ResourceAction::Update(data(), number),
        "delete" => ResourceAction::Delete(number),
        _ => panic!("no action {action}"),
    };
    ResourceChange {
        name: name.parse().unwrap(),
        action,
    }
}

/// There is `old` at revision 3, and `gone` was deleted at revision 5.
fn stored(name: &ResourceName) -> ResourceStatus {
    match name.as_str() {
        "old" => ResourceStatus::There(head(3)),
        "gone" => ResourceStatus::Gone(5),
        _ => ResourceStatus::Gone(0),
    }
}

/// What comes of changes by one call, one after the other, where there are so many resources before.
#[track_caller]
fn check(count: u32, script: &[&str]) {
    let by = author();
    let mut checking = ChangeCheck::new(&by, Timestamp(9), count);
    for line in script {
        let (change, expected) = line.split_once(" = ").unwrap();
        let came = match checking.check(wanted(change), |name| Ok(stored(name))) {
            Ok(it) => {
                let first = it.created.as_ref().and_then(|(_, by)| by.provider());
                let first = first.map(|by| format!(" of {by}")).unwrap_or_default();
                format!("{} {}{first}", it.change.as_str(), it.revision)
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(*expected, came, "{change}");
    }
}

#[test]
fn a_resource_is_created_once_updated_while_it_is_there_and_counts_its_revisions() {
    check(1, &["create new = created 1"]);
    check(
        1,
        &["create old = there is a resource \"old\" already, at revision 3"],
    );
    check(1, &["update old = updated 4 of first"]);
    check(
        1,
        &["update new = there is no resource \"new\" in this conversation"],
    );
    check(
        1,
        &["delete new = there is no resource \"new\" in this conversation"],
    );
    check(1, &["delete old = deleted 4"]);
}

#[test]
fn what_is_put_is_created_or_updated() {
    check(
        1,
        &[
            "put old = updated 4 of first",
            "put new = created 1",
            "put gone = created 6",
        ],
    );
}

#[test]
fn an_expected_revision_is_the_one_that_is_there_or_nothing_happens() {
    check(1, &["update old 3 = updated 4 of first"]);
    check(
        1,
        &["update old 2 = resource \"old\" is at revision 3, not 2"],
    );
    check(
        1,
        &["delete old 4 = resource \"old\" is at revision 3, not 4"],
    );
}

#[test]
fn a_name_that_is_used_again_goes_on_counting() {
    check(0, &["create gone = created 6"]);
    check(
        0,
        &[
            "create a = created 1",
            "delete a = deleted 2",
            "create a = created 3",
            "update a 1 = resource \"a\" is at revision 3, not 1",
        ],
    );
}

#[test]
fn changes_of_one_call_see_each_other() {
    check(
        0,
        &[
            "create a = created 1",
            "create a = there is a resource \"a\" already, at revision 1",
        ],
    );
    check(
        1,
        &[
            "update old = updated 4 of first",
            "update old 4 = updated 5 of first",
            "delete old 5 = deleted 6",
            "update old = there is no resource \"old\" in this conversation",
        ],
    );
}

#[test]
fn there_is_an_end_to_their_number() {
    let full = "10000 resources are in this conversation already";
    check(MOST, &[&format!("create a = {full}")]);
    check(
        MOST - 1,
        &["create a = created 1", &format!("create b = {full}")],
    );
    check(MOST, &["delete old = deleted 4", "create b = created 1"]);
    check(MOST, &["update old = updated 4 of first"]);
}

#[test]
fn names_are_plain_words() {
    let longest = "x".repeat(128);
    for name in ["a", "build-config", "a/b.c_d-9", ".", "..", "/", &longest] {
        assert!(name.parse::<ResourceName>().is_ok(), "{name}");
    }
    let longer = "x".repeat(129);
    for name in ["", "-a", "a b", "é", "a\n", "\u{1b}[31m", "a:b", &longer] {
        assert!(name.parse::<ResourceName>().is_err(), "{name}");
    }
}

#[test]
fn a_mebibyte_is_the_most() {
    let text = |bytes: usize| Value::String("x".repeat(bytes - 2));
    assert_eq!(1 << 20, ResourceData::of(&text(MAX_BYTES)).unwrap().bytes());
    assert_eq!(
        Err(BadData::TooLarge(MAX_BYTES + 1)),
        ResourceData::of(&text(MAX_BYTES + 1))
    );
}

#[test]
fn writing_takes_level_two_of_the_provider_or_of_what_was_allowed() {
    use Access::{Execute, Read, Write};
    for (needs, has, expected) in [
        (Read, Read, false),
        (Read, Write, true),
        (Read, Execute, true),
        (Write, Read, true),
        (Execute, Read, true),
    ] {
        assert_eq!(expected, may_write(needs, has), "{needs} {has}");
    }
}

#[test]
fn a_long_name_of_a_client_is_cut_where_a_character_ends() {
    let person = AnsweringPerson {
        client: aish_proto::id::ClientId::from_bytes([1; 16]),
        name: "é".repeat(9_000),
        tty: None,
        pid: None,
        uid: Some(7),
    };
    let ChangeAuthor::Person(kept) = ChangeAuthor::person(&person) else {
        panic!("a provider");
    };
    assert_eq!((200, Some(7)), (kept.name.len(), kept.uid));
}

/// A call that was given a revision replaces that one and no other.
#[test]
fn what_is_put_may_say_over_which_revision() {
    check(1, &["put old 3 = updated 4 of first"]);
    check(1, &["put old 2 = resource \"old\" is at revision 3, not 2"]);
    check(1, &["put old 0 = resource \"old\" is at revision 3, not 0"]);
    check(1, &["put new 0 = created 1", "put gone 0 = created 6"]);
    check(
        1,
        &["put gone 4 = there is no resource \"gone\" in this conversation"],
    );
}

#[test]
fn data_is_only_so_deep() {
    let nested = |depth| (1..depth).fold(json!([]), |inner, _| json!([inner]));
    assert!(ResourceData::of(&nested(100)).is_ok());
    assert_eq!(Err(BadData::TooDeep), ResourceData::of(&nested(101)));
    assert_eq!(
        Err(BadData::TooDeep),
        ResourceData::of(&json!({"a": nested(100)}))
    );
}
