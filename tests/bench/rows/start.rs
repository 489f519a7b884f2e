//! A daemon that begins with much to remember.

use std::thread;
use std::time::Duration;

use super::{Bench, Effort};
use crate::seed;
use crate::table::{Limit, Row};

/// When a daemon that nobody uses has done all that follows a start.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// From exec to ready with 1,000 conversations of 100 events, and the memory that it takes then.
pub(crate) fn ready(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (conversations, rounds) = match bench.effort {
        Effort::Full => (1000, 20),
        Effort::Quick => (1000, 5),
        Effort::Smoke => (10, 1),
    };
    bench.note(&format!(
        "{rounds} starts with {conversations} conversations"
    ));
    let home = bench.home("start")?;
    seed::conversations(&home.store(), &vec![25; conversations])?;
    let (mut starts, mut killed, mut resident, mut threads) = (vec![], vec![], vec![], vec![]);
    for round in 0..rounds {
        let served = home.start(&bench.programs)?;
        starts.push(served.start);
        if round < 3 {
            thread::sleep(IDLE_AFTER);
            resident.push(served.kib("VmRSS")? / 1024.0);
            threads.push(served.kib("Threads")?);
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
        row("memory when idle", "MiB", resident, Limit::Figure(16.0)),
        row("threads when idle", "", threads, Limit::None),
    ])
}
