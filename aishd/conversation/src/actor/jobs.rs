//! Commands that go on in the background: their starts, which their calls wait a moment for, and their ends.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::{JobId, TurnId};
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::command_result::CommandResult;
use aishd_log::ending::CommandEnding;
use aishd_log::event::{Event, Record};
use aishd_log::job::{JobEnded, JobStarted, JobStop, MOST_JOBS};
use aishd_rules::gate::AdmittedCommand;
use aishd_tools::shell::CommandLimits;
use aishd_tools::shell::job::JobTokens;
use aishd_turn::turn::TurnInput;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::actor::{Conversation, TaskOutcome};
use crate::commands::job::LiveJob;
use crate::pending_commit::{PendingCommit, UncommittedFact};
use crate::request_error::RequestError;
use crate::view::LiveChange;

impl Conversation {
    /// Starts what was let through; `turn_token` is of its turn.
    pub(crate) async fn start_job(
        &mut self,
        turn: TurnId,
        call: String,
        run: AdmittedCommand,
        turn_token: CancellationToken,
    ) {
        self.commands.begin_of_turn(turn, call.clone());
        let job = self.state.shell.next_job();
        let ran_in = run.setting.cwd.clone();
        let started = JobStarted {
            job,
            call: call.clone(),
            command: run.command.clone(),
            cwd: ran_in.clone(),
        };
        if let Err(why) = self.note_job(turn, started).await {
            let ended = Box::new(CommandResult::failed(why, &ran_in));
            let input = TurnInput::CommandEnded { call, ended };
            let failed = TaskOutcome::Turn(turn, Box::new(input));
            self.io.spawn(std::future::ready(failed));
            return;
        }
        let live = self.jobs.begin(job);
        let tokens = JobTokens {
            stop: live.token(),
            stopping: self.services.stopping.clone(),
        };
        let limits = CommandLimits::of_job(&self.services.policy.borrow());
        let (tools, printer) = (self.services.tools.clone(), live.clone());
        self.io.spawn(async move {
            let print = |text: &str| printer.print(text);
            let runs = tools.job(&run.command, &run.setting, limits, tokens, print);
            let ended = Box::pin(AssertUnwindSafe(runs).catch_unwind()).await;
            let ended = ended.unwrap_or_else(|_panic| CommandResult {
                ending: CommandEnding::Unknown,
                ..CommandResult::failed("internal error".to_owned(), &run.setting.cwd)
            });
            TaskOutcome::JobEnded(job, Box::new(ended))
        });
        self.io.spawn(async move {
            let ended = Box::new(live.first_reply(&turn_token, &ran_in).await);
            TaskOutcome::Turn(turn, Box::new(TurnInput::CommandEnded { call, ended }))
        });
    }

    /// Ends a job whose call hears of no name: its turn was stopped while that was on its way.
    pub(crate) fn stop_unheard_job(&self, turn: TurnId, ending: CommandEnding) {
        let CommandEnding::Background { job } = ending else {
            return;
        };
        let mut ours = self.turn.iter().filter(|it| it.id == turn);
        if ours.any(|it| !it.token.is_cancelled()) {
            return;
        }
        if let Some(live) = self.jobs.running(job) {
            live.stop(JobStop::Turn, None);
        }
    }

    /// Writes down that one begins, or says why it cannot.
    async fn note_job(&mut self, turn: TurnId, started: JobStarted) -> Result<(), String> {
        // Several of one message may have been let through side by side.
        if self.state.shell.jobs.len() >= MOST_JOBS {
            return Err(format!(
                "{MOST_JOBS} commands run in the background already; end one with shell__stop first"
            ));
        }
        let fact = UncommittedFact {
            turn: Some(turn),
            by: None,
            event: Event::JobStarted(Box::new(started)),
        };
        let stored = self.commit(&[fact], LiveChange::Keep).await;
        stored
            .map(drop)
            .map_err(|error| format!("its start could not be stored: {error}"))
    }

    pub(crate) async fn job_ended(&mut self, job: JobId, ended: CommandResult) {
        let Some(live) = self.jobs.running(job) else {
            return;
        };
        let started = self.job_started(job);
        let wish = live.stop_wish();
        // It may have come to its own end first.
        let was_stopped = ended.ending == CommandEnding::Cancelled;
        let stopped = wish.by.unwrap_or(JobStop::Daemon);
        let mut events = vec![];
        let kept = ended.kept.map(|it| it.store(&mut events));
        events.push(Event::JobEnded(Box::new(JobEnded {
            job,
            command: started.map(|it| it.command).unwrap_or_default(),
            ending: ended.ending,
            stopped: was_stopped.then_some(stopped),
            output: ended.output,
            bytes: ended.bytes,
            ms: Some(ended.ms),
            kept,
            replied: live.replies_with_end(),
        })));
        let person = wish.person.filter(|_| was_stopped);
        let facts = events.into_iter().map(|event| UncommittedFact {
            turn: None,
            by: person.clone(),
            event,
        });
        self.settle(PendingCommit::facts(facts.collect())).await;
    }

    /// What the log says of the start of one that runs.
    fn job_started(&self, job: JobId) -> Option<JobStarted> {
        let running = self.state.shell.jobs.iter().find(|it| it.job == job)?;
        match self.services.store.record(self.id, running.seq) {
            Ok(record) => started_by(record?.event),
            Err(error) => {
                tracing::warn!(conversation = %self.id, %job, %error, "the start of a job cannot be read");
                None
            }
        }
    }

    /// Ends of jobs that are in the log now can be read.
    pub(crate) fn note_jobs(&self, records: &[Record]) {
        for record in records {
            if let Event::JobEnded(ended) = &record.event {
                self.jobs.end(ended);
            }
        }
    }

    /// Ends one for a person; `None`: it has ended.
    pub(crate) fn stop_job(
        &self,
        job: JobId,
        by: AnsweringPerson,
    ) -> Result<Option<Arc<LiveJob>>, RequestError> {
        if let Some(live) = self.jobs.running(job) {
            live.stop(JobStop::Person, Some(by));
            return Ok(Some(live));
        }
        let mut ended = self.state.shell.ended_jobs.iter();
        match ended.any(|it| it.job == job) {
            true => Ok(None),
            false => Err(RequestError::NoJob(job)),
        }
    }

    /// The daemon stops: what runs has its end in the log, if the store takes it.
    pub(crate) async fn until_jobs_over(&mut self) {
        self.work_while(|it| it.jobs.any_runs()).await;
    }

    /// What the last daemon left running: it ended with that, and nobody knows what it did until then.
    pub(crate) fn jobs_left(&self) -> Vec<UncommittedFact> {
        let left = self.state.shell.jobs.iter().map(|it| {
            let started = self.job_started(it.job).unwrap_or_else(|| JobStarted {
                job: it.job,
                call: String::new(),
                command: String::new(),
                cwd: String::new(),
            });
            UncommittedFact {
                turn: None,
                by: None,
                event: Event::JobEnded(Box::new(JobEnded::left(started))),
            }
        });
        left.collect()
    }
}

fn started_by(event: Event) -> Option<JobStarted> {
    let Event::JobStarted(started) = event else {
        return None;
    };
    Some(*started)
}
