//! What one model request gave: deltas while it streams, then a reply or a failure.

use std::fmt;

use aishd_log::block::KeptParts;
use aishd_log::sealed_answer::SealedAnswer;
use aishd_log::tool_call::ToolCall;
use aishd_log::turn_error::FailureClass;
use aishd_log::usage::Usage;
use serde_json::{Map, Value};

use crate::optional_fields::OptionalField;
use crate::refusal_cure::CureOutcome;

/// A piece of a reply, as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta<'a> {
    Text(&'a str),
    Reasoning(&'a str),
    /// Arguments of a tool call; `call` counts the calls of this reply from 0.
    Arguments {
        call: u32,
        name: &'a str,
        text: &'a str,
    },
}

impl Delta<'_> {
    /// What it adds, whatever it is a piece of.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::Arguments { text, .. } => text,
        }
    }
}

/// Everything that a stream said, whether or not it ended well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<ToolCall>,
    /// Fields of the message that we do not know and the same model wants back.
    pub extra: Map<String, Value>,
    /// That the model made.
    pub pictures: Vec<KeptParts>,
    /// What its server wants back byte for byte.
    pub sealed: Option<Box<SealedAnswer>>,
    pub usage: Option<Usage>,
    pub finish: Option<FinishReason>,
    /// The model that the server named, when it was not the one asked for.
    pub served_by: Option<String>,
    /// The text is the model's refusal.
    pub refused: bool,
    /// It began in the middle of thinking, and nobody had said so.
    pub began_in_thinking: bool,
    /// Oddities worth a debug status, each at most once per stream.
    pub notes: Vec<String>,
    /// What its server did not want of the request, so that it was asked again.
    pub cured: CureOutcome,
}

impl Reply {
    /// Nothing of it has reached anybody yet, so that another try shows nothing twice.
    pub fn is_silent(&self) -> bool {
        self.text.is_empty()
            && self.reasoning.is_empty()
            && self.calls.is_empty()
            && self.pictures.is_empty()
    }
}

/// Why the model stopped, as its server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
    /// The server stopped in the middle of its own work, and goes on when it is sent this back.
    Paused,
    /// A word that we do not know; counted as a proper end.
    Other,
}

/// Why a request gave no proper reply. The text form begins with the class's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// A status other than 2xx.
    Http {
        status: u16,
        /// The error's own message, or the start of the body, without keys.
        message: String,
        retry_after_ms: Option<u64>,
        detail: HttpDetail,
    },
    Refused,
    Unresolved,
    /// The machine cannot be reached from here.
    NoRoute,
    /// The connection ended before the head of an answer.
    Closed,
    TimedOut(TimeoutStage),
    /// Any other trouble on the way, TLS included.
    Transport(String),
    /// The server reported an error in a 2xx answer, or answered with no stream at all.
    Api {
        message: String,
        overflow: bool,
    },
    /// The stream ended without saying that it was finished.
    Cut,
    /// A 2xx answer without a body.
    Empty,
    /// The preset cannot be used.
    Config(String),
    /// The key is missing; nothing was sent.
    Key(String),
    /// A cap was reached; the rest was not read.
    TooLarge(String),
    /// What the model is to be shown does not fit its context, whatever leaves; nothing was sent.
    TooLong(String),
    /// What the model is to be shown cannot be read from the store.
    Unreadable(String),
}

/// What the body of an HTTP error says beyond its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpDetail {
    None,
    ModelNotFound,
    ContextOverflow,
    /// Something that the request can be without.
    Refuses(OptionalField),
    TooManyTools,
    /// Its model calls no tools at all, or it does not let it.
    TakesNoTools,
    /// It does not take back what it sealed itself.
    RefusesSeals,
}

/// What was waited for when the time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutStage {
    Connect,
    FirstByte,
    Idle,
    /// Bytes came, but no content.
    ContentIdle,
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http {
                status, message, ..
            } => write!(f, "transport: HTTP {status}: {message}"),
            Self::Refused => f.write_str("transport: Connection refused"),
            Self::Unresolved => f.write_str("transport: Could not resolve host"),
            Self::NoRoute => f.write_str("transport: No route to host"),
            Self::Closed => f.write_str("transport: connection closed before the answer"),
            Self::TimedOut(stage) => write!(f, "transport: Operation timed out ({stage})"),
            Self::Transport(why) => write!(f, "transport: {why}"),
            Self::Cut => f.write_str("transport: the stream was cut before its end"),
            Self::Empty => f.write_str("api: the server sent nothing"),
            Self::Api { message, .. } => write!(f, "api: {message}"),
            Self::TooLarge(what) => write!(f, "api: {what}"),
            Self::Config(why) | Self::Key(why) | Self::TooLong(why) => write!(f, "broker: {why}"),
            Self::Unreadable(why) => write!(f, "the log cannot be read: {why}"),
        }
    }
}

impl fmt::Display for TimeoutStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::FirstByte => "waiting for the first byte",
            Self::Idle => "no byte arrived",
            Self::ContentIdle => "no content arrived",
        })
    }
}

impl RequestFailure {
    /// The status, where there was an answer over HTTP.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Http { status, .. } => Some(*status),
            Self::Refused
            | Self::Unresolved
            | Self::NoRoute
            | Self::Closed
            | Self::TimedOut(_)
            | Self::Transport(_)
            | Self::Api { .. }
            | Self::Cut
            | Self::Empty
            | Self::Config(_)
            | Self::Key(_)
            | Self::TooLarge(_)
            | Self::TooLong(_)
            | Self::Unreadable(_) => None,
        }
    }

    /// Whether a server that forbids something speaks of the key: a region, a model or an account are forbidden too.
    pub fn is_about_key(message: &str) -> bool {
        let text = message.to_lowercase();
        let about = ["key", "token", "auth", "credential"];
        matches!(&*text, "" | "forbidden") || about.iter().any(|it| text.contains(it))
    }

    pub fn class(&self) -> FailureClass {
        match self {
            Self::Http {
                detail: HttpDetail::ContextOverflow,
                ..
            }
            | Self::Api { overflow: true, .. }
            | Self::TooLong(_) => FailureClass::ContextOverflow,
            Self::Http { status: 401, .. } | Self::Key(_) => FailureClass::Unauthorized,
            Self::Http {
                status: 403,
                message,
                ..
            } if Self::is_about_key(message) => FailureClass::Unauthorized,
            Self::Http { status: 429, .. } => FailureClass::RateLimited,
            Self::Http {
                status: 408 | 500..,
                ..
            }
            | Self::Refused
            | Self::Unresolved
            | Self::NoRoute
            | Self::Closed
            | Self::TimedOut(_)
            | Self::Transport(_) => FailureClass::Unreachable,
            Self::Http { .. } | Self::Api { .. } | Self::Empty | Self::TooLarge(_) => {
                FailureClass::Rejected
            }
            Self::Cut => FailureClass::Cut,
            Self::Config(_) => FailureClass::Config,
            Self::Unreadable(_) => FailureClass::Storage,
        }
    }
}

/// A request that failed: why, and what had arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokenRequest {
    pub failure: RequestFailure,
    pub partial: Reply,
    /// What helps, where something is known that does.
    pub hint: Option<String>,
}

/// Whether a request that failed like this, with nothing of an answer, may have been read and be charged for all the same.
pub fn may_be_charged(failure: &RequestFailure) -> bool {
    match failure {
        RequestFailure::Closed
        | RequestFailure::Cut
        | RequestFailure::Empty
        | RequestFailure::TooLarge(_)
        | RequestFailure::TimedOut(
            TimeoutStage::FirstByte | TimeoutStage::Idle | TimeoutStage::ContentIdle,
        ) => true,
        RequestFailure::Http { .. }
        | RequestFailure::Refused
        | RequestFailure::Unresolved
        | RequestFailure::NoRoute
        | RequestFailure::TimedOut(TimeoutStage::Connect)
        | RequestFailure::Transport(_)
        | RequestFailure::Api { .. }
        | RequestFailure::Config(_)
        | RequestFailure::Key(_)
        | RequestFailure::TooLong(_)
        | RequestFailure::Unreadable(_) => false,
    }
}
