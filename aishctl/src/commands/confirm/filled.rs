//! `confirm allow` of a form: filled in by options, or by the person at this terminal, field by field.

use std::io::{self, BufRead as _, Read as _, Write as _};

use aish_proto::confirm::{AnswerParams, ConfirmRecord, ConfirmState, Decision};

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::commands::confirm::{check_seen, send};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::question;
use crate::render::question::ConsentWord;
use crate::render::question::form::{self, FormAnswers};
use crate::render::terminal_prompt::{PromptQuestion, PromptReaction};
use crate::render::typed_lines::{TYPE_AHEAD, forget_typed};

/// More than the daemon takes in a line.
const CONTENT_BYTES: u64 = 1 << 20;

/// With what standard input says, where that is asked for.
pub(super) fn read(given: &FormAnswers) -> Result<FormAnswers, Failure> {
    let mut given = given.clone();
    if given.content.as_deref() == Some("-") {
        let mut text = String::new();
        let read = io::stdin()
            .lock()
            .take(CONTENT_BYTES)
            .read_to_string(&mut text);
        read.map_err(|error| {
            Failure::new(Exit::FAILED, format!("cannot read the content: {error}"))
        })?;
        given.content = Some(text);
    }
    Ok(given)
}

pub(super) async fn allow(
    context: &CommandContext,
    record: &ConfirmRecord,
    decision: Decision,
    digest: Option<&str>,
    given: &FormAnswers,
) -> PrintResult {
    let request = &record.request;
    if decision != Decision::AllowOnce {
        return Err(Failure::new(Exit::USAGE, "a form is filled in once")
            .hint("the same without --always, --provider and --raise"));
    }
    let fields = form::fields(request);
    if record.state != ConfirmState::Pending {
        return crate::commands::confirm::answer(context, record, decision, None, None).await;
    }
    let asks = given.is_empty() && !fields.is_empty();
    if asks && !context.may_prompt {
        let hint = question::commands(request);
        let hint = hint.lines().next().unwrap_or_default().trim().to_owned();
        return Err(Failure::new(Exit::USAGE, "the form has to be filled in").hint(hint));
    }
    let params = if asks {
        let shown = record.clone();
        let dialog = tokio::task::spawn_blocking(move || dialog(&shown)).await;
        let cannot = |error: String| Failure::new(Exit::FAILED, format!("cannot ask: {error}"));
        let asked = dialog.map_err(|panic| cannot(panic.to_string()))?;
        let left = || {
            Failure::new(Exit::DENIED, "nothing was sent; it still waits").hint(format!(
                "aishctl confirm deny {} ends that",
                request.confirm
            ))
        };
        asked
            .map_err(|error| cannot(error.to_string()))?
            .ok_or_else(left)?
    } else {
        let content = given.content(fields)?;
        check_seen(context, record, digest).await?;
        AnswerParams {
            confirm: request.confirm,
            decision,
            digest: request.digest.clone(),
            arguments: None,
            reason: None,
            changes: None,
            only: vec![],
            hunks: None,
            content: (!given.is_empty()).then_some(content),
        }
    };
    send(context, request.number, params).await
}

/// Asks for one field after the other. Nothing: the terminal was closed, or the person went back behind the first field.
fn dialog(record: &ConfirmRecord) -> io::Result<Option<AnswerParams>> {
    let mut stderr = io::stderr().lock();
    let mut question = PromptQuestion::new(record.request.clone());
    let shown = question.show();
    // The line of what can be answered: that it is to be filled in was said by the command.
    let shown = shown.rsplit_once('\n').map_or("", |(all, _)| all);
    writeln!(stderr, "{shown}")?;
    let mut reaction = question.take(ConsentWord::Decide(Decision::AllowOnce, None));
    let mut first = true;
    loop {
        match reaction {
            PromptReaction::Say(_) if !question.is_filled_in() => return Ok(None),
            PromptReaction::Say(text) => stderr.write_all(text.as_bytes())?,
            PromptReaction::Answer(params) => return Ok(Some(*params)),
            PromptReaction::Edit(_)
            | PromptReaction::Try(_)
            | PromptReaction::Diff(_)
            | PromptReaction::Choose(_)
            | PromptReaction::Hunk(..)
            | PromptReaction::SignIn(..) => {
                return Ok(None);
            }
        }
        stderr.flush()?;
        if first {
            std::thread::sleep(TYPE_AHEAD);
            forget_typed();
            first = false;
        }
        let mut typed = String::new();
        if io::stdin().lock().read_line(&mut typed)? == 0 {
            return Ok(None);
        }
        reaction = question.line(&typed);
    }
}
