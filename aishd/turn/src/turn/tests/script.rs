//! The words of a script, and how what the turn says is written down.

use aish_proto::id::Seq;
use aishd_log::command_result::CommandResult;
use aishd_log::ending::{BoundaryFailure, CommandEnding};
use aishd_log::norris::NorrisEvent;
use aishd_model::reply::{HttpDetail, RequestFailure};

use super::super::*;
use super::call;

#[expect(clippy::too_many_lines, reason = "one arm for each word")]
pub(super) fn parse(line: &str) -> TurnInput {
    let words: Vec<&str> = line.split(' ').collect();
    let stream = |s: &str| StreamId(s.parse().unwrap());
    let said = |text: &str| Reply {
        text: text.replace('-', ""),
        ..Reply::default()
    };
    let spoken = |words: &[&str]| Reply {
        text: words.join(" ").replace('|', "\n"),
        ..Reply::default()
    };
    let http = |status, retry_after_ms, detail| RequestFailure::Http {
        status,
        message: "no".to_owned(),
        retry_after_ms,
        detail,
    };
    let failed = |id, text, failure| {
        let partial = said(text);
        let broken = Box::new(BrokenRequest {
            failure,
            partial,
            hint: None,
        });
        let eviction = Eviction {
            through: Seq(7),
            ..Eviction::default()
        };
        TurnInput::ReplyFailed(stream(id), broken, Some(Box::new(eviction)))
    };
    match words[..] {
        ["done", id, text, ref calls @ ..] => {
            let mut reply = said(text);
            reply.calls = calls.iter().map(|it| call(it)).collect();
            TurnInput::ReplyFinished(stream(id), reply)
        }
        ["says", id, ref words @ ..] => TurnInput::ReplyFinished(stream(id), spoken(words)),
        ["says-ended", id, ending, ref words @ ..] => {
            let mut reply = spoken(words);
            reply.finish = Some(match ending {
                "length" => FinishReason::Length,
                "filter" => FinishReason::ContentFilter,
                "other" => FinishReason::Other,
                "paused" => FinishReason::Paused,
                _ => FinishReason::Stop,
            });
            reply.refused = ending == "refused";
            TurnInput::ReplyFinished(stream(id), reply)
        }
        ["calls-and-says", id, called, ref words @ ..] => {
            let mut reply = spoken(words);
            reply.calls = vec![call(called)];
            TurnInput::ReplyFinished(stream(id), reply)
        }
        ["ran", id, code, output] => TurnInput::CommandEnded {
            call: id.to_owned(),
            ended: Box::new(CommandResult {
                ending: CommandEnding::Exited {
                    code: code.parse().unwrap(),
                },
                output: output.to_owned(),
                bytes: output.len() as u64,
                ms: 1,
                kept: None,
                within: BoundaryFailure::None,
                ran_in: "/w".to_owned(),
                moved: (output == "moves").then(|| ("/w".to_owned(), "/v".to_owned())),
                network: None,
                left: None,
            }),
        },
        ["length", id, text] => {
            let mut reply = said(text);
            reply.finish = Some(FinishReason::Length);
            TurnInput::ReplyFinished(stream(id), reply)
        }
        ["refusal", id, text] => {
            let mut reply = said(text);
            reply.refused = true;
            TurnInput::ReplyFinished(stream(id), reply)
        }
        ["refused", id, text] => failed(id, text, RequestFailure::Refused),
        ["cut", id, text] => failed(id, text, RequestFailure::Cut),
        ["busy", id, text, after] => {
            failed(id, text, http(429, after.parse().ok(), HttpDetail::None))
        }
        ["http", id, status, after] => {
            let status = status.parse().unwrap();
            failed(id, "-", http(status, after.parse().ok(), HttpDetail::None))
        }
        ["unpaid", id] => {
            let failure = RequestFailure::Http {
                status: 429,
                message:
                    "You exceeded your current quota, please check your plan and billing details."
                        .to_owned(),
                retry_after_ms: None,
                detail: HttpDetail::None,
            };
            failed(id, "-", failure)
        }
        ["overflow", id] => failed(id, "-", http(400, None, HttpDetail::ContextOverflow)),
        ["dropped", id, text] => TurnInput::ReplyAbandoned(stream(id), said(text)),
        ["waited", id] => TurnInput::WaitElapsed(stream(id)),
        ["tool", id, content] => TurnInput::ToolReturned {
            call: id.to_owned(),
            returned: Box::new(CallReturn {
                ok: true,
                content: content.to_owned(),
                ..CallReturn::default()
            }),
        },
        ["fail", id, content] => TurnInput::ToolReturned {
            call: id.to_owned(),
            returned: Box::new(CallReturn {
                content: content.to_owned(),
                ..CallReturn::default()
            }),
        },
        ["cancel"] => TurnInput::Stopped(StopReason::Cancelled),
        ["shutdown"] => TurnInput::Stopped(StopReason::Interrupted),
        _ => panic!("bad script line: {line}"),
    }
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind of event")]
pub(super) fn render(step: &Step) -> Vec<String> {
    let event = |event: &Event| match event {
        Event::AssistantMessage {
            item,
            text,
            calls,
            commands,
            complete,
            ..
        } => {
            let cut = if *complete { "" } else { " (cut)" };
            let proposed: String = commands
                .iter()
                .map(|it| format!(" {}={:?}", it.call, it.command))
                .collect();
            format!("= says {item} {text:?} +{}{proposed}{cut}", calls.len())
        }
        Event::ToolResult { call, content, .. } => format!("= result {call} {content:?}"),
        Event::ShellStarted { call, command, .. } => format!("= runs {call} {command:?}"),
        Event::ShellFinished {
            call,
            ending,
            output,
            given,
            ..
        } => format!("= over {call} {ending}: {output:?} {given:?}"),
        Event::CwdChanged { cwd, .. } => format!("= in {cwd}"),
        Event::Status { text, .. } => format!("= status {text}"),
        Event::Evicted(eviction) => format!("= evicted {}", eviction.through),
        Event::TurnFinished {
            stop, text, error, ..
        } => match error {
            None => format!("= ended {stop:?} {text:?}"),
            Some(error) => {
                let cause = error.cause.iter().map(|it| format!(" <- {it}"));
                let cause: String = cause.collect();
                format!("= ended {stop:?} {text:?} {}{cause}", error.message)
            }
        },
        Event::ToolStarted {
            call, arguments, ..
        } => match arguments.split_once("id") {
            Some(_) => format!("= started {call}"),
            None => format!("= started {call} {arguments}"),
        },
        Event::Norris(event) => match event {
            NorrisEvent::StepBegun { step, .. } => format!("= norris step {step}"),
            NorrisEvent::Nudged { .. } => "= norris nudged".to_owned(),
            NorrisEvent::Paused { pause, .. } => format!("= norris paused {pause:?}"),
            NorrisEvent::Resumed => "= norris resumed".to_owned(),
            NorrisEvent::Ended {
                outcome,
                reason,
                step,
                ..
            } => format!("= norris {outcome:?} {reason:?} after {step}"),
            NorrisEvent::Launched(_) => panic!("a turn does not launch itself"),
        },
        Event::FellBack {
            from, to, status, ..
        } => format!("= fell back {from} {to} {status:?}"),
        Event::ConfirmRequested(confirm) => {
            format!(
                "= asks c{} about {}",
                confirm.number,
                confirm.call().unwrap().id
            )
        }
        Event::ConfirmResolved(resolution) => {
            format!(
                "= {:?} c{}",
                resolution.fate,
                resolution.confirm.to_bytes()[0]
            )
        }
        other => panic!("a turn does not say {other:?}"),
    };
    let effect = |effect: &Effect| match effect {
        Effect::OpenStream(id) => format!("> open {}", id.0),
        Effect::OpenFallback(id) => format!("> fallback {}", id.0),
        Effect::Wait(id, pause) => format!("> wait {} {pause:?}", id.0),
        Effect::CallTool { call, .. } => format!("> call {call}"),
        Effect::RunCommand { call, .. } => format!("> run {call}"),
        Effect::Abandon => "> abandon".to_owned(),
        Effect::Judge { .. } => String::new(),
    };
    let events = step.events.iter().map(event);
    let said = events.chain(step.effects.iter().map(effect));
    said.filter(|it| !it.is_empty()).collect()
}
