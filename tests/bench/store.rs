//! Figures of the store, printed: `cargo bench -p aishd --bench store`. Two long ones come only when they are asked for:
//! `-- room 2048 10` writes 2,048 MiB and deletes them, ten times; `-- soak 100000` writes so many turns.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on ends here, and its figures go to whoever runs it"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use aish_proto::id::{ConversationId, TurnId};
use aishd_log::audit::AuditDraft;
use aishd_log::event::{Event, PresetSource, Record, StopReason, TurnOrigin};
use aishd_log::resource::{
    ChangeAuthor as By, ChangeCheck, ResourceAction, ResourceChange, ResourceData,
};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use aishd_store::{Commit, ListFilter, ListQuery, Store};
use tikv_jemalloc_ctl::background_thread;
use tikv_jemallocator::Jemalloc;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// As the daemon has it.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Commits of the one producer.
const COMMITS: usize = 3000;
const PRODUCERS: usize = 64;
const COMMITS_EACH: usize = 500;
const CONVERSATIONS: usize = 1000;
/// Events of each of those: 25 turns of four.
const TURNS: usize = 25;
const RESOURCES: usize = 10_000;
const RESOURCE_ROUNDS: usize = 2000;

/// One conversation that grows.
struct Author {
    id: ConversationId,
    state: ConversationState,
}

impl Author {
    fn new() -> Self {
        Self {
            id: ConversationId(clock::ulid()),
            state: ConversationState::default(),
        }
    }

    fn commit(&mut self, events: Vec<(TurnId, Event)>) -> Commit {
        let mut audit = vec![];
        let records = events.into_iter().map(|(turn, event)| {
            let record = Record {
                seq: self.state.last_seq.next(),
                at: Timestamp(0),
                turn: Some(turn),
                client: None,
                event,
            };
            audit.extend(AuditDraft::of(self.id, &self.state, &record));
            self.state.apply(&record);
            record
        });
        let records = records.collect();
        Commit::new(self.id, records, self.state.clone(), audit)
    }

    /// A question and its start, as an `ask` commits them.
    fn ask(&mut self, turn: TurnId) -> Commit {
        let question = Event::UserMessage {
            text: "q".repeat(300),
            attachments: vec![],
            key: None,
            model: None,
            origin: TurnOrigin::Asked,
            on_confirm: None,
            max_tool_depth: None,
            calls: None,
            environment: None,
        };
        let started = Event::TurnStarted {
            model: "m".to_owned(),
            model_id: "m".to_owned(),
            source: PresetSource::Configured,
            context_tokens: None,
        };
        self.commit(vec![(turn, question), (turn, started)])
    }

    fn answer(&mut self, turn: TurnId) -> Commit {
        let answer = Event::AssistantMessage {
            item: 0,
            text: "a".repeat(300).into(),
            reasoning: String::new(),
            calls: vec![],
            commands: vec![],
            extra: serde_json::Map::new(),
            sealed: None,
            complete: true,
            served_by: None,
            usage: None,
            payee: None,
        };
        let end = Event::TurnFinished {
            stop: StopReason::End,
            text: "a".repeat(300).into(),
            usage: None,
            error: None,
            merged_into: None,
        };
        self.commit(vec![(turn, answer), (turn, end)])
    }
}

/// What the actor of a conversation does about one change: what there is, whether it may be, and the commit.
async fn change(
    store: &Store,
    author: &mut ConversationState,
    id: ConversationId,
    wanted: ResourceChange,
) {
    let by = By::Provider("data-tool".parse().unwrap());
    let mut checking = ChangeCheck::new(&by, Timestamp(0), author.resources);
    let changed = checking
        .check(wanted, |name| Ok(store.resource(id, name).unwrap()))
        .unwrap();
    let record = Record {
        seq: author.last_seq.next(),
        at: Timestamp(0),
        turn: None,
        client: None,
        event: Event::ResourceChanged(Box::new(changed)),
    };
    let audit = AuditDraft::of(id, author, &record).into_iter().collect();
    author.apply(&record);
    let commit = Commit::new(id, vec![record], author.clone(), audit);
    store.commit(commit).await.unwrap();
}

/// A durable change, a read and a page of names, each at ten thousand resources.
async fn resources(store: &Store) {
    let id = ConversationId(clock::ulid());
    let mut state = ConversationState::default();
    let name = |number: usize| format!("build/part-{number:05}").parse().unwrap();
    let data = |number: usize| {
        let text = "x".repeat(200);
        ResourceData::of(&serde_json::json!({"n": number, "text": text})).unwrap()
    };
    for number in 0..RESOURCES {
        let create = ResourceChange {
            name: name(number),
            action: ResourceAction::Create(data(number)),
        };
        change(store, &mut state, id, create).await;
    }
    let mut times: [Vec<Duration>; 3] = Default::default();
    for round in 0..RESOURCE_ROUNDS {
        let number = (round * 7919) % RESOURCES;
        let update = ResourceChange {
            name: name(number),
            action: ResourceAction::Update(data(round), None),
        };
        let started = Instant::now();
        change(store, &mut state, id, update).await;
        times[0].push(started.elapsed());
        let started = Instant::now();
        store.resource_data(id, &name(number)).unwrap().unwrap();
        times[1].push(started.elapsed());
        let started = Instant::now();
        store.resources(id, Some(&name(number)), 100).unwrap();
        times[2].push(started.elapsed());
    }
    for (what, mut times) in ["changed, durable", "read", "100 listed"]
        .into_iter()
        .zip(times)
    {
        times.sort();
        let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("{RESOURCES} resources: {what}: p50 {half:?}, p99 {most:?}");
    }
}

fn turn() -> TurnId {
    TurnId(clock::ulid())
}

async fn grow(store: &Store, author: &mut Author) -> [Duration; 2] {
    let turn = turn();
    let (ask, answer) = (author.ask(turn), author.answer(turn));
    let started = Instant::now();
    store.commit(ask).await.unwrap();
    let asked = started.elapsed();
    let started = Instant::now();
    store.commit(answer).await.unwrap();
    [asked, started.elapsed()]
}

async fn one_producer(store: &Store) {
    let mut author = Author::new();
    let mut times = vec![];
    while times.len() < COMMITS {
        times.extend(grow(store, &mut author).await);
    }
    times.sort();
    let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("one producer: p50 {half:?}, p99 {most:?} a commit of two events");
}

async fn many_producers(store: &Store) {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..PRODUCERS {
        let store = store.clone();
        tasks.spawn(async move {
            let mut author = Author::new();
            for _ in 0..COMMITS_EACH / 2 {
                grow(&store, &mut author).await;
            }
        });
    }
    tasks.join_all().await;
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let events = (PRODUCERS * COMMITS_EACH * 2) as f64;
    let rate = events / started.elapsed().as_secs_f64();
    println!("{PRODUCERS} producers: {rate:.0} events/s");
}

async fn fill(store: &Store) {
    let mut tasks = JoinSet::new();
    for _ in 0..CONVERSATIONS {
        let store = store.clone();
        tasks.spawn(async move {
            let mut author = Author::new();
            for _ in 0..TURNS {
                grow(&store, &mut author).await;
            }
        });
    }
    tasks.join_all().await;
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|it| it.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Texts of a quarter of a megabyte, as many as it takes, in conversations that are deleted then.
async fn write_and_delete(store: &Store, megabytes: usize) {
    const TEXTS: usize = 64;
    for _ in 0..megabytes.div_ceil(TEXTS / 4) {
        let mut author = Author::new();
        for _ in 0..TEXTS {
            let text = Event::Renamed {
                title: "t".repeat(256 << 10),
            };
            let commit = author.commit(vec![(turn(), text)]);
            store.commit(commit).await.unwrap();
        }
        store.delete(author.id, vec![]).await.unwrap();
    }
    store.erase().await.unwrap();
}

/// What is left on the disk of what was deleted, and how long a start takes then.
fn room(dir: &Path, runtime: &Runtime, megabytes: usize, rounds: usize) {
    let mut store = Store::open(dir).unwrap();
    runtime.block_on(grow(&store, &mut Author::new()));
    for round in 1..=rounds {
        runtime.block_on(write_and_delete(&store, megabytes));
        let stat = store.stat().unwrap();
        store.close();
        drop(store);
        let started = Instant::now();
        store = Store::open(dir).unwrap();
        println!(
            "{megabytes} MiB written and deleted, time {round}: {} KiB of journal, {} KiB of index, {} KiB live, start in {:?}, {} KiB in memory",
            stat.journal_bytes >> 10,
            stat.index_bytes >> 10,
            stat.live_bytes.unwrap_or(0) >> 10,
            started.elapsed(),
            resident_kib()
        );
    }
    store.close();
}

/// Memory while turns are written, in conversations that take turns.
fn soak(dir: &Path, runtime: &Runtime, turns: usize) {
    const AT_ONCE: usize = 50;
    let store = Store::open(dir).unwrap();
    let mut authors: Vec<Author> = (0..AT_ONCE).map(|_| Author::new()).collect();
    for tenth in 0..10 {
        let mut times = vec![];
        runtime.block_on(async {
            for number in 0..turns / 10 {
                let author = &mut authors[number % AT_ONCE];
                times.extend(grow(&store, author).await);
            }
        });
        times.sort();
        println!(
            "{} of {turns} turns: {} KiB in memory, p50 {:?}, p99 {:?} a commit",
            turns / 10 * (tenth + 1),
            resident_kib(),
            times[times.len() / 2],
            times[times.len() * 99 / 100]
        );
    }
    store.close();
}

fn main() {
    // As in the daemon: what is not needed goes back also while nothing is allocated.
    let _none = background_thread::write(true);
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|it| it.parse().ok());
    match words.first().map(String::as_str) {
        Some("room") => {
            return room(
                dir.path(),
                &runtime,
                number(1).unwrap_or(2048),
                number(2).unwrap_or(10),
            );
        }
        Some("soak") => return soak(dir.path(), &runtime, number(1).unwrap_or(100_000)),
        Some(_) | None => {}
    }
    let store = Store::open(&dir.path().join("resources")).unwrap();
    runtime.block_on(resources(&store));
    store.close();
    let store = Store::open(&dir.path().join("commits")).unwrap();
    runtime.block_on(one_producer(&store));
    runtime.block_on(many_producers(&store));
    store.close();
    let full = dir.path().join("full");
    let store = Store::open(&full).unwrap();
    runtime.block_on(fill(&store));
    store.close();
    drop(store);
    let before = resident_kib();
    let started = Instant::now();
    let store = Store::open(&full).unwrap();
    let unsettled = store.unsettled().unwrap().len();
    println!(
        "{CONVERSATIONS} conversations of {} events: ready in {:?} ({unsettled} unsettled), {} KiB more in memory",
        4 * TURNS,
        started.elapsed(),
        resident_kib().saturating_sub(before)
    );
    let started = Instant::now();
    let first = ListQuery {
        filter: ListFilter::All,
        title: None,
        after: None,
        limit: 100,
    };
    let page = store.list(&first).unwrap().conversations.len();
    println!(
        "{page} of {} conversations listed in {:?}",
        store.count().unwrap(),
        started.elapsed()
    );
    store.close();
}
