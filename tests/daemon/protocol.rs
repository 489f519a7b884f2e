//! The pages of the protocol are true: every exchange in them is played against a real daemon, page after page.

use std::fs;

use aish_testkit::document::{self, Document};
use aish_testkit::replay::Replay;
use aish_testkit::{Upstream, World, repository, surroundings};

/// Events that no exchange of the document brings about for certain; other tests do.
const SHOWN_IF_THEY_COME: [&str; 22] = [
    "answerPictures",
    "changesPart",
    "changesUndo",
    "changesSettled",
    "commandTried",
    "configReloaded",
    "evicted",
    "imported",
    "jobEnded",
    "jobStarted",
    "mcpChanged",
    "modelUsed",
    "restored",
    "resultKept",
    "shellOutput",
    "status",
    "summaryUpdated",
    "todosChanged",
    "toolCall",
    "toolProgress",
    "toolResult",
    "toolsChosen",
];

#[test]
fn the_document_tells_what_happens() {
    let upstream = Upstream::start();
    let world = World::new();
    let config = format!(
        "{}\n{}\n{}\n[permissions]\ndeny = [\"shell__run\"]\n[tools]\nbuiltin = true\n[routing]\nfallback_model = \"deep\"\n",
        upstream.config("fast"),
        upstream.preset("deep", "price = { input = 2.0, output = 10.0 }"),
        upstream.preset("plain", "tools = false")
    );
    world.write_config(&config);
    let mut daemon = world.daemon().spawn();

    let server = repository::top().join("tests/data/mcp/stdio_server.py");
    let mut replay = Replay::new(&world, &upstream)
        .naming("example_server", server.display().to_string().into());
    let mut untidy = vec![];
    for page in document::pages() {
        let text = repository::text(&page).unwrap();
        let real = replay.play(&text, &SHOWN_IF_THEY_COME);
        if surroundings::updating() {
            fs::write(repository::top().join(&page), real).unwrap();
        } else if Document::parse(&text).is_shown_otherwise() {
            untidy.push(page.display().to_string());
        }
    }
    let differences = replay.differences();

    // The document ends with `daemon/shutdown`.
    assert_eq!(0, daemon.wait_exit(), "the exit code after a shutdown");
    if surroundings::updating() {
        return;
    }
    assert!(
        differences.is_empty(),
        "docs/protocol does not tell what happens:\n{}\nfix: if the new behaviour is meant, UPDATE_EXPECT=1 cargo test -p aishd --test daemon protocol, and read the difference",
        differences.join("\n")
    );
    assert!(
        untidy.is_empty(),
        "frames are not shown as they should be in {untidy:?}\nfix: UPDATE_EXPECT=1 cargo test -p aishd --test daemon protocol"
    );
}
