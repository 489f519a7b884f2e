//! One question and its answer: `aishctl ask` beside curl, a client without a daemon, and the relay.

use std::path::Path;
use std::process::Command;

use super::{Bench, Effort};
use crate::asked::{Asked, ask};
use crate::served::Home;
use crate::table::{Limit, Row, median};

/// Who asks, in the order of a round.
const ASKERS: [&str; 4] = ["aishctl", "relay", "direct", "curl"];

/// Rounds of one question to each of the first so many askers.
struct Rounds(Vec<Vec<Asked>>);

impl Rounds {
    fn each(&self, asker: usize, figure: impl Fn(&Asked) -> f64) -> Vec<f64> {
        self.0.iter().map(|round| figure(&round[asker])).collect()
    }

    fn row(
        &self,
        name: &str,
        base: usize,
        limit: Limit,
        figure: impl Fn(&Asked) -> f64 + Copy,
    ) -> Row {
        Row {
            name: name.to_owned(),
            unit: "ms",
            figure: self.each(0, figure),
            base: Some((ASKERS[base], self.each(base, figure))),
            limit,
        }
    }
}

fn rounds(bench: &Bench, model: &str, askers: usize, count: usize) -> anyhow::Result<Rounds> {
    bench.note(&format!("{count} rounds of {model}"));
    let home = bench.home(&format!("ask-{model}"))?;
    let served = home.start(&bench.programs)?;
    let (relayd, socket) = bench.relayd(&format!("ask-{model}"))?;
    // The first one opens connections that the others find open.
    let warm_up = if bench.effort == Effort::Smoke { 0 } else { 2 };
    let mut all = vec![];
    for round in 0..count + warm_up {
        let asked = (0..askers).map(|it| {
            ask(
                &bench.upstream,
                &mut asker(bench, &home, &socket, model, it),
            )
        });
        let asked = asked.collect::<Result<Vec<_>, _>>()?;
        if round >= warm_up {
            all.push(asked);
        }
    }
    relayd.kill9()?;
    served.stop()?;
    Ok(Rounds(all))
}

fn asker(bench: &Bench, home: &Home, relay: &Path, model: &str, which: usize) -> Command {
    let prompt = "Say ok.";
    match ASKERS[which] {
        "aishctl" => {
            let mut command = home.aishctl(&bench.programs);
            command.args(["ask", "-m", model, prompt]);
            command
        }
        "relay" => {
            let mut command = Command::new(bench.programs.join("bench-relay"));
            command.arg(relay).args([model, prompt]);
            command
        }
        "direct" => {
            let mut command = bench.direct();
            command.args([model, prompt]);
            command
        }
        _ => {
            let body = serde_json::json!({
                "model": model, "stream": true, "messages": [{"role": "user", "content": prompt}]
            });
            let mut command = Command::new("curl");
            command
                .args([
                    "-sN",
                    "--fail-with-body",
                    "--noproxy",
                    "*",
                    "-H",
                    "content-type: application/json",
                    "-d",
                ])
                .arg(body.to_string())
                .arg(format!("{}/chat/completions", bench.upstream.base_url));
            command
        }
    }
}

/// One chunk: what everything around an answer takes.
pub(crate) fn one_chunk(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let askers = if has_curl { 4 } else { 3 };
    let rounds = rounds(bench, "n1", askers, bench.effort.rounds(100))?;
    let mut rows = vec![
        rounds.row("ask: exec to answer", 1, Limit::Ratio(2.0), |it| it.answer),
        rounds.row("ask: exec to answer", 2, Limit::None, |it| it.answer),
        rounds.row("ask: exec to the model's request", 1, Limit::None, |it| {
            it.request
        }),
        rounds.row("ask: end of the answer to exit", 1, Limit::None, |it| {
            it.after_end
        }),
        rounds.row("ask: exec to exit", 1, Limit::None, |it| it.exit),
    ];
    if has_curl {
        rows.insert(
            1,
            rounds.row("ask: exec to answer", 3, Limit::Ratio(1.0), |it| it.answer),
        );
    } else {
        bench.note("no curl here: its row is left out");
    }
    Ok(rows)
}

/// Chunks without a pause: what a chunk takes.
pub(crate) fn many_chunks(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let lengths: &[(&str, usize)] = match bench.effort {
        Effort::Full | Effort::Quick => &[("n2000", 20), ("n20000", 12)],
        Effort::Smoke => &[("n200", 1)],
    };
    let mut rows = vec![];
    for (model, count) in lengths {
        let rounds = rounds(bench, model, 3, bench.effort.rounds(*count))?;
        let name = format!("{} chunks: exec to exit", &model[1..]);
        rows.push(rounds.row(&name, 2, Limit::Ratio(1.5), |it| it.exit));
        rows.push(rounds.row(&name, 1, Limit::None, |it| it.exit));
    }
    Ok(rows)
}

/// Chunks as a model writes them: how late each one is.
pub(crate) fn spaced(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (model, count) = match bench.effort {
        Effort::Full | Effort::Quick => ("n400-d5", bench.effort.rounds(12)),
        Effort::Smoke => ("n20-d5", 1),
    };
    let rounds = rounds(bench, model, 3, count)?;
    let name = "5 ms apart: lag of a chunk, median";
    let mut rows = vec![rounds.row(name, 1, Limit::Ratio(1.5), |it| median(&it.lags))];
    rows.push(rounds.row(name, 2, Limit::None, |it| median(&it.lags)));
    rows.push(
        rounds.row("5 ms apart: lag of a chunk, mean", 1, Limit::None, |it| {
            mean(&it.lags)
        }),
    );
    Ok(rows)
}

#[expect(clippy::cast_precision_loss, reason = "so many chunks there are not")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
