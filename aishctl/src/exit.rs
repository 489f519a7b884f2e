//! Exit codes: an interface of their own. `aishctl help exit-codes` prints [`TABLE`].

use std::process::ExitCode;

use aish_proto::error::ErrorKind;
use aish_proto::turn::{FailureClass, StopReason, TurnError};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(u8);

impl Exit {
    /// The answer is complete, or the command did what it was asked for.
    pub const DONE: Self = Self(0);
    /// The turn failed: refused, interrupted, cancelled elsewhere, or an error of the model's server or the daemon.
    pub const FAILED: Self = Self(1);
    /// The command line is wrong.
    pub const USAGE: Self = Self(2);
    /// At least one action was not permitted; the turn may have gone on to its end, or a person ended it there.
    pub const DENIED: Self = Self(3);
    /// The model's key is missing or refused.
    pub const KEY: Self = Self(4);
    /// No model could be reached.
    pub const UNREACHABLE: Self = Self(5);
    /// The daemon cannot be reached and could not be started, or it does not answer.
    pub const NO_DAEMON: Self = Self(6);
    /// A limit was hit: tool depth, length of the answer, queue, size of the input.
    pub const LIMIT: Self = Self(7);
    /// No such conversation, turn or model, or no such key of the configuration.
    pub const UNKNOWN: Self = Self(8);
    /// Somebody else was first.
    pub const CONFLICT: Self = Self(9);
    /// The budget is used up, or nobody has accepted what the question takes.
    pub const BUDGET: Self = Self(10);
    /// The configuration is invalid; the daemon did not start with it.
    pub const CONFIG: Self = Self(78);
    /// `--timeout` is over.
    pub const TIMEOUT: Self = Self(124);
    /// SIGHUP.
    pub const HUNG_UP: Self = Self(129);
    /// SIGINT.
    pub const INTERRUPTED: Self = Self(130);
    /// The reader of our output is gone (SIGPIPE).
    pub const BROKEN_PIPE: Self = Self(141);
    /// SIGTERM.
    pub const TERMINATED: Self = Self(143);

    /// As a program of ours ended that worked in our place; by a signal as a shell says it.
    pub fn passed_on(status: std::process::ExitStatus) -> Self {
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        let code = status.code().or(signal.map(|it| 128 + it));
        Self(code.and_then(|it| u8::try_from(it).ok()).unwrap_or(1))
    }

    pub fn code(self) -> u8 {
        self.0
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// Every code with what it means, in the words that people read.
pub const TABLE: [(Exit, &str); 17] = [
    (Exit::DONE, "the answer is complete"),
    (
        Exit::FAILED,
        "the turn failed: model, tool or call error, refused, interrupted, cancelled",
    ),
    (Exit::USAGE, "the command line is wrong"),
    (
        Exit::DENIED,
        "an action was not permitted; the answer may be complete all the same",
    ),
    (
        Exit::KEY,
        "the model's key is missing or refused (401, or a 403 about it)",
    ),
    (Exit::UNREACHABLE, "no model reachable"),
    (
        Exit::NO_DAEMON,
        "the daemon is not reachable, or could not be started",
    ),
    (
        Exit::LIMIT,
        "a limit was hit: tool depth, length of the answer, full queue, input too large",
    ),
    (
        Exit::UNKNOWN,
        "no such conversation, turn or model; no such key of the configuration",
    ),
    (Exit::CONFLICT, "conflict: somebody else was first"),
    (
        Exit::BUDGET,
        "the budget is used up, or the question is dear and nobody has accepted that",
    ),
    (Exit::CONFIG, "the configuration is invalid"),
    (Exit::TIMEOUT, "--timeout is over"),
    (Exit::HUNG_UP, "the terminal hung up (SIGHUP)"),
    (Exit::INTERRUPTED, "SIGINT"),
    (
        Exit::BROKEN_PIPE,
        "the reader of the output went away (SIGPIPE)",
    ),
    (Exit::TERMINATED, "SIGTERM"),
];

/// [`TABLE`] as `aishctl help exit-codes` prints it.
pub fn table() -> String {
    TABLE
        .iter()
        .map(|(exit, meaning)| format!("{:>4}  {meaning}\n", exit.0))
        .collect()
}

/// How `ask` ends after its turn ended like this.
pub fn of_turn(reason: StopReason, error: Option<&TurnError>) -> Exit {
    match reason {
        StopReason::End => Exit::DONE,
        StopReason::ToolDepth | StopReason::MaxTokens => Exit::LIMIT,
        StopReason::Denied | StopReason::NoApprover => Exit::DENIED,
        StopReason::Budget => Exit::BUDGET,
        StopReason::Refusal | StopReason::Cancelled | StopReason::Interrupted => Exit::FAILED,
        StopReason::Upstream => match error.map(|it| it.class) {
            Some(FailureClass::Unauthorized) => Exit::KEY,
            Some(FailureClass::Unreachable) => Exit::UNREACHABLE,
            Some(
                FailureClass::RateLimited
                | FailureClass::Rejected
                | FailureClass::ContextOverflow
                | FailureClass::Cut
                | FailureClass::Config
                | FailureClass::Storage,
            )
            | None => Exit::FAILED,
        },
    }
}

/// How the program ends after the daemon refused a call like this.
pub fn of_refusal(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::NotFound => Exit::UNKNOWN,
        ErrorKind::Overloaded | ErrorKind::TooLarge => Exit::LIMIT,
        ErrorKind::BudgetExceeded | ErrorKind::Costly => Exit::BUDGET,
        ErrorKind::Denied => Exit::DENIED,
        ErrorKind::VersionMismatch | ErrorKind::Draining => Exit::NO_DAEMON,
        ErrorKind::InvalidConfig => Exit::CONFIG,
        ErrorKind::StaleTurn => Exit::CONFLICT,
        ErrorKind::NotInitialized
        | ErrorKind::Busy
        | ErrorKind::ForbiddenRole
        | ErrorKind::UpstreamFailed
        | ErrorKind::Timeout
        | ErrorKind::Storage
        | ErrorKind::McpFailed => Exit::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reason: StopReason, class: Option<FailureClass>, expected: u8) {
        let error = class.map(|class| TurnError {
            class,
            message: "m".into(),
            cause: None,
            hint: None,
        });
        assert_eq!(
            expected,
            of_turn(reason, error.as_ref()).code(),
            "{reason:?} {class:?}"
        );
    }

    #[test]
    fn a_turn_ends_the_program_as_the_table_says() {
        check(StopReason::End, None, 0);
        check(StopReason::ToolDepth, None, 7);
        check(StopReason::MaxTokens, None, 7);
        check(StopReason::Refusal, None, 1);
        check(StopReason::Cancelled, None, 1);
        check(StopReason::Interrupted, None, 1);
        check(StopReason::Denied, None, 3);
        check(StopReason::NoApprover, None, 3);
        check(StopReason::Budget, None, 10);
        check(StopReason::Upstream, None, 1);
        check(StopReason::Upstream, Some(FailureClass::Unauthorized), 4);
        check(StopReason::Upstream, Some(FailureClass::Unreachable), 5);
        check(StopReason::Upstream, Some(FailureClass::RateLimited), 1);
        check(StopReason::Upstream, Some(FailureClass::Cut), 1);
    }

    #[test]
    fn the_printed_table_has_every_code_once_and_in_order() {
        let codes: Vec<u8> = TABLE.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(
            vec![
                0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 78, 124, 129, 130, 141, 143
            ],
            codes
        );
        for code in codes {
            assert!(
                table()
                    .lines()
                    .any(|it| it.trim_start().starts_with(&format!("{code}  ")))
            );
        }
    }

    #[test]
    fn a_refused_call_ends_the_program_by_its_kind() {
        assert_eq!(8, of_refusal(ErrorKind::NotFound).code());
        assert_eq!(7, of_refusal(ErrorKind::Overloaded).code());
        assert_eq!(7, of_refusal(ErrorKind::TooLarge).code());
        assert_eq!(10, of_refusal(ErrorKind::BudgetExceeded).code());
        assert_eq!(1, of_refusal(ErrorKind::Busy).code());
        assert_eq!(78, of_refusal(ErrorKind::InvalidConfig).code());
    }
}
