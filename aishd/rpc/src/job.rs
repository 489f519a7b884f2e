//! `jobs/*`, and commands in the background as events show them.

use aish_proto::event as wire;
use aish_proto::id::{ConversationId, JobId, Seq};
use aish_proto::job::{
    Job, JobEnd, JobOutputResult, JobParams, JobStopResult, JobStopper, JobsListResult, List,
    Output, Stop,
};
use aishd_conversation::handle::ReadError;
use aishd_conversation::request_error::RequestError;
use aishd_log::ending::CommandEnding;
use aishd_log::event::{Event, Record};
use aishd_log::job::{JobEnded, JobStarted, JobStop};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_platform::clock::rfc3339;
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register, shell, stored_result};

/// Of a job that runs, so much of what it has printed is told at a time.
const TAIL_BYTES: usize = 64 << 10;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<List, _, _>(module, list);
    register::<Output, _, _>(module, output);
    register::<Stop, _, _>(module, stop);
}

async fn list(call: MethodCall<List>) -> Result<JobsListResult, MethodError> {
    let directory = call.server.directory.clone();
    let jobs = match call.params.conversation {
        Some(id) => {
            let handle = directory.open(id).await?;
            let state = handle.view().borrow().state.clone();
            blocking(move || {
                let read = |seq| handle.record(seq);
                jobs_of(id, &state, &Wanted::All, &read)
            })
            .await?
        }
        None => {
            let store = directory.store().clone();
            blocking(move || {
                let mut jobs = vec![];
                for id in store.unsettled()? {
                    let read = |seq| store.record(id, seq);
                    let found = store.state(id).and_then(|state| {
                        jobs_of(id, &state.unwrap_or_default(), &Wanted::Running, &read)
                    });
                    match found {
                        Ok(found) => jobs.extend(found),
                        // Those of the others are to be seen all the same.
                        Err(error) => {
                            tracing::warn!(conversation = %id, %error, "its jobs cannot be read");
                        }
                    }
                }
                Ok(jobs)
            })
            .await?
        }
    };
    Ok(JobsListResult { jobs })
}

async fn output(call: MethodCall<Output>) -> Result<JobOutputResult, MethodError> {
    let JobParams { conversation, job } = call.params;
    let handle = call.server.directory.open(conversation).await?;
    let state = handle.view().borrow().state.clone();
    let live = handle.live_job(job);
    let found = blocking(move || {
        let ended = state.shell.ended_jobs.iter().find(|it| it.job == job);
        let output = match (ended, live) {
            (Some(ended), _) => {
                let output = handle.record(ended.ended)?.and_then(job_end);
                (0, output.map(|it| it.output).unwrap_or_default())
            }
            (None, Some(live)) => live.tail(TAIL_BYTES),
            (None, None) => (0, String::new()),
        };
        let read = |seq| handle.record(seq);
        let mut jobs = jobs_of(conversation, &state, &Wanted::All, &read)?.into_iter();
        Ok(jobs.find(|it| it.job == job).map(|it| (it, output)))
    });
    let (job, (before, output)) = found.await?.ok_or(RequestError::NoJob(job))?;
    Ok(JobOutputResult {
        job,
        output,
        before,
    })
}

async fn stop(call: MethodCall<Stop>) -> Result<JobStopResult, MethodError> {
    let JobParams { conversation, job } = call.params;
    let handle = call.server.directory.open(conversation).await?;
    let stopped = handle.stop_job(job, call.connection.person()).await?;
    Ok(JobStopResult { stopped })
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, MethodError> {
    let read = tokio::task::spawn_blocking(read).await;
    let read = read.map_err(|panic| MethodError::internal(&panic.to_string()))?;
    Ok(read.map_err(RequestError::from)?)
}

enum Wanted {
    Running,
    All,
}

/// The newest first. What cannot be found any more is left out.
fn jobs_of(
    conversation: ConversationId,
    state: &ConversationState,
    wanted: &Wanted,
    read: &impl Fn(Seq) -> Result<Option<Record>, ReadError>,
) -> Result<Vec<Job>, ReadError> {
    let running = state.shell.jobs.iter().map(|it| (it.seq, None));
    let ended = state.shell.ended_jobs.iter();
    let ended = ended.map(|it| (it.started, Some(it.ended)));
    let mut places: Vec<(Seq, Option<Seq>)> = match wanted {
        Wanted::Running => running.collect(),
        Wanted::All => running.chain(ended).collect(),
    };
    places.sort_by(|a, b| b.cmp(a));
    let mut jobs = vec![];
    for (began, end) in places {
        let Some((started, at)) = read(began)?.and_then(job_start) else {
            continue;
        };
        let end = end.map(read).transpose()?.flatten();
        let end = end.and_then(|it| {
            let at = it.at;
            job_end(it).map(|ended| ended_at(&ended, at))
        });
        jobs.push(Job {
            conversation,
            title: state.title().to_owned(),
            job: started.job,
            command: started.command,
            cwd: started.cwd,
            started_at: rfc3339(at),
            ended: end,
        });
    }
    Ok(jobs)
}

fn job_start(record: Record) -> Option<(JobStarted, Timestamp)> {
    let at = record.at;
    let Event::JobStarted(started) = record.event else {
        return None;
    };
    Some((*started, at))
}

fn job_end(record: Record) -> Option<JobEnded> {
    let Event::JobEnded(ended) = record.event else {
        return None;
    };
    Some(*ended)
}

pub(super) fn started(started: JobStarted) -> wire::JobStarted {
    wire::JobStarted {
        job: started.job,
        call: started.call,
        command: started.command,
        cwd: started.cwd,
    }
}

pub(super) fn ended(ended: JobEnded, at: Timestamp) -> wire::JobEnded {
    wire::JobEnded {
        end: ended_at(&ended, at),
        job: ended.job,
        replied: ended.replied,
        command: ended.command,
    }
}

/// What a command that has not ended is called.
pub(super) fn background(ending: CommandEnding) -> Option<JobId> {
    match ending {
        CommandEnding::Background { job } => Some(job),
        _ => None,
    }
}

fn ended_at(ended: &JobEnded, at: Timestamp) -> JobEnd {
    let (ending, exit_code, signal) = shell::ending(ended.ending);
    JobEnd {
        at: rfc3339(at),
        ending,
        exit_code,
        signal,
        stopped_by: ended.stopped.map(|it| match it {
            JobStop::Model => JobStopper::Model,
            JobStop::Person => JobStopper::Person,
            JobStop::Turn => JobStopper::Turn,
            JobStop::Daemon => JobStopper::Daemon,
        }),
        ms: ended.ms,
        bytes: ended.bytes,
        kept: ended.kept.map(stored_result::result),
    }
}
