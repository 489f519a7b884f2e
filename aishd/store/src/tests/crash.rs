//! `kill -9` at any time, at named places and during start-up: nothing acknowledged is lost, and what is there
//! has its record in the audit trail.

use std::io::{BufRead as _, BufReader, Read as _};
use std::thread;
use std::time::Duration;

use super::super::Store;
use super::driver::{Task, said, start, task};
use super::{Dice, read_all, rounds};

/// Opens the store, and checks that every conversation is whole and has what was acknowledged.
pub(super) fn check(dir: &std::path::Path, acks: &[(u64, u64)], producers: u64, what: &str) {
    let store = Store::open(dir).unwrap_or_else(|it| panic!("{what}: {it:?}"));
    for number in 1..=producers {
        let last = read_all(&store, number).unwrap_or_else(|it| panic!("{what}: {it}"));
        let acked = acks.iter().filter(|it| it.0 == number).map(|it| it.1).max();
        assert!(
            last >= acked.unwrap_or(0),
            "{what}: {number} has {last} of {acked:?}"
        );
    }
    // Of whatever is there the trail tells, and of nothing else.
    let verdict = store.verify_trail(None).unwrap();
    assert!(verdict.is_whole(), "{what}: {:?}", verdict.findings);
    let told: u64 = (1..=producers)
        .map(|it| 2 * (read_all(&store, it).unwrap() / 3))
        .sum();
    assert!(
        verdict.head.n >= told,
        "{what}: {} of {told}",
        verdict.head.n
    );
    store.close();
}

/// As [`check`], and that what was deleted is gone and what was noted is there; the second time without the index, so that
/// everything is read from the journal.
pub(super) fn check_churned(dir: &std::path::Path, output: &[(String, u64, u64)], what: &str) {
    let of = |verb: &str| -> Vec<(u64, u64)> {
        let said = output.iter().filter(|it| it.0 == verb);
        said.map(|it| (it.1, it.2)).collect()
    };
    for index in ["with", "without"] {
        let what = format!("{what}, {index} the index");
        if index == "without" {
            let _never_made = std::fs::remove_dir_all(dir.join("db"));
        }
        check(dir, &of("ack"), 4, &what);
        let store = Store::open(dir).unwrap();
        for (number, _) in of("gone") {
            let left = store.load(super::conversation(number)).unwrap();
            assert!(left.is_none(), "{what}: {number} was deleted");
        }
        // Up to the last erasure that succeeded, no file has a word of what was deleted.
        let last = output.iter().rposition(|it| it.0 == "erased");
        let erased = output.iter().take(last.unwrap_or(0));
        let erased: Vec<u64> = erased.filter(|it| it.0 == "gone").map(|it| it.1).collect();
        no_file_has(dir, &erased, &what);
        let noted = store.note(super::driver::NOTE).unwrap();
        let noted: u64 = noted.map_or(0, |it| it.parse().unwrap());
        let wanted = of("noted").iter().map(|it| it.1).max().unwrap_or_default();
        assert!(noted >= wanted, "{what}: the note says {noted} of {wanted}");
        store.close();
    }
}

/// No file below `dir` has a text of one of these conversations. A text begins with `"NUMBER/`.
pub(super) fn no_file_has(dir: &std::path::Path, conversations: &[u64], what: &str) {
    let erased: std::collections::HashSet<u64> = conversations.iter().copied().collect();
    for path in super::files_in(dir) {
        let bytes = std::fs::read(&path).unwrap_or_default();
        for piece in bytes.split(|it| *it == b'"') {
            let digits = piece.iter().take_while(|it| it.is_ascii_digit()).count();
            if digits == 0 || piece.get(digits) != Some(&b'/') {
                continue;
            }
            let number = std::str::from_utf8(&piece[..digits]).unwrap().parse();
            let is_erased = number.is_ok_and(|it| erased.contains(&it));
            let text = String::from_utf8_lossy(&piece[..piece.len().min(20)]);
            assert!(!is_erased, "{what}: {} has {text}", path.display());
        }
    }
}

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
enum KilledAfter {
    /// While it starts, recovery included; on a quiet machine also a little later.
    Milliseconds(u64),
    /// Somewhere behind so many acknowledgements, however long they take on a busy machine.
    Acknowledged(u64),
}

/// What a process said that does `task` and was killed.
fn killed(task: &Task, after: KilledAfter) -> String {
    let mut child = start(&[], task);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut output = String::new();
    match after {
        KilledAfter::Milliseconds(pause) => thread::sleep(Duration::from_millis(pause)),
        KilledAfter::Acknowledged(mut left) => {
            while left > 0 {
                let from = output.len();
                assert!(
                    stdout.read_line(&mut output).unwrap() > 0,
                    "it ended: {output}"
                );
                left -= u64::from(output[from..].starts_with("ack "));
            }
            // Somewhere in the next group.
            thread::sleep(Duration::from_micros(37 * (output.len() as u64 % 100)));
        }
    }
    child.kill().unwrap();
    stdout.read_to_string(&mut output).unwrap();
    child.wait().unwrap();
    output
}

/// Lives of one store; a check reads all that was acknowledged in them.
const LIVES: u64 = 100;

#[test]
fn kills_among_deletions_forks_and_compactions_lose_nothing() {
    let cycles = rounds("AISH_STORE_KILLS", 16);
    let (mut acks, mut gone) = (0, 0);
    for first in (1..=cycles).step_by(usize::try_from(LIVES).unwrap()) {
        let dir = tempfile::tempdir().unwrap();
        let mut all = vec![];
        for seed in first..=cycles.min(first + LIVES - 1) {
            let mut dice = Dice::new(seed);
            let churning = Task {
                churn: true,
                life: seed,
                ..task(dir.path())
            };
            let killed_after = match seed % 4 {
                0 => KilledAfter::Milliseconds(dice.below(100)),
                _ => KilledAfter::Acknowledged(1 + dice.below(100)),
            };
            all.extend(said(&killed(&churning, killed_after)));
            if seed % 10 == 0 {
                check_churned(dir.path(), &all, &format!("seed {seed}"));
            }
        }
        check_churned(dir.path(), &all, "at the end");
        let count = |verb: &str| all.iter().filter(|it| it.0 == verb).count() as u64;
        acks += count("ack");
        gone += count("gone");
        println!("{acks} acknowledgements, {gone} deletions, none lost");
    }
    assert!(
        acks > cycles && gone > 0,
        "too little happened to tell: {cycles} kills"
    );
}

#[test]
fn nothing_acknowledged_is_lost_by_kills_at_random_times() {
    let dir = tempfile::tempdir().unwrap();
    let mut acks = vec![];
    let cycles = rounds("AISH_STORE_KILLS", 40);
    for seed in 1..=cycles {
        let mut dice = Dice::new(seed);
        let killed_after = match seed % 3 {
            0 => KilledAfter::Milliseconds(dice.below(20)),
            _ => KilledAfter::Acknowledged(1 + dice.below(20)),
        };
        let said = said(&killed(&task(dir.path()), killed_after));
        let acked = said
            .iter()
            .filter(|it| it.0 == "ack")
            .map(|it| (it.1, it.2));
        acks.extend(acked);
        if seed % 10 == 0 {
            check(dir.path(), &acks, 4, &format!("seed {seed}"));
        }
    }
    check(dir.path(), &acks, 4, "at the end");
    println!("{cycles} kills, {} acknowledgements, none lost", acks.len());
    assert!(
        acks.len() as u64 > cycles,
        "too few acknowledgements to tell: {}",
        acks.len()
    );
}

#[test]
fn nothing_acknowledged_is_lost_by_kills_at_named_places() {
    let places = [
        "store.after_write",
        "store.after_sync",
        "store.after_apply",
        "recover.mid",
    ];
    for place in places {
        let dir = tempfile::tempdir().unwrap();
        // Something to lose first, left by a kill, so that start-up has work to do.
        let first = Task {
            failpoint: "store.after_sync=kill@20".to_owned(),
            ..task(dir.path())
        };
        let output = start(&[], &first).wait_with_output().unwrap();
        let said_first = said(&String::from_utf8_lossy(&output.stdout));
        let mut acks: Vec<_> = said_first
            .iter()
            .filter(|it| it.0 == "ack")
            .map(|it| (it.1, it.2))
            .collect();
        assert!(!acks.is_empty());
        for round in 1..=rounds("AISH_STORE_PLACES", 4) {
            let nth = if place == "recover.mid" { 1 } else { round * 3 };
            let task = Task {
                failpoint: format!("{place}=kill@{nth}"),
                turns: 200,
                ..task(dir.path())
            };
            let output = start(&[], &task).wait_with_output().unwrap();
            assert!(!output.status.success(), "{place} was never passed");
            let said = said(&String::from_utf8_lossy(&output.stdout));
            acks.extend(
                said.iter()
                    .filter(|it| it.0 == "ack")
                    .map(|it| (it.1, it.2)),
            );
            check(dir.path(), &acks, 4, &format!("{place}@{nth}"));
        }
        println!("{place}: {} acknowledgements, none lost", acks.len());
    }
}

#[test]
fn a_kill_while_what_was_erased_leaves_the_files_loses_nothing() {
    let places = [
        "compact.mid",
        "compact.replaced",
        "compact.applied",
        "index.copied",
        "index.exchanged",
    ];
    for place in places {
        let dir = tempfile::tempdir().unwrap();
        let mut all = vec![];
        for round in 1..=rounds("AISH_STORE_PLACES", 2) {
            let task = Task {
                failpoint: format!("{place}=kill@{round}"),
                churn: true,
                life: round,
                ..task(dir.path())
            };
            let output = start(&[], &task).wait_with_output().unwrap();
            assert!(!output.status.success(), "{place} was never passed");
            all.extend(said(&String::from_utf8_lossy(&output.stdout)));
            check_churned(dir.path(), &all, &format!("{place}@{round}"));
        }
        assert!(
            all.iter().any(|it| it.0 == "gone"),
            "{place}: nothing happened"
        );
    }
}
