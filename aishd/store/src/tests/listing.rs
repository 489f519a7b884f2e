//! Lists are what the fold of all states says, whatever was done before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use aish_proto::id::ConversationId;
use aishd_log::budget::BudgetLimits;
use aishd_log::constraints::Constraints;
use aishd_log::event::{Event, ImportedFrom};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::task::JoinSet;

use super::super::{ListFilter, ListPage, ListPosition, ListQuery, Store, index, values};
use super::{Author, all_states, block_on, conversation, deletion, fill, turn, user_message};

const TITLES: [&str; 3] = ["one", "two", "untitled"];
const FILTERS: [ListFilter; 3] = [ListFilter::Open, ListFilter::Archived, ListFilter::All];

#[derive(Clone, Debug)]
enum Step {
    Create {
        title: Option<usize>,
        cwd: u8,
        importing: bool,
    },
    Rename(usize),
    Archive(bool),
    Move(u8),
    Ask,
    EndImport,
    /// Many records in one commit.
    Fork(Box<Self>),
    Delete,
}

impl Step {
    fn events(&self, number: u64, seq: u64) -> Vec<Event> {
        let title = |at: &usize| TITLES[*at].to_owned();
        match self {
            Self::Create {
                title: given,
                cwd,
                importing,
            } => vec![Event::Created {
                title: given.as_ref().map(title),
                model: None,
                cwd: format!("/{cwd}"),
                forked_from: None,
                constraints: Constraints::default(),
                importing: *importing,
                temporary: false,
                budget: BudgetLimits::default(),
            }],
            Self::Rename(to) => vec![Event::Renamed { title: title(to) }],
            Self::Archive(archived) => vec![Event::ArchivedChanged {
                archived: *archived,
            }],
            Self::Move(to) => vec![Event::CwdChanged {
                from: String::new(),
                cwd: format!("/{to}"),
            }],
            Self::Ask => vec![user_message(format!("question {number}/{seq}"), None)],
            Self::EndImport => vec![Event::Imported(ImportedFrom::default())],
            Self::Fork(made) => {
                let mut events = made.events(number, seq);
                events.extend(Self::Archive(true).events(number, seq));
                events.extend(Self::Ask.events(number, seq));
                events.extend(Self::Archive(false).events(number, seq));
                events
            }
            Self::Delete => vec![],
        }
    }
}

fn made() -> impl Strategy<Value = Step> {
    let title = prop::option::of(0..2_usize);
    (title, 0..3_u8, prop::bool::weighted(0.2)).prop_map(|(title, cwd, importing)| Step::Create {
        title,
        cwd,
        importing,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => made(),
        1 => made().prop_map(|it| Step::Fork(Box::new(it))),
        2 => (0..TITLES.len()).prop_map(Step::Rename),
        3 => any::<bool>().prop_map(Step::Archive),
        1 => (0..3_u8).prop_map(Step::Move),
        4 => Just(Step::Ask),
        1 => Just(Step::EndImport),
        2 => Just(Step::Delete),
    ]
}

/// What is done to which conversation, and when; times go back too, and are the same for some.
#[derive(Clone, Debug)]
struct Doing {
    number: u64,
    at: i64,
    step: Step,
}

fn doing() -> impl Strategy<Value = Doing> {
    let at = (1..8_u64, -3..6_i64, step());
    at.prop_map(|(number, at, step)| Doing { number, at, step })
}

/// What becomes of the store behind a group of changes.
#[derive(Clone, Copy, Debug)]
enum Then {
    GoOn,
    Reopen,
    /// The next start builds the index from the journal.
    LoseIndex,
    /// As the index of an older program.
    Age,
}

fn then() -> impl Strategy<Value = Then> {
    prop_oneof![
        6 => Just(Then::GoOn),
        1 => Just(Then::Reopen),
        1 => Just(Then::LoseIndex),
        1 => Just(Then::Age),
    ]
}

/// The states as their authors have them.
type Known = BTreeMap<u64, Author>;

/// Does all of them at once, so that the writer may take them as one group.
fn change(store: &Store, known: &mut Known, doings: &[Doing]) {
    block_on(async {
        let mut group = JoinSet::new();
        for Doing { number, at, step } in doings {
            if matches!(step, Step::Delete) {
                if known.remove(number).is_some() {
                    let (store, number) = (store.clone(), *number);
                    group.spawn(async move {
                        store.delete(conversation(number), deletion(number)).await
                    });
                }
                continue;
            }
            let is_made = matches!(step, Step::Create { .. } | Step::Fork(_));
            if is_made == known.contains_key(number) {
                continue;
            }
            let author = known.entry(*number).or_insert_with(|| Author::new(*number));
            let seq = author.state.last_seq.0;
            let events = step.events(*number, seq).into_iter();
            let events = events.map(|it| (it, Some(turn(*number, seq + 1))));
            let commit = author.commit_at(Timestamp(*at), events.collect());
            author.took(&commit);
            let store = store.clone();
            group.spawn(async move { store.commit(commit).await });
        }
        for outcome in group.join_all().await {
            outcome.unwrap();
        }
    });
}

/// All pages of the list, and the positions behind them.
fn walk(store: &Store, query: &ListQuery) -> Vec<(ConversationId, ConversationState)> {
    let mut query = query.clone();
    let mut all = vec![];
    loop {
        let ListPage {
            conversations,
            next,
        } = store.list(&query).unwrap();
        assert!(conversations.len() <= query.limit);
        all.extend(conversations);
        query.after = match next {
            Some(next) => Some(next),
            None => return all,
        };
    }
}

fn check(store: &Store, known: &Known) {
    let all: Vec<_> = known
        .values()
        .map(|it| (it.id(), it.state.clone()))
        .collect();
    assert_eq!(all, all_states(store).unwrap());
    let mut seen = all;
    seen.retain(|(_, it)| !it.importing);
    seen.sort_by_key(|(id, it)| std::cmp::Reverse((it.updated_at, *id)));
    assert_eq!(seen.len() as u64, store.count().unwrap());
    let open = seen.iter().filter(|(_, it)| !it.archived);
    let directories: BTreeSet<String> = open.map(|(_, it)| it.cwd.clone()).collect();
    let listed = store.directories().unwrap();
    assert_eq!(directories.len(), listed.len(), "{listed:?}");
    assert_eq!(directories, listed.into_iter().collect());
    let titles = TITLES.into_iter().map(|it| Some(it.to_owned()));
    for title in titles.chain([None]) {
        for filter in FILTERS {
            let mut expected = seen.clone();
            expected.retain(|(_, it)| match filter {
                ListFilter::Open => !it.archived,
                ListFilter::Archived => it.archived,
                ListFilter::All => true,
            });
            expected.retain(|(_, it)| title.as_deref().is_none_or(|title| title == it.title()));
            for limit in [1, 2, 100] {
                let query = ListQuery {
                    filter,
                    title: title.clone(),
                    after: None,
                    limit,
                };
                assert_eq!(expected, walk(store, &query), "{query:?}");
            }
        }
    }
}

fn age(dir: &Path) {
    let db = index::open(&dir.join("db")).unwrap();
    db.insert(values::FORMAT, b"2").unwrap();
    index::flush(&db).unwrap();
    index::close(db);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn lists_are_what_the_fold_of_all_states_says(
        groups in vec((vec(doing(), 1..8), then()), 1..8)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let mut known = Known::new();
        for (doings, then) in groups {
            change(&store, &mut known, &doings);
            check(&store, &known);
            if matches!(then, Then::GoOn) {
                continue;
            }
            store.close();
            match then {
                Then::LoseIndex => fs::remove_dir_all(dir.path().join("db")).unwrap(),
                Then::Age => age(dir.path()),
                Then::GoOn | Then::Reopen => {}
            }
            store = Store::open(dir.path()).unwrap();
            check(&store, &known);
        }
    }
}

#[test]
fn a_position_holds_when_what_stood_there_is_used_renamed_or_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut known = Known::new();
    let made = Step::Create {
        title: Some(0),
        cwd: 0,
        importing: false,
    };
    let doing = |number: u64, at: i64, step: &Step| Doing {
        number,
        at,
        step: step.clone(),
    };
    let all: Vec<Doing> = (1..=6).map(|it| doing(it, 10, &made)).collect();
    change(&store, &mut known, &all);
    let list = |after: Option<ListPosition>| {
        let page = store.list(&ListQuery {
            filter: ListFilter::Open,
            title: Some("one".to_owned()),
            after,
            limit: 2,
        });
        let ListPage {
            conversations,
            next,
        } = page.unwrap();
        let ids: Vec<ConversationId> = conversations.into_iter().map(|(id, _)| id).collect();
        (ids, next)
    };
    let (first, next) = list(None);
    assert_eq!([6, 5].map(conversation).to_vec(), first);
    let between = [
        doing(5, 0, &Step::Delete),
        doing(6, 20, &Step::Ask),
        doing(4, 20, &Step::Rename(1)),
    ];
    change(&store, &mut known, &between);
    let (second, next) = list(next);
    assert_eq!([3, 2].map(conversation).to_vec(), second);
    assert_eq!((vec![conversation(1)], None), list(next));
    assert_eq!(conversation(6), list(None).0[0]);
}

#[test]
fn a_conversation_that_is_listed_and_is_not_there_gets_the_index_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 3, 1);
    store.close();
    let db = index::open(&dir.path().join("db")).unwrap();
    for part in db.scan_prefix(values::state(conversation(2))).keys() {
        db.remove(part.unwrap()).unwrap();
    }
    index::flush(&db).unwrap();
    index::close(db);
    let store = Store::open(dir.path()).unwrap();
    let query = ListQuery {
        filter: ListFilter::All,
        title: None,
        after: None,
        limit: 10,
    };
    assert_eq!(3, store.list(&query).unwrap().conversations.len());
    assert_eq!(1, store.repairs().len(), "{:?}", store.repairs());
}

#[test]
fn pages_that_are_read_while_conversations_are_used_have_each_of_them_once_and_whole() {
    const MANY: u64 = 200;
    const WRITERS: u64 = 4;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fill(&store, MANY, 1);
    // So long a title that the state is in several parts.
    let write = |writer: &Store, number: u64, round: u8| {
        let mut author = Author::new(number);
        author.state = writer.state(author.id()).unwrap().unwrap();
        let title = round.to_string().repeat(9000);
        let commit = author.commit(vec![(Event::Renamed { title }, None)]);
        block_on(writer.commit(commit)).unwrap();
    };
    let writers = (0..WRITERS).map(|first| {
        let writer = store.clone();
        std::thread::spawn(move || {
            for round in 0..4 {
                for number in (1..=MANY).filter(|it| it % WRITERS == first) {
                    write(&writer, number, round);
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let query = ListQuery {
        filter: ListFilter::All,
        title: None,
        after: None,
        limit: 500,
    };
    let mut read = 0;
    while writers.iter().any(|it| !it.is_finished()) || read == 0 {
        let listed = store.list(&query).unwrap().conversations;
        let ids: BTreeSet<ConversationId> = listed.iter().map(|(id, _)| *id).collect();
        assert_eq!((MANY, MANY), (listed.len() as u64, ids.len() as u64));
        for (id, state) in &listed {
            let mut digits = state.title().bytes();
            let first = digits.next();
            let is_whole = state.last_seq.0 == 3 || digits.all(|it| Some(it) == first);
            assert!(is_whole, "{id} has a title of two commits");
        }
        assert_eq!(MANY, store.count().unwrap());
        read += 1;
    }
    for writer in writers {
        writer.join().unwrap();
    }
    let listed = store.list(&query).unwrap().conversations;
    assert_eq!(MANY, listed.len() as u64);
    assert_eq!(Vec::<String>::new(), store.repairs());
}
