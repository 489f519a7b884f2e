//! What the calls of a list gave, in the order of the list: for people, or as one object.

use aish_proto::confirm::Denial;
use aish_proto::event::ToolResult;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::kept::{ReadResult, ReadResultParams};
use aish_proto::turn::StopReason;
use serde::Serialize;
use tokio::io::AsyncWrite;

use crate::client::connect::RpcCallError;
use crate::client::daemon_link::DaemonWait;
use crate::commands::ask::{AskContext, stopped_by};
use crate::commands::follow::FollowOutcome;
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::render::output::{OutputForm, ReportedError};

/// The object of `tools run --json`.
#[derive(Serialize)]
struct ToolRunReport<'a> {
    v: u32,
    conversation: ConversationId,
    turn: TurnId,
    results: Vec<ReportedCall<'a>>,
    succeeded: usize,
    denied: u32,
    ms: u64,
    stop_reason: Option<StopReason>,
    error: Option<ReportedError>,
}

#[derive(Serialize)]
struct ReportedCall<'a> {
    id: &'a str,
    name: &'a str,
    ok: bool,
    content: &'a str,
    denied: Option<Denial>,
    /// Null: it did not run to an end.
    ms: Option<u64>,
}

/// Prints the results; the exit code says whether all calls succeeded.
pub(super) async fn finish<O: AsyncWrite + Unpin>(
    asker: &mut AskContext<'_, O>,
    conversation: ConversationId,
    followed: FollowOutcome,
    ids: &[String],
) -> Result<Exit, Failure> {
    let FollowOutcome {
        mut answer,
        stopped,
        stuck,
        link: _,
    } = followed;
    if let (true, Some(exit)) = (stuck, stopped) {
        return Ok(exit);
    }
    let place = |it: &ToolResult| ids.iter().position(|id| *id == it.call);
    answer.results.sort_by_key(place);
    whole(asker, conversation, &mut answer.results).await?;
    let ended = answer.ended.as_ref();
    let done = match (stopped, ended) {
        (Some(exit), _) => stopped_by(exit),
        (None, Some(ended)) => outcome(
            conversation,
            ended.stop_reason,
            &ended.text,
            &answer.results,
        ),
        (None, None) => Err(
            Failure::new(Exit::FAILED, "the list did not end").hint(format!(
                "aishctl log {conversation} shows what there is of it"
            )),
        ),
    };
    let written = match asker.output.form {
        OutputForm::Json => {
            let report = ToolRunReport {
                v: 1,
                conversation,
                turn: answer.turn,
                results: answer.results.iter().map(reported).collect(),
                succeeded: answer.results.iter().filter(|it| it.ok).count(),
                denied: answer.denied,
                ms: u64::try_from(asker.began.elapsed().as_millis()).unwrap_or(u64::MAX),
                stop_reason: ended.map(|it| it.stop_reason),
                error: done.as_ref().err().map(|it| ReportedError {
                    class: if it.exit == Exit::DENIED {
                        "denied"
                    } else {
                        "failed"
                    }
                    .to_owned(),
                    message: it.message.clone(),
                    cause: None,
                    hint: it.hint.clone(),
                }),
            };
            asker.output.reported = true;
            let line = serde_json::to_string(&report).map_err(std::io::Error::from);
            match line {
                Ok(line) => asker.output.json_line(&line).await,
                Err(error) => Err(error),
            }
        }
        OutputForm::Events => Ok(()),
        OutputForm::Results
        | OutputForm::Text
        | OutputForm::Code
        | OutputForm::Commands
        | OutputForm::Line => asker.output.as_it_is(&table(&answer.results)).await,
    };
    written.map_err(|it| Failure::output(&it))?;
    done
}

/// Reads what the log keeps whole of results that were too long for a context.
async fn whole<O: AsyncWrite + Unpin>(
    asker: &AskContext<'_, O>,
    conversation: ConversationId,
    results: &mut [ToolResult],
) -> Result<(), Failure> {
    if asker.output.form == OutputForm::Events || results.iter().all(|it| it.kept.is_none()) {
        return Ok(());
    }
    let link = asker.reach.open(DaemonWait::UntilBack).await?;
    for it in results {
        let Some(kept) = it.kept else { continue };
        let mut text = String::new();
        while (text.len() as u64) < kept.bytes {
            let params = ReadResultParams {
                conversation,
                result: kept.result,
                offset: text.len() as u64,
                bytes: None,
            };
            let read: Result<_, RpcCallError> = link.caller.call::<ReadResult>(params).await;
            let part = read?.text;
            if part.is_empty() {
                break;
            }
            text.push_str(&part);
        }
        it.content = text;
    }
    Ok(())
}

/// How the program ends after a list ended like this.
fn outcome(
    conversation: ConversationId,
    reason: StopReason,
    text: &str,
    results: &[ToolResult],
) -> Result<Exit, Failure> {
    let denied = results.iter().any(|it| it.denied.is_some());
    let (exit, message) = match reason {
        StopReason::End if results.iter().all(|it| it.ok) => return Ok(Exit::DONE),
        StopReason::End if denied => (Exit::DENIED, text),
        StopReason::End => (Exit::FAILED, text),
        StopReason::Cancelled => (
            exit::of_turn(reason, None),
            "the list was cancelled elsewhere",
        ),
        StopReason::Denied => (exit::of_turn(reason, None), "the list was ended by a no"),
        StopReason::Interrupted => (
            exit::of_turn(reason, None),
            "the list was interrupted: aishd ended while it ran",
        ),
        _ => (exit::of_turn(reason, None), "the list did not end well"),
    };
    let stopped = [
        StopReason::Cancelled,
        StopReason::Denied,
        StopReason::Interrupted,
    ];
    let hint = if stopped.contains(&reason) {
        format!("aishctl continue {conversation}   runs the calls that never began")
    } else {
        format!("aishctl log {conversation}")
    };
    Err(Failure::new(exit, message).hint(hint))
}

fn reported(result: &ToolResult) -> ReportedCall<'_> {
    ReportedCall {
        id: &result.call,
        name: &result.name,
        ok: result.ok,
        content: &result.content,
        denied: result.denied,
        ms: result.ms,
    }
}

/// A row for each call, and below it what the call gave.
fn table(results: &[ToolResult]) -> String {
    let mut text = String::new();
    for it in results {
        let how = match (it.ok, it.denied, it.ms) {
            (true, _, Some(ms)) => format!("{ms} ms"),
            (true, _, None) => "ok".to_owned(),
            (false, Some(_), _) => "denied".to_owned(),
            (false, None, Some(ms)) => format!("failed after {ms} ms"),
            (false, None, None) => "no result".to_owned(),
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{} {} · {how}\n{}", it.call, it.name, it.content));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_daemon;

    fn result(call: &str, ok: bool, denied: Option<Denial>, ms: Option<u64>) -> ToolResult {
        ToolResult {
            call: call.to_owned(),
            name: "t__x".to_owned(),
            ok,
            content: format!("{call}!"),
            denied,
            ms,
            kept: None,
            blocks: vec![],
            structured: None,
        }
    }

    #[track_caller]
    fn check(reason: StopReason, results: &[ToolResult], expected: u8, says: &str) {
        let (exit, said) = match outcome(test_daemon::conversation(), reason, "1 of 2", results) {
            Ok(exit) => (exit, String::new()),
            Err(failure) => (failure.exit, failure.render("aishctl")),
        };
        assert_eq!(expected, exit.code(), "{said}");
        assert!(said.contains(says), "{said}");
    }

    #[test]
    fn the_exit_code_says_whether_all_calls_succeeded() {
        let good = result("a", true, None, Some(3));
        let failed = result("b", false, None, Some(5));
        let denied = result("c", false, Some(Denial::Person), None);
        let barred = result("d", false, None, None);
        check(StopReason::End, std::slice::from_ref(&good), 0, "");
        check(
            StopReason::End,
            &[good.clone(), failed.clone(), barred.clone()],
            1,
            "aishctl: 1 of 2\nhint: aishctl log ",
        );
        check(
            StopReason::End,
            &[good.clone(), denied.clone(), barred.clone()],
            3,
            "1 of 2",
        );
        check(
            StopReason::Interrupted,
            std::slice::from_ref(&barred),
            1,
            "hint: aishctl continue ",
        );
        check(
            StopReason::Denied,
            std::slice::from_ref(&denied),
            3,
            "aishctl continue ",
        );
        assert_eq!(
            "a t__x · 3 ms\na!\n\nb t__x · failed after 5 ms\nb!\n\nc t__x · denied\nc!\n\nd t__x · no result\nd!\n",
            table(&[good, failed, denied, barred])
        );
    }
}
