//! Why a call was not done, as the wire says it.

use aish_proto::error::{ErrorData, ErrorKind};
use aishd_conversation::handle::ReadError;
use aishd_conversation::request_error::{LargePicture, RequestError, UntakenPicture};
use aishd_log::resource::ResourceChangeError;
use jsonrpsee::types::ErrorObjectOwned;
use jsonrpsee::types::error::{INTERNAL_ERROR_CODE, INVALID_PARAMS_CODE, INVALID_REQUEST_CODE};

/// Who comes while a daemon goes, or into a conversation that was let go of, loses nothing by waiting.
const NEXT_DAEMON: &str =
    "aishctl status says when it is gone; the next aishctl ask starts another";
const SOON: &str = "do it again: nothing of it was done; or see aishctl conv status";
/// Nobody looks at layers while a command writes there.
pub(super) const LAYERS_IN_USE: &str =
    "do it again when that command has ended, or aishctl norris pause and then again";
const STORE: &str = "aishctl status says what is wrong with the store; it goes on by itself";
/// Who only looks may become somebody who asks.
pub(super) const AS_DRIVER: &str =
    "a window without --read-only may; another client says role driver in daemon/hello";
pub(super) const GOES_ON: &str = "aishctl conv wait waits on, aishctl cancel ends it";
pub(super) const HOME: &str = "set HOME or XDG_CONFIG_HOME where aishd is started";

/// An error on its way to a client.
#[derive(Clone, Debug)]
pub(super) struct MethodError {
    code: i32,
    message: String,
    data: Option<ErrorData>,
    /// The conversation closed before it answered.
    closed: bool,
}

impl MethodError {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let retryable = match kind {
            ErrorKind::Busy
            | ErrorKind::Overloaded
            | ErrorKind::Draining
            | ErrorKind::Timeout
            | ErrorKind::Storage
            | ErrorKind::UpstreamFailed => true,
            ErrorKind::NotInitialized
            | ErrorKind::VersionMismatch
            | ErrorKind::NotFound
            | ErrorKind::StaleTurn
            | ErrorKind::ForbiddenRole
            | ErrorKind::BudgetExceeded
            | ErrorKind::Denied
            | ErrorKind::TooLarge
            | ErrorKind::InvalidConfig
            | ErrorKind::McpFailed
            | ErrorKind::Costly => false,
        };
        Self {
            code: kind.code(),
            message: message.into(),
            data: Some(ErrorData {
                kind,
                retryable,
                side_effect_possible: false,
                hint: None,
            }),
            closed: false,
        }
    }

    /// What to do next. An error of JSON-RPC's own has no data, so that its message says it.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        match &mut self.data {
            Some(data) => data.hint = Some(hint.into()),
            None => self.message = format!("{}; {}", self.message, hint.into()),
        }
        self
    }

    /// While the daemon stops, conversations close for that reason.
    pub(super) fn while_stopping(self) -> Self {
        if self.closed {
            Self::draining("the daemon is stopping")
        } else {
            self
        }
    }

    /// The daemon takes nothing more.
    pub(super) fn draining(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Draining, message).hint(NEXT_DAEMON)
    }

    pub(super) fn params(why: &str) -> Self {
        Self {
            code: INVALID_PARAMS_CODE,
            message: format!("invalid params: {why}"),
            data: None,
            closed: false,
        }
    }

    pub(super) fn envelope(why: &str) -> Self {
        Self {
            code: INVALID_REQUEST_CODE,
            message: format!("invalid request: {why}"),
            data: None,
            closed: false,
        }
    }

    pub(super) fn internal(why: &str) -> Self {
        Self {
            code: INTERNAL_ERROR_CODE,
            message: format!("internal error: {why}"),
            data: None,
            closed: false,
        }
    }

    pub(super) fn into_error(self) -> ErrorObjectOwned {
        ErrorObjectOwned::owned(self.code, self.message, self.data)
    }
}

impl From<RequestError> for MethodError {
    #[expect(clippy::too_many_lines, reason = "one arm for each reason")]
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        match error {
            RequestError::Busy => Self::new(ErrorKind::Busy, message)
                .hint("wait for its end (turn/wait), or aishctl cancel"),
            RequestError::StaleTurn { .. } => {
                Self::new(ErrorKind::StaleTurn, message).hint("aishctl log shows the turns")
            }
            RequestError::QueueFull { .. } => Self::new(ErrorKind::Overloaded, message)
                .hint("wait for a turn to finish, or take one out: aishctl queue remove TURN"),
            RequestError::Draining => Self::draining(message),
            RequestError::KeyReused => Self::params(&message).hint("make another key"),
            RequestError::BadAnswer(_) => {
                Self::params(&message).hint("aishctl confirm show ID says how it is answered")
            }
            RequestError::NoChanges(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl changes")
            }
            RequestError::NoJob(_) => Self::new(ErrorKind::NotFound, message).hint("aishctl jobs"),
            RequestError::ChangesAsked(number) => Self::new(ErrorKind::Denied, message)
                .hint(format!("aishctl confirm keep c{number}, or confirm deny c{number}")),
            RequestError::LayersInUse => Self::new(ErrorKind::Busy, message).hint(LAYERS_IN_USE),
            RequestError::ChangesUnseen => Self::new(ErrorKind::Denied, message)
                .hint("look at it again: aishctl changes show ID"),
            RequestError::Changes(_) => Self::new(
                ErrorKind::Denied,
                format!("nothing of what the run changed was touched: {message}"),
            )
            .hint("aishctl changes show ID says what there is"),
            RequestError::BadCommand(_) | RequestError::Untried(_) => Self::params(&message),
            RequestError::AlreadyAtLevel { provider, .. } => Self::params(&message)
                .hint(format!("aishctl perm revoke {provider} gives it its first level back")),
            RequestError::Resource(error) => match error {
                ResourceChangeError::Missing(_) => {
                    Self::new(ErrorKind::NotFound, message).hint("aishctl resource ls")
                }
                ResourceChangeError::Full => {
                    Self::new(ErrorKind::Overloaded, message).hint("aishctl resource rm NAME")
                }
                ResourceChangeError::TooMany(_) => Self::new(ErrorKind::TooLarge, message)
                    .hint("one after another: aishctl resource put NAME FILE"),
                ResourceChangeError::Level(provider) => Self::new(ErrorKind::Denied, message)
                    .hint(format!("aishctl perm grant {provider} 2")),
                ResourceChangeError::ReadOnly => {
                    Self::new(ErrorKind::Denied, message).hint("aishctl perm limit --none")
                }
                ResourceChangeError::Unread(_) => Self::new(ErrorKind::Storage, message).hint(STORE),
                ResourceChangeError::Exists { name, .. } => Self::params(&message).hint(format!(
                    "aishctl resource get {name} shows it, aishctl resource put {name} FILE replaces it"
                )),
                ResourceChangeError::Stale { name, .. } => Self::params(&message)
                    .hint(format!("aishctl resource get {name} shows it as it is now")),
            },
            RequestError::TooManyCommands => Self::new(ErrorKind::Overloaded, message)
                .hint("wait for one to finish, or end one: Ctrl-C in a window, or shell/cancel"),
            RequestError::TooManyRaises => {
                Self::new(ErrorKind::Overloaded, message).hint("aishctl confirm ls")
            }
            RequestError::AboveMaximum { .. } => Self::new(ErrorKind::Denied, message)
                .hint("max_level in the configuration bounds it: aishctl config show"),
            RequestError::UnknownModel(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl model list")
            }
            RequestError::TakesNoPicture(untaken) => {
                let UntakenPicture { preset, other, .. } = *untaken;
                Self::params(&message).hint(match other {
                    Some(other) => format!("aishctl ask -m {other} ... asks one that takes it"),
                    None => format!(
                        "no preset is known to take it (aishctl model list); pictures = true in [models.{preset}] tries"
                    ),
                })
            }
            RequestError::LargePicture(large) => {
                let LargePicture { most, .. } = *large;
                Self::params(&message).hint(format!(
                    "magick PICTURE -resize '{most}x{most}>' SMALLER makes one that fits"
                ))
            }
            RequestError::RefusedPicture { preset, .. } => Self::params(&message).hint(format!(
                "aishctl model forget {preset} sends it again; another format or size may be taken"
            )),
            RequestError::NoRun => Self::new(ErrorKind::NotFound, message)
                .hint("aishctl norris GOAL launches one"),
            RequestError::UnknownTurn(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl log shows the turns")
            }
            RequestError::NothingToRepeat => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl ask TEXT asks something")
            }
            RequestError::NotArchived(_) => Self::new(ErrorKind::NotFound, message)
                .hint("aishctl context archive lists what can be restored"),
            RequestError::InContext(_) => {
                Self::params(&message).hint("aishctl context archive lists what is not")
            }
            RequestError::NotLast(_) => {
                Self::params(&message).hint("aishctl retry --turn TURN asks its question again")
            }
            RequestError::NoSummary => Self::new(ErrorKind::NotFound, message)
                .hint("aishctl context shows what a request holds"),
            RequestError::NoRoom(_) => Self::new(ErrorKind::BudgetExceeded, message)
                .hint("it stays readable: aishctl log, aishctl search; or raise context.max_turns or context.max_tokens"),
            RequestError::Budget(conversation, reached) => {
                let remedy = reached.remedy(&conversation.to_string());
                Self::new(ErrorKind::BudgetExceeded, message).hint(remedy)
            }
            RequestError::Costly(_) => Self::new(ErrorKind::Costly, message).hint(
                "nothing was sent; aishctl ask --accept-cost ... sends it. limits.ask_above_usd says what is asked about",
            ),
            RequestError::NothingLeft => Self::new(ErrorKind::NotFound, message)
                .hint("turn/retry (aishctl retry) runs all of them again"),
            RequestError::Exists => Self::params(&format!(
                "{message}; ask in it without `new`, or make another id"
            )),
            RequestError::Deleted => Self::new(ErrorKind::NotFound, message)
                .hint("make another id for another conversation"),
            RequestError::Missing => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl conv list")
            }
            RequestError::Storage(_) => Self::new(ErrorKind::Storage, message).hint(STORE),
            RequestError::Closed => Self {
                closed: true,
                ..Self::new(ErrorKind::Overloaded, message).hint(SOON)
            },
        }
    }
}

impl From<ReadError> for MethodError {
    fn from(error: ReadError) -> Self {
        Self::from(RequestError::from(error))
    }
}

#[cfg(test)]
mod tests {
    use aishd_log::access::Access;

    use super::*;

    /// What somebody can do about it stands beside the reason, or in it where the error has no place for that.
    #[test]
    fn a_refusal_says_what_to_do_next() {
        let provider = || "data-tool".parse().unwrap();
        let level = Access::Write;
        for (error, expected) in [
            (RequestError::Busy, "aishctl cancel"),
            (RequestError::StaleTurn { running: None }, "aishctl log"),
            (RequestError::KeyReused, "another key"),
            (
                RequestError::AlreadyAtLevel {
                    provider: provider(),
                    level,
                },
                "aishctl perm revoke data-tool",
            ),
            (
                RequestError::AboveMaximum {
                    provider: provider(),
                    max: level,
                },
                "aishctl config show",
            ),
            (RequestError::NothingToRepeat, "aishctl ask"),
            (RequestError::NoSummary, "aishctl context"),
            (
                RequestError::Resource(ResourceChangeError::Level(provider())),
                "aishctl perm grant data-tool 2",
            ),
            (
                RequestError::Resource(ResourceChangeError::ReadOnly),
                "aishctl perm limit --none",
            ),
            (
                RequestError::Resource(ResourceChangeError::TooMany(99)),
                "aishctl resource put NAME FILE",
            ),
            (
                RequestError::Resource(ResourceChangeError::Unread("gone".to_owned())),
                "aishctl status",
            ),
            (
                RequestError::Resource(ResourceChangeError::Exists {
                    name: "plan".to_owned(),
                    revision: 1,
                }),
                "aishctl resource get plan shows it",
            ),
            (
                RequestError::Resource(ResourceChangeError::Stale {
                    name: "plan".to_owned(),
                    expected: 1,
                    is: 2,
                }),
                "aishctl resource get plan shows it as it is now",
            ),
            (
                RequestError::QueueFull { queued: 16 },
                "aishctl queue remove",
            ),
            (RequestError::Draining, "the next aishctl ask"),
            (RequestError::Closed, "aishctl conv status"),
            (RequestError::Storage("full".to_owned()), "aishctl status"),
            (
                RequestError::BadAnswer("no".to_owned()),
                "aishctl confirm show",
            ),
        ] {
            let why = format!("{error:?}");
            let refused = MethodError::from(error);
            let hint = refused.data.and_then(|it| it.hint);
            let told = hint.unwrap_or(refused.message);
            assert!(told.contains(expected), "{why}: {told}");
        }
    }

    #[test]
    fn what_closes_while_the_daemon_stops_closes_for_that_reason() {
        let kind = |it: MethodError| it.data.map(|it| it.kind);
        let closed = MethodError::from(RequestError::Closed);
        assert_eq!(Some(ErrorKind::Overloaded), kind(closed.clone()));
        assert_eq!(Some(ErrorKind::Draining), kind(closed.while_stopping()));
        let full = MethodError::new(ErrorKind::Overloaded, "full").while_stopping();
        assert_eq!(Some(ErrorKind::Overloaded), kind(full));
    }
}
