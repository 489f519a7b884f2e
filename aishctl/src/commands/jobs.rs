//! `jobs`: commands that go on in the background of conversations.

use std::time::SystemTime;

use aish_proto::id::{ConversationId, JobId};
use aish_proto::job::{
    Job, JobParams, JobStopper, JobsListParams, JobsListResult, List, Output, Stop,
};
use clap::Subcommand;

use crate::command_output::PrintResult;
use crate::commands::changes;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::ago::{ago, now};
use crate::render::command_frame::how_it_ended;
use crate::render::table;
use crate::safe;

const COMMAND_WIDTH: usize = 60;
const TITLE_WIDTH: usize = 24;

#[derive(Clone, Debug, Subcommand)]
pub enum JobsCommand {
    /// Those of this conversation, or all that run
    #[command(alias = "list")]
    Ls,
    /// What one has printed
    Output {
        #[arg(value_name = "JOB")]
        job: JobId,
    },
    /// End one, with all that it started
    Stop {
        #[arg(value_name = "JOB")]
        job: JobId,
    },
}

pub async fn run(context: &CommandContext, command: Option<&JobsCommand>) -> PrintResult {
    match command {
        None | Some(JobsCommand::Ls) => {
            let conversation = changes::here(context).await?;
            let result = context
                .call::<List>(JobsListParams { conversation })
                .await?;
            context.print(&result, || listed(&result, now()))
        }
        Some(JobsCommand::Output { job }) => {
            let params = named(context, *job, false).await?;
            let result = context.call::<Output>(params).await?;
            context.print(&result, || {
                let mut text = String::new();
                if result.before > 0 {
                    text.push_str(&format!("… {} bytes before this\n", result.before));
                }
                text.push_str(&safe::screen(&result.output));
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str(&format!("{}\n", line(&result.job)));
                text
            })
        }
        Some(JobsCommand::Stop { job }) => {
            let params = named(context, *job, true).await?;
            let result = context.call::<Stop>(params).await?;
            context.print(&result, || {
                if result.stopped {
                    format!("stopped {job}\n")
                } else {
                    format!("{job} had ended already\n")
                }
            })
        }
    }
}

/// Jobs of a conversation that run.
pub async fn running(
    context: &CommandContext,
    conversation: ConversationId,
) -> Result<Vec<Job>, Failure> {
    let conversation = Some(conversation);
    let result = context.call::<List>(JobsListParams { conversation });
    let mut jobs = result.await?.jobs;
    jobs.retain(|it| it.ended.is_none());
    Ok(jobs)
}

/// One by its name: in the conversation that was named, else in the one that is meant here, else where alone such a one runs. Each
/// conversation has a first, so none is stopped that somebody may not have meant.
async fn named(context: &CommandContext, job: JobId, is_stop: bool) -> Result<JobParams, Failure> {
    if let Some(conversation) = changes::here(context).await? {
        return Ok(JobParams { conversation, job });
    }
    // There may be none that is meant.
    if let Ok(here) = context.meant(None).await {
        let conversation = Some(here.id);
        let ours = context
            .call::<List>(JobsListParams { conversation })
            .await?;
        if ours.jobs.iter().any(|it| it.job == job) {
            let conversation = here.id;
            return Ok(JobParams { conversation, job });
        }
    }
    let all = context
        .call::<List>(JobsListParams { conversation: None })
        .await?;
    let mut found = all.jobs.iter().filter(|it| it.job == job);
    let conversation = match (found.next(), found.next()) {
        (Some(one), None) if is_stop => {
            let why = format!("{job} runs in another conversation: {}", one.title);
            return Err(Failure::new(Exit::USAGE, why)
                .hint(format!("aishctl jobs stop {job} -C {}", one.conversation)));
        }
        (Some(one), None) => one.conversation,
        (Some(_), Some(_)) => {
            let why = format!("a {job} runs in more than one conversation");
            return Err(Failure::new(Exit::USAGE, why).hint(format!(
                "aishctl jobs; aishctl jobs … {job} -C CONVERSATION"
            )));
        }
        (None, _) => context.meant(None).await?.id,
    };
    Ok(JobParams { conversation, job })
}

fn listed(result: &JobsListResult, now: SystemTime) -> String {
    if result.jobs.is_empty() {
        return "nothing runs in the background\n".to_owned();
    }
    let rows: Vec<Vec<String>> = result.jobs.iter().map(|it| row(it, now)).collect();
    table::columns(&["job", "since", "state", "in", "command"], &rows)
}

fn row(job: &Job, now: SystemTime) -> Vec<String> {
    vec![
        job.job.to_string(),
        ago(&job.started_at, now),
        state(job),
        table::cut(&job.title, TITLE_WIDTH),
        table::cut(&job.command, COMMAND_WIDTH),
    ]
}

fn line(job: &Job) -> String {
    let command = table::cut(&job.command, COMMAND_WIDTH);
    let mut line = format!("{} {} — {command}", job.job, state(job));
    if let Some(kept) = job.ended.as_ref().and_then(|it| it.kept.as_ref()) {
        let bytes = kept.bytes;
        line.push_str(&format!(
            "; all of it, {bytes} bytes: aishctl result {}",
            kept.result
        ));
    }
    line
}

fn state(job: &Job) -> String {
    let Some(end) = &job.ended else {
        return "runs".to_owned();
    };
    match end.stopped_by {
        None => how_it_ended(end.ending, end.exit_code, end.signal, end.ms, ", "),
        Some(JobStopper::Model) => "stopped by the model".to_owned(),
        Some(JobStopper::Person) => "stopped".to_owned(),
        Some(JobStopper::Turn) => "stopped with its turn".to_owned(),
        Some(JobStopper::Daemon) => "ended with the daemon".to_owned(),
    }
}
