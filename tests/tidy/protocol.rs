//! The pages of the protocol speak of every method and every event, and of nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use aish_testkit::document::{self, Document, ENTRANCE, SENT};
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

/// People look for a method in the table, and not in the pages.
#[test]
fn the_table_names_what_each_page_has() {
    let entrance = repository::text(Path::new(ENTRANCE)).unwrap();
    let mut wrong = vec![];
    for (page, document) in document::pages().iter().zip(documents()) {
        let page = page.strip_prefix("docs").unwrap().display().to_string();
        let (named, headings) = (named(&entrance, &page), document.headings());
        let missing = headings.iter().filter(|it| !named.contains(it));
        wrong.extend(missing.map(|it| format!("{ENTRANCE}: the row of {page} lacks `{it}`")));
        let stray = named.iter().filter(|it| !headings.contains(it));
        wrong.extend(stray.map(|it| format!("{ENTRANCE}: {page} has no heading `### {it}`")));
    }
    none(
        &wrong,
        "let the row of a page in the table name its headings, and no others",
    );
}

/// What stands in backticks in the row of a page.
fn named<'a>(entrance: &'a str, page: &str) -> Vec<&'a str> {
    let link = format!("]({page})");
    let mut rows = entrance.lines().filter_map(|it| it.split_once(&*link));
    let row = rows.next().map_or("", |(_, row)| row);
    row.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_row_of_a_page_is_found() {
    let table = "| [A](protocol/a.md) | `a/b`, `a/c` |\n| [B](protocol/b.md) | `b` |\n";
    assert_eq!(vec!["a/b", "a/c"], named(table, "protocol/a.md"));
    assert_eq!(vec!["b"], named(table, "protocol/b.md"));
    assert!(named(table, "protocol/c.md").is_empty());
}
