//! A question whose first server is down, beside one that is asked of the second at once.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::TcpListener;

use super::{Bench, Effort};
use crate::asked::ask;
use crate::table::{Limit, Row};

/// What the way round may add to the second request, in milliseconds.
const ADDS: f64 = 2.0;

/// From exec to the request at the second server, with and without the first one, one after the other.
pub(crate) fn gone_round(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let rounds = bench.effort.rounds(60);
    bench.note(&format!("{rounds} rounds of a server that is down"));
    let home = bench.home("fallback")?;
    // A port that was free a moment ago: every connection is refused at once.
    let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let mut config = OpenOptions::new()
        .append(true)
        .open(home.folder.join("config.toml"))?;
    writeln!(
        config,
        "[models.down]\nendpoint = \"http://{address}/v1\"\nmodel = \"down\"\n\
         [routing]\nfallback = true\nfallback_model = \"n1\""
    )?;
    let served = home.start(&bench.programs)?;
    let warm_up = if bench.effort == Effort::Smoke { 0 } else { 2 };
    let mut times = [vec![], vec![]];
    for round in 0..rounds + warm_up {
        for (model, times) in ["down", "n1"].into_iter().zip(&mut times) {
            let mut command = home.aishctl(&bench.programs);
            command.args(["ask", "-m", model, "Say ok."]);
            let asked = ask(&bench.upstream, &mut command)?;
            let body: serde_json::Value = serde_json::from_slice(&asked.body)?;
            anyhow::ensure!(body["model"] == "n1", "{} was asked", body["model"]);
            if round >= warm_up {
                times.push(asked.request);
            }
        }
    }
    served.stop()?;
    let [round, straight] = times;
    let adds = round.iter().zip(&straight).map(|(a, b)| a - b).collect();
    Ok(vec![
        Row {
            name: "fallback: exec to the second server's request".to_owned(),
            unit: "ms",
            figure: round,
            base: Some(("asked at once", straight)),
            limit: Limit::None,
        },
        Row {
            name: "fallback: what the way round adds".to_owned(),
            unit: "ms",
            figure: adds,
            base: None,
            limit: Limit::Figure(ADDS),
        },
    ])
}
