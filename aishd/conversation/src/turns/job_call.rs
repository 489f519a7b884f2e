//! A model reads on in a command that goes on in the background of its conversation, or ends it.

use aish_proto::id::JobId;
use aishd_log::event::Event;
use aishd_log::job::{JobEnded, JobStop, OUTPUT_TOOL};
use aishd_log::state::shell::EndedJob;
use aishd_store::ReadError;
use aishd_tools::ToolOutput;
use aishd_tools::builtin::JobCall;
use aishd_turn::command_report;

use crate::commands::job::{LiveJob, UnreadOutput};
use crate::turns::call::StartedCall;

/// Waits as long as the call says, unless the turn is stopped.
pub(crate) async fn run(call: JobCall, started: &StartedCall) -> ToolOutput {
    let (book, ended) = &started.jobs;
    let (JobCall::Output { job, .. } | JobCall::Stop { job }) = call;
    let Some(live) = book.find(job) else {
        return match ended.iter().find(|it| it.job == job) {
            Some(ended) => of_log(*ended, started).await,
            None => ToolOutput::refused(unknown(job, started)),
        };
    };
    match call {
        JobCall::Output { wait, .. } => live.until_news(wait).await,
        JobCall::Stop { .. } => {
            if live.ended().is_none() {
                live.stop(JobStop::Model, None);
                live.until_ended().await;
            }
        }
    }
    ToolOutput::from_text(report(job, &live))
}

/// How it stands, and what the model has not read of it.
fn report(job: JobId, live: &LiveJob) -> String {
    // First, so that nothing is printed behind what is read.
    let ended = live.ended();
    let UnreadOutput { text, lost, rest } = live.read();
    let mut said = match ended {
        Some(ended) => over(&ended),
        None => format!("{job} runs"),
    };
    if lost > 0 {
        said.push_str(&format!("; {lost} bytes before this are not kept"));
    }
    let mut told = command_report::of_job(said, &text);
    if rest > 0 {
        told.push_str(&format!(
            "\n[aish] {rest} bytes follow: call {OUTPUT_TOOL} again"
        ));
    }
    told
}

fn over(ended: &JobEnded) -> String {
    format!("{} has ended: {}", ended.job, ended.how())
}

/// Of one that ended before the conversation was opened: all that was kept of it.
async fn of_log(ended: EndedJob, started: &StartedCall) -> ToolOutput {
    let (store, id) = (started.store.clone(), started.conversation);
    let read = tokio::task::spawn_blocking(move || store.record(id, ended.ended)).await;
    let record = read.unwrap_or_else(|panic| Err(ReadError::Damaged(panic.to_string())));
    match record.map(|it| it.map(|it| it.event)) {
        Ok(Some(Event::JobEnded(ended))) => {
            ToolOutput::from_text(command_report::of_job(over(&ended), &ended.output))
        }
        Ok(_) => ToolOutput::refused(unknown(ended.job, started)),
        Err(error) => ToolOutput::failed(format!("[aish] tool dispatch failed: {error}")),
    }
}

fn unknown(job: JobId, started: &StartedCall) -> String {
    let known: Vec<String> = started
        .jobs
        .0
        .names()
        .iter()
        .map(JobId::to_string)
        .collect();
    let known = match known.is_empty() {
        true => "no command of it runs in the background".to_owned(),
        false => format!("there are {}", known.join(", ")),
    };
    format!("there is no {job} in this conversation: {known}")
}
