//! Turns after they were sent: `queue`, `cancel`, `retry`, `continue`.

use aish_proto::id::{JobId, TurnId};
use aish_proto::shell::{Cancel as CancelCommand, CancelParams};
use aish_proto::turn::{
    AgainParams, Cancel, Continue, QueueList, QueueListResult, QueueMove, QueueMoveParams,
    QueueParams, QueueRemove, QueueResume, QueueTurnParams, Retry, SendResult, TurnParams,
};
use clap::{Args, Subcommand};
use serde_json::json;
use tokio::io::AsyncWrite;
use ulid::Ulid;

use crate::client::connect::Caller;
use crate::client::conversation_choice;
use crate::client::daemon_link::{DaemonReach, DaemonWait};
use crate::command_output::PrintResult;
use crate::commands::ask::{self, AskContext};
use crate::commands::ask_progress::{AskProgress, SentTurn, TurnBegin, or_stop};
use crate::commands::command_context::CommandContext;
use crate::commands::jobs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::render::table;

#[derive(Args, Clone, Debug)]
pub struct AgainArgs {
    pub conversation: Option<String>,
    /// The turn; absent: the last one that finished
    #[arg(long)]
    pub turn: Option<String>,
    /// Send it also where it is dear or fills half of what the model takes in
    #[arg(long)]
    pub accept_cost: bool,
}

#[derive(Clone, Debug, Subcommand)]
pub enum QueueCommand {
    #[command(alias = "ls")]
    List { conversation: Option<String> },
    /// Take a waiting turn out, by position or id
    #[command(alias = "drop", alias = "rm")]
    Remove { turn: String },
    /// Move a waiting turn
    Move { turn: String, position: u32 },
    /// Start the next one after an interruption held the queue
    Resume { conversation: Option<String> },
}

const TEXT_WIDTH: usize = 60;

pub async fn run(context: &CommandContext, command: Option<&QueueCommand>) -> PrintResult {
    let name = match command {
        Some(QueueCommand::List { conversation } | QueueCommand::Resume { conversation }) => {
            conversation.as_deref()
        }
        Some(QueueCommand::Remove { .. } | QueueCommand::Move { .. }) | None => None,
    };
    let conversation = context.meant(context.name(name)).await?.id;
    let caller = &context.caller;
    let list = || caller.call::<QueueList>(QueueParams { conversation });
    let result = match command {
        None | Some(QueueCommand::List { .. }) => list().await?,
        Some(QueueCommand::Remove { turn }) => {
            let turn = waiting(&list().await?, turn)?;
            caller
                .call::<QueueRemove>(QueueTurnParams { conversation, turn })
                .await?
        }
        Some(QueueCommand::Move { turn, position }) => {
            let turn = waiting(&list().await?, turn)?;
            caller
                .call::<QueueMove>(QueueMoveParams {
                    conversation,
                    turn,
                    position: *position,
                })
                .await?
        }
        Some(QueueCommand::Resume { .. }) => {
            caller
                .call::<QueueResume>(QueueParams { conversation })
                .await?
        }
    };
    context.print(&result, || table(&result))
}

fn table(result: &QueueListResult) -> String {
    let mut text = if result.queue.is_empty() {
        "nothing waits\n".to_owned()
    } else {
        let rows: Vec<Vec<String>> = result
            .queue
            .iter()
            .map(|it| {
                vec![
                    it.position.to_string(),
                    table::cut(&it.text, TEXT_WIDTH),
                    it.turn.to_string(),
                ]
            })
            .collect();
        table::columns(&["#", "question", "turn"], &rows)
    };
    if result.held {
        text.push_str(
            "held: a turn before them was interrupted (aishctl continue, aishctl queue resume)\n",
        );
    }
    text
}

/// A waiting turn by its position or id.
fn waiting(list: &QueueListResult, name: &str) -> Result<TurnId, Failure> {
    let position = name.trim_start_matches('#').parse::<u32>().ok();
    list.queue
        .iter()
        .find(|it| Some(it.position) == position || it.turn.to_string() == name)
        .map(|it| it.turn)
        .ok_or_else(|| {
            Failure::new(Exit::UNKNOWN, format!("no waiting turn {name}"))
                .hint("aishctl queue list")
        })
}

pub async fn cancel(context: &CommandContext, name: Option<&str>) -> PrintResult {
    let found = context.meant(context.name(name)).await?;
    // A command ends only where no turn runs: that is what is meant while an answer is written.
    let command = found.command.as_ref().filter(|_| found.turn.is_none());
    let cancelled = match (found.turn, command) {
        (Some(turn), _) => context.call::<Cancel>(TurnParams { turn }).await?.cancelled,
        (None, Some(command)) => {
            let params = CancelParams {
                conversation: found.id,
                call: command.call.clone(),
            };
            context.call::<CancelCommand>(params).await?.cancelled
        }
        (None, None) => false,
    };
    let call = command.map(|it| &it.call);
    // They go on, and who wants all to be quiet should know.
    let jobs = jobs::running(context, found.id).await?;
    let jobs: Vec<JobId> = jobs.iter().map(|it| it.job).collect();
    let told = json!({"conversation": found.id, "turn": found.turn, "command": call, "cancelled": cancelled, "jobs": jobs});
    context.print(&told, || {
        let mut text = match (cancelled, command) {
            (true, None) => format!("cancelled in {}\n", found.title),
            (true, Some(command)) => {
                let command = crate::safe::one_line(&command.command);
                format!("stopped !{command} in {}\n", found.title)
            }
            (false, _) if jobs.is_empty() => format!("nothing runs in {}\n", found.title),
            (false, _) => format!("no turn runs in {}\n", found.title),
        };
        for job in &jobs {
            text.push_str(&format!(
                "{job} goes on in the background: aishctl jobs stop {job}\n"
            ));
        }
        text
    })
}

/// Which of the two ways to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatKind {
    Retry,
    Continue,
}

/// Asks again and prints the answer.
pub async fn repeat<O: AsyncWrite + Unpin>(
    mut asker: AskContext<'_, O>,
    again: RepeatKind,
    args: &AgainArgs,
) -> Result<Exit, Failure> {
    let done = ask_again(&mut asker, again, args).await;
    asker.report_failure(&done).await;
    done
}

async fn ask_again<O: AsyncWrite + Unpin>(
    asker: &mut AskContext<'_, O>,
    again: RepeatKind,
    args: &AgainArgs,
) -> Result<Exit, Failure> {
    asker.listen()?;
    let progress = AskProgress::default();
    let asking = begin(asker.reach, asker.global, again, args, &progress);
    match or_stop(asker.signals, asker.give_up(), &progress, asking).await? {
        TurnBegin::Sent(sent) => {
            let (link, conversation, sent) = *sent;
            asker.answer(link, conversation, &sent).await
        }
        TurnBegin::Stopped(exit) => ask::stopped_by(exit),
    }
}

async fn begin(
    reach: &DaemonReach,
    global: &GlobalArgs,
    again: RepeatKind,
    args: &AgainArgs,
    progress: &AskProgress,
) -> Result<SentTurn, Failure> {
    let turn = args.turn.as_deref().map(str::parse::<TurnId>).transpose();
    let turn = turn.map_err(|_| {
        Failure::new(Exit::USAGE, "that is no turn's id").hint("aishctl log --jsonl shows them")
    })?;
    let mut link = reach.open(DaemonWait::No).await?;
    let name = args.conversation.as_deref();
    let name = name.or(global.conversation.as_deref());
    let key = Ulid::new().to_string();
    loop {
        let asking = async {
            let found = conversation_choice::resolve(&link.caller, &reach.around, name).await?;
            let params = AgainParams {
                conversation: found.id,
                turn,
                idempotency_key: key.clone(),
                model: global.model.clone(),
                accept_cost: args.accept_cost,
            };
            progress.sending();
            let sent = send(&link.caller, again, params).await?;
            Ok((found.id, sent))
        };
        match asking.await {
            Ok((conversation, sent)) => return Ok((link, conversation, sent)),
            // The key makes it the same turn, whether or not it had arrived.
            Err(Failure {
                transient: true, ..
            }) if !progress.is_stopped() => link = reach.open(DaemonWait::UntilBack).await?,
            Err(failure) => return Err(failure),
        }
    }
}

/// The call itself, for attach too.
pub async fn send(
    caller: &Caller,
    again: RepeatKind,
    params: AgainParams,
) -> Result<SendResult, Failure> {
    Ok(match again {
        RepeatKind::Retry => caller.call::<Retry>(params).await?,
        RepeatKind::Continue => caller.call::<Continue>(params).await?,
    })
}
