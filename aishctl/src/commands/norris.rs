//! `norris`: runs that work on their own towards a goal. The launch is the consent: it says what it would
//! let happen unasked, and launches when a person agrees, or has with `--yes`. Then it follows the run to its end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use aish_proto::conversation::Create;
use aish_proto::event::NorrisEnded;
use aish_proto::id::ConversationId;
use aish_proto::norris::{
    Halt, NorrisActivity, NorrisLevels, NorrisOutcome, NorrisPause, NorrisRun, NorrisRunParams,
    Pause, Resume, Start, StartParams, StartResult,
};
use aish_proto::turn::SendResult;
use aish_proto::usage::Usd;
use clap::{Args, Subcommand};
use tokio::io::AsyncWrite;
use ulid::Ulid;

use crate::ask_args::AskArgs;
use crate::client::daemon_link::{DaemonReach, DaemonWait};
use crate::command_output::{CommandOutput, PrintResult};
use crate::commands::ask::{self, AskContext, AskTarget};
use crate::commands::ask_progress::{AskProgress, SentTurn, TurnBegin, or_stop};
use crate::commands::command_context::CommandContext;
use crate::commands::{changes, usage};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::render::event_lines::{granted, progress};
use crate::{safe, span};

/// What to do where a limit has ended a run.
const MORE: &str = "what it did is in the conversation (aishctl log), and the next run goes on from there; \
--steps, --time, --tokens and --max-cost allow it more";

#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NorrisCommand {
    #[command(subcommand)]
    pub command: Option<NorrisLead>,
    #[command(flatten)]
    pub launch: NorrisLaunchArgs,
}

#[derive(Clone, Debug, Subcommand)]
pub enum NorrisLead {
    /// How the run of a conversation stands
    Status,
    /// Nothing new begins; what has begun comes to its end
    Pause,
    /// Go on with a paused run, also after the daemon has ended under it
    Resume,
    /// End the run now
    Halt,
}

#[derive(Args, Clone, Debug, Default)]
pub struct NorrisLaunchArgs {
    /// What is to be reached
    pub goal: Vec<String>,
    /// What runs unasked unless it is destructive: 1 reads, 2 writes; NAME=LEVEL for one provider, `shell` for commands, which
    /// work in a copy of the files (aishctl changes) or as norris.contain says. May be said several times
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
    /// US dollars, at most, as far as the presets have a price
    #[arg(long, value_parser = usage::usd, value_name = "X")]
    pub max_cost: Option<Usd>,
    /// Launch it without a question; without a terminal nothing is launched otherwise
    #[arg(long)]
    pub yes: bool,
    /// Leave it to itself instead of following it to its end
    #[arg(long)]
    pub detach: bool,
    /// It was typed in a window, which shows what follows.
    #[arg(skip)]
    pub in_window: bool,
}

impl NorrisCommand {
    /// What is to be launched and followed from here.
    pub fn launches(&self) -> Option<&NorrisLaunchArgs> {
        let Self { command, launch } = self;
        let follows = command.is_none() && !launch.detach && !launch.in_window;
        (follows && !launch.goal.is_empty()).then_some(launch)
    }
}

/// Launches a run and follows it to its end. Ctrl-C halts it.
pub async fn follow<O: AsyncWrite + Unpin>(
    mut asker: AskContext<'_, O>,
    launch: &NorrisLaunchArgs,
) -> Result<Exit, Failure> {
    let done = followed(&mut asker, launch).await;
    asker.report_failure(&done).await;
    done
}

async fn followed<O: AsyncWrite + Unpin>(
    asker: &mut AskContext<'_, O>,
    launch: &NorrisLaunchArgs,
) -> Result<Exit, Failure> {
    // The launch is agreed to by a line of stdin.
    let around = &asker.reach.around;
    let may_prompt = around.stdin_terminal && ask::may_prompt(around, asker.global);
    let levels = agreed(launch, may_prompt)?;
    asker.listen()?;
    let progress = AskProgress::default();
    let notices = RefCell::default();
    let launching = begin(
        asker.reach,
        asker.global,
        launch,
        levels,
        (&progress, &notices),
    );
    let give_up = asker.give_up();
    match or_stop(asker.signals, give_up, &progress, launching).await? {
        TurnBegin::Sent(sent) => {
            let (link, conversation, sent) = *sent;
            let notices = notices.into_inner();
            notices.iter().for_each(|it| asker.notices.print(it));
            let ended = asker.answer(link, conversation, &sent).await;
            // Whatever became of the goal, what was changed on the way is there.
            if let Ok(link) = asker.reach.open(DaemonWait::No).await
                && let Ok(waiting) = changes::waiting(&link.caller, conversation).await
            {
                waiting.lines().for_each(|it| asker.notices.print(it));
            }
            ended
        }
        TurnBegin::Stopped(exit) => ask::stopped_by(exit),
    }
}

async fn begin(
    reach: &DaemonReach,
    global: &GlobalArgs,
    launch: &NorrisLaunchArgs,
    levels: NorrisLevels,
    (progress, notices): (&AskProgress, &RefCell<Vec<String>>),
) -> Result<SentTurn, Failure> {
    let mut link = reach.open(DaemonWait::No).await?;
    let AskTarget { id, new } =
        ask::place(reach, global, &link.caller, &AskArgs::default()).await?;
    let id = match new {
        Some(new) => link.caller.call::<Create>(new).await?.id,
        None => id,
    };
    let params = params(id, launch, levels, global.model.clone());
    loop {
        progress.sending();
        match link.caller.call::<Start>(params.clone()).await {
            Ok(started) => {
                let sent = sent(&started);
                notices.replace(started.notices);
                return Ok((link, id, sent));
            }
            // The key makes it the same run, whether or not it had arrived.
            Err(error) if error.is_transient() && !progress.is_stopped() => {
                link = reach.open(DaemonWait::UntilBack).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A run is a turn like others to who follows it.
fn sent(started: &StartResult) -> SendResult {
    SendResult {
        turn: started.turn,
        seq: started.seq,
        position: 0,
        duplicate: started.duplicate,
    }
}

fn params(
    conversation: ConversationId,
    launch: &NorrisLaunchArgs,
    levels: NorrisLevels,
    model: Option<String>,
) -> StartParams {
    let time = launch.time.map(|it| it.as_millis());
    StartParams {
        conversation,
        goal: launch.goal.join(" "),
        idempotency_key: Ulid::new().to_string(),
        model,
        levels: Some(levels),
        steps: launch.steps,
        time_ms: time.map(|it| u64::try_from(it).unwrap_or(u64::MAX)),
        tokens: launch.tokens,
        cost_usd: launch.max_cost,
    }
}

/// How a run ended, as an exit code and a message; `None`: as its turn did. `budget`: some budget is used up.
pub fn concluded(run: &NorrisEnded, budget: bool) -> Option<Result<Exit, Failure>> {
    let NorrisEnded {
        outcome,
        reason,
        step: _,
        spent: _,
    } = run;
    let failure = |exit, what: &str| {
        let failure = Failure::new(exit, format!("{what}: {}", safe::one_line(reason)));
        Some(Err(match outcome {
            NorrisOutcome::Limit => failure.hint(MORE),
            NorrisOutcome::Done
            | NorrisOutcome::Halted
            | NorrisOutcome::Stopped
            | NorrisOutcome::Failed => failure,
        }))
    };
    match outcome {
        NorrisOutcome::Done => Some(Ok(Exit::DONE)),
        NorrisOutcome::Halted => failure(Exit::FAILED, "the goal was not reached"),
        NorrisOutcome::Limit if budget => failure(Exit::BUDGET, "the run ended"),
        NorrisOutcome::Limit => failure(Exit::LIMIT, "the run met a limit"),
        NorrisOutcome::Stopped => failure(Exit::FAILED, "the run was stopped"),
        NorrisOutcome::Failed => None,
    }
}

pub async fn run(context: &CommandContext, norris: &NorrisCommand) -> PrintResult {
    let NorrisCommand { command, launch } = norris;
    if command.is_none() && !launch.goal.is_empty() {
        return start(context, launch).await;
    }
    let meant = context.meant(context.name(None)).await?;
    let conversation = meant.id;
    let params = NorrisRunParams { conversation };
    match command {
        None | Some(NorrisLead::Status) => {
            let waiting = changes::waiting(&context.caller, conversation).await?;
            let shown = || {
                let run = match &meant.norris {
                    Some(run) => status_line(run),
                    None => "no autonomous run goes on here".to_owned(),
                };
                format!("{run}\n{waiting}")
            };
            context.print(&meant.norris, shown)
        }
        Some(NorrisLead::Pause) => {
            let run = context.call::<Pause>(params).await?;
            context.print(&run, || status_line(&run) + "\n")
        }
        Some(NorrisLead::Resume) => {
            let run = context.call::<Resume>(params).await?;
            context.print(&run, || status_line(&run) + "\n")
        }
        Some(NorrisLead::Halt) => {
            let halted = context.call::<Halt>(params).await?;
            context.print(&halted, || {
                if halted.halted {
                    "halted\n"
                } else {
                    "it was over already\n"
                }
                .to_owned()
            })
        }
    }
}

/// Launches one that goes on by itself.
async fn start(context: &CommandContext, launch: &NorrisLaunchArgs) -> PrintResult {
    let levels = agreed(launch, context.may_prompt)?;
    let meant = context.meant(context.name(None)).await?;
    let params = params(meant.id, launch, levels, context.global.model.clone());
    let started = context.call::<Start>(params).await?;
    if launch.in_window {
        return Ok(CommandOutput::text(started.notices.join("\n")));
    }
    context.print(&started, || {
        let mut text = started
            .run
            .as_ref()
            .map_or_else(|| "launched".to_owned(), status_line);
        for notice in &started.notices {
            let _never_fails = write!(text, "\n{notice}");
        }
        let _never_fails = write!(
            text,
            "\nfollow it: aishctl attach {0}   stop it: aishctl norris halt -C {0}\n",
            meant.id
        );
        text
    })
}

/// The levels of a launch that a person agreed to, having seen what it grants.
fn agreed(launch: &NorrisLaunchArgs, may_prompt: bool) -> Result<NorrisLevels, Failure> {
    let levels = levels(&launch.level)?;
    // Who types it in a window means it, and everybody there is told what it grants.
    if launch.yes || launch.in_window {
        return Ok(levels);
    }
    let what = terms(&launch.goal.join(" "), &levels);
    if may_prompt && says_yes(&what)? {
        return Ok(levels);
    }
    let failure = Failure::new(Exit::DENIED, format!("nothing was launched. {what}"));
    Err(failure.hint("say it again with --yes to launch it"))
}

fn says_yes(what: &str) -> Result<bool, Failure> {
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
        "A model would work on its own towards: {}. Calls and commands {} would run without a question, commands in a \
copy of the files that you keep or drop, unless norris.contain says otherwise; what is destructive for real always asks",
        safe::one_line(goal),
        granted(levels)
    )
}

/// What a command is called where tools have names.
const COMMAND: &str = "shell__run";

/// A run in one line: `norris: step 3 of 25, 1200 tokens, 41 s, calls fs__write`.
pub fn status_line(run: &NorrisRun) -> String {
    let tool = run.tool.as_deref().map(|it| match it {
        COMMAND => "a command".into(),
        tool => safe::one_line(tool),
    });
    let tool = tool.unwrap_or_default();
    let does = match run.activity {
        NorrisActivity::Planning => "asks the model".to_owned(),
        NorrisActivity::Acting if run.tool.as_deref() == Some(COMMAND) => {
            "runs a command".to_owned()
        }
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

#[cfg(test)]
mod tests {
    use aish_proto::norris::{NorrisLimits, NorrisSpent};

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
            cost_usd: None,
        };
        let spent = NorrisSpent {
            time_ms: 41_000,
            tokens: 1200,
            cost_usd: Usd::default(),
        };
        assert_eq!(
            "step 3 of 25, 1200 tokens, 41 of 3600 s",
            progress(3, Some(limits), spent)
        );
        assert_eq!("step 3, 1200 tokens, 41 s", progress(3, None, spent));
        let limits = NorrisLimits {
            cost_usd: Usd::of(0.5),
            ..limits
        };
        let spent = NorrisSpent {
            cost_usd: Usd::of(0.031).unwrap(),
            ..spent
        };
        assert_eq!(
            "step 3 of 25, 1200 tokens, 41 of 3600 s, $0.031 of $0.50",
            progress(3, Some(limits), spent)
        );
    }
}
