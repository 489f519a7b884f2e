//! `docs/PROTOCOL.md` speaks of every method and every event, and of nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use aish_testkit::document::{Document, SENT};
use aish_testkit::repository;

use crate::none;

const DOCUMENT: &str = "docs/PROTOCOL.md";

fn keys(part: &str) -> BTreeSet<String> {
    let schema = aish_proto::schema::document();
    schema[part].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_method_and_event_has_its_heading() {
    let text = repository::text(Path::new(DOCUMENT)).unwrap();
    let document = Document::parse(&text);
    let headings: BTreeSet<String> = document.headings().into_iter().map(str::to_owned).collect();
    let wanted = &keys("methods") | &keys("events");
    let missing = wanted
        .difference(&headings)
        .map(|it| format!("{DOCUMENT} has no heading `### {it}`"));
    let stray = headings
        .difference(&wanted)
        .map(|it| format!("{DOCUMENT}: `### {it}` is no method and no event"));
    none(
        &missing.chain(stray).collect::<Vec<_>>(),
        "write the heading, a sentence, and an exchange; the replay fills the answers in: UPDATE_EXPECT=1 cargo test -p aishd --test daemon protocol",
    );
}

#[test]
fn every_method_is_called_where_it_is_described() {
    let text = repository::text(Path::new(DOCUMENT)).unwrap();
    let document = Document::parse(&text);
    let called: BTreeSet<String> = document
        .blocks
        .iter()
        .filter(|block| {
            let call = format!("\"method\":\"{}\"", block.heading);
            block
                .lines
                .iter()
                .any(|it| it.starts_with(SENT) && it.contains(&call))
        })
        .map(|it| it.heading.clone())
        .collect();
    let missing: Vec<String> = keys("methods")
        .difference(&called)
        .map(|it| format!("{DOCUMENT}: no exchange under `### {it}` calls it"))
        .collect();
    none(
        &missing,
        "add a `→` line that calls the method under its heading",
    );
}
