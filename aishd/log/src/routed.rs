//! How a turn came to its preset, as the log has it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a question looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionClass {
    Code,
    Reasoning,
    Default,
}

impl QuestionClass {
    pub const ALL: [Self; 3] = [Self::Code, Self::Reasoning, Self::Default];

    /// As the configuration writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Reasoning => "reasoning",
            Self::Default => "default",
        }
    }
}

/// What of a text made its class. Nothing of the text stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassRule {
    Fence,
    Traceback,
    StackTrace,
    Error,
    Exception,
    Path,
    SourceFile,
    Paste,
    Explain,
    Why,
    HowDoes,
    Compare,
    LongQuestion,
    /// None of the others.
    None,
}

impl ClassRule {
    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Traceback => "traceback",
            Self::StackTrace => "stackTrace",
            Self::Error => "error",
            Self::Exception => "exception",
            Self::Path => "path",
            Self::SourceFile => "sourceFile",
            Self::Paste => "paste",
            Self::Explain => "explain",
            Self::Why => "why",
            Self::HowDoes => "howDoes",
            Self::Compare => "compare",
            Self::LongQuestion => "longQuestion",
            Self::None => "none",
        }
    }
}

/// For people.
impl fmt::Display for ClassRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fence => "a code fence",
            Self::Traceback => "\"traceback\"",
            Self::StackTrace => "\"stack trace\"",
            Self::Error => "\"error:\" near the start",
            Self::Exception => "\"exception:\" near the start",
            Self::Path => "a path",
            Self::SourceFile => "a source file",
            Self::Paste => "more than four lines, some indented",
            Self::Explain => "\"explain\"",
            Self::Why => "\"why\"",
            Self::HowDoes => "\"how does\"",
            Self::Compare => "\"compare\"",
            Self::LongQuestion => "a long question",
            Self::None => "nothing else fits",
        })
    }
}

/// How a turn came to its preset, where it was routed: what is kept of it beside the turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingDecision {
    pub class: QuestionClass,
    pub rule: ClassRule,
    /// The preset that answers.
    pub preset: String,
    /// Whether another one would have answered without it.
    #[serde(default)]
    pub replaced: bool,
}

impl RoutingDecision {
    /// What people are told when another preset answers.
    pub fn status(&self) -> Option<String> {
        let Self {
            class,
            rule,
            preset,
            replaced,
        } = self;
        replaced.then(|| format!("routed to {preset} ({}: {rule})", class.name()))
    }
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoutedSide {
    Route,
    Fallback,
}

impl RoutedSide {
    /// The key that it lies over.
    pub fn key(self) -> &'static str {
        match self {
            Self::Route => "routing.auto",
            Self::Fallback => "routing.fallback",
        }
    }
}
