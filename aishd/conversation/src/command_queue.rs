//! Commands of a conversation run one after another, in the order in which they came: those of people, and those that its
//! turn proposes. Pure; what begins and ends them is beside it.

use std::collections::VecDeque;

use aish_proto::id::TurnId;

use super::own_command::{OwnCommand, Runs};

/// So many may wait for the one that runs.
const MOST_WAITING: usize = 32;

#[derive(Debug, Default)]
pub(super) struct CommandQueue {
    running: Option<Running>,
    waiting: VecDeque<Next>,
    /// It is the turn's turn: what waits behind it does not hold it up.
    freed: bool,
}

#[derive(Debug)]
enum Running {
    Own(String, Runs),
    OfTurn(TurnId, String),
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    Own(String, Box<OwnCommand>),
    /// The command that the running turn waits for; it is judged again when it can run.
    OfTurn,
}

impl CommandQueue {
    /// Nothing runs and nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_WAITING
    }

    pub(super) fn wait(&mut self, call: String, wanted: OwnCommand) {
        self.waiting.push_back(Next::Own(call, Box::new(wanted)));
    }

    pub(super) fn turn_waits(&mut self) {
        if !self.waiting.iter().any(|it| matches!(it, Next::OfTurn)) {
            self.waiting.push_back(Next::OfTurn);
        }
    }

    /// Whether a command of the turn has to wait; asked once for each time that one could run.
    pub(super) fn holds_up_turn(&mut self) -> bool {
        let freed = std::mem::take(&mut self.freed);
        self.running.is_some() || (!freed && !self.waiting.is_empty())
    }

    pub(super) fn begin_own(&mut self, call: String, runs: Runs) {
        self.running = Some(Running::Own(call, runs));
    }

    pub(super) fn begin_of_turn(&mut self, turn: TurnId, call: String) {
        self.running = Some(Running::OfTurn(turn, call));
    }

    /// The running command of a person, if it is this one.
    pub(super) fn own(&self, wanted: &str) -> Option<&Runs> {
        match &self.running {
            Some(Running::Own(call, runs)) if call == wanted => Some(runs),
            Some(Running::Own(..) | Running::OfTurn(..)) | None => None,
        }
    }

    pub(super) fn own_mut(&mut self, wanted: &str) -> Option<&mut Runs> {
        match &mut self.running {
            Some(Running::Own(call, runs)) if call == wanted => Some(runs),
            Some(Running::Own(..) | Running::OfTurn(..)) | None => None,
        }
    }

    pub(super) fn runs_own(&self) -> bool {
        matches!(self.running, Some(Running::Own(..)))
    }

    pub(super) fn end_own(&mut self, wanted: &str) -> Option<Runs> {
        self.own(wanted)?;
        match self.running.take() {
            Some(Running::Own(_, runs)) => Some(runs),
            Some(Running::OfTurn(..)) | None => None,
        }
    }

    pub(super) fn end_of_turn(&mut self, turn: TurnId, wanted: &str) {
        let is_it = |it: &Running| match it {
            Running::OfTurn(of, call) => *of == turn && call == wanted,
            Running::Own(..) => false,
        };
        if self.running.as_ref().is_some_and(is_it) {
            self.running = None;
        }
    }

    /// Takes one out that has not begun.
    pub(super) fn take_waiting(&mut self, wanted: &str) -> Option<OwnCommand> {
        let is_it = |it: &Next| match it {
            Next::Own(call, _) => call == wanted,
            Next::OfTurn => false,
        };
        let at = self.waiting.iter().position(is_it)?;
        match self.waiting.remove(at)? {
            Next::Own(_, own) => Some(*own),
            Next::OfTurn => None,
        }
    }

    /// What can begin now.
    pub(super) fn next(&mut self) -> Option<Next> {
        if self.running.is_some() {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.freed = matches!(next, Next::OfTurn);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::id::ClientId;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use aishd_log::confirm::Person;
    use aishd_log::environment::Environment;
    use aishd_log::shell::Given;

    fn own(command: &str) -> OwnCommand {
        OwnCommand {
            command: command.to_owned(),
            cwd: None,
            environment: Environment::default(),
            into_context: true,
            by: Person {
                client: ClientId::from_bytes([1; 16]),
                name: String::new(),
                tty: None,
                pid: None,
                uid: None,
            },
        }
    }

    fn runs() -> Runs {
        Runs {
            command: String::new(),
            given: Given::Never,
            token: CancellationToken::new(),
            stopped_by: None,
        }
    }

    fn name(next: Option<Next>) -> String {
        match next {
            Some(Next::Own(call, _)) => call,
            Some(Next::OfTurn) => "turn".to_owned(),
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
