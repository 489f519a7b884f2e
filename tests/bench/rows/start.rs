//! A daemon that begins with much to remember.

use std::thread;
use std::time::{Duration, Instant};

use aish_proto::conversation::{ConversationListParams, List};

use super::{Bench, Effort};
use crate::link::Link;
use crate::seed;
use crate::table::{Limit, Row};

/// Pages that are asked for after a start.
const PAGES: usize = 20;
/// When a daemon that nobody uses has done all that follows a start.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// From exec to ready with 1,000 conversations of 100 events and with 10,000 of 20, and the memory that it takes then.
pub(crate) fn ready(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (few, many, rounds) = match bench.effort {
        Effort::Full => (1000, 10_000, 20),
        Effort::Quick => (1000, 10_000, 5),
        Effort::Smoke => (10, 20, 1),
    };
    let mut rows = ready_with(bench, few, 25, 16.0, rounds)?;
    rows.extend(ready_with(bench, many, 5, 32.0, rounds)?);
    Ok(rows)
}

fn ready_with(
    bench: &Bench,
    conversations: usize,
    turns: usize,
    most_mib: f64,
    rounds: usize,
) -> anyhow::Result<Vec<Row>> {
    bench.note(&format!(
        "{rounds} starts with {conversations} conversations"
    ));
    let home = bench.home(&format!("start-{conversations}"))?;
    seed::conversations(&home.store(), &vec![turns; conversations])?;
    let (mut starts, mut killed, mut resident, mut threads) = (vec![], vec![], vec![], vec![]);
    let mut pages = vec![];
    let page = ConversationListParams {
        limit: Some(100),
        ..ConversationListParams::default()
    };
    for round in 0..rounds {
        let served = home.start(&bench.programs)?;
        starts.push(served.start);
        if round < 3 {
            thread::sleep(IDLE_AFTER);
            resident.push(served.kib("VmRSS")? / 1024.0);
            threads.push(served.kib("Threads")?);
            let mut link = Link::open(&home.socket())?;
            for _ in 0..PAGES {
                let began = Instant::now();
                link.call::<List>(&page)?;
                pages.push(began.elapsed().as_secs_f64() * 1000.0);
            }
        }
        served.kill9()?;
        let served = home.start(&bench.programs)?;
        killed.push(served.start);
        served.stop()?;
    }
    let row = |name: &str, unit, figure, limit| Row {
        name: format!("{conversations} conversations: {name}"),
        unit,
        figure,
        base: None,
        limit,
    };
    Ok(vec![
        row("start to ready", "ms", starts, Limit::Figure(100.0)),
        row("the same after kill -9", "ms", killed, Limit::None),
        row("memory when idle", "MiB", resident, Limit::Figure(most_mib)),
        row("a page of the list", "ms", pages, Limit::Figure(3.0)),
        row("threads when idle", "", threads, Limit::None),
    ])
}
