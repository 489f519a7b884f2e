//! How a session or a call fails.

use aishd_log::tool_name::{Alias, ToolName};
use aishd_mcp_messages::chosen_tools::ChoiceKey;
use aishd_signin::SignInNeed;

pub use super::message::RpcError;

/// A call gave no result. Its text is what stands behind `[aish] tool dispatch failed: ` or `[aish] tool transport
/// error: `; [`ToolCallError::side`] says which.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ToolCallError {
    #[error("unknown tool {0}")]
    UnknownTool(ToolName),
    /// A key of the configuration leaves it out.
    #[error("{}", left_out(.0, *.1))]
    LeftOut(ToolName, ChoiceKey),
    #[error("there is no MCP server {0}")]
    UnknownServer(Alias),
    /// Its server offers another tool under that name now.
    #[error("{0} changed after the call was let through; nothing ran")]
    Changed(ToolName),
    #[error("{0} was taken away after the call was let through; nothing ran")]
    Gone(ToolName),
    /// The server answered with an error.
    #[error("{}", .0.message)]
    Rpc(RpcError),
    #[error("MCP server {alias}: {failure}{}", failure.next_command(alias))]
    Transport { alias: Alias, failure: WireFailure },
    #[error("MCP server {alias} gave no answer within {seconds} s")]
    TimedOut { alias: Alias, seconds: u64 },
    /// Its server went on with it by itself, and what became of it cannot be had.
    #[error("MCP server {alias}, task {task}: {why}")]
    Task {
        alias: Alias,
        task: String,
        why: String,
    },
    /// The name is another server's by now.
    #[error("{0} is another MCP server by now")]
    AnotherServer(Alias),
    #[error("cancelled")]
    Cancelled,
}

/// Where a call failed: before it was sent, on its way, or because somebody ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureSide {
    Dispatch,
    Transport,
    Cancelled,
}

/// What is said to who names a tool that is left out.
fn left_out(name: &ToolName, key: ChoiceKey) -> String {
    let alias = name.alias();
    format!("unknown tool {name}: `{key}` in [mcp.servers.{alias}] leaves it out")
}

impl ToolCallError {
    pub fn side(&self) -> FailureSide {
        match self {
            Self::UnknownTool(_)
            | Self::LeftOut(..)
            | Self::UnknownServer(_)
            | Self::Changed(_)
            | Self::Gone(_)
            | Self::AnotherServer(_)
            | Self::Rpc(_) => FailureSide::Dispatch,
            Self::Transport { .. } | Self::TimedOut { .. } | Self::Task { .. } => {
                FailureSide::Transport
            }
            Self::Cancelled => FailureSide::Cancelled,
        }
    }

    /// Whether the server may have begun to do what it was asked for.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::UnknownTool(_)
            | Self::LeftOut(..)
            | Self::UnknownServer(_)
            | Self::Changed(_)
            | Self::Gone(_)
            | Self::AnotherServer(_) => false,
            Self::Rpc(_) | Self::TimedOut { .. } | Self::Task { .. } | Self::Cancelled => true,
            Self::Transport { failure, .. } => failure.may_have_happened(),
        }
    }
}

/// Why the wire to a server did not carry a question and its answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WireFailure {
    /// It never left us.
    #[error("not connected: {0}")]
    NotConnected(String),
    /// Its profile could not be had, so it was not started.
    #[error("not started: {why}")]
    NotHeld { why: String, hint: &'static str },
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    #[error("authentication failed: HTTP {status}{}", token.reason())]
    Auth { status: u16, token: SentToken },
    #[error("{0}")]
    SignIn(SignInNeed),
    #[error("HTTP {status}{}", server_message(.message))]
    Http { status: u16, message: String },
    /// The server does not know our session any more.
    #[error("the session was lost: {0}")]
    SessionLost(String),
    #[error("the connection broke before the answer: {0}")]
    Cut(String),
    #[error("did not answer {0}")]
    Silent(String),
    /// A child that has gone.
    #[error("the server ended: {0}")]
    Ended(String),
    #[error("the answer is longer than {0} MiB")]
    TooLarge(usize),
    #[error("the answer is not understood: {0}")]
    Unreadable(String),
}

/// What was sent along to prove who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentToken {
    None,
    Literal,
    Env(String),
    /// The variable holds nothing.
    EnvUnset(String),
}

impl SentToken {
    fn reason(&self) -> String {
        match self {
            Self::None => ", and no token is configured".to_owned(),
            Self::Literal => ", with the token auth_token".to_owned(),
            Self::Env(name) => format!(", with the token in {name}"),
            Self::EnvUnset(name) => format!(", and the variable {name} is not set"),
        }
    }
}

impl WireFailure {
    /// What a person can do about it.
    pub fn hint(&self, alias: &Alias) -> Option<String> {
        match self {
            Self::Auth { token, .. } => Some(match token {
                SentToken::None => {
                    format!(
                        "aishctl mcp login {alias} signs in, or set mcp.servers.{alias}.auth_env to the variable that holds its token"
                    )
                }
                SentToken::Literal => format!("check mcp.servers.{alias}.auth_token"),
                SentToken::Env(name) => {
                    format!("check the value of {name} in the daemon's environment")
                }
                SentToken::EnvUnset(name) => {
                    format!("start aishd with {name} in its environment")
                }
            }),
            Self::SignIn(need) => Some(need.hint(alias.as_str())),
            Self::NotHeld { hint, .. } => Some(format!("[mcp.servers.{alias}]: {hint}")),
            Self::Ended(_) => Some(format!("aishctl mcp logs {alias}")),
            Self::NotConnected(_)
            | Self::Unreachable(_)
            | Self::Http { .. }
            | Self::SessionLost(_)
            | Self::Cut(_)
            | Self::Silent(_)
            | Self::TooLarge(_)
            | Self::Unreadable(_) => None,
        }
    }

    /// What stands behind it in the answer to a call: whoever reads that has no hint beside it.
    fn next_command(&self, alias: &Alias) -> String {
        match self {
            Self::SignIn(need) => format!(": {}", need.hint(alias.as_str())),
            Self::NotConnected(_)
            | Self::NotHeld { .. }
            | Self::Unreachable(_)
            | Self::Auth { .. }
            | Self::Http { .. }
            | Self::SessionLost(_)
            | Self::Cut(_)
            | Self::Silent(_)
            | Self::Ended(_)
            | Self::TooLarge(_)
            | Self::Unreadable(_) => String::new(),
        }
    }

    /// The same for a question that was on its way when its session ended so.
    pub(super) fn in_flight(&self) -> Self {
        match self {
            Self::NotConnected(why) | Self::Unreachable(why) | Self::SessionLost(why) => {
                Self::Cut(why.clone())
            }
            Self::NotHeld { .. } | Self::Auth { .. } | Self::SignIn(_) => {
                Self::Cut(self.to_string())
            }
            Self::Http { .. }
            | Self::Cut(_)
            | Self::Silent(_)
            | Self::Ended(_)
            | Self::TooLarge(_)
            | Self::Unreadable(_) => self.clone(),
        }
    }

    fn may_have_happened(&self) -> bool {
        match self {
            Self::NotConnected(_)
            | Self::NotHeld { .. }
            | Self::Unreachable(_)
            | Self::Auth { .. }
            | Self::SignIn(_) => false,
            // Whoever hears of it was sent more than once, or cannot be sent again.
            Self::Http { .. }
            | Self::SessionLost(_)
            | Self::Cut(_)
            | Self::Silent(_)
            | Self::Ended(_)
            | Self::TooLarge(_)
            | Self::Unreadable(_) => true,
        }
    }
}

fn server_message(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}

/// How one exchange fails, before it is known whose call it was.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExchangeError {
    Rpc(RpcError),
    Failure(WireFailure),
    TimedOut,
    Cancelled,
}

impl From<WireFailure> for ExchangeError {
    fn from(failure: WireFailure) -> Self {
        Self::Failure(failure)
    }
}

impl ExchangeError {
    pub(super) fn of(self, alias: &Alias, limit: std::time::Duration) -> ToolCallError {
        let alias = alias.clone();
        match self {
            Self::Rpc(error) => ToolCallError::Rpc(error),
            Self::Failure(failure) => ToolCallError::Transport { alias, failure },
            Self::TimedOut => ToolCallError::TimedOut {
                alias,
                seconds: limit.as_secs().max(1),
            },
            Self::Cancelled => ToolCallError::Cancelled,
        }
    }
}
