//! Hosts that commands in layers want to reach, while their connections wait. A connection that does not wait any more, since its
//! command has ended or has given up, takes its question with it.

use std::future::pending;

use aish_proto::id::{ConfirmId, TurnId};
use aishd_log::tool_name::ToolName;
use aishd_tools::OpenQuestion;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, select_all};
use tokio::sync::mpsc;

/// A command that may ask.
#[derive(Debug)]
pub(crate) struct HostAsker {
    pub(crate) command: String,
    /// The tool whose call it is; `None`: it is a command.
    pub(crate) tool: Option<ToolName>,
    /// The run that it is of; `None`: it is tried.
    pub(crate) run: Option<TurnId>,
    pub(crate) asked: mpsc::Receiver<OpenQuestion>,
    /// So many questions it has asked.
    pub(crate) count: usize,
}

/// A question that is in the log, and waits.
#[derive(Debug)]
pub(crate) struct OpenHost {
    pub(crate) confirm: ConfirmId,
    pub(crate) question: OpenQuestion,
    /// It is of a call, and not of a command.
    pub(crate) is_of_call: bool,
}

/// One that nobody has looked at.
#[derive(Debug)]
pub(crate) struct HostWish {
    pub(crate) command: String,
    pub(crate) tool: Option<ToolName>,
    pub(crate) run: Option<TurnId>,
    pub(crate) question: OpenQuestion,
    /// The how-many-eth of its command, from 1.
    pub(crate) count: usize,
}

/// What the actor hears of them.
#[derive(Debug)]
pub(crate) enum HostNews {
    Asked(Box<HostWish>),
    /// No connection waits for it.
    GivenUp(ConfirmId),
}

/// All of a conversation.
#[derive(Debug, Default)]
pub(crate) struct HostQuestions {
    askers: Vec<HostAsker>,
    open: Vec<OpenHost>,
    /// What calls of the turn were not given that asked last.
    denied: Option<(TurnId, Vec<String>)>,
}

enum Woken {
    /// `None`: the command has ended.
    Asked(usize, Option<OpenQuestion>),
    GivenUp(ConfirmId),
}

impl HostQuestions {
    pub(crate) fn begin(&mut self, asker: HostAsker) {
        self.askers.push(asker);
    }

    pub(crate) fn add(&mut self, open: OpenHost) {
        self.open.push(open);
    }

    /// What calls of this turn were not given.
    pub(crate) fn denied_in(&self, turn: TurnId) -> Vec<String> {
        let of_turn = self.denied.iter().filter(|it| it.0 == turn);
        of_turn.flat_map(|it| it.1.iter().cloned()).collect()
    }

    /// A call of a turn was not given a host.
    pub(crate) fn deny_in(&mut self, turn: TurnId, host: String) {
        let of_turn = self.denied.take().filter(|it| it.0 == turn);
        let (_, hosts) = self.denied.insert(of_turn.unwrap_or((turn, vec![])));
        hosts.push(host);
    }

    pub(crate) fn is_open(&self, confirm: ConfirmId) -> bool {
        self.open.iter().any(|it| it.confirm == confirm)
    }

    pub(crate) fn take(&mut self, confirm: ConfirmId) -> Option<OpenHost> {
        let at = self.open.iter().position(|it| it.confirm == confirm)?;
        Some(self.open.remove(at))
    }

    /// Waits for the next. Cancel-safe: what was received is returned at once.
    pub(crate) async fn next(&mut self) -> HostNews {
        loop {
            match self.woken().await {
                Woken::GivenUp(confirm) => return HostNews::GivenUp(confirm),
                Woken::Asked(at, None) => {
                    self.askers.swap_remove(at);
                }
                Woken::Asked(at, Some(question)) => {
                    let asker = &mut self.askers[at];
                    asker.count += 1;
                    return HostNews::Asked(Box::new(HostWish {
                        command: asker.command.clone(),
                        tool: asker.tool.clone(),
                        run: asker.run,
                        question,
                        count: asker.count,
                    }));
                }
            }
        }
    }

    async fn woken(&mut self) -> Woken {
        let askers = self.askers.iter_mut().enumerate();
        let asked = askers.map(|(at, it)| {
            let asked = async move { Woken::Asked(at, it.asked.recv().await) };
            asked.boxed()
        });
        let given_up = self.open.iter().map(|it| {
            let given_up = async move {
                it.question.given_up().await;
                Woken::GivenUp(it.confirm)
            };
            given_up.boxed()
        });
        let all: Vec<BoxFuture<'_, Woken>> = given_up.chain(asked).collect();
        if all.is_empty() {
            return pending().await;
        }
        select_all(all).await.0
    }
}
