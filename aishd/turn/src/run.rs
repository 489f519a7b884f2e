//! The part of the turn machine that a run adds: which step it is, what is used up, and whether anything new may begin.

use aishd_log::norris::launch::RunLimits;
use aishd_log::norris::status::RunStatus;
use aishd_log::norris::{NorrisEvent, RunOutcome, RunPause, RunSpending};

use crate::turn::{Effect, StreamId};

/// So many answers in a row may do nothing.
const MAX_IDLE: u32 = 3;

/// A run, as the turn machine knows it.
#[derive(Debug)]
pub struct RunState {
    limits: RunLimits,
    step: u32,
    spent: RunSpending,
    /// Answers in a row that did nothing.
    idle: u32,
    paused: Option<RunPause>,
    /// What would have begun while it was paused.
    held: Vec<Effect>,
    /// What had begun is not gone on with: the model looks at what came of it in a new step.
    afresh: bool,
    ending: Option<(RunOutcome, String)>,
}

/// What an answer without an action leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum IdleOutcome {
    /// It is told so.
    Nudge(NorrisEvent),
    /// It has been told often enough.
    GivesUp,
}

/// How a run goes on after a pause.
#[derive(Debug, PartialEq)]
pub enum RunContinuation {
    /// With what was held back.
    With(Vec<Effect>),
    /// With a new step.
    Afresh,
}

impl RunState {
    /// One that begins, or is taken up where the log says that it stood.
    pub fn of(standing: &RunStatus) -> Self {
        Self {
            limits: standing.launch.limits,
            step: standing.step,
            spent: standing.spent,
            idle: 0,
            paused: standing.paused,
            held: vec![],
            afresh: false,
            ending: None,
        }
    }

    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Something waits for the end of a pause, and nothing works on it meanwhile.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    pub fn holds_stream(&self) -> bool {
        let opens = |it: &Effect| matches!(it, Effect::OpenStream(_) | Effect::OpenFallback(_));
        self.held.iter().any(opens)
    }

    /// What it has used up so far.
    pub fn note_spent(&mut self, spent: RunSpending) {
        self.spent = spent;
    }

    /// Milliseconds that are left, where there is such a limit.
    pub fn time_left(&self) -> Option<u64> {
        self.limits.ms.map(|it| it.saturating_sub(self.spent.ms))
    }

    /// Keeps what may not begin now.
    pub fn hold(&mut self, effect: Effect) {
        self.held.push(effect);
    }

    /// Its daemon ends, or did: all that is left to do is to ask the model again, and a person says when.
    pub fn stand_still(&mut self, stream: StreamId) -> Option<NorrisEvent> {
        self.held = vec![Effect::OpenStream(stream)];
        self.afresh = true;
        let was = self.paused.replace(RunPause::Interrupted);
        (was != Some(RunPause::Interrupted)).then_some(NorrisEvent::Paused {
            pause: RunPause::Interrupted,
            spent: self.spent,
        })
    }

    /// `None`: it is paused already.
    pub fn pause(&mut self, pause: RunPause) -> Option<NorrisEvent> {
        if self.paused.is_some() {
            return None;
        }
        self.paused = Some(pause);
        let spent = self.spent;
        Some(NorrisEvent::Paused { pause, spent })
    }

    /// `None`: it is not paused.
    pub fn resume(&mut self) -> Option<RunContinuation> {
        self.paused.take()?;
        let held = std::mem::take(&mut self.held);
        Some(if std::mem::take(&mut self.afresh) {
            RunContinuation::Afresh
        } else {
            RunContinuation::With(held)
        })
    }

    /// Begins the next step, or says which limit forbids it.
    pub fn next_step(&mut self) -> Result<NorrisEvent, String> {
        if let Some(limit) = self.limit() {
            return Err(limit);
        }
        self.step += 1;
        Ok(NorrisEvent::StepBegun {
            step: self.step,
            spent: self.spent,
        })
    }

    /// A limit that is met.
    pub fn limit(&self) -> Option<String> {
        let RunLimits {
            steps,
            ms,
            tokens,
            cost,
        } = self.limits;
        if self.step >= steps {
            return Some(format!("{steps} steps"));
        }
        if let Some(most) = ms.filter(|it| self.spent.ms >= *it) {
            return Some(time(most));
        }
        if let Some(most) = tokens.filter(|it| self.spent.tokens >= *it) {
            return Some(format!("{most} tokens"));
        }
        let most = cost.filter(|it| self.spent.cost >= *it)?;
        Some(most.to_string())
    }

    /// The limit of time, where that is met while a model writes.
    pub fn time_is_over(&self) -> Option<String> {
        let most = self.limits.ms.filter(|it| self.spent.ms >= *it)?;
        Some(time(most))
    }

    /// The model has acted.
    pub fn acted(&mut self) {
        self.idle = 0;
    }

    pub fn did_nothing(&mut self) -> IdleOutcome {
        self.idle += 1;
        if self.idle >= MAX_IDLE {
            return IdleOutcome::GivesUp;
        }
        let text = "[aish] Nothing was done: your answer calls no tool, and no line of it begins with CMD:, DONE: or HALT:. \
Take the next step, or write such a line.";
        IdleOutcome::Nudge(NorrisEvent::Nudged {
            text: text.to_owned(),
        })
    }

    /// How it ends, where that is more than its turn's end says. The first word counts.
    pub fn ends(&mut self, outcome: RunOutcome, reason: String) {
        self.ending.get_or_insert((outcome, reason));
    }

    /// The last fact of it.
    pub fn ended(self, otherwise: (RunOutcome, &str)) -> NorrisEvent {
        let (outcome, reason) = self
            .ending
            .unwrap_or_else(|| (otherwise.0, otherwise.1.to_owned()));
        NorrisEvent::Ended {
            outcome,
            reason,
            step: self.step,
            spent: self.spent,
        }
    }
}

fn time(ms: u64) -> String {
    match (ms / 60_000, ms % 60_000) {
        (minutes, 0) => format!("{minutes} min"),
        (_, _) => format!("{} s", ms / 1000),
    }
}
