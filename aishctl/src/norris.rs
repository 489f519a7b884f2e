//! `norris`: runs that work on their own towards a goal (NOR-1 to NOR-4). It launches one when it is told to with `--yes`,
//! and says before what that would let happen unasked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use aish_proto::event::{
    Envelope, NorrisEnded, NorrisLaunched, NorrisNudged, NorrisPaused, NorrisResumed, NorrisStep,
};
use aish_proto::norris::{
    Halt, NorrisActivity, NorrisLevels, NorrisLimits, NorrisOutcome, NorrisPause, NorrisRun,
    NorrisSpent, Pause, Resume, RunParams, Start, StartParams,
};
use aish_proto::turn::{TurnRecord, Wait, WaitParams};
use clap::{Args, Subcommand};

use crate::desk::{Desk, Printed};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::{resolve, safe, span};

#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Norris {
    #[command(subcommand)]
    pub command: Option<Lead>,
    #[command(flatten)]
    pub launch: Launch,
}

#[derive(Clone, Debug, Subcommand)]
pub enum Lead {
    /// How the run of a conversation stands
    Status,
    /// Nothing new begins; what has begun comes to its end
    Pause,
    /// Go on with a paused run, also after the daemon has ended under it
    Resume,
    /// End the run now
    Halt,
}

#[derive(Args, Clone, Debug)]
pub struct Launch {
    /// What is to be reached
    pub goal: Vec<String>,
    /// What runs unasked unless it is destructive: 1 reads, 2 writes; NAME=LEVEL for one provider. May be said several times
    #[arg(long, value_name = "LEVEL|NAME=LEVEL")]
    pub level: Vec<String>,
    /// Requests to the model, at most
    #[arg(long, value_name = "N")]
    pub steps: Option<u32>,
    /// Time of work, at most, e.g. 10m; waiting for a person does not count
    #[arg(long, value_parser = span::parse, value_name = "DURATION")]
    pub time: Option<Duration>,
    /// Tokens, at most, in and out
    #[arg(long, value_name = "N")]
    pub tokens: Option<u64>,
    /// Launch it; without this it is only said what would be granted
    #[arg(long)]
    pub yes: bool,
    /// Wait for its end
    #[arg(long)]
    pub wait: bool,
}

pub async fn run(desk: &Desk, norris: &Norris) -> Result<Printed, Failure> {
    let Norris { command, launch } = norris;
    if command.is_none() && !launch.goal.is_empty() {
        return start(desk, launch).await;
    }
    let meant = resolve::meant(&desk.caller, &desk.around, desk.name(None)).await?;
    let conversation = meant.id;
    let params = RunParams { conversation };
    match command {
        None | Some(Lead::Status) => {
            let shown = || match &meant.norris {
                Some(run) => standing(run),
                None => "no autonomous run goes on here".to_owned(),
            };
            desk.print(&meant.norris, shown)
        }
        Some(Lead::Pause) => {
            let run = desk.caller.call::<Pause>(params).await?;
            desk.print(&run, || standing(&run))
        }
        Some(Lead::Resume) => {
            let run = desk.caller.call::<Resume>(params).await?;
            desk.print(&run, || standing(&run))
        }
        Some(Lead::Halt) => {
            let halted = desk.caller.call::<Halt>(params).await?;
            desk.print(&halted, || {
                if halted.halted {
                    "halted"
                } else {
                    "it was over already"
                }
                .to_owned()
            })
        }
    }
}

async fn start(desk: &Desk, launch: &Launch) -> Result<Printed, Failure> {
    let levels = levels(&launch.level)?;
    let goal = launch.goal.join(" ");
    let meant = resolve::meant(&desk.caller, &desk.around, desk.name(None)).await?;
    let what = terms(&goal, &levels);
    if !launch.yes && !(desk.may_prompt && agreed(&what)?) {
        return Err(
            Failure::new(Exit::DENIED, format!("nothing was launched. {what}"))
                .hint("say it again with --yes to launch it"),
        );
    }
    let params = StartParams {
        conversation: meant.id,
        goal,
        idempotency_key: ulid::Ulid::new().to_string(),
        model: desk.global.model.clone(),
        levels: Some(levels),
        steps: launch.steps,
        time_ms: launch
            .time
            .map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
        tokens: launch.tokens,
    };
    let started = desk.caller.call::<Start>(params).await?;
    if launch.wait {
        let params = WaitParams {
            turn: started.turn,
            timeout_ms: None,
        };
        let record = desk.caller.call::<Wait>(params).await?;
        let mut printed = desk.print(&record, || ended(&record))?;
        printed.exit = record
            .stop_reason
            .map_or(Exit::FAILED, |it| exit::of_turn(it, record.error.as_ref()));
        return Ok(printed);
    }
    desk.print(&started, || {
        let mut text = started
            .run
            .as_ref()
            .map_or_else(|| "launched".to_owned(), standing);
        for notice in &started.notices {
            let _never_fails = write!(text, "\n{notice}");
        }
        let _never_fails = write!(
            text,
            "\nfollow it: aishctl attach {0}   stop it: aishctl norris halt -C {0}",
            meant.id
        );
        text
    })
}

/// The launch is the consent, so a person sees what it is of.
fn agreed(what: &str) -> Result<bool, Failure> {
    let failed = |error: std::io::Error| Failure::new(Exit::FAILED, format!("cannot ask: {error}"));
    let mut line = String::new();
    let mut stderr = std::io::stderr();
    write!(stderr, "{what}.\nlaunch it? (yes/no): ").map_err(failed)?;
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(failed)?;
    Ok(line.trim() == "yes")
}

fn ended(record: &TurnRecord) -> String {
    safe::screen(&record.text)
}

fn levels(said: &[String]) -> Result<NorrisLevels, Failure> {
    let wrong = |text: &str| {
        let message = format!("--level {text}: expected 1, 2 or 3, or NAME=LEVEL");
        Failure::new(Exit::USAGE, message)
    };
    let mut levels = NorrisLevels {
        all: 1,
        providers: BTreeMap::new(),
    };
    for text in said {
        let (name, number) = match text.split_once('=') {
            Some((name, number)) => (Some(name), number),
            None => (None, text.as_str()),
        };
        let level: u8 = number.parse().map_err(|_| wrong(text))?;
        if !(1..=3).contains(&level) {
            return Err(wrong(text));
        }
        match name {
            Some(name) => {
                levels.providers.insert(name.to_owned(), level);
            }
            None => levels.all = level,
        }
    }
    Ok(levels)
}

/// What a launch grants.
fn terms(goal: &str, levels: &NorrisLevels) -> String {
    format!(
        "A model would work on its own towards: {}. Calls {} would run without a question; what is destructive, or needs \
level 3, always asks",
        safe::one_line(goal),
        granted(levels)
    )
}

fn granted(levels: &NorrisLevels) -> String {
    let NorrisLevels { all, providers } = levels;
    let mut text = format!("up to level {all}");
    for (name, level) in providers {
        let _never_fails = write!(text, ", of {} up to level {level}", safe::one_line(name));
    }
    text
}

/// A run in one line: `norris: step 3 of 25, 1200 tokens, 41 s, calls fs__write`.
#[must_use]
pub fn standing(run: &NorrisRun) -> String {
    let tool = run.tool.as_deref().map(safe::one_line).unwrap_or_default();
    let does = match run.activity {
        NorrisActivity::Planning => "asks the model".to_owned(),
        NorrisActivity::Acting => format!("calls {tool}"),
        NorrisActivity::Asking => format!("waits for a person: {tool}"),
        NorrisActivity::Paused => match run.paused {
            Some(NorrisPause::Interrupted) => "interrupted (norris resume)".to_owned(),
            Some(NorrisPause::Person) | None => "paused (norris resume)".to_owned(),
        },
    };
    format!(
        "norris: {}, {does}",
        progress(run.step, Some(run.limits), run.spent)
    )
}

fn progress(step: u32, limits: Option<NorrisLimits>, spent: NorrisSpent) -> String {
    let of = |most: Option<String>| most.map(|it| format!(" of {it}")).unwrap_or_default();
    let NorrisSpent { time_ms, tokens } = spent;
    let limits = limits.unwrap_or(NorrisLimits {
        steps: 0,
        time_ms: None,
        tokens: None,
    });
    let steps = of((limits.steps > 0).then(|| limits.steps.to_string()));
    let most = of(limits.tokens.map(|it| it.to_string()));
    let time = of(limits.time_ms.map(|it| (it / 1000).to_string()));
    format!(
        "step {step}{steps}, {tokens}{most} tokens, {}{time} s",
        time_ms / 1000
    )
}

/// What an event of a run says to people.
#[must_use]
pub fn told(event: &Envelope) -> Option<String> {
    if let Some(launched) = event.read::<NorrisLaunched>() {
        let opinion = if launched.second_opinion {
            "with a second opinion"
        } else {
            "without a second opinion"
        };
        return Some(format!(
            "norris: launched; calls {} run unasked unless they are destructive; at most {} steps, {opinion}",
            granted(&launched.levels),
            launched.limits.steps
        ));
    }
    if let Some(NorrisStep { step, spent }) = event.read() {
        return Some(format!("norris: {}", progress(step, None, spent)));
    }
    if let Some(NorrisNudged { .. }) = event.read() {
        return Some("norris: nothing was done, and the model is told so".to_owned());
    }
    if let Some(NorrisPaused { pause, .. }) = event.read() {
        return Some(match pause {
            NorrisPause::Person => "norris: paused; :norris resume goes on".to_owned(),
            NorrisPause::Interrupted => {
                "norris: interrupted; what had begun is of unknown effect; :norris resume goes on"
                    .to_owned()
            }
        });
    }
    if event.read::<NorrisResumed>().is_some() {
        return Some("norris: resumed".to_owned());
    }
    let NorrisEnded {
        outcome,
        reason,
        step,
        spent,
    } = event.read()?;
    let how = match outcome {
        NorrisOutcome::Done => "done",
        NorrisOutcome::Halted => "halted by the model",
        NorrisOutcome::Limit => "a limit is met",
        NorrisOutcome::Stopped => "stopped",
        NorrisOutcome::Failed => "failed",
    };
    Some(format!(
        "norris: {how}: {} ({})",
        safe::one_line(&reason),
        progress(step, None, spent)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_they_are_said() {
        let read = |said: &[&str]| {
            let said: Vec<String> = said.iter().map(|it| (*it).to_owned()).collect();
            levels(&said)
                .map(|it| granted(&it))
                .map_err(|it| it.message)
        };
        let good = |text: &str| Ok(text.to_owned());
        assert_eq!(good("up to level 1"), read(&[]));
        assert_eq!(good("up to level 2"), read(&["2"]));
        assert_eq!(good("up to level 1, of fs up to level 2"), read(&["fs=2"]));
        for wrong in ["0", "4", "fs", "fs=", "=x", "2.5", "-1"] {
            assert!(read(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn how_it_stands_is_one_line() {
        let limits = NorrisLimits {
            steps: 25,
            time_ms: Some(3_600_000),
            tokens: None,
        };
        let spent = NorrisSpent {
            time_ms: 41_000,
            tokens: 1200,
        };
        assert_eq!(
            "step 3 of 25, 1200 tokens, 41 of 3600 s",
            progress(3, Some(limits), spent)
        );
        assert_eq!("step 3, 1200 tokens, 41 s", progress(3, None, spent));
    }
}
