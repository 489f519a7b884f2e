//! Commands of this machine: what a model proposes with a line of its answer, what a person runs, and what becomes of it.
//! What a text means to a shell is read elsewhere; here it is bytes that run or do not.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::access::Access;
use crate::environment::ClientVariables;
use crate::lasting_environment::LastingVariable;
use crate::norris::launch::RunHold;
use crate::tool::{ClaimSource, NetworkUse, Tool, ToolReach};
use crate::tool_call::ToolCall;

/// The capability that rules can name, and the tool by which models propose commands. Those that are offered none do so by lines
/// of their text.
pub const TOOL: &str = "shell__run";
/// No server and no manifest can have this name.
pub const PROVIDER: &str = "shell";
/// What people are told where nobody is asked about commands.
pub const UNASKED: &str =
    "shell.confirm is false: commands that a model proposes run without a question";
/// The argument by which a command goes on by itself.
pub const BACKGROUND: &str = "background";
/// A longer text is no command.
const MAX_COMMAND_BYTES: usize = 64 << 10;

/// Why no shell can be given that. Nobody is asked about it: no answer to such a question would be true.
pub fn why_it_cannot_run(command: &str) -> Option<&'static str> {
    if command.trim().is_empty() {
        Some("the command is empty")
    } else if command.len() > MAX_COMMAND_BYTES {
        Some("the command is longer than 64 KiB")
    } else if command.contains('\0') {
        Some("the command has a zero byte")
    } else {
        None
    }
}

/// A command that a model's answer proposes: by a line, or by a call that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandProposal {
    pub call: String,
    pub command: String,
    /// It goes on by itself when it has begun; only a call can want that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

impl CommandProposal {
    /// The command that a call of the shell's tool proposes. `None`: it is another call, or has no command.
    pub fn of_call(call: &ToolCall) -> Option<Self> {
        if call.name != TOOL || call.broken.is_some() {
            return None;
        }
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        Some(Self {
            call: call.id.clone(),
            command: arguments.get("command")?.as_str()?.to_owned(),
            background: match arguments.get(BACKGROUND) {
                None | Some(Value::Null) => false,
                Some(background) => background.as_bool()?,
            },
        })
    }

    /// The arguments of a question about it.
    pub fn arguments(&self) -> Value {
        let mut arguments = json!({ "command": self.command });
        if self.background {
            arguments[BACKGROUND] = json!(true);
        }
        arguments
    }
}

/// What a confirm asks about a command, besides what every confirm has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandQuestion {
    pub command: String,
    pub shell: String,
    /// It goes on by itself when it has begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// What the asker's client gave; with the values, because they are part of what is approved.
    #[serde(default)]
    pub environment: ClientVariables,
    /// What earlier commands of the conversation have changed of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lasting: Vec<LastingVariable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<SimpleCommand>,
    /// Why it could not be read to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Why it may be destructive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dangers: Vec<String>,
    /// What else its text says that it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
    /// What holds other commands of the run, and not this one. `None`: it is no run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<RunHold>,
}

impl CommandQuestion {
    /// Why it counts as destructive, if it does: what it does, or that it could not be read.
    pub fn destructive(&self) -> Option<String> {
        let reasons: Vec<&str> = self
            .unread
            .iter()
            .chain(&self.dangers)
            .map(String::as_str)
            .collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// One simple command of it, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimpleCommand {
    pub runs: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirects: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub substitutes: Vec<String>,
}

/// What becomes of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputUse {
    /// It waits, and goes to the model with the next question.
    #[default]
    WithNextQuestion,
    /// The turn goes on with it (`shell.feed_back`).
    AtOnce,
    /// No model is shown it.
    Never,
}

/// The rules about commands that are configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellSettings {
    /// Whether a person is asked about what a model proposes.
    pub confirm: bool,
    /// What a model proposes is tried before a person is asked about it.
    pub tries: bool,
    pub timeout_ms: u64,
    pub max_output_bytes: usize,
    /// The most that layers may take of the disk, of one trial or one run.
    pub max_layer_bytes: u64,
    /// Variables that commands get from the client which asked.
    pub env_from_client: Vec<String>,
    pub feed_back: bool,
    /// Models that take tools propose commands by calls.
    pub offers_tool: bool,
}

impl Default for ShellSettings {
    fn default() -> Self {
        let names = ["PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "VIRTUAL_ENV"];
        Self {
            confirm: true,
            tries: false,
            timeout_ms: 5 * 60 * 1000,
            max_output_bytes: 4 << 20,
            max_layer_bytes: 8 << 30,
            env_from_client: names.map(str::to_owned).to_vec(),
            feed_back: true,
            offers_tool: true,
        }
    }
}

impl ShellSettings {
    /// Each in a line of its own, as the configuration calls it.
    pub fn lines(&self) -> impl Iterator<Item = String> + use<> {
        let Self {
            confirm,
            tries,
            timeout_ms,
            max_output_bytes,
            max_layer_bytes,
            env_from_client,
            feed_back,
            offers_tool,
        } = self;
        [
            format!("shell.confirm = {confirm}"),
            format!("shell.default = {}", if *tries { "try" } else { "ask" }),
            format!("shell.timeout = {timeout_ms} ms"),
            format!("shell.max_output_bytes = {max_output_bytes}"),
            format!("contain.max_layer_bytes = {max_layer_bytes}"),
            format!("shell.env_from_client = {}", env_from_client.join(", ")),
            format!("shell.feed_back = {feed_back}"),
            format!("shell.tool = {offers_tool}"),
        ]
        .into_iter()
    }
}

/// The capability as rules see it.
pub fn tool() -> &'static Arc<Tool> {
    static ONE: LazyLock<Arc<Tool>> = LazyLock::new(|| {
        #[expect(clippy::expect_used, reason = "the name is written above")]
        let name = TOOL.parse().expect("a well-formed name");
        Arc::new(Tool {
            name,
            description: "Runs a command in the shell of this machine, in the conversation's directory. There is no terminal, and \
its input is empty, so what waits for input gets none. The directory in which a command ends lasts (`cd sub && make`): \
later ones begin there, with the variables that it exported (`export X=1`, `source venv/bin/activate`); all else of a shell, such as \
functions, ends with its command. Where a run holds its commands, only `cd DIR` alone lasts. \
It is ended when its time is over: what is to go on, such as a server or a watcher, runs with `background`."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "the whole command, as the shell reads it"},
                    "background": {"type": "boolean", "description": "true: it goes on by itself, without a limit of time, and the reply comes \
at once with the name of its job, which shell__output and shell__stop take; it changes neither the directory nor variables for later commands"},
                },
                "required": ["command"],
                "additionalProperties": false,
            }),
            annotations: json!({}),
            server: "this machine".into(),
            place: "this machine".into(),
            needs: Access::Execute,
            needs_by: ClaimSource::Ours,
            reads_only: false,
            reach: ToolReach::World,
            network: NetworkUse::MayLeave,
            packages: Arc::default(),
            directory: None,
        })
    });
    &ONE
}
