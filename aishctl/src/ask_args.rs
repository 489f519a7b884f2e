//! What a question is asked with: the options of `ask` and of what asks in its place.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use aish_proto::turn::SendMode;
use clap::{Args, ValueEnum};

use crate::span;

#[derive(Args, Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct AskArgs {
    /// The question; `-` or nothing reads it from stdin. `@FILE` in it takes a file along
    pub text: Vec<String>,
    /// No word of it names a file
    #[arg(skip)]
    pub as_it_stands: bool,
    /// Texts that go along, by their names
    #[arg(skip)]
    pub attached: Vec<(String, String)>,
    /// A file, a picture or a PDF to go along; `-` is stdin
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
    /// Send it also where it is dear or fills half of what the model takes in
    #[arg(long)]
    pub accept_cost: bool,
    /// The conversation is deleted once its answer is there, and no file of the store keeps a word of it
    #[arg(long, conflicts_with_all = ["last", "in-conversation", "detach"])]
    pub temp: bool,
    /// Print only fenced code
    #[arg(long, conflicts_with_all = ["json", "jsonl", "cmd"])]
    pub code: bool,
    /// Print only the commands that the model proposes; none is run
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
