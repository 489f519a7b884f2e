//! A store in a process of its own, which a test can kill, trace and starve: this test binary, run again with
//! its task on standard input.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aishd_platform::failpoint;
use serde::{Deserialize, Serialize};

use super::super::Store;
use super::super::backup::back_up;
use super::super::repair::repair;
use super::super::restore::restore_in_place;
use super::{Author, conversation, fill};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) dir: String,
    /// Conversations from 1 on, each with a writer.
    pub(super) producers: u64,
    /// Turns of each; 0: for ever.
    pub(super) turns: u64,
    pub(super) failpoint: String,
    /// A refused commit is tried again; else its writer ends.
    pub(super) retry: bool,
    /// Conversations come, are copied, forgotten and deleted beside the others, in segments so small that the journal is
    /// compacted all the time.
    pub(super) churn: bool,
    /// Whose commit was refused reads what it has, again and again.
    pub(super) reads: bool,
    /// Make a backup in this directory and end, where it is said.
    pub(super) backup: String,
    /// Put the backup in this directory in the place of the store and end, where it is said.
    pub(super) restore: String,
    /// Repair the store and end, with what is damaged in this directory, where it is said.
    pub(super) repair: String,
    /// How often there was such a process before, so that no number is used twice.
    pub(super) life: u64,
}

/// Segments under churn.
pub(super) const SMALL_SEGMENT: u64 = 16 * 1024;
/// The conversations that are deleted have numbers from here on, their copies from twice as high.
pub(super) const FIRST_VICTIM: u64 = 10_000;
/// The note whose older texts are forgotten; it says how often it was changed.
pub(super) const NOTE: &str = "churn";

/// The command that runs `task`, behind a wrapper if one is given.
pub(super) fn start(wrapper: &[String], task: &Task) -> Child {
    let exe = std::env::current_exe().unwrap();
    let mut line = wrapper.to_vec();
    line.push(exe.to_str().unwrap().to_owned());
    let mut child = Command::new(&line[0])
        .args(&line[1..])
        .args(["tests::driver::in_its_own_process", "--exact", "--ignored"])
        .args(["--nocapture", "--test-threads=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let task = serde_json::to_vec(task).unwrap();
    child.stdin.take().unwrap().write_all(&task).unwrap();
    child
}

pub(super) fn task(dir: &Path) -> Task {
    Task {
        dir: dir.to_str().unwrap().to_owned(),
        producers: 4,
        ..Task::default()
    }
}

/// `("ack", 3, 12)` and the like: what the driver said.
pub(super) fn said(output: &str) -> Vec<(String, u64, u64)> {
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let verb = words.next()?.to_owned();
        let number = words.next()?.parse().ok()?;
        let seq = words.next()?.parse().ok()?;
        matches!(
            verb.as_str(),
            "ack" | "err" | "read" | "ready" | "gone" | "noted" | "erased"
        )
        .then_some((verb, number, seq))
    };
    output.lines().filter_map(parse).collect()
}

fn say(verb: &str, number: u64, seq: u64) {
    // One write, so that a kill leaves no half line that reads as another number.
    let line = format!("{verb} {number} {seq} .\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

#[test]
#[ignore = "run by other tests"]
fn in_its_own_process() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let Ok(task) = serde_json::from_str::<Task>(&text) else {
        return;
    };
    failpoint::arm(&task.failpoint);
    println!();
    let dir = Path::new(&task.dir);
    if !task.backup.is_empty() {
        back_up(dir, Path::new(&task.backup), &|_, _| {}).unwrap();
        return;
    }
    if !task.restore.is_empty() {
        restore_in_place(Path::new(&task.restore), dir, true, &|_, _| {}).unwrap();
        return;
    }
    if !task.repair.is_empty() {
        repair(dir, Path::new(&task.repair)).unwrap();
        return;
    }
    let store = if task.churn {
        Store::open_with_segments_of(dir, SMALL_SEGMENT).unwrap()
    } else {
        Store::open(dir).unwrap()
    };
    say("ready", 0, 0);
    fill(&store, 0, 0);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 1..=task.producers {
            tasks.spawn(produce(store.clone(), number, task.clone()));
        }
        if task.churn {
            let _ends_with_the_others =
                tasks.spawn(churn(store.clone(), FIRST_VICTIM + 1000 * task.life));
            for _ in 0..task.producers {
                tasks.join_next().await.unwrap().unwrap();
            }
            tasks.shutdown().await;
        }
        tasks.join_all().await;
    });
    store.close();
}

/// Deletes what it has written, over many segments; `gone` and `noted` are what was acknowledged.
async fn churn(store: Store, first: u64) {
    let mut number = first;
    let said = store.note(NOTE).unwrap();
    let mut noted: u64 = said.map_or(0, |it| it.parse().unwrap());
    let mut living: Vec<Author> = vec![];
    loop {
        let mut author = Author::new(number);
        number += 1;
        let commit = author.turn_commit();
        if store.commit(commit.clone()).await.is_err() {
            return;
        }
        author.took(&commit);
        living.push(author);
        // One that has grown over several segments is copied in one commit, as a fork is, and deleted.
        if living.len() >= 3 {
            let victim = living.remove(0);
            let copy = Author::new(2 * victim.number);
            let mut turns = vec![];
            for seq in (1..=victim.state.last_seq.0).step_by(3) {
                let text = super::text_of(copy.number, seq);
                turns.push((super::user_message(text, None), None));
            }
            let _forked = store.commit(copy.commit(turns)).await;
            let told = super::deletion(victim.number);
            if store.delete(victim.id(), told).await.is_err() {
                return;
            }
            say("gone", victim.number, 0);
            noted += 1;
            let note = crate::Note {
                key: NOTE.to_owned(),
                text: noted.to_string(),
                forgets: true,
            };
            if store.keep(note, vec![]).await.is_err() {
                return;
            }
            say("noted", 0, noted);
            if noted.is_multiple_of(3) {
                if store.erase().await.is_err() {
                    return;
                }
                say("erased", victim.number, 0);
            }
        }
        for author in &mut living {
            let commit = author.turn_commit();
            if store.commit(commit.clone()).await.is_err() {
                return;
            }
            author.took(&commit);
        }
    }
}

async fn produce(store: Store, number: u64, task: Task) {
    let mut author = Author::new(number);
    let loaded = store.load(conversation(number)).unwrap();
    author.state = loaded.map(|it| it.state).unwrap_or_default();
    let mut turns = 0;
    while task.turns == 0 || turns < task.turns {
        let seq = author.state.last_seq.0;
        let _room = store.keep_partial(super::partial_of(number, seq + 1, 0, "half of an answer"));
        let commit = author.turn_commit();
        match store.commit(commit.clone()).await {
            Ok(()) => {
                author.took(&commit);
                turns += 1;
                say("ack", number, author.state.last_seq.0);
            }
            Err(_) => {
                say("err", number, seq);
                if task.reads {
                    // Longer than the index waits until it is flushed, which fails too.
                    let mut least = u64::MAX;
                    for _ in 0..100 {
                        least = least.min(super::read_all(&store, number).unwrap_or(0));
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    say("read", number, least);
                }
                if !task.retry {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
