//! The wire stays what it is written down to be: a change of a method or an event shows as a change of a
//! committed file, where a reader sees it.

mod reference;

use std::fs;

use aish_testkit::{repository, surroundings};

/// What other languages generate their clients from.
const SCHEMA: &str = "docs/protocol.schema.json";
/// The same for people.
const REFERENCE: &str = "docs/protocol.reference.md";

#[test]
fn the_committed_schema_is_the_one_of_the_types() -> Result<(), String> {
    let document = aish_proto::schema::document();
    let expected = format!("{document:#}\n");
    check(SCHEMA, &expected)
}

#[test]
fn the_committed_reference_is_made_from_the_types() -> Result<(), String> {
    check(REFERENCE, &reference::page(&aish_proto::schema::document()))
}

/// Where the committed file differs from what it is to be.
fn check(file: &str, expected: &str) -> Result<(), String> {
    let path = repository::top().join(file);
    if surroundings::updating() {
        fs::write(&path, expected).map_err(|it| it.to_string())?;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if committed == expected {
        return Ok(());
    }
    let at = committed
        .lines()
        .zip(expected.lines())
        .position(|(old, new)| old != new)
        .unwrap_or_default();
    Err(format!(
        "{file} is not what the types of aish-proto say any more, from line {} on\n  committed: {:?}\n  types:     {:?}\nfix: UPDATE_EXPECT=1 cargo test -p aish-testkit --test wire, and commit the files",
        at + 1,
        committed.lines().nth(at).unwrap_or_default(),
        expected.lines().nth(at).unwrap_or_default(),
    ))
}
