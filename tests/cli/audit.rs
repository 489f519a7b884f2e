//! `aishctl audit`: rows for people, lines for programs, and whether it is all as it was written.

use aish_testkit::{Answer, Upstream, World};

use crate::shell::shell;

/// What a line prints that has to end like this.
#[track_caller]
fn runs(world: &World, line: &str, code: i32) -> String {
    let finished = shell(world, line).run().code(code);
    String::from_utf8(finished.stdout).unwrap()
}

#[test]
fn the_trail_is_read_filtered_verified_and_exported() {
    let upstream = Upstream::start();
    let world = World::new();
    let config = upstream.config("test");
    world.write_config(&format!(
        "{config}\n[tools]\nbuiltin = true\n[mcp.auto_approve]\n\"aish__time\" = true\n"
    ));
    upstream.answer(Answer::stream().then_call(0, "call_1", "aish__time", "{\"zone\":\"utc\"}"));
    upstream.answer(Answer::text("Late."));
    let _daemon = world.daemon().spawn();
    runs(&world, "aishctl ask 'what time is it?'", 0);
    let told = runs(&world, "aishctl audit --tool 'aish__*' --since 1h", 0);
    let rows: Vec<&str> = told.lines().collect();
    assert_eq!(3, rows.len(), "{rows:#?}");
    assert!(
        rows[1].contains("started  aish__time  allow, mcp.auto_approve aish__time"),
        "{rows:#?}"
    );
    assert!(rows[1].contains("utc"), "{rows:#?}");
    assert!(rows[2].contains("ended    aish__time  ok, "), "{rows:#?}");
    let none = runs(&world, "aishctl audit --decision deny --jsonl", 0);
    assert_eq!("", none);
    let json = runs(&world, "aishctl audit -n 1 --json", 0);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!("callEnded", json["records"][0]["kind"]);
    let whole = runs(&world, "aishctl audit verify", 0);
    assert!(
        whole.starts_with("5 records, all as they were written\n"),
        "{}",
        whole
    );
    let noted = format!("aishctl audit verify --noted 9:{}", "0".repeat(64));
    let cut = runs(&world, &noted, 1);
    assert_eq!("record 9: the trail was cut: there was a record 9\n", cut);
    // Anybody can check what was exported.
    let check = "aishctl audit export | sed 's/.*\"entry\"://; s/}$//' | head -n 1 | tr -d '\\n' | sha256sum | cut -d ' ' -f 1";
    let sum = runs(&world, check, 0);
    let exported = runs(&world, "aishctl audit export | head -n 1", 0);
    let first: serde_json::Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(first["hash"], sum.trim());
    runs(&world, "aishctl audit --since yesterday", 2);
}
