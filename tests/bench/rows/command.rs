//! What it costs a command that the kernel holds it: from its mark in the log to its end there, as somebody sees it who follows.
//! All of them run in the daemon, and do nothing.

use std::time::Instant;

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{ConversationCreateParams, Create};
use aish_proto::id::ConversationId;
use aish_proto::norris::{NorrisLevels, Start, StartParams};
use aish_proto::shell::{Run, ShellRunParams};
use ulid::Ulid;

use super::Bench;
use crate::link::Link;
use crate::served::Home;
use crate::table::{Limit, Row, median, millis};

/// What is demanded of Landlock, and of everything together.
const WALL_MS: f64 = 1.5;
const ALL_MS: f64 = 12.0;
/// One that does nothing, and is another one each time.
const COMMAND: &str = ":";

/// A person's own command, and those of runs that are held in each way.
pub(crate) fn held(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let rounds = bench.effort.rounds(200);
    bench.note(&format!("{rounds} commands, and as many held in each way"));
    let homes = ["workspace", "try"].map(|contain| home(bench, contain));
    let [workspace, layers] = homes;
    let (workspace, layers) = (workspace?, layers?);
    let served = [
        workspace.start(&bench.programs)?,
        layers.start(&bench.programs)?,
    ];
    // The first one finds out what the kernel has.
    let _warm = of_person(&workspace, 2)?;
    let open = of_person(&workspace, rounds)?;
    let mut rows = vec![Row {
        name: "a person's own command, held by nothing".to_owned(),
        unit: "ms",
        figure: open.clone(),
        base: None,
        limit: Limit::None,
    }];
    let usual = median(&open);
    for (home, level, name, limit) in [
        (&workspace, 2, "a run's in a workspace (Landlock)", WALL_MS),
        (
            &workspace,
            1,
            "a run's that only reads (namespaces)",
            ALL_MS,
        ),
        (&layers, 2, "a run's in layers (everything)", ALL_MS),
    ] {
        let Some(times) = of_run(home, level, rounds)? else {
            bench.note(&format!("{name}: nothing here holds it"));
            continue;
        };
        rows.push(Row {
            name: format!("{name}: more than that"),
            unit: "ms",
            figure: times.iter().map(|it| it - usual).collect(),
            base: Some(("in all", times)),
            limit: Limit::Figure(limit),
        });
    }
    for it in served {
        it.stop()?;
    }
    Ok(rows)
}

fn home(bench: &Bench, contain: &str) -> anyhow::Result<Home> {
    let home = bench.home(&format!("command-{contain}"))?;
    home.configure(&format!(
        "[norris]\nsecond_opinion = false\ncontain = \"{contain}\""
    ))?;
    std::fs::create_dir_all(home.folder.join("work"))?;
    Ok(home)
}

/// Somebody who follows a conversation in the directory of the commands.
fn follower(home: &Home) -> anyhow::Result<(Link, ConversationId)> {
    let mut link = Link::open(&home.socket())?;
    let created = link.call::<Create>(&ConversationCreateParams {
        cwd: home.folder.join("work").display().to_string(),
        ..ConversationCreateParams::default()
    })?;
    link.attach(created.id, ReplayStart::Now)?;
    Ok((link, created.id))
}

fn of_person(home: &Home, count: usize) -> anyhow::Result<Vec<f64>> {
    let (mut link, conversation) = follower(home)?;
    let mut times = vec![];
    for number in 0..count {
        link.send_call::<Run>(&ShellRunParams {
            conversation,
            command: format!("{COMMAND} {number}"),
            cwd: None,
            into_context: false,
        })?;
        times.extend(next(&mut link)?);
    }
    anyhow::ensure!(times.len() == count, "a person is asked about nothing");
    Ok(times)
}

/// `None`: a person is asked, because nothing holds it.
fn of_run(home: &Home, level: u8, count: usize) -> anyhow::Result<Option<Vec<f64>>> {
    let (mut link, conversation) = follower(home)?;
    // The first of them waits for what nobody has found out yet.
    let all = count + 1;
    link.send_call::<Start>(&StartParams {
        conversation,
        goal: "nothing".to_owned(),
        idempotency_key: Ulid::new().to_string(),
        model: Some("c1".to_owned()),
        levels: Some(NorrisLevels {
            all: level,
            ..NorrisLevels::default()
        }),
        steps: Some(u32::try_from(all)? + 5),
        time_ms: None,
        tokens: None,
        cost_usd: None,
    })?;
    let mut times = vec![];
    for _ in 0..all {
        match next(&mut link)? {
            Some(took) => times.push(took),
            None => return Ok(None),
        }
    }
    times.remove(0);
    Ok(Some(times))
}

/// How long the next command took, in milliseconds. `None`: it is asked about.
fn next(link: &mut Link) -> anyhow::Result<Option<f64>> {
    let mut began = None;
    loop {
        let line = link.line()?;
        let is_of = |kind: &str| line.contains(&format!("\"kind\":\"{kind}\""));
        if is_of("shellStarted") {
            began = Some(Instant::now());
        } else if is_of("confirmRequested") {
            return Ok(None);
        } else if is_of("shellFinished") {
            let now = Instant::now();
            anyhow::ensure!(
                line.contains("\"exitCode\":0"),
                "a command did not end well: {line}"
            );
            return Ok(began.map(|it| millis(it, now)));
        }
        anyhow::ensure!(!line.contains("\"error\""), "it was refused: {line}");
    }
}
