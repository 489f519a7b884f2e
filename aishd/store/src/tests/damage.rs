//! A damaged store opens with everything there and says what it did, or refuses and says where it is damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::{OpenError, ReadError, Store, line};
use super::{
    Author, Dice, all_states, block_on, conversation, copy_dir, files_in, fill, partial_of,
    read_all, rounds,
};

const CONVERSATIONS: u64 = 12;
const TURNS: u64 = 40;

/// A closed store with enough in it that sled has several segments.
fn sound() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fill(&store, CONVERSATIONS, TURNS);
    store.close();
    dir
}

fn copy(sound: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy_dir(sound, dir.path());
    dir
}

/// One damage to a file of sled. Returns what was done.
fn damage_index(db: &Path, dice: &mut Dice) -> String {
    let mut files = files_in(db);
    files.retain(|it| fs::metadata(it).unwrap().len() > 0);
    let index = dice.below(files.len() as u64);
    let path = &files[usize::try_from(index).unwrap()];
    let mut bytes = fs::read(path).unwrap();
    let length = bytes.len() as u64;
    let at = usize::try_from(dice.below(length)).unwrap();
    let what = match dice.below(7) {
        0 => {
            fs::remove_file(path).unwrap();
            return format!("removed {}", path.display());
        }
        1 => {
            bytes.truncate(at);
            "truncated"
        }
        2 => {
            for _ in 0..16 {
                let at = usize::try_from(dice.below(length)).unwrap();
                bytes[at] ^= 1 << dice.below(8);
            }
            "flipped bits of"
        }
        3 | 4 => {
            let page = at / 4096 * 4096;
            let end = (page + 4096).min(bytes.len());
            bytes[page..end].fill(0);
            "zeroed a page of"
        }
        5 => {
            bytes.fill(0);
            "zeroed"
        }
        _ => {
            let end = (at + 4096).min(bytes.len());
            bytes[at..end].fill_with(|| u8::try_from(dice.below(256)).unwrap());
            "wrote garbage into"
        }
    };
    fs::write(path, bytes).unwrap();
    format!("{what} {}", path.display())
}

fn check_all(store: &Store) -> Result<(), String> {
    for number in 1..=CONVERSATIONS {
        let last = read_all(store, number)?;
        if last != TURNS * 3 {
            return Err(format!("{number} ends at {last}"));
        }
    }
    let states = all_states(store).map_err(|it| it.to_string())?;
    let unsettled = store.unsettled().map_err(|it| it.to_string())?;
    let filled = (1..=CONVERSATIONS).all(|it| states.iter().any(|(id, _)| *id == conversation(it)));
    if !filled || !unsettled.is_empty() {
        return Err(format!("{} states, {unsettled:?}", states.len()));
    }
    Ok(())
}

#[test]
fn a_damaged_index_is_built_again_with_everything_there() {
    let sound = sound();
    let (mut repaired, mut unharmed) = (0, 0);
    for seed in 1..=rounds("AISH_STORE_DAMAGES", 22) {
        let dir = copy(sound.path());
        let mut dice = Dice::new(seed);
        let damage = damage_index(&dir.path().join("db"), &mut dice);
        let started = Instant::now();
        let store =
            Store::open(dir.path()).unwrap_or_else(|it| panic!("seed {seed}, {damage}: {it}"));
        check_all(&store).unwrap_or_else(|it| panic!("seed {seed}, {damage}: {it}"));
        let took = started.elapsed();
        assert!(
            took < Duration::from_secs(10),
            "seed {seed}, {damage}: {took:?}"
        );
        let says_so = !store.repairs().is_empty();
        if says_so {
            repaired += 1;
        } else {
            unharmed += 1;
        }
        block_on(store.commit(Author::new(99).turn_commit()))
            .unwrap_or_else(|it| panic!("seed {seed}, {damage}: {it}"));
        store.close();
        let store =
            Store::open(dir.path()).unwrap_or_else(|it| panic!("seed {seed}, {damage}: {it}"));
        assert_eq!(3, read_all(&store, 99).unwrap(), "seed {seed}, {damage}");
        check_all(&store).unwrap_or_else(|it| panic!("seed {seed}, {damage}: again {it}"));
    }
    println!("damages to the index: {repaired} repaired, {unharmed} without effect");
    assert!(repaired > 10, "the damages do no damage: {repaired}");
}

#[test]
fn a_half_written_snapshot_of_sled_does_no_harm() {
    let dir = copy(sound().path());
    fs::write(dir.path().join("db/snap.FFFFFFFF.generating"), b"").unwrap();
    let store = Store::open(dir.path()).unwrap();
    check_all(&store).unwrap();
    assert_eq!(Vec::<String>::new(), store.repairs());
}

#[test]
fn an_index_that_is_damaged_under_a_running_store_is_built_again() {
    let dir = copy(sound().path());
    let store = Store::open(dir.path()).unwrap();
    let heap = dir.path().join("db/db");
    let length = fs::metadata(&heap).unwrap().len();
    fs::write(&heap, vec![0x55; usize::try_from(length).unwrap()]).unwrap();
    check_all(&store).unwrap();
    assert_eq!(1, store.repairs().len(), "{:?}", store.repairs());
    block_on(store.commit(Author::new(99).turn_commit())).unwrap();
    assert_eq!(3, read_all(&store, 99).unwrap());
}

fn newest_segment(dir: &Path) -> PathBuf {
    files_in(&dir.join("journal")).pop().unwrap()
}

#[test]
fn a_torn_tail_is_cut_and_what_was_acknowledged_before_it_stays() {
    let sound = sound();
    let path = newest_segment(sound.path());
    let whole = fs::read(&path).unwrap();
    let lines: Vec<usize> = (0..whole.len()).filter(|it| whole[*it] == b'\n').collect();
    // The last commit has three lines; without its last one it never happened.
    let commit = lines[lines.len() - 4] + 1;
    let mut dice = Dice::new(5);
    for round in 0..rounds("AISH_STORE_TORN", 8) {
        let dir = copy(sound.path());
        fs::remove_dir_all(dir.path().join("db")).unwrap();
        let tail = (whole.len() - commit) as u64;
        let keep = commit + usize::try_from(1 + dice.below(tail - 1)).unwrap();
        let mut torn = whole[..keep].to_vec();
        if round % 2 == 0 {
            torn.extend_from_slice(&[0; 300]);
        }
        fs::write(newest_segment(dir.path()), torn).unwrap();
        let store = Store::open(dir.path()).unwrap_or_else(|it| panic!("cut at {keep}: {it}"));
        let last = read_all(&store, CONVERSATIONS).unwrap();
        assert_eq!((TURNS - 1) * 3, last, "cut at {keep}");
        assert_eq!(TURNS * 3, read_all(&store, 1).unwrap());
        assert_eq!(2, store.repairs().len(), "{:?}", store.repairs());
        store.close();
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(Vec::<String>::new(), store.repairs());
    }
}

/// Who cannot be read says so; nobody is shorter than he was without a word.
fn outcomes(store: &Store) -> (usize, Vec<String>) {
    let mut errors = vec![];
    let mut whole = 0;
    for number in 1..=CONVERSATIONS {
        match read_all(store, number) {
            Ok(last) => {
                assert_eq!(TURNS * 3, last, "silent loss in {number}");
                whole += 1;
            }
            Err(error) => errors.push(error),
        }
    }
    (whole, errors)
}

#[test]
fn a_damaged_record_costs_its_conversation_with_an_index_and_without() {
    let sound = sound();
    let mut dice = Dice::new(11);
    for _ in 0..rounds("AISH_STORE_MIDDLE", 10) {
        let dir = copy(sound.path());
        let path = newest_segment(dir.path());
        let mut bytes = fs::read(&path).unwrap();
        let body = bytes.iter().position(|it| *it == b'\n').unwrap() as u64 + 1;
        let at = usize::try_from(body + dice.below(bytes.len() as u64 * 9 / 10 - body)).unwrap();
        bytes[at] ^= 4;
        fs::write(&path, &bytes).unwrap();
        let store = Store::open(dir.path()).unwrap_or_else(|it| panic!("byte {at}: {it}"));
        let (whole, errors) = outcomes(&store);
        assert!(whole as u64 >= CONVERSATIONS - 1, "byte {at}: {errors:?}");
        store.close();
        let db = dir.path().join("db");
        fs::write(db.join("db"), b"no index").unwrap();
        for life in 0..2 {
            let store = Store::open(dir.path()).unwrap_or_else(|it| panic!("byte {at}: {it}"));
            let (whole, errors) = outcomes(&store);
            assert!(whole as u64 >= CONVERSATIONS - 1, "byte {at}: {errors:?}");
            if life == 0 {
                let repairs = store.repairs().join("; ");
                assert!(
                    repairs.contains(path.to_str().unwrap()) && repairs.contains("at byte"),
                    "byte {at}: {repairs}"
                );
            }
            block_on(store.commit(Author::new(99 + life).turn_commit())).unwrap();
            store.close();
        }
    }
}

#[test]
fn a_journal_that_lost_its_end_goes_on_in_a_new_epoch_and_says_who_lacks_records() {
    let dir = copy(sound().path());
    let path = newest_segment(dir.path());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let header = {
        let (rec, _) = line::check(&bytes).unwrap();
        String::from_utf8(rec.to_vec()).unwrap()
    };
    let store = Store::open(dir.path()).unwrap();
    let (whole, errors) = outcomes(&store);
    assert!(whole > 2 && errors.len() > 2, "{whole} and {errors:?}");
    let repairs = store.repairs().join("; ");
    assert!(
        repairs.contains("the journal ends before position"),
        "{repairs}"
    );
    let epoch = store.epoch();
    assert!(!header.contains(&epoch.to_string()), "the epoch stayed");
    block_on(store.commit(Author::new(99).turn_commit())).unwrap();
    store.close();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(epoch, store.epoch());
    assert_eq!(whole, outcomes(&store).0);
    assert_eq!(3, read_all(&store, 99).unwrap());
    store.close();
    // Without the index nobody knows who ended where, and that is said.
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let repairs = store.repairs().join("; ");
    assert!(repairs.contains("cannot be read"), "{repairs}");
    assert_eq!(TURNS * 3, read_all(&store, 1).unwrap());
}

#[test]
fn a_store_without_its_journal_is_refused() {
    let dir = copy(sound().path());
    fs::remove_dir_all(dir.path().join("journal")).unwrap();
    for _ in 0..2 {
        let opened = Store::open(dir.path());
        assert!(
            matches!(opened, Err(OpenError::Damaged { .. })),
            "{opened:?}"
        );
    }
}

/// Where in the index the damage is says who cannot be read until it is built again.
#[test]
fn damage_to_index_and_journal_leaves_the_other_conversations_readable() {
    const PLACES: usize = 8;
    for place in 0..PLACES {
        let dir = copy(sound().path());
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(TURNS * 3, read_all(&store, 1).unwrap());
        let path = newest_segment(dir.path());
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        let heap = dir.path().join("db/db");
        let mut bytes = fs::read(&heap).unwrap();
        let (from, to) = (
            bytes.len() * place / PLACES,
            bytes.len() * (place + 1) / PLACES,
        );
        bytes[from..to].fill(0x33);
        fs::write(&heap, bytes).unwrap();
        let (whole, errors) = outcomes(&store);
        assert!(whole as u64 >= CONVERSATIONS - 1, "{place}: {errors:?}");
    }
}

#[test]
fn a_newer_store_is_refused_and_not_touched() {
    let dir = copy(sound().path());
    let path = newest_segment(dir.path());
    let first = 10_000_000_u64;
    let rec = format!("{{\"header\":{{\"format\":1000,\"shape\":\"unknown\",\"first\":{first}}}}}");
    let crc = crc32c::crc32c(rec.as_bytes());
    let text = format!(
        "{{\"crc\":\"{crc:08x}\",\"len\":\"{:08}\",\"rec\":{rec}}}\n",
        rec.len()
    );
    fs::write(path.with_file_name(format!("{first:020}.jsonl")), text).unwrap();
    let contents = || {
        let files = files_in(dir.path());
        let read = |it: PathBuf| (fs::read(&it).unwrap(), it);
        files.into_iter().map(read).collect::<Vec<_>>()
    };
    let before = contents();
    match Store::open(dir.path()) {
        Err(OpenError::Newer {
            found: 1000,
            known: line::FORMAT,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    assert!(before == contents(), "it was touched");
}

#[test]
fn a_read_of_a_closed_store_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert!(store.keep_partial(partial_of(1, 1, 0, "x")));
    store.close();
    assert!(matches!(all_states(&store), Err(ReadError::Unavailable(_))));
}

#[test]
fn a_damaged_record_of_the_audit_trail_or_a_piece_of_text_costs_no_conversation() {
    for name in ["audit", "partial"] {
        let dir = copy(sound().path());
        let store = Store::open(dir.path()).unwrap();
        assert!(store.keep_partial(partial_of(3, 900, 0, "half of an answer")));
        // What is written behind it says that it was durable.
        for number in [98, 99] {
            block_on(store.commit(Author::new(number).turn_commit())).unwrap();
        }
        store.close();
        let path = newest_segment(dir.path());
        let mut bytes = fs::read(&path).unwrap();
        let line = format!("\"rec\":{{\"{name}\":");
        let line = line.as_bytes();
        let at = bytes.windows(line.len()).position(|it| it == line).unwrap();
        bytes[at + line.len() + 60] ^= 1;
        fs::write(&path, bytes).unwrap();
        fs::remove_dir_all(dir.path().join("db")).unwrap();
        let store = Store::open(dir.path()).unwrap();
        check_all(&store).unwrap_or_else(|it| panic!("{name}: {it}"));
        let repairs = store.repairs().join("; ");
        assert!(repairs.contains("is damaged at byte"), "{name}: {repairs}");
    }
}
