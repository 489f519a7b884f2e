//! Commands of a conversation run one after another, in the order in which they came: those of people, and those that its
//! turn proposes. Pure; what begins and ends them is beside it.

use std::collections::VecDeque;

use aish_proto::id::TurnId;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::shell::OutputUse;
use tokio_util::sync::CancellationToken;

use crate::requests::UserCommandRequest;

/// So many may wait for the one that runs.
const MOST_WAITING: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct CommandQueue {
    running: Option<RunningCommands>,
    waiting: VecDeque<NextCommand>,
    /// It is the turn's turn: what waits behind it does not hold it up.
    freed: bool,
}

#[derive(Debug)]
enum RunningCommands {
    Own(String, RunningUserCommand),
    OfTurn(TurnId, String),
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum NextCommand {
    Own(String, Box<UserCommandRequest>),
    /// The command that the running turn waits for; it is judged again when it can run.
    OfTurn,
}

impl CommandQueue {
    /// Nothing runs and nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_WAITING
    }

    pub(crate) fn wait(&mut self, call: String, wanted: UserCommandRequest) {
        self.waiting
            .push_back(NextCommand::Own(call, Box::new(wanted)));
    }

    pub(crate) fn turn_waits(&mut self) {
        if !self
            .waiting
            .iter()
            .any(|it| matches!(it, NextCommand::OfTurn))
        {
            self.waiting.push_back(NextCommand::OfTurn);
        }
    }

    /// Whether a command of the turn has to wait; asked once for each time that one could run.
    pub(crate) fn holds_up_turn(&mut self) -> bool {
        let freed = std::mem::take(&mut self.freed);
        self.running.is_some() || (!freed && !self.waiting.is_empty())
    }

    pub(crate) fn begin_own(&mut self, call: String, runs: RunningUserCommand) {
        self.running = Some(RunningCommands::Own(call, runs));
    }

    pub(crate) fn begin_of_turn(&mut self, turn: TurnId, call: String) {
        self.running = Some(RunningCommands::OfTurn(turn, call));
    }

    /// The running command of a person, if it is this one.
    pub(crate) fn own(&self, wanted: &str) -> Option<&RunningUserCommand> {
        match &self.running {
            Some(RunningCommands::Own(call, runs)) if call == wanted => Some(runs),
            Some(RunningCommands::Own(..) | RunningCommands::OfTurn(..)) | None => None,
        }
    }

    pub(crate) fn own_mut(&mut self, wanted: &str) -> Option<&mut RunningUserCommand> {
        match &mut self.running {
            Some(RunningCommands::Own(call, runs)) if call == wanted => Some(runs),
            Some(RunningCommands::Own(..) | RunningCommands::OfTurn(..)) | None => None,
        }
    }

    pub(crate) fn runs_own(&self) -> bool {
        matches!(self.running, Some(RunningCommands::Own(..)))
    }

    pub(crate) fn end_own(&mut self, wanted: &str) -> Option<RunningUserCommand> {
        self.own(wanted)?;
        match self.running.take() {
            Some(RunningCommands::Own(_, runs)) => Some(runs),
            Some(RunningCommands::OfTurn(..)) | None => None,
        }
    }

    pub(crate) fn end_of_turn(&mut self, turn: TurnId, wanted: &str) {
        let is_it = |it: &RunningCommands| match it {
            RunningCommands::OfTurn(of, call) => *of == turn && call == wanted,
            RunningCommands::Own(..) => false,
        };
        if self.running.as_ref().is_some_and(is_it) {
            self.running = None;
        }
    }

    /// Takes one out that has not begun.
    pub(crate) fn take_waiting(&mut self, wanted: &str) -> Option<UserCommandRequest> {
        let is_it = |it: &NextCommand| match it {
            NextCommand::Own(call, _) => call == wanted,
            NextCommand::OfTurn => false,
        };
        let at = self.waiting.iter().position(is_it)?;
        match self.waiting.remove(at)? {
            NextCommand::Own(_, own) => Some(*own),
            NextCommand::OfTurn => None,
        }
    }

    /// What can begin now.
    pub(crate) fn next(&mut self) -> Option<NextCommand> {
        if self.running.is_some() {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.freed = matches!(next, NextCommand::OfTurn);
        Some(next)
    }
}

/// One that runs.
#[derive(Debug)]
pub(crate) struct RunningUserCommand {
    pub(crate) command: String,
    pub(crate) given: OutputUse,
    pub(crate) token: CancellationToken,
    /// Who ended it.
    pub(crate) stopped_by: Option<AnsweringPerson>,
}

#[cfg(test)]
mod tests {
    use aish_proto::id::ClientId;
    use aishd_log::answering_person::AnsweringPerson;
    use aishd_log::environment::ClientVariables;
    use aishd_log::shell::OutputUse;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn own(command: &str) -> UserCommandRequest {
        UserCommandRequest {
            command: command.to_owned(),
            cwd: None,
            environment: ClientVariables::default(),
            into_context: true,
            by: AnsweringPerson {
                client: ClientId::from_bytes([1; 16]),
                name: String::new(),
                tty: None,
                pid: None,
                uid: None,
            },
        }
    }

    fn runs() -> RunningUserCommand {
        RunningUserCommand {
            command: String::new(),
            given: OutputUse::Never,
            token: CancellationToken::new(),
            stopped_by: None,
        }
    }

    fn name(next: Option<NextCommand>) -> String {
        match next {
            Some(NextCommand::Own(call, _)) => call,
            Some(NextCommand::OfTurn) => "turn".to_owned(),
            None => "nothing".to_owned(),
        }
    }

    #[test]
    fn what_came_first_begins_first_and_one_runs_at_a_time() {
        let mut queue = CommandQueue::default();
        let turn = TurnId::from_bytes([2; 16]);
        assert!(queue.is_empty() && !queue.holds_up_turn());
        queue.begin_own("a".to_owned(), runs());
        assert!(queue.holds_up_turn());
        queue.turn_waits();
        queue.wait("b".to_owned(), own("b"));
        queue.wait("c".to_owned(), own("c"));
        queue.turn_waits();
        assert_eq!("nothing", name(queue.next()));
        assert!(queue.end_own("b").is_none() && queue.end_own("a").is_some());
        assert_eq!("turn", name(queue.next()));
        assert!(!queue.holds_up_turn(), "others are behind it");
        queue.begin_of_turn(turn, "cmd0-0".to_owned());
        assert!(queue.take_waiting("c").is_some() && queue.take_waiting("c").is_none());
        queue.end_of_turn(TurnId::from_bytes([3; 16]), "cmd0-0");
        assert_eq!("nothing", name(queue.next()));
        queue.end_of_turn(turn, "cmd0-0");
        assert!(
            queue.holds_up_turn(),
            "the next one of the turn is behind what waits"
        );
        assert_eq!("b", name(queue.next()));
        assert!(queue.is_empty());
    }
}
