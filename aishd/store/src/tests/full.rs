//! A full disk and a failing one: nothing is acknowledged, reading works, and it goes on by itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use aish_proto::id::Epoch;
use ulid::Ulid;

use super::super::journal::{Journal, JournalEntry, JournalResume};
use super::super::{CommitError, DiskClaim, Store, scan, segment};
use super::driver::{Task, said, start, task};
use super::{
    Author, block_on, conversation, crash, deletion, fill, finished, read_all, turn, user_message,
};

/// A small file system of its own, gone with this.
#[derive(Debug)]
struct Mount {
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Mount {
    /// `None` with a printed reason where one may not mount.
    fn new(megabytes: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(dir.path())
            .output();
        if mounted.is_ok_and(|it| it.status.success()) {
            return Some(Self {
                path: dir.path().to_owned(),
                _dir: dir,
            });
        }
        println!("skipped: mounting a tmpfs is not allowed here");
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.path).status();
        assert!(unmounted.unwrap().success());
    }
}

/// Takes all the room but `leave` bytes.
fn fill_disk(path: &Path, leave: u64) -> PathBuf {
    let stat = rustix::fs::statvfs(path).unwrap();
    let free = stat.f_bavail * stat.f_frsize;
    let filler = path.join("filler");
    fs::write(
        &filler,
        vec![1; usize::try_from(free.saturating_sub(leave)).unwrap()],
    )
    .unwrap();
    filler
}

/// Commits until it is taken again. Returns how often it was refused.
fn until_taken(store: &Store, author: &mut Author) -> u32 {
    let started = Instant::now();
    let mut refused = 0;
    loop {
        let commit = author.turn_commit();
        match block_on(store.commit(commit.clone())) {
            Ok(()) => {
                author.took(&commit);
                return refused;
            }
            Err(_) => refused += 1,
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it does not go on"
        );
        std::thread::yield_now();
    }
}

fn check_full_disk(megabytes: u32) {
    let Some(mount) = Mount::new(megabytes) else {
        return;
    };
    let dir = mount.path.join("store");
    let store = Store::open(&dir).unwrap();
    let mut author = Author::new(1);
    until_taken(&store, &mut author);
    let filler = fill_disk(&mount.path, 300_000);
    let question = || author.turn_commit().claiming(DiskClaim::Begin);
    let refused = block_on(store.commit(question()));
    assert!(matches!(refused, Err(CommitError::Full)), "{refused:?}");
    assert!(store.health().problem.is_some());
    assert_eq!(3, read_all(&store, 1).unwrap());
    fs::remove_file(&filler).unwrap();
    until_taken(&store, &mut author);
    assert_eq!(None, store.health().problem);

    // Filled by the store itself, to the brim.
    let long = "f".repeat(100_000);
    let mut big = Author::new(2);
    let error = loop {
        let number = big.state.last_seq.0 + 1;
        let turn = Some(turn(2, number));
        let commit = big.commit(vec![
            (user_message(long.clone(), None), turn),
            (finished(""), turn),
        ]);
        let commit = commit.claiming(DiskClaim::GoOn);
        match block_on(store.commit(commit.clone())) {
            Ok(()) => big.took(&commit),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, CommitError::Full), "{error:?}");
    let all = |store: &Store| {
        assert_eq!(
            big.state,
            store.load(conversation(2)).unwrap().unwrap().state
        );
        assert_eq!(6, read_all(store, 1).unwrap());
    };
    all(&store);
    store.close();

    // And somebody else takes the rest while it is closed.
    let room_before = fs::metadata(dir.join("reserve")).is_ok();
    let filler = fill_disk(&mount.path, 100_000);
    let store = Store::open(&dir).unwrap_or_else(|it| panic!("reserve {room_before}: {it:?}"));
    all(&store);
    let refused = block_on(store.commit(author.turn_commit()));
    println!(
        "{megabytes} MiB: reserve {room_before}, the next commit on the full disk: {refused:?}"
    );
    fs::remove_file(filler).unwrap();
    if refused.is_ok() {
        let commit = author.turn_commit();
        author.took(&commit);
    }
    store.close();
}

#[test]
fn a_full_disk_refuses_commits_and_goes_on_by_itself() {
    check_full_disk(24);
    check_full_disk(64);
}

/// Runs the driver with errors injected into system calls. `None` where strace cannot.
fn inject(dir: &Path, what: &str, task: &Task) -> Option<Vec<(String, u64, u64)>> {
    let works = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status();
    if !works.is_ok_and(|it| it.success()) {
        println!("skipped: strace cannot trace here");
        return None;
    }
    let log = dir.with_extension("trace").display().to_string();
    let words = ["strace", "-f", "-o", &log, "-e", what];
    let output = start(&words.map(str::to_owned), task)
        .wait_with_output()
        .unwrap();
    Some(said(&String::from_utf8_lossy(&output.stdout)))
}

fn acks(said: &[(String, u64, u64)]) -> Vec<(u64, u64)> {
    said.iter()
        .filter(|it| it.0 == "ack")
        .map(|it| (it.1, it.2))
        .collect()
}

#[test]
fn a_write_that_fails_is_not_acknowledged_and_the_next_one_is() {
    for error in ["ENOSPC", "EIO"] {
        for call in ["pwrite64", "fdatasync"] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("s");
            let what = format!("inject={call}:error={error}:when=30..34");
            let task = Task {
                turns: 40,
                retry: true,
                ..task(&root)
            };
            let Some(said) = inject(&root, &what, &task) else {
                return;
            };
            let acked = acks(&said);
            assert_eq!(4 * 40, acked.len(), "{what}: it did not go on");
            if call == "fdatasync" {
                assert!(
                    said.iter().any(|it| it.0 == "err"),
                    "{what}: nothing failed"
                );
            }
            crash::check(&root, &acked, 4, &what);
            let store = Store::open(&root).unwrap();
            for number in 1..=4 {
                assert_eq!(
                    120,
                    read_all(&store, number).unwrap(),
                    "{what}: more than was acknowledged"
                );
            }
        }
    }
}

#[test]
fn after_a_sync_that_fails_for_good_nothing_is_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let what = "inject=fsync,fdatasync,sync_file_range:error=EIO:when=20+";
    let Some(said) = inject(
        &root,
        what,
        &Task {
            turns: 60,
            ..task(&root)
        },
    ) else {
        return;
    };
    let first_error = said
        .iter()
        .position(|it| it.0 == "err")
        .expect("no error came");
    let before = acks(&said[..first_error]);
    let behind = acks(&said[first_error..]);
    println!("{} acknowledged before the first error", before.len());
    // What one group had acknowledged may be printed beside the next one's first error.
    assert!(behind.len() < 4, "acknowledged after the error: {behind:?}");
    crash::check(&root, &acks(&said), 4, what);
}

/// A disk that takes no writes is a disk that can be read.
#[test]
fn what_is_there_can_be_read_while_nothing_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let what = "inject=pwrite64,fsync,fdatasync,sync_file_range:error=EIO:when=60+";
    let task = Task {
        turns: 200,
        reads: true,
        ..task(&root)
    };
    let Some(said) = inject(&root, what, &task) else {
        return;
    };
    for number in 1..=4 {
        let of = |verb: &str| {
            let said = said.iter().filter(|it| it.0 == verb && it.1 == number);
            said.map(|it| it.2).max().unwrap_or(0)
        };
        assert!(
            said.iter().any(|it| it.0 == "read" && it.1 == number),
            "{number} read nothing: {said:?}"
        );
        assert_eq!(of("ack"), of("read"), "conversation {number}: {said:?}");
    }
}

#[test]
fn what_could_not_be_synced_is_cut_off_and_not_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let epoch = Epoch(Ulid(1));
    let mut journal = Journal::resume(dir.path(), epoch, JournalResume::NEW).unwrap();
    let entry = || {
        [JournalEntry::Delete {
            spent: &[],
            conversation: conversation(1),
            last: true,
        }]
    };
    journal.append(&entry()).unwrap();
    journal.sync().unwrap();
    journal.append(&entry()).unwrap();
    journal.give_up();
    let read = || {
        let segments = segment::list(dir.path()).unwrap();
        let mut seen = vec![];
        scan::read(&segments, None, &mut |lines| {
            seen.extend(lines.iter().map(|(_, at)| at.pos));
            Ok(())
        })
        .unwrap();
        seen
    };
    assert_eq!(vec![1], read());
    journal.append(&entry()).unwrap();
    journal.sync().unwrap();
    assert_eq!(vec![1, 3], read());
}

#[test]
fn a_store_with_a_limit_says_so_before_it_and_lets_what_has_begun_end() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 1, 2);
    let taken = store.stat().unwrap().bytes();
    assert_eq!(None, store.health().warning);
    store.set_limit(Some(taken + 100_000));
    let question = |number| {
        let text = "long ".repeat(2_000);
        Author::new(number).commit(vec![(user_message(text, None), Some(turn(number, 1)))])
    };
    let mut taken = 0;
    let refused = (10..30).find_map(|it| {
        taken += 1;
        block_on(store.commit(question(it))).err()
    });
    assert!(matches!(refused, Some(CommitError::Limit)), "{refused:?}");
    let health = store.health();
    let problem = health.problem.unwrap();
    assert!(problem.contains("store.max_bytes"), "{problem}");
    assert!(health.warning.is_some() && taken > 5, "{taken}");
    // Its end is taken.
    let begun = Author {
        number: 10,
        state: store.load(conversation(10)).unwrap().unwrap().state,
    };
    let end = begun.commit(vec![(finished("done"), Some(turn(10, 1)))]);
    block_on(store.commit(end)).unwrap();
    store.set_limit(None);
    block_on(store.commit(question(40))).unwrap();
    assert_eq!(None, store.health().problem);
}

/// The writer may flush between two looks.
const FLUSHED: u64 = 600_000;

/// What the store counts against a person's limit, and what its files have.
fn counted(store: &Store) -> (u64, u64) {
    let journal_bytes = store.health().journal_bytes;
    let counted = store.shared.limit.taken(journal_bytes).unwrap().1;
    (counted, store.stat().unwrap().bytes())
}

#[test]
fn what_a_new_index_does_not_need_is_free_below_the_limit_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut turns = 0;
    while store.stat().unwrap().index_bytes < 3 << 20 {
        turns += 4;
        fill(&store, 60, turns);
        for number in 1..=60 {
            block_on(store.delete(conversation(number), deletion(number))).unwrap();
        }
    }
    // The index alone is more than there may be.
    let most = store.stat().unwrap().index_bytes;
    store.set_limit(Some(most));
    let question = || {
        let text = "long ".repeat(2_000);
        Author::new(70).commit(vec![(user_message(text, None), Some(turn(70, 1)))])
    };
    let refused = block_on(store.commit(question()));
    assert!(matches!(refused, Err(CommitError::Limit)), "{refused:?}");
    block_on(store.erase()).unwrap();
    let (counted, there) = counted(&store);
    println!("{there} bytes of {most}, and {counted} are counted");
    assert!(there < most, "the index is not smaller: {there}");
    assert!(counted.abs_diff(there) < FLUSHED, "{counted} of {there}");
    assert_eq!(None, store.health().warning);
    block_on(store.commit(question())).unwrap();
    assert_eq!(None, store.health().problem);
}

/// Also before it has written anything.
#[test]
fn the_index_counts_from_the_start_on_and_when_it_was_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 40, 4);
    store.close();
    drop(store);
    for is_built_anew in [false, true] {
        if is_built_anew {
            fs::remove_dir_all(dir.path().join("db")).unwrap();
        }
        let store = Store::open(dir.path()).unwrap();
        store.set_limit(Some(1));
        let (counted, there) = counted(&store);
        assert!(
            counted.abs_diff(there) < FLUSHED,
            "built anew: {is_built_anew}: {counted} of {there}"
        );
        store.close();
    }
}
