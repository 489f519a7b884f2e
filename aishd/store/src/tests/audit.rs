//! The audit trail in the store: one commit with what it tells of, whole over restarts, rebuilds and compaction;
//! whatever somebody does to the files is found, and where.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use aishd_log::audit::chain::ChainHead;
use aishd_log::audit::verdict::ChainVerdict;
use aishd_log::audit::{AuditDraft, AuditFact};
use aishd_log::event::PresetSource;
use aishd_platform::clock;

use super::super::audit_trail::TrailDirection;
use super::super::{Note, Store, index, values};
use super::{Author, block_on, conversation, copy_dir, deletion, files_in, fill, rounds};

fn verdict(store: &Store) -> ChainVerdict {
    store.verify_trail(None).unwrap()
}

#[track_caller]
fn whole(store: &Store, expected: u64) -> ChainHead {
    let verdict = verdict(store);
    assert!(verdict.is_whole(), "{:?}", verdict.findings);
    assert_eq!(expected, verdict.head.n);
    verdict.head
}

/// What is found in a copy of a store with six turns of two records each, after somebody changed its files.
fn found_after(tamper: impl FnOnce(&Path)) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 2, 3);
    whole(&store, 12);
    store.close();
    let copy = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), copy.path());
    tamper(copy.path());
    let store = Store::open(copy.path()).unwrap();
    let verdict = verdict(&store);
    let show = |it: &aishd_log::audit::verdict::ChainFinding| {
        let n = it.n.map(|it| format!("{it}: ")).unwrap_or_default();
        let place = it.place.as_ref().map_or("", |_| "journal: ");
        format!("{n}{place}{}", it.fault)
    };
    verdict.findings.iter().map(show).collect()
}

fn in_index(dir: &Path, change: impl FnOnce(&sled::Db)) {
    let db = index::open(&dir.join("db")).unwrap();
    change(&db);
    index::flush(&db).unwrap();
    index::close(db);
}

/// The index takes another record for the last one.
fn say_head(db: &sled::Db, head: ChainHead) {
    db.insert(values::AUDIT_HEAD, serde_json::to_vec(&head).unwrap())
        .unwrap();
}

/// The lines of the only segment, changed, with checksums and lengths that are right.
pub(super) fn in_journal(dir: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let path = segment(dir);
    let text = fs::read_to_string(&path).unwrap();
    let rec = |line: &str| {
        let (_, rec) = line.split_once("\"rec\":").unwrap();
        rec.strip_suffix('}').unwrap().to_owned()
    };
    let mut recs: Vec<String> = text.lines().map(rec).collect();
    change(&mut recs);
    let line = |rec: &String| {
        let (crc, length) = (crc32c::crc32c(rec.as_bytes()), rec.len());
        format!("{{\"crc\":\"{crc:08x}\",\"len\":\"{length:08}\",\"rec\":{rec}}}\n")
    };
    let lines: String = recs.iter().map(line).collect();
    fs::write(path, lines).unwrap();
}

fn segment(dir: &Path) -> PathBuf {
    let mut segments = files_in(&dir.join("journal"));
    assert_eq!(1, segments.len());
    segments.remove(0)
}

/// Where the record with this number stands.
fn place(recs: &[String], n: u64) -> usize {
    let says = format!("\"n\":{n},\"hash\"");
    recs.iter().position(|it| it.contains(&says)).unwrap()
}

#[test]
fn what_somebody_does_to_the_index_is_found() {
    let nothing: Vec<String> = vec![];
    assert_eq!(nothing, found_after(|_| {}));
    let found = found_after(|dir| {
        in_index(dir, |db| {
            let head = super::super::audit_trail::head(db).unwrap();
            let hash = aishd_log::tool::ContentDigest::of(b"another");
            say_head(db, ChainHead { hash, ..head });
        });
    });
    assert_eq!(vec!["12: it was changed: its digest is another"], found);
    let found = found_after(|dir| {
        in_index(dir, |db| {
            let head = super::super::audit_trail::head(db).unwrap();
            say_head(db, ChainHead { n: 15, ..head });
        });
    });
    assert_eq!(vec!["13: the trail was cut: there was a record 15"], found);
}

#[test]
fn a_fact_that_was_changed_is_found() {
    let found = found_after(|dir| {
        in_journal(dir, |recs| {
            let event = recs.iter().position(|it| it.contains("\"1/4:"));
            let event = &mut recs[event.unwrap()];
            *event = event.replacen("\"1/4:", "\"1/5:", 1);
        });
    });
    let id = conversation(1);
    assert_eq!(
        vec![format!(
            "3: event 4 of conversation {id} is not what it was when this was told of it"
        )],
        found
    );
}

#[test]
fn what_somebody_does_to_the_journal_is_found() {
    let found = found_after(|dir| {
        in_journal(dir, |recs| {
            let at = place(recs, 4);
            recs[at] = recs[at].replacen("\"m\"", "\"x\"", 1);
        });
    });
    assert_eq!(
        vec!["4: journal: it was changed: its digest is another"],
        found
    );
    let found = found_after(|dir| {
        in_journal(dir, |recs| {
            recs.remove(place(recs, 4));
        });
    });
    assert!(
        found.iter().any(|it| it.contains("cannot be read")),
        "{found:?}"
    );
    // Also where whoever took it out counted the lines anew: the record, and the event that it told of.
    let found = found_after(|dir| {
        in_journal(dir, |recs| {
            recs.remove(place(recs, 3));
            renumber(recs);
        });
    });
    let id = conversation(1);
    assert_eq!(
        vec![
            "4: journal: it does not follow on the record before it: 1 are missing".to_owned(),
            format!("journal: event 4 of conversation {id} has no record"),
        ],
        found[..2]
    );
    let found = found_after(|dir| {
        in_journal(dir, |recs| {
            let (a, b) = (place(recs, 3), place(recs, 4));
            recs.swap(a, b);
            let (a, b) = (recs[a].clone(), recs[b].clone());
            let at = place(recs, 4);
            recs[at] = a.replacen("\"last\":true", "\"last\":false", 1);
            recs[at + 1] = b.replacen("\"last\":false", "\"last\":true", 1);
            renumber(recs);
        });
    });
    let reordered = "3: journal: it stands behind a record that comes after it".to_owned();
    assert!(found.contains(&reordered), "{found:?}");
    // The last record, and the end of its commit made to fit.
    let found = found_after(|dir| {
        in_journal(dir, |recs| {
            recs.pop();
            renumber(recs);
            let end = recs.last_mut().unwrap();
            *end = end.replacen("\"last\":false", "\"last\":true", 1);
        });
    });
    assert!(found[0].ends_with("has no record"), "{found:?}");
    assert!(found[1].contains("cannot be read"), "{found:?}");
}

/// Positions without a gap, and none that knows of another as durable.
fn renumber(recs: &mut [String]) {
    for (position, rec) in recs.iter_mut().enumerate().skip(1) {
        let at = rec.find("\"at\":{\"pos\":").unwrap();
        let last = at + rec[at..].find(",\"last\"").unwrap();
        let place = format!("\"at\":{{\"pos\":{position},\"durable\":0");
        rec.replace_range(at..last, &place);
    }
}

#[test]
fn one_who_cuts_everything_alike_is_found_by_a_note_of_the_last_record() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 1, 2);
    let before = tempfile::tempdir().unwrap();
    store.close();
    copy_dir(dir.path(), before.path());
    let store = Store::open(dir.path()).unwrap();
    let told = AuditFact::ConversationDeleted;
    block_on(store.record_audit(vec![AuditDraft::outside_conversation(clock::now(), told)]))
        .unwrap();
    let noted = whole(&store, 5);
    assert!(store.verify_trail(Some(noted)).unwrap().is_whole());
    store.close();
    let old = Store::open(before.path()).unwrap();
    whole(&old, 4);
    let found = old.verify_trail(Some(noted)).unwrap().findings;
    assert_eq!(
        "the trail was cut: there was a record 5",
        found[0].fault.to_string()
    );
}

#[test]
fn the_trail_is_whole_over_restarts_rebuilds_rolls_and_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = 0;
    for round in 0..4 {
        let store = Store::open(dir.path()).unwrap();
        for _ in 0..3 {
            let mut author = Author::new(100 + round);
            author.state = store
                .load(author.id())
                .unwrap()
                .map(|it| it.state)
                .unwrap_or_default();
            block_on(store.commit(author.turn_commit())).unwrap();
        }
        block_on(store.delete(conversation(100 + round), deletion(100 + round))).unwrap();
        // The same id again: what is told of the one before is of that one.
        block_on(store.commit(Author::new(100 + round).turn_commit())).unwrap();
        expected += 9;
        let head = whole(&store, expected);
        store.close();
        if round % 2 == 0 {
            fs::remove_dir_all(dir.path().join("db")).unwrap();
        }
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(head, whole(&store, expected));
        store.close();
    }
    // Every start closed a segment with deleted events in it, and compacted those before.
    let secret = super::text_of(100, 4);
    let secret = serde_json::to_string(&secret).unwrap();
    let files = files_in(&dir.path().join("journal"));
    assert!(files.len() > 1);
    let started = Instant::now();
    let store = Store::open(dir.path()).unwrap();
    while files
        .iter()
        .any(|it| fs::read_to_string(it).unwrap_or_default().contains(&secret))
    {
        assert!(started.elapsed().as_secs() < 10, "never compacted");
        std::thread::yield_now();
    }
    whole(&store, expected);
    store.close();
}

#[test]
fn a_store_of_before_goes_on_in_a_segment_of_its_own() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/store/v1");
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&kept, dir.path());
    let store = Store::open(dir.path()).unwrap();
    // Nothing was told of what is in it.
    whole(&store, 0);
    block_on(store.commit(Author::new(9).turn_commit())).unwrap();
    whole(&store, 2);
    store.close();
    let formats: Vec<bool> = files_in(&dir.path().join("journal"))
        .iter()
        .map(|it| fs::read_to_string(it).unwrap().contains("\"format\":4"))
        .collect();
    // The first one may have been written anew, for what is deleted in it.
    assert_eq!(2, formats.len());
    assert!(formats[1], "{formats:?}");
}

#[test]
fn a_long_trail_is_paged_and_verified() {
    let thousands = rounds("AISH_AUDIT_THOUSANDS", 10);
    let records = thousands * 1000;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let told = |it| AuditFact::ModelChosen {
        model: format!("m{it}"),
        source: PresetSource::Configured,
    };
    block_on(async {
        for thousand in 0..thousands {
            let drafts = (0..1000).map(|it| {
                AuditDraft::outside_conversation(clock::now(), told(thousand * 1000 + it))
            });
            store.record_audit(drafts.collect()).await.unwrap();
        }
    });
    let started = Instant::now();
    let head = whole(&store, records);
    println!("{records} records verified in {:?}", started.elapsed());
    let started = Instant::now();
    let newest = store
        .trail(u64::MAX, 10, TrailDirection::NewestFirst)
        .unwrap();
    let numbers: Vec<u64> = newest.iter().map(|it| it.n).collect();
    assert_eq!((records - 9..=records).rev().collect::<Vec<_>>(), numbers);
    let some = store
        .trail(records / 2, 3, TrailDirection::OldestFirst)
        .unwrap();
    assert_eq!(records / 2, some[0].n);
    println!("two pages read in {:?}", started.elapsed());
    store.close();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(head, store.trail_head().unwrap());
}

/// What is kept beside the conversations counts only with what is told of it.
#[test]
fn a_note_and_what_is_told_of_it_are_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let note = |text: &str| Note {
        key: "k".to_owned(),
        text: text.to_owned(),
        forgets: false,
    };
    block_on(store.keep(note("one"), deletion(1))).unwrap();
    assert_eq!(Some("one".to_owned()), store.note("k").unwrap());
    block_on(store.keep(note("two"), deletion(2))).unwrap();
    assert_eq!(Some("two".to_owned()), store.note("k").unwrap());
    whole(&store, 2);
    store.close();
    // A crash came between the two lines.
    in_journal(dir.path(), |recs| {
        let last = recs.pop().unwrap();
        assert!(last.contains("\"audit\""), "{last}");
        assert!(recs.last().unwrap().contains("two"));
    });
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(Some("one".to_owned()), store.note("k").unwrap());
    whole(&store, 1);
}
