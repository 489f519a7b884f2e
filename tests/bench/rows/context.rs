//! A conversation that is longer than what a model is shown of it, and looking for something in all of it.

use std::time::Instant;

use aish_proto::conversation::{Search, SearchParams};
use aish_proto::id::ConversationId;

use super::{Bench, Effort};
use crate::asked::ask;
use crate::link::Link;
use crate::seed;
use crate::table::{Limit, Row, millis};

/// What a search may take, in milliseconds.
const SEARCH_MS: f64 = 100.0;

/// Questions behind the usual budget of turns, and searches for what is in no message, in one, and in each.
pub(crate) fn behind_a_budget(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let turns: [usize; 2] = match bench.effort {
        Effort::Full | Effort::Quick => [100, 10_000],
        Effort::Smoke => [10, 100],
    };
    let [short, long] = turns;
    bench.note(&format!("a budget of turns over {short} and {long}"));
    let home = bench.home("context")?;
    let ids = seed::conversations(&home.store(), &turns)?;
    let served = home.start(&bench.programs)?;
    let question = |id: &ConversationId| -> anyhow::Result<f64> {
        let mut command = home.aishctl(&bench.programs);
        command.args(["ask", "-C", &id.to_string(), "Say ok."]);
        Ok(ask(&bench.upstream, &mut command)?.answer)
    };
    // What is too much leaves with the first one.
    let first: Vec<f64> = ids.iter().map(question).collect::<Result<_, _>>()?;
    let mut times = [vec![], vec![]];
    for _ in 0..bench.effort.rounds(40) {
        for (times, id) in times.iter_mut().zip(&ids) {
            times.push(question(id)?);
        }
    }
    let [base, figure] = times;
    let mut rows = vec![
        Row {
            name: format!("{long} turns behind a budget: exec to answer"),
            unit: "ms",
            figure,
            base: Some((
                if short == 100 {
                    "100 turns"
                } else {
                    "10 turns"
                },
                base,
            )),
            limit: Limit::Ratio(1.1),
        },
        Row {
            name: format!("{long} turns: the first question behind a budget"),
            unit: "ms",
            figure: vec![first[1]],
            base: None,
            limit: Limit::None,
        },
    ];
    let mut link = Link::open(&home.socket())?;
    let last = format!("question {}: what", long - 1);
    for (what, query) in [
        ("what is nowhere", "pomelo"),
        ("what is in the last turn", last.as_str()),
        ("what is in each turn", "the plan"),
        ("a word of letters that have other cases", "link"),
        ("a word of no Latin letter", "привет"),
    ] {
        let mut figure = vec![];
        for _ in 0..bench.effort.rounds(20) {
            let began = Instant::now();
            link.call::<Search>(&SearchParams {
                query: query.to_owned(),
                id: Some(ids[1]),
                include_archived: false,
                cursor: None,
                limit: None,
            })?;
            figure.push(millis(began, Instant::now()));
        }
        rows.push(Row {
            name: format!("{long} turns: search for {what}"),
            unit: "ms",
            figure,
            base: None,
            limit: Limit::Figure(SEARCH_MS),
        });
    }
    served.stop()?;
    Ok(rows)
}
