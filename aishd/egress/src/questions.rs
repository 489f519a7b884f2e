//! Questions about hosts that no rule is about, while connections wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::host::HostPort;
use crate::pattern::HostPattern;
use crate::refusal::Refusal;
use crate::rules::HostRules;

/// What a child wants that no rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostQuestion {
    pub target: HostPort,
    /// Of the connection that came first.
    pub scheme: HostScheme,
}

/// What a connection is, as far as it can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostScheme {
    /// A request of HTTP that everybody on the way can read.
    PlainHttp,
    /// Bytes that are carried as they are, mostly TLS.
    Tunnel,
}

/// What somebody said to a question. It holds for the connections that wait; who wants it to hold for longer changes the
/// rules first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    /// At public addresses.
    Allow,
    Deny,
    /// Nobody said anything for so long that it is a no.
    Unanswered,
}

/// How questions are asked.
#[derive(Clone, Debug)]
pub struct QuestionSettings {
    /// Who answers receives them here. What does not fit in is refused.
    pub asked: mpsc::Sender<OpenQuestion>,
    /// At once.
    pub most_open: usize,
    /// From asking until the connections that wait are refused.
    pub deadline: Duration,
}

/// A question that connections wait for. Dropped without an answer, it was denied.
#[derive(Debug)]
pub struct OpenQuestion {
    question: HostQuestion,
    answer: watch::Sender<Option<HostAnswer>>,
    rules: watch::Sender<HostRules>,
}

impl OpenQuestion {
    pub fn question(&self) -> &HostQuestion {
        &self.question
    }

    /// To all connections that wait.
    pub fn answer(self, answer: HostAnswer) {
        self.answer.send_replace(Some(answer));
    }

    /// To all connections that wait, and to all of this listener that come later. Nobody is asked about the host again.
    pub fn settle(self, answer: HostAnswer) {
        let pattern = HostPattern::exactly(self.question.target.clone());
        // Under the lock of the rules: who comes now finds either the question open or the rule.
        self.rules.send_modify(|rules| {
            match answer {
                HostAnswer::Allow => rules.allow_public.push(pattern),
                HostAnswer::Deny | HostAnswer::Unanswered => rules.deny.push(pattern),
            }
            self.answer.send_replace(Some(answer));
        });
    }

    /// Comes back when no connection waits any more: all were dropped, or the deadline has passed, or a change of the
    /// rules has answered it.
    pub async fn given_up(&self) {
        self.answer.closed().await;
    }
}

/// The open questions of a listener.
#[derive(Debug)]
pub(crate) struct Questions {
    settings: QuestionSettings,
    rules: watch::Sender<HostRules>,
    open: Arc<OpenWaits>,
}

type OpenWaits = Mutex<BTreeMap<HostPort, Weak<QuestionWait>>>;

/// What the connections to one host and port hold together. When the last one is gone, the question is.
#[derive(Debug)]
pub(crate) struct QuestionWait {
    target: HostPort,
    answer: watch::Receiver<Option<HostAnswer>>,
    deadline: Instant,
    open: Arc<OpenWaits>,
}

impl Questions {
    pub(crate) fn new(settings: QuestionSettings, rules: watch::Sender<HostRules>) -> Self {
        Self {
            settings,
            rules,
            open: Arc::default(),
        }
    }

    /// Asks, or joins those who wait for the same host and port.
    pub(crate) fn wait(
        &self,
        target: &HostPort,
        scheme: HostScheme,
    ) -> Result<Arc<QuestionWait>, Refusal> {
        // Dropped after the lock, which its drop may want.
        let _stale;
        let mut open = self.open.lock();
        match open.get(target).and_then(Weak::upgrade) {
            Some(wait) if wait.is_open() => return Ok(wait),
            other => _stale = other,
        }
        if open.len() >= self.settings.most_open && !open.contains_key(target) {
            return Err(Refusal::TooManyQuestions);
        }
        let (answer, receiver) = watch::channel(None);
        let question = HostQuestion {
            target: target.clone(),
            scheme,
        };
        let asked = self.settings.asked.try_send(OpenQuestion {
            question,
            answer,
            rules: self.rules.clone(),
        });
        asked.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refusal::TooManyQuestions,
            mpsc::error::TrySendError::Closed(_) => Refusal::NotListed,
        })?;
        let wait = Arc::new(QuestionWait {
            target: target.clone(),
            answer: receiver,
            deadline: Instant::now() + self.settings.deadline,
            open: Arc::clone(&self.open),
        });
        open.insert(target.clone(), Arc::downgrade(&wait));
        Ok(wait)
    }
}

impl QuestionWait {
    /// Whether an answer is still to come.
    fn is_open(&self) -> bool {
        self.answer.has_changed().is_ok() && self.answer.borrow().is_none()
    }

    /// The answer, or why there was none.
    pub(crate) async fn answered(&self) -> Result<(), Refusal> {
        let mut answer = self.answer.clone();
        let answered = answer.wait_for(Option::is_some);
        match tokio::time::timeout_at(self.deadline, answered).await {
            Ok(Ok(answer)) => match *answer {
                Some(HostAnswer::Allow) => Ok(()),
                Some(HostAnswer::Unanswered) => Err(Refusal::NotAnswered),
                Some(HostAnswer::Deny) | None => Err(Refusal::DeniedByAnswer),
            },
            Ok(Err(_)) => Err(Refusal::DeniedByAnswer),
            Err(_) => Err(Refusal::NotAnswered),
        }
    }
}

impl Drop for QuestionWait {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        // There may be a newer one by now.
        if open
            .get(&self.target)
            .is_some_and(|it| it.strong_count() == 0)
        {
            open.remove(&self.target);
        }
    }
}
