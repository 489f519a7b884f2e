//! Questions in conversations that are long already.

use std::fs;
use std::time::Instant;

use aish_proto::attach::ReplayStart;
use aish_proto::id::ConversationId;

use super::{Bench, Effort};
use crate::asked::{Asked, ask};
use crate::link::Link;
use crate::seed;
use crate::served::Home;
use crate::table::{Limit, Row, millis};

/// What a question takes in conversations of 10 to 10,000 turns.
///
/// The request holds the whole conversation, and somebody has to send it. What that takes is measured beside it: the
/// client without a daemon posts the very bytes that the model's server was sent from the longest conversation and
/// from the shortest, and the difference is taken off the longest's time. What is left is ours: finding the
/// conversation, making the body, storing the turn.
pub(crate) fn asked(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let turns: &[usize] = match bench.effort {
        Effort::Full | Effort::Quick => &[10, 100, 1000, 10_000],
        Effort::Smoke => &[10, 100],
    };
    bench.note("conversations of 10 to 10,000 turns");
    let home = bench.home("history")?;
    home.configure("[context]\nmax_turns = 100000")?;
    let ids = seed::conversations(&home.store(), turns)?;
    let served = home.start(&bench.programs)?;
    let mut bodies = vec![];
    let mut cold = vec![];
    for (id, turns) in ids.iter().zip(turns) {
        let first = ask(&bench.upstream, &mut asker(bench, &home, *id))?;
        let file = bench.scratch.join(format!("body-{turns}.json"));
        fs::write(&file, &first.body)?;
        bodies.push(file);
        cold.push(first.answer);
    }
    let mut times = vec![vec![]; turns.len()];
    let mut direct = vec![vec![]; turns.len()];
    for _ in 0..bench.effort.rounds(40) {
        for (at, id) in ids.iter().enumerate() {
            let Asked { answer, .. } = ask(&bench.upstream, &mut asker(bench, &home, *id))?;
            times[at].push(answer);
            let mut command = bench.direct();
            let Asked { answer, .. } =
                ask(&bench.upstream, command.arg("--body").arg(&bodies[at]))?;
            direct[at].push(answer);
        }
    }
    served.stop()?;
    let mut rows = vec![];
    for (at, turns) in turns.iter().enumerate().skip(1) {
        let body = direct[at]
            .iter()
            .zip(&direct[0])
            .map(|(long, short)| long - short);
        let apart = times[at].iter().zip(body).map(|(whole, body)| whole - body);
        rows.push(Row {
            name: format!("{turns} turns: exec to answer, body apart"),
            unit: "ms",
            figure: apart.collect(),
            base: Some(("10 turns", times[0].clone())),
            limit: if *turns == 10_000 {
                Limit::Ratio(1.2)
            } else {
                Limit::None
            },
        });
    }
    let last = turns.len() - 1;
    rows.push(Row {
        name: format!("{} turns: exec to answer, whole", turns[last]),
        unit: "ms",
        figure: times[last].clone(),
        base: Some(("direct", direct[last].clone())),
        limit: Limit::None,
    });
    rows.push(Row {
        name: format!("{} turns: the first question after a start", turns[last]),
        unit: "ms",
        figure: vec![cold[last]],
        base: None,
        limit: Limit::None,
    });
    rows.extend(attach(bench, &home, ids[last], turns[last])?);
    Ok(rows)
}

fn asker(bench: &Bench, home: &Home, id: ConversationId) -> std::process::Command {
    let mut command = home.aishctl(&bench.programs);
    command.args(["ask", "-C", &id.to_string(), "Say ok."]);
    command
}

/// Attaching to the longest one after a kill, and the start before that.
fn attach(
    bench: &Bench,
    home: &Home,
    id: ConversationId,
    turns: usize,
) -> anyhow::Result<Vec<Row>> {
    let (mut starts, mut attaches) = (vec![], vec![]);
    for _ in 0..bench.effort.rounds(12) {
        let served = home.start(&bench.programs)?;
        ask(&bench.upstream, &mut asker(bench, home, id))?;
        served.kill9()?;
        let served = home.start(&bench.programs)?;
        starts.push(served.start);
        let began = Instant::now();
        Link::open(&home.socket())?.attach(id, ReplayStart::Tail(40))?;
        attaches.push(millis(began, Instant::now()));
        served.kill9()?;
    }
    let row = |name: String, figure| Row {
        name,
        unit: "ms",
        figure,
        base: None,
        limit: Limit::None,
    };
    Ok(vec![
        row(
            format!("{turns} turns: start to ready after kill -9"),
            starts,
        ),
        row(
            format!("{turns} turns: connect to attached, 40 events"),
            attaches,
        ),
    ])
}
