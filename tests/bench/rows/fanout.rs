//! Many clients on one conversation, and one among them that does not read.

use super::{Bench, Effort};
use crate::listeners::Audience;
use crate::table::{Limit, Row, median};

/// How late a chunk is for 1 to 1,000 attached clients, beside as many at the relay.
pub(crate) fn attached(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let sizes: &[(usize, &str)] = match bench.effort {
        Effort::Full | Effort::Quick => &[
            (1, "n400-d5"),
            (10, "n400-d5"),
            (100, "n400-d5"),
            (1000, "n100-d20"),
        ],
        Effort::Smoke => &[(10, "n20-d5")],
    };
    let home = bench.home("fanout")?;
    let served = home.start(&bench.programs)?;
    let (relayd, relay) = bench.relayd("fanout")?;
    let mut rows = vec![];
    for (count, model) in sizes {
        let rounds = bench.effort.rounds(12);
        bench.note(&format!("{rounds} rounds of {model} to {count} clients"));
        let (mut ours, mut theirs) = (vec![], vec![]);
        for round in 0..rounds {
            let aishd =
                || Audience::of_aishd(&home.socket(), *count, 0, model)?.hear(&bench.upstream);
            let relay = || Audience::of_relay(&relay, *count, model)?.hear(&bench.upstream);
            let (our, their) = paired(round, aishd, relay)?;
            ours.push(median(&our.lags));
            theirs.push(median(&their.lags));
        }
        rows.push(Row {
            name: format!("{count} attached: lag of a chunk, median"),
            unit: "ms",
            figure: ours,
            base: Some(("relay", theirs)),
            limit: if *count == 100 {
                Limit::Ratio(1.5)
            } else {
                Limit::None
            },
        });
    }
    relayd.kill9()?;
    served.stop()?;
    Ok(rows)
}

/// What a client that never reads costs those who do.
pub(crate) fn never_reads(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (model, rounds) = match bench.effort {
        Effort::Full => ("n20000", 20),
        Effort::Quick => ("n20000", 8),
        Effort::Smoke => ("n200", 1),
    };
    bench.note(&format!(
        "{rounds} rounds of {model} to 8 clients, with and without one that never reads"
    ));
    let home = bench.home("deaf")?;
    let served = home.start(&bench.programs)?;
    let (mut with, mut without) = (vec![], vec![]);
    for round in 0..rounds {
        let one = || Audience::of_aishd(&home.socket(), 8, 1, model)?.hear(&bench.upstream);
        let none = || Audience::of_aishd(&home.socket(), 8, 0, model)?.hear(&bench.upstream);
        let (one, none) = paired(round, one, none)?;
        with.push(one.wall);
        without.push(none.wall);
    }
    served.stop()?;
    Ok(vec![Row {
        name: format!("{} chunks to 8, one more never reads", &model[1..]),
        unit: "ms",
        figure: with,
        base: Some(("without it", without)),
        limit: Limit::Ratio(1.05),
    }])
}

/// Runs both, the other one first in every second round.
fn paired<T>(
    round: usize,
    first: impl FnOnce() -> anyhow::Result<T>,
    second: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, T)> {
    if round.is_multiple_of(2) {
        let first = first()?;
        Ok((first, second()?))
    } else {
        let second = second()?;
        Ok((first()?, second))
    }
}
