//! The one grammar: the command line has it, and `:` lines in attach have it too.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use aish_proto::turn::SendMode;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::audit::AuditArgs;
use crate::config::ConfigCommand;
use crate::confirm::ConfirmCommand;
use crate::context::ContextCommand;
use crate::export::ExportArgs;
use crate::import::ImportArgs;
use crate::memory::{MemoryCommand, RememberArgs};
use crate::norris::NorrisCommand;
use crate::permission::PermissionCommand;
use crate::resource::ResourceCommand;
use crate::result::ResultsCommand;
use crate::route::{FallbackCommand, RouteCommand};
use crate::saved_prompt::SavedPromptCommand;
use crate::screen::LookArgs;
use crate::service::{self, ServiceCommand};
use crate::shell::{ProposeArgs, ShellCommand};
use crate::usage::{BudgetArgs, UsageArgs};
use crate::{mcp, span, tools};

/// Ask models through a daemon that keeps the conversations.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "aishctl",
    version,
    disable_help_subcommand = true,
    infer_long_args = false
)]
#[command(after_help = "Exit codes: aishctl help exit-codes")]
pub struct CtlArgs {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Option<CtlCommand>,
}

/// Be a window on a conversation: lines in, answers out.
#[derive(Clone, Debug, Parser)]
#[command(name = "aish", version)]
pub struct LineArgs {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(flatten)]
    pub attach: AttachArgs,
}

/// Options that every command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct GlobalArgs {
    /// The conversation, by title or id (else AISH_CONVERSATION)
    #[arg(
        id = "in-conversation",
        short = 'C',
        long = "conversation",
        global = true,
        value_name = "NAME|ID"
    )]
    pub conversation: Option<String>,
    /// The model preset, by name
    #[arg(short, long, global = true)]
    pub model: Option<String>,
    /// The daemon's socket; none is started there
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// One JSON object at the end
    #[arg(long, global = true, conflicts_with = "jsonl")]
    pub json: bool,
    /// Events as JSON, one a line
    #[arg(long, global = true)]
    pub jsonl: bool,
    /// No status lines on stderr
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Debug lines too
    #[arg(short, long, global = true)]
    pub verbose: bool,
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorArg,
    #[command(flatten)]
    pub looks: LookArgs,
    /// Never ask a person
    #[arg(long, global = true)]
    pub no_input: bool,
    /// Give up after this long, e.g. 30s, 5m, 500ms
    #[arg(long, global = true, value_parser = span::parse, value_name = "DURATION")]
    pub timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    #[default]
    Auto,
    Always,
    Never,
}

// Deferred: only the command that was given has its arguments made, not all of them at each start.
#[derive(Clone, Debug, Subcommand)]
#[command(defer = true)]
pub enum CtlCommand {
    /// One question; the answer on stdout
    Ask(AskArgs),
    /// Be a window on a conversation
    Attach(AttachArgs),
    /// One command for what stdin asks for: printed, never run
    Propose(ProposeArgs),
    /// What joins your shell with aish: eval "$(aishctl init bash)"
    Init {
        #[arg(value_enum)]
        shell: ShellCommand,
    },
    /// Conversations: list, make, name, put away
    #[command(alias = "conversation")]
    Conv {
        #[command(subcommand)]
        command: ConversationCommand,
    },
    /// The daemon at a glance
    Status {
        #[arg(long, value_enum)]
        format: Option<StatusFormat>,
    },
    /// The model presets, or the one that this conversation uses
    #[command(alias = "models")]
    Model {
        /// The preset that this conversation uses from its next turn on
        name: Option<String>,
        #[command(subcommand)]
        command: Option<ModelCommand>,
    },
    /// Which preset answers what: switch it, look at the classes, try a text
    Route {
        #[command(subcommand)]
        command: Option<RouteCommand>,
    },
    /// Whether another preset is asked when a server is down
    Fallback {
        #[command(subcommand)]
        command: Option<FallbackCommand>,
    },
    /// Let a model work on its own towards a goal; lead such a run
    Norris(NorrisCommand),
    /// What waits for a person: look, allow, deny
    Confirm {
        #[command(subcommand)]
        command: Option<ConfirmCommand>,
    },
    /// What tools may do in this conversation
    Perm {
        #[command(subcommand)]
        command: Option<PermissionCommand>,
    },
    /// What models took: tokens and money
    Usage(UsageArgs),
    /// What was decided about every effect, by whom, and what became of it
    Audit(AuditArgs),
    /// Turns that wait
    Queue {
        #[command(subcommand)]
        command: Option<QueueCommand>,
    },
    /// Ask the last question again
    Retry(AgainArgs),
    /// Go on from what an interrupted or failed turn has written
    Continue(AgainArgs),
    /// Stop the running turn, or the command that runs
    Cancel { conversation: Option<String> },
    /// The transcript on stdout
    Log(LogArgs),
    /// A conversation as Markdown, JSON lines, JSON or asciicast
    Export(ExportArgs),
    /// A conversation from JSON lines of messages
    Import(ImportArgs),
    /// Messages that contain a text, those that left the context too
    Search(SearchArgs),
    /// What the model is shown of a conversation, what has left that, and what is to come back
    Context {
        #[command(subcommand)]
        command: Option<ContextCommand>,
    },
    /// What you keep for all conversations, and what models propose
    Memory {
        #[command(subcommand)]
        command: Option<MemoryCommand>,
    },
    /// Keep a fact for all conversations
    Remember(RememberArgs),
    /// Forget facts, by their ids in `memory`
    Forget {
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Copy a conversation up to a position
    Fork(ForkArgs),
    /// MCP servers: list, connect, look at what they offer
    Mcp {
        #[command(subcommand)]
        command: Option<mcp::McpCommand>,
    },
    /// Tools: list, show, write down, call without a model
    #[command(alias = "tool")]
    Tools {
        #[command(subcommand)]
        command: tools::ToolsCommand,
    },
    /// What is kept of tools' results: whole texts, images, files
    Result(ResultsCommand),
    /// What the tools and people of a conversation share: JSON under names
    Resource {
        #[command(subcommand)]
        command: Option<ResourceCommand>,
    },
    /// Prompts that you keep: texts with places for arguments
    Prompt {
        #[command(subcommand)]
        command: Option<SavedPromptCommand>,
    },
    /// Read the configuration again
    Reload,
    /// Whether everything is as it should be, and what to do where it is not
    Doctor,
    /// What the daemon has logged
    Logs(service::LogsArgs),
    /// Counters in the text format of Prometheus
    Metrics,
    /// The daemon as a service of systemd's user manager
    Service {
        #[command(subcommand)]
        command: ServiceCommand,
    },
    /// The configuration: check, show, explain, edit, trust
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// One raw call
    Rpc(RpcArgs),
    /// Help on a command, or on exit-codes
    Help { topic: Vec<String> },
}

#[derive(Args, Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct AskArgs {
    /// The question; `-` or nothing reads it from stdin. `@FILE` in it takes a file along
    pub text: Vec<String>,
    /// No word of it names a file
    #[arg(skip)]
    pub as_it_stands: bool,
    /// A file to go along; `-` is stdin
    #[arg(short, long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Leave stdin alone (in `while read` loops)
    #[arg(long)]
    pub no_stdin: bool,
    /// Fail when the input is too large, instead of leaving out its middle
    #[arg(long)]
    pub strict: bool,
    /// Go on in the conversation used last
    #[arg(long, conflicts_with = "in-conversation")]
    pub last: bool,
    /// Print only fenced code
    #[arg(long, conflicts_with_all = ["json", "jsonl", "cmd"])]
    pub code: bool,
    /// Print only the commands of CMD: lines
    #[arg(long, conflicts_with_all = ["json", "jsonl"])]
    pub cmd: bool,
    /// Print the turn's id and leave; the answer is kept
    #[arg(long)]
    pub detach: bool,
    /// When another turn runs: wait, fail, or join it
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    pub mode: SendModeArg,
    /// How confirms are answered: ask, deny, or allow:NAME
    #[arg(long, value_name = "HOW", value_parser = confirm)]
    pub confirm: Vec<String>,
    /// How long a confirm may wait
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    pub confirm_timeout: Option<Duration>,
    /// Rounds of tool calls, at most as many as the configuration allows
    #[arg(long, value_name = "N")]
    pub max_tool_depth: Option<NonZeroU32>,
}

pub(crate) fn confirm(text: &str) -> Result<String, String> {
    let named = text.strip_prefix("allow:").is_some_and(|it| !it.is_empty());
    if named || matches!(text, "ask" | "deny") {
        return Ok(text.to_owned());
    }
    Err("it is ask, deny or allow:NAME".to_owned())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SendModeArg {
    #[default]
    Queue,
    Reject,
    Steer,
}

impl From<SendModeArg> for SendMode {
    fn from(mode: SendModeArg) -> Self {
        match mode {
            SendModeArg::Queue => Self::Queue,
            SendModeArg::Reject => Self::Reject,
            SendModeArg::Steer => Self::Steer,
        }
    }
}

#[derive(Args, Clone, Debug)]
pub struct AttachArgs {
    /// The conversation, by title or id; absent: what a window used last in this project
    pub conversation: Option<String>,
    /// Only look
    #[arg(long)]
    pub read_only: bool,
    /// Rows of the past to show
    #[arg(long, default_value_t = 40, value_name = "ROWS")]
    pub tail: u32,
}

#[derive(Clone, Debug, Subcommand)]
pub enum ConversationCommand {
    /// The conversations, last used first
    #[command(alias = "list")]
    Ls {
        /// The archived ones
        #[arg(long)]
        archived: bool,
        /// Archived or not
        #[arg(long, conflicts_with = "archived")]
        all: bool,
    },
    /// Make one
    New {
        title: Option<String>,
    },
    /// One conversation as it is now
    #[command(alias = "show")]
    Status {
        conversation: Option<String>,
    },
    /// Use another one (in attach; elsewhere it says how)
    Switch {
        conversation: String,
    },
    /// What it may take of models: show, set, or take away
    Budget(BudgetArgs),
    Rename {
        conversation: String,
        title: String,
    },
    /// Take it out of the list; nothing is lost
    Archive {
        conversation: String,
    },
    Unarchive {
        conversation: String,
    },
    /// Delete it for good
    #[command(alias = "delete")]
    Rm {
        conversation: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Its title, as a confirmation
        #[arg(long, value_name = "TITLE")]
        title: Option<String>,
    },
    /// Return once nothing runs or waits there
    Wait {
        conversation: Option<String>,
    },
    Fork(ForkArgs),
    Search(SearchArgs),
}

#[derive(Args, Clone, Debug)]
pub struct ForkArgs {
    pub conversation: Option<String>,
    /// The last event to take along
    #[arg(long, value_name = "SEQ")]
    pub at: Option<u64>,
}

#[derive(Args, Clone, Debug)]
pub struct SearchArgs {
    #[arg(required = true)]
    pub query: Vec<String>,
    /// Archived conversations too
    #[arg(long)]
    pub archived: bool,
    /// At most this many
    #[arg(short = 'n', long)]
    pub limit: Option<u32>,
}

#[derive(Args, Clone, Debug, Default)]
pub struct LogArgs {
    pub conversation: Option<String>,
    /// Go on as events come
    #[arg(short, long)]
    pub follow: bool,
    /// Only the last turns
    #[arg(short = 'n', long, value_name = "TURNS")]
    pub turns: Option<usize>,
    /// Straight to the terminal
    #[arg(long)]
    pub no_pager: bool,
}

#[derive(Args, Clone, Debug)]
pub struct AgainArgs {
    pub conversation: Option<String>,
    /// The turn; absent: the last one that finished
    #[arg(long)]
    pub turn: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum ModelCommand {
    /// The presets
    #[command(alias = "ls")]
    List,
    /// Ask the servers what they serve
    Probe,
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

#[derive(Args, Clone, Debug)]
pub struct RpcArgs {
    /// For example daemon/status
    #[arg(required_unless_present = "schema")]
    pub method: Option<String>,
    /// One JSON object; `-` reads it from stdin
    pub params: Option<String>,
    /// Print the schema of the whole wire; needs no daemon
    #[arg(long, conflicts_with = "method")]
    pub schema: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    Tmux,
    Prometheus,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_grammar_holds_together() {
        CtlArgs::command().debug_assert();
        LineArgs::command().debug_assert();
    }

    #[track_caller]
    fn check(line: &str, is: bool) {
        let words = line.split(' ').filter(|it| !it.is_empty());
        let parsed = CtlArgs::try_parse_from(std::iter::once("aishctl").chain(words));
        assert_eq!(is, parsed.is_ok(), "{line}: {parsed:?}");
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one line for each command")]
    fn what_the_spec_types_is_understood() {
        check("", true);
        check("ask why does it fail", true);
        check(
            "ask -q -C proj --mode steer --timeout 5m -f a -f - why",
            true,
        );
        check(
            "ask --confirm=deny --confirm-timeout 30s --no-input tidy",
            true,
        );
        check("ask --confirm=allow:fs__read x", true);
        check("ask --confirm=allow: x", false);
        check("ask --max-tool-depth 2 x", true);
        check("ask --max-tool-depth 0 x", false);
        check("ask --json --jsonl x", false);
        check("--json ask x", true);
        check("ask --last -C a x", false);
        check("models ls", true);
        check("model deep", true);
        check("model deep -C proj", true);
        check("model -C proj list", true);
        check("model deep er", false);
        check("model", true);
        check("queue drop 1", true);
        check("route", true);
        check("route on", true);
        check("norris", true);
        check("norris halt -C proj", true);
        check(
            "norris --level 2 --level fs=1 --steps 5 --time 10m --yes tidy up",
            true,
        );
        check("norris halt --yes", false);
        check("route check why does it fail --json", true);
        check("route check", false);
        check("route check -C proj x", true);
        check("fallback off", true);
        check("fallback maybe", false);
        check("conv show proj", true);
        check("conv ls --all", true);
        check("log proj -f -n 3 --jsonl", true);
        check("rpc --schema", true);
        check("rpc", false);
        check("help exit-codes", true);
        check("export proj --format cast -o x.cast --force", true);
        check("export --archive --jsonl", true);
        check("export --force", false);
        check("export --format pdf", false);
        check("import - --title old", true);
        check("import", false);
        check("cancel -C proj", true);
        check("context", true);
        check("context preview why not --body", true);
        check("context archive -n 5", true);
        check("context restore 17", true);
        check("context restore", false);
        check("mcp", true);
        check("mcp connect http://x/mcp alias --auth-env T", true);
        check("mcp connect", false);
        check("mcp prompt a b x=1 y=", true);
        check("mcp prompt a b x", false);
        check("tools run list.json --confirm=allow:fs__read --json", true);
        check("tools run - -C proj --detach --mode reject", true);
        check("tools run", false);
        check("tools", false);
        check("tools list fs -C proj --json", true);
        check("tools show fs__read", true);
        check("tools show", false);
        check("tools route list my beans --tool c", true);
        check("tools route", false);
        check("tools negotiate gather {} --tool c --confirm=deny", true);
        check("tools negotiate gather []", false);
        check("mcp serve", true);
        check(
            "mcp serve -C proj --tools fs__* web__get --tools git__log",
            true,
        );
        check("mcp serve --tools fs", false);
        check("service install --now", true);
        check("service logs -f -n 5", true);
        check("service", false);
        check("logs -n 5", true);
        check("doctor --json", true);
        check("metrics", true);
        check("conv wait proj -C other", true);
        check("ask --timeout soon x", false);
        check("nonsense", false);
    }
}
