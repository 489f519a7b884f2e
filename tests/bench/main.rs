//! What aish adds to a question: `aishctl` and `aishd` beside the thinnest programs that could do the same, in
//! rounds of one after the other, so that whatever the machine does it does to all. One table comes out.
//!
//! Everything is measured from outside: by the model's server, which is here, and by who started the program and
//! reads its output. docs/TESTING.md says how to read the table.

mod asked;
mod link;
mod linked;
mod listeners;
mod markers;
mod rows;
mod seed;
mod served;
mod table;
mod upstream;

use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::rows::{Bench, Effort, ask, command, context, fallback, fanout, history, mcp, start};
use crate::table::Row;
use crate::upstream::Upstream;

const USAGE: &str = "tests/bench/run [--quick | --smoke | --by-hand] [--rt] [GROUP…]
groups: ask chunks spaced attached deaf history context mcp fallback command start";

/// A group of rows that are measured together.
type Group = (&'static str, fn(&Bench) -> anyhow::Result<Vec<Row>>);

const GROUPS: &[Group] = &[
    ("ask", ask::one_chunk),
    ("chunks", ask::many_chunks),
    ("spaced", ask::spaced),
    ("attached", fanout::attached),
    ("deaf", fanout::never_reads),
    ("history", history::asked),
    ("context", context::behind_a_budget),
    ("mcp", mcp::ten_servers),
    ("fallback", fallback::gone_round),
    ("command", command::held),
    ("start", start::ready),
];

#[derive(Debug)]
struct Options {
    effort: Effort,
    /// Ahead of all else on the machine; the script that starts us has seen to it.
    real_time: bool,
    /// Nothing is measured: the daemons wait to be looked at.
    by_hand: bool,
    groups: Vec<Group>,
}

impl Options {
    fn read(args: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut options = Self {
            effort: Effort::Full,
            real_time: false,
            by_hand: false,
            groups: vec![],
        };
        for arg in args {
            match arg.as_str() {
                "--quick" => options.effort = Effort::Quick,
                "--smoke" => options.effort = Effort::Smoke,
                "--by-hand" => options.by_hand = true,
                "--rt" => options.real_time = true,
                name => {
                    let group = GROUPS.iter().find(|it| it.0 == name);
                    options.groups.push(*group.context(USAGE)?);
                }
            }
        }
        if options.groups.is_empty() {
            options.groups = GROUPS.to_vec();
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _nobody_reads = writeln!(io::stderr(), "aish-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A limit that is missed is said in the table and is no failure: times are no test.
fn run() -> anyhow::Result<()> {
    let options = Options::read(std::env::args().skip(1))?;
    raise_open_files()?;
    let scratch = tempfile::tempdir()?;
    let program = std::env::current_exe()?;
    let bench = Bench {
        upstream: Upstream::start()?,
        programs: program
            .parent()
            .context("a program stands somewhere")?
            .to_owned(),
        scratch: scratch.path().to_owned(),
        effort: options.effort,
    };
    if options.by_hand {
        return bench.by_hand();
    }
    let mut out = io::stdout();
    writeln!(out, "{}", machine(&options))?;
    for program in ["aishctl", "aish", "aishd"] {
        let how = linked::linked(&bench.programs.join(program))?;
        writeln!(out, "{program}: {how}")?;
    }
    writeln!(out, "{}", table::head())?;
    let mut missed = 0;
    for (name, measure) in &options.groups {
        let rows = measure(&bench).with_context(|| format!("measure {name}"))?;
        missed += rows.iter().filter(|it| it.is_missed()).count();
        write!(out, "{}", table::render(&rows))?;
        out.flush()?;
    }
    let end = match (options.effort, missed) {
        (Effort::Smoke, _) => "it works; these times say nothing".to_owned(),
        (Effort::Full | Effort::Quick, 0) => "every limit is kept".to_owned(),
        (Effort::Full | Effort::Quick, missed) => format!("{missed} limits are missed"),
    };
    writeln!(out, "{end}; load at the end {}", load())?;
    Ok(())
}

/// A thousand clients are two thousand open files on both sides.
fn raise_open_files() -> anyhow::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum.map_or(8192, |it| it.min(8192));
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(current),
            maximum,
        },
    )
    .context("raise the limit of open files")
}

/// Where and when this was measured, in one line.
fn machine(options: &Options) -> String {
    let cores = std::thread::available_parallelism().map_or(0, Into::into);
    let load = load();
    let effort = match options.effort {
        Effort::Full => "full",
        Effort::Quick => "quick",
        Effort::Smoke => "smoke",
    };
    let schedule = if options.real_time { ", real time" } else { "" };
    format!(
        "aish {}, {effort}, {cores} cores, load {load}{schedule}; × is the median of the ratios of each round",
        env!("CARGO_PKG_VERSION")
    )
}

/// The load of the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .unwrap_or("unknown")
        .to_owned()
}
