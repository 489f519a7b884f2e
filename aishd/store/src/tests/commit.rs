//! What is committed can be read, in order and whole, also after a restart.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use aish_proto::id::Seq;
use aishd_log::event::{Event, IdempotencyKey};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_platform::clock;

use super::super::{Commit, CommitError, KeyUse, Note, OpenError, ReadError, Store, TurnPlace};
use super::{
    Author, all_states, block_on, conversation, deletion, files_in, fill, finished, partial_of,
    read_all, turn, user_message,
};

#[test]
fn what_was_committed_is_there_after_a_restart_and_reads_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let epoch = store.epoch();
    fill(&store, 3, 20);
    let before: Vec<u64> = (1..=3).map(|it| read_all(&store, it).unwrap()).collect();
    let states = all_states(&store).unwrap();
    store.close();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(vec![60, 60, 60], before);
    assert_eq!(states, all_states(&store).unwrap());
    assert_eq!(epoch, store.epoch());
    assert_eq!(Vec::<String>::new(), store.repairs());
    for number in 1..=3 {
        assert_eq!(60, read_all(&store, number).unwrap());
    }
    let id = conversation(2);
    let last = store.records_before(id, Seq(31), 4, 1 << 20).unwrap();
    let seqs: Vec<u64> = last.iter().map(|it| it.seq.0).collect();
    assert_eq!(vec![27, 28, 29, 30], seqs);
    let least = store.records_before(id, Seq(u64::MAX), 9, 1).unwrap();
    assert_eq!(
        vec![60],
        least.iter().map(|it| it.seq.0).collect::<Vec<_>>()
    );
    assert_eq!(Seq(7), store.record(id, Seq(7)).unwrap().unwrap().seq);
    assert!(store.record(id, Seq(61)).unwrap().is_none());
    assert!(store.records_after(id, Seq(60), 1).unwrap().is_empty());
}

#[test]
fn a_commit_that_leaves_a_gap_or_repeats_is_refused_and_the_next_right_one_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut author = Author::new(1);
    let first = author.turn_commit();
    let mut gap = first.clone();
    gap.records.remove(0);
    block_on(async {
        assert!(matches!(store.commit(gap).await, Err(CommitError::Io(_))));
        store.commit(first.clone()).await.unwrap();
        assert!(matches!(
            store.commit(first.clone()).await,
            Err(CommitError::Io(_))
        ));
        author.took(&first);
        store.commit(author.turn_commit()).await.unwrap();
    });
    assert_eq!(6, read_all(&store, 1).unwrap());
}

#[test]
fn long_events_come_back_whole_and_sled_writes_no_blob_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut author = Author::new(1);
    let lengths = [0, 4000, 4096, 8200, 70_000, 1_500_000];
    for length in lengths {
        let commit = author.commit(vec![(
            user_message("y".repeat(length), None),
            Some(turn(1, length as u64)),
        )]);
        author.took(&commit);
        block_on(store.commit(commit)).unwrap();
    }
    let queue = author.state.queue.len();
    store.close();
    let store = Store::open(dir.path()).unwrap();
    for (length, seq) in lengths.into_iter().zip(1..) {
        let record = store.record(author.id(), Seq(seq)).unwrap().unwrap();
        let Event::UserMessage { text, .. } = record.event else {
            panic!("another event");
        };
        assert_eq!(length, text.len());
    }
    let page = store
        .records_after(author.id(), Seq(0), usize::MAX)
        .unwrap();
    assert_eq!(lengths.len(), page.len());
    assert_eq!(lengths.len(), queue);
    assert_eq!(0, files_in(&dir.path().join("db/blobs")).len());
}

#[test]
fn a_state_that_grows_and_shrinks_leaves_no_old_parts() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut author = Author::new(1);
    let rename = |title: String| vec![(Event::Renamed { title }, None)];
    for length in [10, 30_000, 5_000, 10, 9_000] {
        let commit = author.commit(rename("t".repeat(length)));
        author.took(&commit);
        block_on(store.commit(commit)).unwrap();
        let states = all_states(&store).unwrap();
        assert_eq!(vec![(author.id(), author.state.clone())], states);
    }
}

#[test]
fn text_being_written_survives_and_goes_with_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut author = Author::new(1);
    let asked = author.commit(vec![(user_message("q".to_owned(), None), Some(turn(1, 1)))]);
    author.took(&asked);
    block_on(store.commit(asked)).unwrap();
    let long = "z".repeat(9000);
    let pieces = [
        (0, "one "),
        (4, "two "),
        (4, "TWO "),
        (99, "after a hole"),
        (8, &long),
    ];
    for (offset, text) in pieces {
        assert!(store.keep_partial(partial_of(1, 1, offset, text)));
    }
    // The mailbox is in order, so a later commit elsewhere shows that the pieces are through.
    fill(&store, 1, 0);
    block_on(store.commit(Author::new(9).turn_commit())).unwrap();
    let kept = |store: &Store| store.load(conversation(1)).unwrap().unwrap().partial;
    let text = format!("one TWO {long}");
    assert_eq!(text, kept(&store).unwrap().text);
    store.close();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(text, kept(&store).unwrap().text);
    assert!(store.keep_partial(partial_of(1, 1, text.len() as u64, " more")));
    let other = author.commit(vec![(finished("of another"), Some(turn(1, 7)))]);
    author.took(&other);
    block_on(store.commit(other)).unwrap();
    assert_eq!(format!("{text} more"), kept(&store).unwrap().text);
    block_on(store.commit(author.commit(vec![(finished("done"), Some(turn(1, 1)))]))).unwrap();
    assert!(kept(&store).is_none());
    store.close();
    assert!(kept(&Store::open(dir.path()).unwrap()).is_none());
}

#[test]
fn a_key_answers_for_a_day() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let day = 24 * 60 * 60 * 1000;
    let now = clock::now().0;
    let mut author = Author::new(1);
    let cases = [
        ("new", now, true),
        ("almost", now - day + 60_000, true),
        ("old", now - day - 1, false),
    ];
    for ((name, at, found), seq) in cases.into_iter().zip(1..) {
        let key = IdempotencyKey {
            key: name.to_owned(),
            body: "b".to_owned(),
        };
        let event = user_message("q".to_owned(), Some(key));
        let commit = author.commit_at(Timestamp(at), vec![(event, Some(turn(1, seq)))]);
        author.took(&commit);
        block_on(store.commit(commit)).unwrap();
        let used = KeyUse {
            turn: turn(1, seq),
            message_seq: Seq(seq),
            body: "b".to_owned(),
            at: Timestamp(at),
        };
        let expected = found.then_some(used);
        assert_eq!(
            expected,
            store.find_key(author.id(), name).unwrap(),
            "{name}"
        );
        assert_eq!(None, store.find_key(conversation(2), name).unwrap());
        let place = TurnPlace {
            conversation: author.id(),
            message_seq: Seq(seq),
        };
        assert_eq!(Some(place), store.find_turn(turn(1, seq)).unwrap());
    }
    assert_eq!(vec![author.id()], store.unsettled().unwrap());
    let done: Vec<_> = (1..=3)
        .map(|it| (finished(""), Some(turn(1, it))))
        .collect();
    block_on(store.commit(author.commit(done))).unwrap();
    assert!(store.unsettled().unwrap().is_empty());
}

#[test]
fn replay_gives_the_state_that_was_committed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 5, 7);
    let states = all_states(&store).unwrap();
    store.close();
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(states, all_states(&store).unwrap());
    assert_eq!(1, store.repairs().len(), "{:?}", store.repairs());
}

#[test]
fn a_deleted_conversation_leaves_the_index_at_once_and_the_journal_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 3, 5);
    let gone = conversation(2);
    block_on(store.delete(gone, deletion(2))).unwrap();
    let is_gone = |store: &Store| {
        assert!(store.load(gone).unwrap().is_none());
        assert!(store.records_after(gone, Seq(0), 1).unwrap().is_empty());
        assert!(store.find_turn(turn(2, 1)).unwrap().is_none());
        assert_eq!(2, all_states(store).unwrap().len());
        assert_eq!(15, read_all(store, 1).unwrap());
        assert_eq!(15, read_all(store, 3).unwrap());
    };
    is_gone(&store);
    store.close();
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    is_gone(&store);
    let secret = super::text_of(2, 1);
    let journal = || {
        let files = files_in(&dir.path().join("journal"));
        let text = |it: &std::path::PathBuf| fs::read_to_string(it).unwrap_or_default();
        files.iter().map(text).collect::<String>()
    };
    let secret = serde_json::to_string(&secret).unwrap();
    let started = std::time::Instant::now();
    while journal().contains(&secret) {
        assert!(started.elapsed().as_secs() < 10, "never compacted");
        std::thread::yield_now();
    }
    // The id may be used again, and what is said then stays.
    block_on(store.commit(Author::new(2).turn_commit())).unwrap();
    store.close();
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(3, read_all(&store, 2).unwrap());
    assert_eq!(15, read_all(&store, 3).unwrap());
    store.close();
    Store::open(dir.path()).unwrap();
}

#[test]
fn a_journal_of_many_segments_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut author = Author::new(1);
    let big = "b".repeat(900_000);
    for number in 1..=25 {
        let event = user_message(format!("{number}{big}"), None);
        let commit = author.commit(vec![(event, Some(turn(1, number)))]);
        author.took(&commit);
        block_on(store.commit(commit)).unwrap();
    }
    store.close();
    assert!(files_in(&dir.path().join("journal")).len() > 2);
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let state: ConversationState = store.load(author.id()).unwrap().unwrap().state;
    assert_eq!(author.state, state);
}

#[test]
fn a_second_daemon_hears_who_has_the_store_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    match Store::open(dir.path()) {
        Err(OpenError::Locked { pid, .. }) => assert_eq!(Some(std::process::id()), pid),
        other => panic!("{other:?}"),
    }
    block_on(store.commit(Author::new(1).turn_commit())).unwrap();
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(3, read_all(&store, 1).unwrap());
    store.close();
    let closed = block_on(store.commit(Author::new(2).turn_commit()));
    assert!(matches!(closed, Err(CommitError::Closed)));
    assert!(store.load(conversation(1)).is_err());
}

#[test]
fn nobody_else_may_read_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a/store");
    let store = Store::open(&root).unwrap();
    fill(&store, 1, 1);
    store.close();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(0o700, mode(&root));
    assert_eq!(0o700, mode(&root.join("db")));
    assert_eq!(0o700, mode(&root.join("journal")));
    for file in files_in(&root.join("journal")) {
        assert_eq!(0o600, mode(&file), "{}", file.display());
    }
    assert_eq!(0o600, mode(&root.join("lock")));
}

#[test]
fn sixty_four_producers_share_syncs_and_keep_their_orders() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 1..=64 {
            let store = store.clone();
            tasks.spawn(async move {
                let mut author = Author::new(number);
                for _ in 0..5 {
                    let commit = author.turn_commit();
                    author.took(&commit);
                    store.commit(commit).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
    });
    for number in 1..=64 {
        assert_eq!(15, read_all(&store, number).unwrap());
    }
}

#[test]
fn the_newest_note_of_a_key_is_there_after_a_restart_and_without_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let note = |key: &str, text: &str| {
        let (key, text) = (key.to_owned(), text.to_owned());
        assert!(store.keep_note(Note {
            key,
            text,
            forgets: false
        }));
    };
    let long = "é".repeat(10_000);
    note("a", &long);
    note("b", "other");
    note("a", "short");
    // A commit behind them is acknowledged when they are durable.
    fill(&store, 1, 1);
    assert_eq!(Some("short".to_owned()), store.note("a").unwrap());
    note("b", &long);
    store.close();
    for step in ["restarted", "without its index"] {
        if step == "without its index" {
            fs::remove_dir_all(dir.path().join("db")).unwrap();
        }
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(Some("short".to_owned()), store.note("a").unwrap(), "{step}");
        assert_eq!(Some(long.clone()), store.note("b").unwrap(), "{step}");
        assert_eq!(None, store.note("c").unwrap(), "{step}");
        store.close();
    }
}

/// What was forgotten is in the journal no longer than deleted conversations are.
#[test]
fn a_note_that_was_replaced_leaves_the_journal_with_what_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let journal = || {
        let files = files_in(&dir.path().join("journal"));
        let text = |it: &std::path::PathBuf| fs::read_to_string(it).unwrap_or_default();
        files.iter().map(text).collect::<String>()
    };
    let keep = |store: &Store, key: &str, text: &str| {
        let (key, text) = (key.to_owned(), text.to_owned());
        assert!(store.keep_note(Note {
            key,
            text,
            forgets: false
        }));
    };
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 1, 1);
    keep(&store, "a", "the first secret");
    keep(&store, "a", "the second secret");
    keep(&store, "b", "kept");
    store.close();
    let store = Store::open(dir.path()).unwrap();
    keep(&store, "a", "harmless");
    block_on(store.delete(conversation(1), deletion(1))).unwrap();
    store.close();
    // A start closes a segment with deletions in it, and compacts those before.
    let store = Store::open(dir.path()).unwrap();
    let started = std::time::Instant::now();
    while journal().contains("secret") {
        assert!(started.elapsed().as_secs() < 10, "never compacted");
        std::thread::yield_now();
    }
    store.close();
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(Some("harmless".to_owned()), store.note("a").unwrap());
    assert_eq!(Some("kept".to_owned()), store.note("b").unwrap());
    store.close();
}

/// An old index must not say that a key is unknown, since the question would be asked and paid twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_the_index_does_not_take_in_is_no_answer_and_holds_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.shared.begin_to_apply();
    let reader = store.clone();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let found = reader.find_key(conversation(1), "k");
        matches!(found, Err(ReadError::Unavailable(_)))
    });
    tasks.spawn(async { false });
    // The other one comes first, although there is one worker and the reader was there before.
    assert!(!tasks.join_next().await.unwrap().unwrap());
    assert!(tasks.join_next().await.unwrap().unwrap());
    store.shared.has_applied();
    assert_eq!(None, store.find_key(conversation(1), "k").unwrap());
}

/// A writer that always has something to do keeps no reader waiting for what came after it.
#[test]
fn a_reader_waits_for_what_was_acknowledged_and_not_for_what_comes_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.shared.begin_to_apply();
    std::thread::scope(|scope| {
        let (here, is_here) = std::sync::mpsc::channel();
        let reader = store.clone();
        let reading = scope.spawn(move || {
            here.send(()).unwrap();
            reader.find_key(conversation(1), "k")
        });
        is_here.recv().unwrap();
        while !reading.is_finished() {
            store.shared.has_applied();
            store.shared.begin_to_apply();
        }
        assert_eq!(None, reading.join().unwrap().unwrap());
    });
    store.shared.has_applied();
}

/// What was forgotten is in no file after the next start, though no conversation was deleted.
#[test]
fn a_note_that_forgets_takes_what_it_replaces_out_of_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let journal = || {
        let files = files_in(&dir.path().join("journal"));
        let text = |it: &std::path::PathBuf| fs::read_to_string(it).unwrap_or_default();
        files.iter().map(text).collect::<String>()
    };
    let keep = |store: &Store, text: &str, forgets: bool| {
        let (key, text) = ("a".to_owned(), text.to_owned());
        block_on(store.keep(Note { key, text, forgets }, deletion(1))).unwrap();
    };
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 1, 1);
    keep(&store, "the secret", false);
    keep(&store, "harmless", true);
    store.close();
    assert!(journal().contains("the secret"));
    // The mark outlives the index.
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let started = std::time::Instant::now();
    while journal().contains("the secret") {
        assert!(started.elapsed().as_secs() < 10, "never compacted");
        std::thread::yield_now();
    }
    store.close();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(Some("harmless".to_owned()), store.note("a").unwrap());
    assert_eq!(3, read_all(&store, 1).unwrap());
    // The last was done with: this start closed no segment.
    let segments = files_in(&dir.path().join("journal")).len();
    store.close();
    Store::open(dir.path()).unwrap().close();
    assert_eq!(segments, files_in(&dir.path().join("journal")).len());
}

/// What a commit keeps beside the conversations counts only with its records.
#[test]
fn a_commit_and_its_note_are_there_together_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut author = Author::new(1);
    let note = |text: &str| {
        let (key, text) = ("a".to_owned(), text.to_owned());
        let forgets = false;
        Some(Note { key, text, forgets })
    };
    let whole = author.turn_commit();
    author.took(&whole);
    block_on(store.commit_with(whole, note("one"))).unwrap();
    let untold = Commit {
        audit: vec![],
        ..author.turn_commit()
    };
    block_on(store.commit_with(untold, note("two"))).unwrap();
    assert_eq!(6, read_all(&store, 1).unwrap());
    assert_eq!(Some("two".to_owned()), store.note("a").unwrap());
    store.close();
    // A crash came before the line of the note.
    super::audit::in_journal(dir.path(), |recs| {
        let last = recs.pop().unwrap();
        assert!(last.contains("two"), "{last}");
    });
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(3, read_all(&store, 1).unwrap());
    assert_eq!(Some("one".to_owned()), store.note("a").unwrap());
}
