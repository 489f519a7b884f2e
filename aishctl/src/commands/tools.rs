//! `tools`: the tools there are, those that are written down, and lists of calls that depend on each other, run without a model; their results on
//! stdout.

mod intent;
mod list;
mod manifests;
mod report;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aish_proto::id::ConversationId;
use aish_proto::tool::{Run, ToolRunParams};
use aish_proto::turn::SendResult;
use clap::{Args, Subcommand};
use serde_json::Value;
use tokio::io::AsyncWrite;
use ulid::Ulid;

use crate::ask_args::{AskArgs, SendModeArg, confirm};
use crate::client::connect::{CallFailure, Caller, RpcCallError};
use crate::client::daemon_link::{DaemonReach, DaemonWait};
use crate::command_output::PrintResult;
use crate::commands::ask::{self, AskContext, AskTarget};
use crate::commands::ask_progress::{AskProgress, SentTurn, TurnBegin, or_stop};
use crate::commands::command_context::CommandContext;
use crate::commands::tools::intent::NegotiateArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::span;

/// The daemon may wait for a server that it has never been connected to.
const RUN_DEADLINE: Duration = Duration::from_secs(30);
/// More than the daemon takes of a list, so that it is the daemon that says so.
const MAX_FILE_BYTES: u64 = 900 << 10;
const HELP: &str = "aishctl help tools run";

#[derive(Clone, Debug, Subcommand)]
pub enum ToolsCommand {
    /// Every tool there is, and whether it may be called in this conversation
    #[command(alias = "ls")]
    List {
        /// Of this provider only
        provider: Option<String>,
    },
    /// One tool's whole definition, and how it stands to this conversation
    Show {
        #[arg(value_name = "ALIAS__TOOL")]
        name: String,
    },
    /// Run calls that depend on each other, without a model
    Run(RunArgs),
    /// Which tool an action means; nothing runs
    Route {
        #[arg(required = true, value_name = "ACTION")]
        action: Vec<String>,
        /// A provider, or a whole name
        #[arg(long, value_name = "TOOL")]
        tool: Option<String>,
    },
    /// Do what an action means, if that is sure, and print what came of it
    Negotiate(NegotiateArgs),
    /// Put the manifest of a tool into the directory of tools
    Add {
        #[arg(value_name = "FILE.toml")]
        file: PathBuf,
    },
    /// Take the manifest of a tool out of the directory of tools
    Remove {
        /// The name in the manifest
        name: String,
    },
    /// Read all manifests again, and say what is wrong with them
    Reload,
}

/// Prints what is no list of calls.
pub async fn look(context: &CommandContext, command: Option<&ToolsCommand>) -> PrintResult {
    let Some(command) = command else {
        return list::list(context, None).await;
    };
    match command {
        ToolsCommand::List { provider } => list::list(context, provider.as_deref()).await,
        ToolsCommand::Show { name } => list::show(context, name).await,
        ToolsCommand::Add { file } => manifests::add(context, file).await,
        ToolsCommand::Remove { name } => manifests::remove(context, name).await,
        ToolsCommand::Reload => manifests::reload(context).await,
        ToolsCommand::Route { action, tool } => {
            intent::route(context, action, tool.as_deref()).await
        }
        ToolsCommand::Negotiate(args) => intent::negotiate(context, args).await,
        ToolsCommand::Run(_) => Err(Failure::for_a_shell()),
    }
}

#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
FILE holds JSON-RPC requests, each with an id; results of earlier calls go into arguments:

  [{\"id\": \"src\",  \"method\": \"tools/call\", \"params\": {\"name\": \"fs__read_file\", \"arguments\": {\"path\": \"a.txt\"}}},
   {\"id\": \"note\", \"method\": \"resources/read\", \"params\": {\"server\": \"notes\", \"uri\": \"note://1\"}},
   {\"id\": \"copy\", \"method\": \"tools/call\", \"after\": [\"note\"],
    \"params\": {\"name\": \"fs__write_file\", \"arguments\": {\"path\": \"b.txt\", \"text\": {\"$result\": \"src\"}}}}]

  {\"$result\": \"src\"}                       the whole text of that result
  {\"$result\": \"src\", \"pointer\": \"/a/0\"}    a part of a result that is JSON
  \"after\": [\"note\"]                        only after these calls

Calls pass the same gate as a model's. What needs a call that did not succeed does not run.
aishctl tools list has the names; aishctl continue runs the rest of a list that was interrupted.")]
pub struct RunArgs {
    /// The list; `-` reads it from stdin
    #[arg(value_name = "FILE.json")]
    pub file: PathBuf,
    /// In the conversation used last
    #[arg(long, conflicts_with = "in-conversation")]
    pub last: bool,
    /// Print the turn's id and leave; the results are kept
    #[arg(long)]
    pub detach: bool,
    /// When another turn runs: wait, or fail
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    pub mode: SendModeArg,
    /// How confirms are answered: ask, deny, or allow:NAME
    #[arg(long, value_name = "HOW", value_parser = confirm)]
    pub confirm: Vec<String>,
    /// How long a confirm may wait
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    pub confirm_timeout: Option<Duration>,
}

impl RunArgs {
    /// The same, as a question has it.
    fn as_ask(&self) -> AskArgs {
        AskArgs {
            last: self.last,
            detach: self.detach,
            mode: self.mode,
            confirm: self.confirm.clone(),
            confirm_timeout: self.confirm_timeout,
            ..AskArgs::default()
        }
    }
}

/// Runs the list and prints what its calls gave.
pub async fn run<O: AsyncWrite + Unpin>(
    mut asker: AskContext<'_, O>,
    args: &RunArgs,
    stdin: &mut dyn Read,
) -> Result<Exit, Failure> {
    let done = run_list(&mut asker, args, stdin).await;
    asker.report_failure(&done).await;
    done
}

async fn run_list<O: AsyncWrite + Unpin>(
    asker: &mut AskContext<'_, O>,
    args: &RunArgs,
    stdin: &mut dyn Read,
) -> Result<Exit, Failure> {
    let list = ToolFile::read(&args.file, stdin)?;
    asker.listen()?;
    let progress = AskProgress::default();
    let asking = begin(asker.reach, asker.global, args, &list, &progress);
    let begun = or_stop(asker.signals, asker.give_up(), &progress, asking).await?;
    let (link, conversation, sent) = match begun {
        TurnBegin::Sent(sent) => *sent,
        TurnBegin::Stopped(exit) => return ask::stopped_by(exit),
    };
    if args.detach {
        return asker.detached(conversation, &sent).await;
    }
    let followed = asker.follow(link, conversation, &sent).await?;
    report::finish(asker, conversation, followed, &list.ids()).await
}

async fn begin(
    reach: &DaemonReach,
    global: &GlobalArgs,
    args: &RunArgs,
    list: &ToolFile,
    progress: &AskProgress,
) -> Result<SentTurn, Failure> {
    let mut link = reach.open(DaemonWait::No).await?;
    let usual = args.as_ask();
    let place = ask::place(reach, global, &link.caller, &usual).await?;
    let on_confirm = ask::on_confirm(&usual, ask::may_prompt(&reach.around, global));
    let conversation = place.id;
    let params = ToolRunParams {
        on_confirm: Some(on_confirm),
        ..params(list, place, args.mode)
    };
    loop {
        progress.sending();
        let deadline = Some(global.timeout.unwrap_or(RUN_DEADLINE));
        let asking = link.caller.call_within::<Run>(params.clone(), deadline);
        match asking.await {
            Ok(sent) => return Ok((link, conversation, sent)),
            // The key makes it the same turn, whether or not it had arrived.
            Err(error) if error.is_transient() && !progress.is_stopped() => {
                link = reach.open(DaemonWait::UntilBack).await?;
            }
            Err(error) => return Err(list.refused(error)),
        }
    }
}

/// Runs a list in a conversation that somebody looks at.
pub async fn send(
    caller: &Caller,
    conversation: ConversationId,
    args: &RunArgs,
) -> Result<SendResult, Failure> {
    let list = ToolFile::read(&args.file, &mut std::io::empty())?;
    let place = AskTarget {
        id: conversation,
        new: None,
    };
    let params = params(&list, place, args.mode);
    let sent = caller.call_within::<Run>(params, Some(RUN_DEADLINE));
    sent.await.map_err(|error| list.refused(error))
}

fn params(list: &ToolFile, place: AskTarget, mode: SendModeArg) -> ToolRunParams {
    ToolRunParams {
        conversation: place.id,
        calls: list.calls.clone(),
        new: place.new,
        idempotency_key: Ulid::new().to_string(),
        mode: mode.into(),
        on_confirm: None,
    }
}

/// What a file holds; whether it can run is for the daemon to say.
struct ToolFile {
    /// The file, as messages name it.
    name: String,
    calls: Vec<Value>,
}

impl ToolFile {
    fn read(file: &Path, stdin: &mut dyn Read) -> Result<Self, Failure> {
        let is_stdin = file == Path::new("-");
        let name = if is_stdin {
            "stdin".to_owned()
        } else {
            file.display().to_string()
        };
        let wrong = |what: String| Failure::new(Exit::USAGE, format!("{name}: {what}")).hint(HELP);
        let mut bytes = vec![];
        let read = if is_stdin {
            stdin.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)
        } else {
            std::fs::File::open(file)
                .and_then(|it| it.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        };
        read.map_err(|error| {
            Failure::new(Exit::USAGE, format!("cannot read {name}: {error}")).hint(HELP)
        })?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let what = format!("{name} is more than {MAX_FILE_BYTES} bytes long");
            return Err(Failure::new(Exit::LIMIT, what)
                .hint("results need not be in the list: {\"$result\": ID}"));
        }
        match serde_json::from_slice(&bytes) {
            Ok(Value::Array(calls)) => Ok(Self { name, calls }),
            Ok(_) => Err(wrong("a list of calls is a JSON array".to_owned())),
            Err(error) => Err(wrong(format!("not JSON: {error}"))),
        }
    }

    /// As the daemon spells them, in order.
    fn ids(&self) -> Vec<String> {
        let ids = self.calls.iter().map(|it| {
            let id = &it["id"];
            id.as_str().map_or_else(|| id.to_string(), str::to_owned)
        });
        ids.collect()
    }

    /// What is wrong with the list, and where to look it up.
    fn refused(&self, error: RpcCallError) -> Failure {
        const INVALID_PARAMS: i32 = -32602;
        let wrong = error.kind == CallFailure::Protocol(INVALID_PARAMS);
        let failure = Failure::from(error);
        if !wrong && failure.exit != Exit::UNKNOWN && failure.exit != Exit::LIMIT {
            return failure;
        }
        let what = failure.message.strip_prefix("invalid params: ");
        let message = format!("{}: {}", self.name, what.unwrap_or(&failure.message));
        Failure {
            exit: if wrong { Exit::USAGE } else { failure.exit },
            message,
            hint: failure.hint.or_else(|| Some(HELP.to_owned())),
            ..failure
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&[&str], &str>) {
        let read = ToolFile::read(Path::new("-"), &mut text.as_bytes());
        match (read, expected) {
            (Ok(list), Ok(ids)) => assert_eq!(ids, list.ids()),
            (Err(failure), Err(why)) => {
                assert!(failure.message.contains(why), "{}", failure.message);
                assert!(failure.hint.is_some());
            }
            (read, expected) => panic!("{:?}: {expected:?}", read.map(|it| it.ids())),
        }
    }

    #[test]
    fn a_list_is_an_array_of_json() {
        check("[]", Ok(&[]));
        check(r#"[{"id": "a"}, {"id": 7}]"#, Ok(&["a", "7"]));
        check("{}", Err("stdin: a list of calls is a JSON array"));
        check(
            "[\n{\"id\": }]",
            Err("stdin: not JSON: expected value at line 2 column 8"),
        );
        check("", Err("stdin: not JSON: EOF"));
        check(
            &" ".repeat(1 << 20),
            Err("stdin is more than 921600 bytes long"),
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let read = ToolFile::read(Path::new("/no/such.json"), &mut std::io::empty());
        let failure = read.err().unwrap();
        assert_eq!(Exit::USAGE, failure.exit);
        assert!(failure.message.starts_with("cannot read /no/such.json: "));
    }
}
