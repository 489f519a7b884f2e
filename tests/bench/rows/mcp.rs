//! Questions to a daemon that holds sessions with MCP servers.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::{Bench, Effort};
use crate::asked::ask;
use crate::served::Home;
use crate::table::{Limit, Row};

/// Tools in every request, whoever offers them.
const TOOLS: usize = 20;
/// Longer than the servers take to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a question takes with ten servers, beside one that offers as many tools.
pub(crate) fn ten_servers(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let rounds = bench.effort.rounds(40);
    bench.note(&format!(
        "{rounds} rounds with ten MCP servers and with one"
    ));
    let homes = [home(bench, 10)?, home(bench, 1)?];
    let served = homes.each_ref().map(|it| it.start(&bench.programs));
    let [ten, one] = served;
    let (ten, one) = (ten?, one?);
    for (home, servers) in homes.iter().zip([10, 1]) {
        ready(bench, home, servers)?;
    }
    let warm_up = if bench.effort == Effort::Smoke { 0 } else { 2 };
    let mut times = [vec![], vec![]];
    for round in 0..rounds + warm_up {
        for (home, times) in homes.iter().zip(&mut times) {
            let mut command = home.aishctl(&bench.programs);
            command.args(["ask", "-m", "n1", "Say ok."]);
            let asked = ask(&bench.upstream, &mut command)?;
            let body: serde_json::Value = serde_json::from_slice(&asked.body)?;
            // Those of the servers; aish has some of its own.
            let names = body["tools"].as_array().into_iter().flatten();
            let names = names.filter_map(|it| it["function"]["name"].as_str());
            let offered = names.filter(|it| !it.starts_with("aish__")).count();
            anyhow::ensure!(offered == TOOLS, "{offered} of {TOOLS} tools were offered");
            if round >= warm_up {
                times.push(asked.answer);
            }
        }
    }
    ten.stop()?;
    one.stop()?;
    let [figure, base] = times;
    Ok(vec![Row {
        name: "ten MCP servers: exec to answer".to_owned(),
        unit: "ms",
        figure,
        base: Some(("one server", base)),
        limit: Limit::Ratio(1.05),
    }])
}

fn home(bench: &Bench, servers: usize) -> anyhow::Result<Home> {
    let home = bench.home(&format!("mcp-{servers}"))?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/mcp/stdio_server.py");
    // The tools of the servers alone are counted.
    let mut tables =
        "[shell]\ntool = false\n[tools]\nfiles = false\ntodo = false\nweb = false\n".to_owned();
    for number in 0..servers {
        write!(
            tables,
            "[mcp.servers.s{number}]\ncommand = \"python3\"\nargs = [{script:?}, \"many-{}\"]\n",
            TOOLS / servers
        )?;
    }
    let mut config: File = OpenOptions::new()
        .append(true)
        .open(home.folder.join("config.toml"))?;
    config.write_all(tables.as_bytes())?;
    Ok(home)
}

/// Waits until every server is there.
fn ready(bench: &Bench, home: &Home, servers: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let output = home
            .aishctl(&bench.programs)
            .args(["mcp", "list", "--json"])
            .output()
            .context("run aishctl")?;
        let listed = String::from_utf8_lossy(&output.stdout);
        if listed.matches("\"state\":\"ready\"").count() == servers {
            return Ok(());
        }
        anyhow::ensure!(begun.elapsed() < PATIENCE, "not ready: {listed}");
        thread::sleep(Duration::from_millis(50));
    }
}
