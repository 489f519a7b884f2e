//! The one grammar: the command line has it, and `:` lines in attach have it too.

use aish_proto::id::ChangesId;
use clap::{Parser, Subcommand};

use crate::ask_args::AskArgs;
use crate::attach_args::AttachArgs;
use crate::client::service::{self, ServiceCommand};
use crate::commands::audit::AuditArgs;
use crate::commands::changes::ChangesCommand;
use crate::commands::config::ConfigCommand;
use crate::commands::confirm::ConfirmCommand;
use crate::commands::context::ContextCommand;
use crate::commands::conversation::{ConversationCommand, ForkArgs, SearchArgs};
use crate::commands::export::ExportArgs;
use crate::commands::import::ImportArgs;
use crate::commands::jobs::JobsCommand;
use crate::commands::key::KeyCommand;
use crate::commands::log::LogArgs;
use crate::commands::man::ManArgs;
use crate::commands::memory::{MemoryCommand, RememberArgs};
use crate::commands::model::ModelCommand;
use crate::commands::norris::NorrisCommand;
use crate::commands::permission::PermissionCommand;
use crate::commands::queue::{AgainArgs, QueueCommand};
use crate::commands::resource::ResourceCommand;
use crate::commands::result::ResultsCommand;
use crate::commands::route::{FallbackCommand, RouteCommand};
use crate::commands::rpc::RpcArgs;
use crate::commands::saved_prompt::SavedPromptCommand;
use crate::commands::shell::{ProposeArgs, ShellCommand};
use crate::commands::status::StatusFormat;
use crate::commands::store::{BackupArgs, RestoreArgs, StoreCommand};
use crate::commands::usage::UsageArgs;
use crate::commands::{mcp, tools};
use crate::completion::CompleteArgs;
use crate::examples;
use crate::global_args::GlobalArgs;
use crate::recorder::RecordArgs;

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

// Deferred: only the command that was given has its arguments made, not all of them at each start.
#[derive(Clone, Debug, Subcommand)]
#[command(defer = true)]
pub enum CtlCommand {
    /// One question; the answer on stdout
    #[command(after_help = examples::ASK)]
    Ask(AskArgs),
    /// Be a window on a conversation
    #[command(after_help = examples::ATTACH)]
    Attach(AttachArgs),
    /// One command for what stdin asks for: printed, never run
    Propose(ProposeArgs),
    /// What joins your shell with aish: eval "$(aishctl init bash)"
    Init {
        #[arg(value_enum)]
        shell: ShellCommand,
        /// Keep what the last command printed, in memory, for questions
        #[arg(long)]
        ring: bool,
    },
    /// The question of a shell's script, on stdin
    #[command(hide = true)]
    ShellAsk,
    /// A shell whose last output is kept for questions; `init --ring` starts it
    #[command(hide = true)]
    Record(RecordArgs),
    /// What makes Tab work, as a file for your shell; init has it too
    Completion {
        #[arg(value_enum)]
        shell: ShellCommand,
    },
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// The pages of the manual, for a package
    #[command(hide = true)]
    Man(ManArgs),
    /// Conversations: list, make, name, put away
    #[command(alias = "conversation", after_help = examples::CONVERSATIONS)]
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
    #[command(alias = "models", after_help = examples::MODEL)]
    Model {
        /// The preset that this conversation uses from its next turn on
        name: Option<String>,
        #[command(subcommand)]
        command: Option<ModelCommand>,
    },
    /// Keys for servers, in files of their own that only you can read
    Key {
        #[command(subcommand)]
        command: Option<KeyCommand>,
    },
    /// Which preset answers what: switch it, see the classes, try a text
    Route {
        #[command(subcommand)]
        command: Option<RouteCommand>,
    },
    /// Whether another preset is asked when a server is down
    Fallback {
        #[command(subcommand)]
        command: Option<FallbackCommand>,
    },
    /// Let a model work on its own towards a goal, in a copy of the files
    Norris(NorrisCommand),
    /// What waits for a person: look, allow, deny
    #[command(after_help = examples::CONFIRM)]
    Confirm {
        #[command(subcommand)]
        command: Option<ConfirmCommand>,
    },
    /// What commands and runs changed: look, keep, drop, undo
    ///
    /// What commands and runs changed in layers over the files, and what was kept of that and can be undone.
    #[command(after_help = examples::CHANGES)]
    Changes {
        #[command(subcommand)]
        command: Option<ChangesCommand>,
    },
    /// Take back what was kept: of the last turn, or the named one
    Undo {
        /// Its id, as aishctl changes lists it
        #[arg(value_name = "ID")]
        changes: Option<ChangesId>,
        /// Also where a later turn ran commands in the files themselves, which stays
        #[arg(long, conflicts_with = "changes")]
        earlier: bool,
    },
    /// Do again what was taken back: of the last turn, or the named
    Redo {
        /// Its id, as aishctl changes lists it
        #[arg(value_name = "ID")]
        changes: Option<ChangesId>,
    },
    /// What tools may do in this conversation
    Perm {
        #[command(subcommand)]
        command: Option<PermissionCommand>,
    },
    /// What models took: tokens and money
    Usage(UsageArgs),
    /// What was decided about each effect, by whom, and what came of it
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
    /// Commands that go on in the background: list, read, stop
    Jobs {
        #[command(subcommand)]
        command: Option<JobsCommand>,
    },
    /// The transcript on stdout
    #[command(after_help = examples::LOG)]
    Log(LogArgs),
    /// A conversation as Markdown, JSON lines, JSON or asciicast
    Export(ExportArgs),
    /// A conversation from JSON lines of messages
    Import(ImportArgs),
    /// Messages that contain a text, those that left the context too
    Search(SearchArgs),
    /// The tasks that a model has set itself
    Todo { conversation: Option<String> },
    /// What the model is shown of a conversation, and what has left that
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
    #[command(after_help = examples::MCP)]
    Mcp {
        #[command(subcommand)]
        command: Option<mcp::McpCommand>,
    },
    /// Tools: list, show, write down, call without a model
    #[command(alias = "tool", after_help = examples::TOOLS)]
    Tools {
        #[command(subcommand)]
        command: Option<tools::ToolsCommand>,
    },
    /// What is kept of tools' results: whole texts, images, files
    Result(ResultsCommand),
    /// What tools and people of a conversation share: JSON under names
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
    /// Whether all is as it should be, and what to do where it is not
    Doctor,
    /// What the daemon keeps: its size, check it, give room back, repair
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Copy all that is kept into a directory; again: what is new
    Backup(BackupArgs),
    /// Make the store of a backup; the daemon must not run
    Restore(RestoreArgs),
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
    #[command(after_help = examples::CONFIG)]
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// One raw call
    Rpc(RpcArgs),
    /// Help on a command, or on exit-codes
    Help { topic: Vec<String> },
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
        check("jobs -C proj", true);
        check("jobs output job-1", true);
        check("jobs stop 1 -C proj", true);
        check("jobs stop", false);
        check("jobs stop one", false);
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
        check("tools", true);
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
