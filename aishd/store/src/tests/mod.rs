//! The store's suites. Faults are seeded, and every failure prints its seed.

mod audit;
mod backup;
mod check;
mod commit;
mod compaction;
mod crash;
mod damage;
mod descriptors;
mod driver;
mod erasure;
mod fixture;
mod full;
mod links;
mod listing;
mod power;
mod repair;
mod replacement;
mod resources;
mod spending;

use std::path::Path;

use aish_proto::id::{ConversationId, Seq, TurnId};
use aishd_log::audit::{AuditDraft, AuditFact};
use aishd_log::event::{Event, IdempotencyKey, PresetSource, Record, StopReason, TurnOrigin};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use ulid::Ulid;

use super::{Commit, Partial, ReadError, Store};

/// A small generator, so that a seed gives the same damage everywhere.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit.max(1)
    }
}

/// How often a long suite goes round: `short` in the normal run, the number in the environment else.
pub(super) fn rounds(name: &str, short: u64) -> u64 {
    aish_testkit::surroundings::count(name).map_or(short, |it| it as u64)
}

pub(super) fn conversation(number: u64) -> ConversationId {
    ConversationId(Ulid(u128::from(number) + (7 << 64)))
}

pub(super) fn turn(conversation: u64, number: u64) -> TurnId {
    TurnId(Ulid(u128::from(number) + (u128::from(conversation) << 64)))
}

/// What a record must say can be told from its place alone.
pub(super) fn text_of(conversation: u64, seq: u64) -> String {
    let mut dice = Dice::new(conversation * 1_000_003 + seq);
    let longest = if dice.below(20) == 0 { 30_000 } else { 400 };
    let length = usize::try_from(dice.below(longest)).unwrap();
    format!("{conversation}/{seq}:{}", "é\"x".repeat(length / 4))
}

pub(super) fn user_message(text: String, key: Option<IdempotencyKey>) -> Event {
    Event::UserMessage {
        text,
        attachments: vec![],
        key,
        model: None,
        origin: TurnOrigin::Asked,
        on_confirm: None,
        max_tool_depth: None,
        calls: None,
        environment: None,
    }
}

pub(super) fn finished(text: &str) -> Event {
    Event::TurnFinished {
        stop: StopReason::End,
        text: text.into(),
        usage: None,
        error: None,
        merged_into: None,
    }
}

/// A writer of one conversation, as the conversation's actor is one.
#[derive(Debug)]
pub(super) struct Author {
    pub(super) number: u64,
    pub(super) state: ConversationState,
}

impl Author {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            state: ConversationState::default(),
        }
    }

    pub(super) fn id(&self) -> ConversationId {
        conversation(self.number)
    }

    /// The next events as a commit; the author's own state goes on only with `took`.
    pub(super) fn commit(&self, events: Vec<(Event, Option<TurnId>)>) -> Commit {
        self.commit_at(clock::now(), events)
    }

    pub(super) fn commit_at(&self, at: Timestamp, events: Vec<(Event, Option<TurnId>)>) -> Commit {
        let mut state = self.state.clone();
        let mut records = vec![];
        let mut audit = vec![];
        for (event, turn) in events {
            let record = Record {
                seq: state.last_seq.next(),
                at,
                turn,
                client: None,
                event,
            };
            audit.extend(AuditDraft::of(self.id(), &state, &record));
            state.apply(&record);
            records.push(record);
        }
        Commit::new(self.id(), records, state, audit)
    }

    pub(super) fn took(&mut self, commit: &Commit) {
        self.state = commit.state.clone();
    }

    /// One turn's worth: what a load test commits, three records of known text.
    pub(super) fn turn_commit(&self) -> Commit {
        let seq = self.state.last_seq.0;
        let turn = turn(self.number, seq + 1);
        let text = |after: u64| text_of(self.number, seq + after);
        let started = Event::TurnStarted {
            model: "m".to_owned(),
            model_id: text(2),
            source: PresetSource::Configured,
            context_tokens: None,
        };
        self.commit(vec![
            (user_message(text(1), None), Some(turn)),
            (started, Some(turn)),
            (finished(&text(3)), Some(turn)),
        ])
    }
}

pub(super) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

pub(super) fn partial_of(conversation: u64, turn_number: u64, offset: u64, text: &str) -> Partial {
    Partial {
        conversation: self::conversation(conversation),
        turn: turn(conversation, turn_number),
        item: 0,
        offset,
        text: text.to_owned(),
    }
}

/// What the trail is told when somebody deletes a conversation.
pub(super) fn deletion(number: u64) -> Vec<AuditDraft> {
    let told = AuditFact::ConversationDeleted;
    vec![AuditDraft {
        conversation: Some(conversation(number)),
        ..AuditDraft::outside_conversation(clock::now(), told)
    }]
}

/// Writes `turns` turns into each of `conversations`, one after the other.
pub(super) fn fill(store: &Store, conversations: u64, turns: u64) {
    block_on(async {
        for number in 1..=conversations {
            let mut author = Author::new(number);
            for _ in 0..turns {
                let commit = author.turn_commit();
                author.took(&commit);
                store.commit(commit).await.unwrap();
            }
        }
    });
}

/// Reads a whole conversation in pages, and checks that it is 1, 2, 3, … and says what it must.
pub(super) fn read_all(store: &Store, number: u64) -> Result<u64, String> {
    let id = conversation(number);
    let loaded = store.load(id).map_err(|it| it.to_string())?;
    let mut last = Seq(0);
    loop {
        let page = store
            .records_after(id, last, 20_000)
            .map_err(|it| it.to_string())?;
        if page.is_empty() {
            break;
        }
        for record in page {
            if record.seq != last.next() {
                return Err(format!("{number}: {} after {last}", record.seq));
            }
            let said = match &record.event {
                Event::UserMessage { text, .. } => text,
                Event::TurnFinished { text, .. } => &**text,
                Event::TurnStarted { model_id, .. } => model_id,
                _ => return Err(format!("{number}: {:?}", record.event)),
            };
            if *said != text_of(number, record.seq.0) {
                return Err(format!("{number}: {} says something else", record.seq));
            }
            last = record.seq;
        }
    }
    let state = loaded.map(|it| it.state).unwrap_or_default();
    if state.last_seq != last {
        return Err(format!(
            "{number}: state at {}, records to {last}",
            state.last_seq
        ));
    }
    Ok(last.0)
}

/// Every conversation with its state, in the order of their ids.
pub(super) fn all_states(
    store: &Store,
) -> Result<Vec<(ConversationId, ConversationState)>, ReadError> {
    let states: Result<Vec<_>, _> = store.newest_conversations(None).collect();
    states.map(|it| it.into_iter().rev().collect())
}

pub(super) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else if entry.file_name() != "reserve" {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A copy of a store, and one of its segments, whichever it is.
pub(super) fn copy_with_a_segment(
    sound: &Path,
    dice: &mut Dice,
) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    copy_dir(sound, dir.path());
    let mut segments = files_in(&dir.path().join("journal"));
    let which = dice.below(segments.len() as u64);
    let path = segments.remove(usize::try_from(which).unwrap());
    (dir, path)
}

pub(super) fn files_in(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_in(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
