//! The pages of the protocol speak of every method and every event, and of nothing else.

use std::collections::BTreeSet;

use aish_testkit::document::{self, Document, SENT};
use aish_testkit::repository;

use crate::none;

const PAGES: &str = "docs/protocol";

fn documents() -> Vec<Document> {
    let text = |it| repository::text(it).unwrap();
    document::pages()
        .iter()
        .map(|it| Document::parse(&text(it)))
        .collect()
}

fn keys(part: &str) -> BTreeSet<String> {
    let schema = aish_proto::schema::document();
    schema[part].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_method_and_event_has_its_heading() {
    let documents = documents();
    let headings: BTreeSet<String> = documents
        .iter()
        .flat_map(Document::headings)
        .map(str::to_owned)
        .collect();
    let wanted = &keys("methods") | &keys("events");
    let missing = wanted
        .difference(&headings)
        .map(|it| format!("{PAGES} has no heading `### {it}`"));
    let stray = headings
        .difference(&wanted)
        .map(|it| format!("{PAGES}: `### {it}` is no method and no event"));
    none(
        &missing.chain(stray).collect::<Vec<_>>(),
        "write the heading, a sentence, and an exchange; the replay fills the answers in: UPDATE_EXPECT=1 cargo test -p aishd --test daemon protocol",
    );
}

#[test]
fn every_method_is_called_where_it_is_described() {
    let documents = documents();
    let called: BTreeSet<String> = documents
        .iter()
        .flat_map(|it| &it.blocks)
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
        .map(|it| format!("{PAGES}: no exchange under `### {it}` calls it"))
        .collect();
    none(
        &missing,
        "add a `→` line that calls the method under its heading",
    );
}
