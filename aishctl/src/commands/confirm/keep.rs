//! `confirm keep`: what was tried, or what a run changed, becomes real, or a part of it. By somebody who has seen it: here, or by
//! the name of what was looked at.

use std::io::{self, BufRead as _, Write as _};

use aish_proto::changes::{ChangeSummary, ChangesDiffResult, ChangesParams, Diff};
use aish_proto::confirm::{AnswerParams, ChosenHunks, ConfirmRecord, Decision};
use aish_proto::id::ChangesId;
use clap::Args;

use super::{find, send};
use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::markdown::Colours;
use crate::render::question::{self, ArgumentExtent, hunks};
use crate::render::typed_lines::{TYPE_AHEAD, forget_typed};
use crate::safe;

/// So much of the name of a difference has to be said at least.
const LEAST_DIGITS: usize = 8;

/// What of it is kept; nothing is said: all.
#[derive(Clone, Debug, Default, Args)]
pub struct KeepSelection {
    /// Keep only this file or directory, by its absolute path or the end of it; may be given more than once
    #[arg(long, value_name = "PATH")]
    pub only: Vec<String>,
    /// Keep only these hunks of what was tried, as `changes diff --hunks` numbers them
    #[arg(
        long,
        conflicts_with = "only",
        value_name = "N,N",
        value_delimiter = ','
    )]
    pub hunks: Vec<u32>,
    /// The difference that was looked at, as `changes diff --hunks` names it; needed where nobody can be asked
    #[arg(long, requires = "hunks", value_name = "PREFIX")]
    pub difference: Option<String>,
    /// What the model is told about it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// What waits to be kept.
struct FoundChanges<'a> {
    changes: ChangesId,
    changed: &'a ChangeSummary,
    rows: String,
}

pub async fn keep(
    context: &CommandContext,
    id: &str,
    changes: Option<ChangesId>,
    part: &KeepSelection,
) -> PrintResult {
    let record = find(context, id).await?;
    let found = found(&record)?;
    if let Some(changes) = changes
        && changes != found.changes
    {
        return Err(Failure::new(
            Exit::CONFLICT,
            "it was tried again since then; look at that",
        )
        .hint(format!("aishctl confirm show {}", record.request.confirm)));
    }
    let hunks = if part.hunks.is_empty() {
        see_all(context, &record, &found, (changes, &part.only)).await?;
        None
    } else {
        Some(chosen(context, &record, found.changes, part).await?)
    };
    let only = part.only.iter();
    let params = AnswerParams {
        confirm: record.request.confirm,
        decision: Decision::Keep,
        digest: record.request.digest.clone(),
        arguments: None,
        reason: part.reason.clone().filter(|it| !it.trim().is_empty()),
        changes: Some(found.changes),
        only: only
            .map(|it| question::tried::named(found.changed, it))
            .collect(),
        hunks,
        content: None,
    };
    send(context, record.request.number, params).await
}

fn found(record: &ConfirmRecord) -> Result<FoundChanges<'_>, Failure> {
    match (&record.tried, question::changes_of(&record.request)) {
        (Some(tried), _) => Ok(FoundChanges {
            changes: tried.changes,
            changed: &tried.changed,
            rows: question::tried::rows(Some(record.request.number), tried, Colours::None)
                .join("\n"),
        }),
        (None, Some(run)) => Ok(FoundChanges {
            changes: run.changes,
            changed: &run.changed,
            rows: question::question(&record.request, ArgumentExtent::Whole),
        }),
        (None, None) => {
            let id = record.request.confirm;
            Err(Failure::new(Exit::USAGE, "it was not tried, or is settled")
                .hint(format!("aishctl confirm try {id}")))
        }
    }
}

/// Who names the trial has seen it; else it is shown here.
async fn see_all(
    context: &CommandContext,
    record: &ConfirmRecord,
    found: &FoundChanges<'_>,
    (named, only): (Option<ChangesId>, &[String]),
) -> Result<(), Failure> {
    if named.is_some() {
        return Ok(());
    }
    if context.may_prompt {
        let question = if only.is_empty() {
            "keep it?".to_owned()
        } else {
            format!("keep only {} of it?", safe::one_line(&only.join(", ")))
        };
        return ask_to_keep(found.rows.clone(), &question).await;
    }
    let (confirm, changes) = (record.request.confirm, found.changes);
    Err(
        Failure::new(Exit::USAGE, "nobody here can see what would be kept").hint(format!(
            "aishctl confirm show {confirm} shows it, and this keeps exactly that: aishctl confirm keep {confirm} --changes {changes}",
        )),
    )
}

/// These hunks of the difference that was looked at. The answer names it, so that of another one nothing is kept.
async fn chosen(
    context: &CommandContext,
    record: &ConfirmRecord,
    changes: ChangesId,
    part: &KeepSelection,
) -> Result<ChosenHunks, Failure> {
    let there = context.call::<Diff>(ChangesParams { changes }).await?;
    let confirm = record.request.confirm;
    let look = format!("aishctl changes diff {changes} --hunks");
    let all = there.hunks.len();
    if all == 0 {
        let message = "there is more than can be shown, and no hunks to choose from";
        let hint = format!("aishctl confirm keep {confirm} --only PATH");
        return Err(Failure::new(Exit::USAGE, message).hint(hint));
    }
    let shown = hunks::numbered(&there, &part.hunks).map_err(|none| {
        let message = format!("there is no hunk {none}: they are 1 to {all}");
        Failure::new(Exit::USAGE, message).hint(look.clone())
    })?;
    match part.difference.as_deref() {
        Some(prefix) if is_named(&there, prefix) => {}
        Some(_) => {
            let message = format!(
                "that is not the difference that is there (at least {LEAST_DIGITS} digits of its name)"
            );
            return Err(Failure::new(Exit::CONFLICT, message).hint(look));
        }
        None if context.may_prompt => {
            let question = format!("keep these, of {all} hunks, and nothing else?");
            ask_to_keep(shown.trim_end().to_owned(), &question).await?;
        }
        None => {
            let numbers: Vec<String> = part.hunks.iter().map(u32::to_string).collect();
            let message = "nobody here can see what would be kept";
            return Err(Failure::new(Exit::USAGE, message).hint(format!(
                "{look} numbers the hunks and names the difference, and this keeps exactly those: aishctl confirm keep {confirm} --hunks {} --difference NAME",
                numbers.join(",")
            )));
        }
    }
    Ok(ChosenHunks {
        numbers: part.hunks.clone(),
        difference: there.digest,
    })
}

fn is_named(there: &ChangesDiffResult, prefix: &str) -> bool {
    prefix.len() >= LEAST_DIGITS && there.digest.starts_with(&prefix.to_lowercase())
}

/// Asks at this terminal, below what would be kept. What was typed before the question is none of an answer.
pub(crate) async fn ask_to_keep(rows: String, question: &str) -> Result<(), Failure> {
    let text = format!("{rows}\n{question} [y/N] ");
    let asked = tokio::task::spawn_blocking(move || -> io::Result<bool> {
        let mut stderr = io::stderr().lock();
        stderr.write_all(text.as_bytes())?;
        stderr.flush()?;
        std::thread::sleep(TYPE_AHEAD);
        forget_typed();
        let mut typed = String::new();
        io::stdin().lock().read_line(&mut typed)?;
        Ok(["y", "yes"].contains(&typed.trim()))
    });
    let cannot =
        |error: &dyn std::fmt::Display| Failure::new(Exit::FAILED, format!("cannot ask: {error}"));
    match asked.await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(Failure::new(Exit::DENIED, "not kept; it still waits")),
        Ok(Err(error)) => Err(cannot(&error)),
        Err(panic) => Err(cannot(&panic)),
    }
}
