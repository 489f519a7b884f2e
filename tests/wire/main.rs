//! The wire stays what it is written down to be: a change of a method or an event shows as a change of a
//! committed file, where a reader sees it.

use std::fs;

use aish_testkit::{repository, surroundings};

/// What other languages generate their clients from.
const SCHEMA: &str = "docs/protocol.schema.json";

#[test]
fn the_committed_schema_is_the_one_of_the_types() {
    let path = repository::top().join(SCHEMA);
    let document = aish_proto::schema::document();
    let expected = format!("{}\n", serde_json::to_string_pretty(&document).unwrap());
    if surroundings::updating() {
        fs::write(&path, &expected).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if committed == expected {
        return;
    }
    let at = committed
        .lines()
        .zip(expected.lines())
        .position(|(old, new)| old != new)
        .unwrap_or_default();
    panic!(
        "{SCHEMA} is not the schema of aish-proto any more, from line {} on\n  committed: {:?}\n  types:     {:?}\nfix: UPDATE_EXPECT=1 cargo test -p aish-testkit --test wire, and commit the file",
        at + 1,
        committed.lines().nth(at).unwrap_or_default(),
        expected.lines().nth(at).unwrap_or_default(),
    );
}
