//! Figures, printed; run by hand in a release build: `cargo test --release -p aishd --lib speed -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use super::super::{Commit, Store};
use super::{Author, block_on, finished, user_message};

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|it| it.starts_with("VmRSS")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024
}

fn small(author: &Author) -> Commit {
    let number = author.state.last_seq.0 + 1;
    let text = "s".repeat(300);
    let turn = Some(super::turn(author.number, number));
    author.commit(vec![(user_message(text, None), turn)])
}

/// Ends its turn at once, so that the state stays small.
fn next(author: &mut Author) -> Commit {
    let commit = if author.state.queue.is_empty() {
        small(author)
    } else {
        let turn = author.state.queue[0].turn;
        author.commit(vec![(finished(&"t".repeat(300)), Some(turn))])
    };
    author.took(&commit);
    commit
}

#[test]
#[ignore = "measures"]
fn commits() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut author = Author::new(1);
    let mut times: Vec<Duration> = vec![];
    block_on(async {
        for _ in 0..3000 {
            let commit = next(&mut author);
            let started = Instant::now();
            store.commit(commit).await.unwrap();
            times.push(started.elapsed());
        }
    });
    times.sort();
    println!("one producer: p50 {:?}, p99 {:?}", times[1500], times[2970]);
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 2..66 {
            let store = store.clone();
            tasks.spawn(async move {
                let mut author = Author::new(number);
                for _ in 0..500 {
                    store.commit(next(&mut author)).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
    });
    println!(
        "64 producers: {:.0} events/s",
        64.0 * 500.0 / started.elapsed().as_secs_f64()
    );
}

/// Opens what `AISH_STORE_DIR` names, or makes it there; in a process of its own for the memory's sake.
#[test]
#[ignore = "measures"]
fn opening() {
    #[expect(clippy::disallowed_methods, reason = "a measurement by hand")]
    let dir = std::env::var("AISH_STORE_DIR").unwrap();
    let dir = std::path::Path::new(&dir);
    if !dir.exists() {
        let store = Store::open(dir).unwrap();
        block_on(async {
            for number in 1..=1000 {
                let mut author = Author::new(number);
                for _ in 0..50 {
                    let (first, second) = (next(&mut author), next(&mut author));
                    let records = [first.records, second.records].concat();
                    store.commit(Commit { records, ..second }).await.unwrap();
                }
            }
        });
        store.close();
        return;
    }
    let before = resident_mib();
    let started = Instant::now();
    let store = Store::open(dir).unwrap();
    let opened = started.elapsed();
    let unsettled = store.unsettled().unwrap().len();
    let ready = started.elapsed();
    println!(
        "opened in {opened:?}, ready in {ready:?}, {unsettled} unsettled; {before} MiB before, {} MiB after",
        resident_mib()
    );
    let listed = Instant::now();
    let count = store.states().unwrap().len();
    println!(
        "{count} states in {:?}; {} MiB",
        listed.elapsed(),
        resident_mib()
    );
}
