use aish_proto::id::Seq;

use super::*;
use crate::core::reply::HttpDetail;

/// Plays a script of inputs and renders what the turn said, one line per event or effect.
#[track_caller]
fn check(script: &[&str], expected: &[&str]) {
    let (mut turn, first) = Turn::start(/*max_depth*/ 3);
    let mut seen = render(&first);
    for line in script {
        seen.extend(render(&turn.handle(parse(line))));
    }
    assert_eq!(expected, seen, "\nscript: {script:#?}");
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.trim_end_matches('!').to_owned(),
        name: "t__x".to_owned(),
        arguments: "{}".to_owned(),
        broken: id.ends_with('!').then(|| "column 1".to_owned()),
        extra: serde_json::Map::new(),
    }
}

fn parse(line: &str) -> Input {
    let words: Vec<&str> = line.split(' ').collect();
    let stream = |s: &str| StreamId(s.parse().unwrap());
    let said = |text: &str| Reply {
        text: text.replace('-', ""),
        ..Reply::default()
    };
    let http = |status, retry_after_ms, detail| Failure::Http {
        status,
        message: "no".to_owned(),
        retry_after_ms,
        detail,
    };
    let failed = |id, text, failure| {
        let partial = said(text);
        let broken = Box::new(Broken { failure, partial });
        Input::ReplyFailed(stream(id), broken, Some(Seq(7)))
    };
    match words[..] {
        ["done", id, text, ref calls @ ..] => {
            let mut reply = said(text);
            reply.calls = calls.iter().map(|it| call(it)).collect();
            Input::ReplyFinished(stream(id), reply)
        }
        ["length", id, text] => {
            let mut reply = said(text);
            reply.finish = Some(Finish::Length);
            Input::ReplyFinished(stream(id), reply)
        }
        ["refusal", id, text] => {
            let mut reply = said(text);
            reply.refused = true;
            Input::ReplyFinished(stream(id), reply)
        }
        ["refused", id, text] => failed(id, text, Failure::Refused),
        ["cut", id, text] => failed(id, text, Failure::Cut),
        ["busy", id, text, after] => {
            failed(id, text, http(429, after.parse().ok(), HttpDetail::None))
        }
        ["overflow", id] => failed(id, "-", http(400, None, HttpDetail::ContextOverflow)),
        ["dropped", id, text] => Input::ReplyAbandoned(stream(id), said(text)),
        ["waited", id] => Input::WaitElapsed(stream(id)),
        ["tool", id, content] => Input::ToolReturned {
            call: id.to_owned(),
            ok: true,
            content: content.to_owned(),
        },
        ["cancel"] => Input::Stopped(Stop::Cancelled),
        ["shutdown"] => Input::Stopped(Stop::Interrupted),
        _ => panic!("bad script line: {line}"),
    }
}

fn render(step: &Step) -> Vec<String> {
    let event = |event: &Event| match event {
        Event::AssistantMessage {
            item,
            text,
            calls,
            complete,
            ..
        } => {
            let cut = if *complete { "" } else { " (cut)" };
            format!("= says {item} {text:?} +{}{cut}", calls.len())
        }
        Event::ToolResult { call, content, .. } => format!("= result {call} {content:?}"),
        Event::Status { text, .. } => format!("= status {text}"),
        Event::Evicted { through } => format!("= evicted {through}"),
        Event::TurnFinished {
            stop, text, error, ..
        } => match error {
            None => format!("= ended {stop:?} {text:?}"),
            Some(error) => format!("= ended {stop:?} {text:?} {}", error.message),
        },
        other @ (Event::Created { .. }
        | Event::UserMessage { .. }
        | Event::TurnQueued { .. }
        | Event::TurnStarted { .. }
        | Event::ModelChanged { .. }
        | Event::Renamed { .. }
        | Event::ArchivedChanged { .. }) => panic!("a turn does not say {other:?}"),
    };
    let effect = |effect: &Effect| match effect {
        Effect::OpenStream(id) => format!("> open {}", id.0),
        Effect::Wait(id, pause) => format!("> wait {} {pause:?}", id.0),
        Effect::CallTool(call) => format!("> call {}", call.id),
        Effect::Abandon => "> abandon".to_owned(),
    };
    let events = step.events.iter().map(event);
    events.chain(step.effects.iter().map(effect)).collect()
}

#[test]
fn a_plain_answer_ends_the_turn() {
    check(
        &["done 0 hi"],
        &["> open 0", "= says 0 \"hi\" +0", "= ended End \"hi\""],
    );
    check(
        &["length 0 hi"],
        &["> open 0", "= says 0 \"hi\" +0", "= ended MaxTokens \"hi\""],
    );
    check(
        &["refusal 0 no"],
        &["> open 0", "= says 0 \"no\" +0", "= ended Refusal \"no\""],
    );
}

#[test]
fn a_failure_keeps_what_arrived_and_says_why() {
    check(
        &["refused 0 -"],
        &[
            "> open 0",
            "= ended Upstream \"\" transport: Connection refused",
        ],
    );
    check(
        &["cut 0 half"],
        &[
            "> open 0",
            "= says 0 \"half\" +0 (cut)",
            "= ended Upstream \"half\" transport: the stream was cut before its end",
        ],
    );
}

#[test]
fn a_short_retry_after_is_waited_for_once_and_only_before_any_text() {
    let first = "= status transport: HTTP 429: no; trying again in 2 s";
    check(
        &["busy 0 - 2000", "waited 1", "busy 1 - 2000"],
        &[
            "> open 0",
            first,
            "> wait 1 2s",
            "> open 1",
            "= ended Upstream \"\" transport: HTTP 429: no",
        ],
    );
    check(
        &["busy 0 - 20001"],
        &["> open 0", "= ended Upstream \"\" transport: HTTP 429: no"],
    );
    check(
        &["busy 0 half 2000"],
        &[
            "> open 0",
            "= says 0 \"half\" +0 (cut)",
            "= ended Upstream \"half\" transport: HTTP 429: no",
        ],
    );
    check(
        &["busy 0 - 2000", "cancel", "waited 1"],
        &[
            "> open 0",
            first,
            "> wait 1 2s",
            "= ended Cancelled \"\"",
            "> abandon",
        ],
    );
}

#[test]
fn a_full_context_is_evicted_once() {
    check(
        &["overflow 0", "overflow 1"],
        &[
            "> open 0",
            "= evicted 7",
            "= status the context is full; the older half of the conversation left it and stays in the log",
            "> open 1",
            "= ended Upstream \"\" transport: HTTP 400: no",
        ],
    );
}

#[test]
fn calls_run_one_after_the_other_and_then_the_model_is_asked_again() {
    check(
        &["done 0 look a b", "tool a ok", "tool b ok", "done 16 fine"],
        &[
            "> open 0",
            "= says 0 \"look\" +2",
            "> call a",
            "= result a \"ok\"",
            "> call b",
            "= result b \"ok\"",
            "> open 16",
            "= says 1 \"fine\" +0",
            "= ended End \"fine\"",
        ],
    );
}

#[test]
fn a_call_with_broken_arguments_never_runs_and_is_answered() {
    check(
        &["done 0 - a! b", "tool b ok"],
        &[
            "> open 0",
            "= says 0 \"\" +2",
            "= result a \"[aish] tool arguments not parseable as JSON: column 1\"",
            "> call b",
            "= result b \"ok\"",
            "> open 16",
        ],
    );
}

#[test]
fn depth_is_bounded() {
    check(
        &[
            "done 0 - a",
            "tool a ok",
            "done 16 - b",
            "tool b ok",
            "done 32 so c",
            "tool c ok",
        ],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "> call a",
            "= result a \"ok\"",
            "> open 16",
            "= says 1 \"\" +1",
            "> call b",
            "= result b \"ok\"",
            "> open 32",
            "= says 2 \"so\" +1",
            "> call c",
            "= result c \"ok\"",
            "= status tool-call depth limit reached (3)",
            "= ended ToolDepth \"so\"",
        ],
    );
}

#[test]
fn a_cancel_while_streaming_keeps_the_text_and_ends_once_it_is_known() {
    check(
        &["cancel", "cancel", "dropped 0 half", "done 0 late"],
        &[
            "> open 0",
            "> abandon",
            "= says 0 \"half\" +0 (cut)",
            "= ended Cancelled \"half\"",
        ],
    );
    check(
        &["cancel", "dropped 0 -"],
        &["> open 0", "> abandon", "= ended Cancelled \"\""],
    );
    check(
        &["shutdown", "dropped 0 half"],
        &[
            "> open 0",
            "> abandon",
            "= says 0 \"half\" +0 (cut)",
            "= ended Interrupted \"half\"",
        ],
    );
}

#[test]
fn a_cancel_that_meets_the_end_of_the_stream_runs_nothing() {
    check(
        &["cancel", "done 0 hi a"],
        &[
            "> open 0",
            "> abandon",
            "= says 0 \"hi\" +1",
            "= result a \"[aish] cancelled by the user\"",
            "= ended Cancelled \"hi\"",
        ],
    );
    check(
        &["cancel", "refused 0 -"],
        &["> open 0", "> abandon", "= ended Cancelled \"\""],
    );
}

#[test]
fn a_cancel_answers_every_open_call() {
    check(
        &["done 0 - a b", "cancel", "tool a late"],
        &[
            "> open 0",
            "= says 0 \"\" +2",
            "> call a",
            "= result a \"[aish] cancelled by the user\"",
            "= result b \"[aish] cancelled by the user\"",
            "= ended Cancelled \"\"",
            "> abandon",
        ],
    );
}

#[test]
fn late_input_changes_nothing() {
    check(
        &[
            "done 0 - a",
            "done 0 again",
            "waited 0",
            "tool z no",
            "tool a ok",
            "dropped 0 x",
        ],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "> call a",
            "= result a \"ok\"",
            "> open 16",
        ],
    );
}
