//! Options that every command takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::span;

/// Where the help of every command has them.
pub(crate) const GLOBAL_OPTIONS: &str = "Global options";

/// Flags about the looks, which every command takes.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct LookArgs {
    /// Lay out the Markdown of answers; auto: where a person looks at it
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS, value_enum, default_value_t, value_name = "WHEN")]
    pub markdown: MarkdownArg,
    /// Words instead of boxes and signs, for screen readers (else AISH_PLAIN=1)
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub plain: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MarkdownArg {
    #[default]
    Auto,
    Always,
    Never,
}

/// Options that every command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct GlobalArgs {
    /// The conversation, by title or id (else AISH_CONVERSATION)
    #[arg(
        id = "in-conversation",
        short = 'C',
        long = "conversation",
        global = true, help_heading = GLOBAL_OPTIONS,
        value_name = "NAME|ID"
    )]
    pub conversation: Option<String>,
    /// The model preset, by name
    #[arg(short, long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub model: Option<String>,
    /// The daemon's socket; none is started there
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// One JSON object at the end
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS, conflicts_with = "jsonl")]
    pub json: bool,
    /// Events as JSON, one a line
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub jsonl: bool,
    /// No status lines on stderr
    #[arg(short, long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub quiet: bool,
    /// Debug lines too
    #[arg(short, long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub verbose: bool,
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorArg,
    #[command(flatten)]
    pub looks: LookArgs,
    /// Never ask a person
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub no_input: bool,
    /// Give up after this long, e.g. 30s, 5m, 500ms
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS, value_parser = span::parse, value_name = "DURATION")]
    pub timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    #[default]
    Auto,
    Always,
    Never,
}
