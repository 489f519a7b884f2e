use std::sync::Arc;

use aish_proto::id::ConfirmId;
use aishd_log::access::Access;
use aishd_log::confirm::{
    CallSubject, ConfirmCall, ConfirmFate, ConfirmSubject, Decision, Denial, Resolution,
};
use aishd_log::event::RefusedCall;
use aishd_log::tool::ContentDigest;
use aishd_rules::gate::{AdmittedCall, AdmittedCommand, CallJudgement, CallPace};

use super::*;
use crate::log_samples::tool;
use crate::rules_samples::setting;

mod autonomous;
mod commands;
mod fall_back;
mod lists;
mod rounds;
mod script;

use script::{parse, render};

/// Plays a script of inputs and renders what the turn said, one line per event or effect. The gate answers by
/// itself, by what stands behind a call's id: `a` runs, `a~` runs and only reads, `a?` is asked about, `a-` is
/// denied by policy; `a$ls` proposes a command.
#[track_caller]
fn check(script: &[&str], expected: &[&str]) {
    let mut scene = Scene::start();
    for line in script {
        scene.play(line);
    }
    assert_eq!(expected, scene.seen, "\nscript: {script:#?}");
}

struct Scene {
    turn: Turn,
    seen: Vec<String>,
    events: Vec<Event>,
    confirms: u32,
    /// Another command runs in the conversation.
    busy: bool,
}

impl Scene {
    fn start() -> Self {
        Self::with_depth(3)
    }

    fn with_depth(max_depth: u32) -> Self {
        let (turn, first) = Turn::start(max_depth);
        let mut scene = Self {
            turn,
            seen: vec![],
            events: vec![],
            confirms: 0,
            busy: false,
        };
        scene.take(first);
        scene
    }

    fn play(&mut self, line: &str) {
        let input = match line.split(' ').collect::<Vec<_>>()[..] {
            ["answer", decision, ref rest @ ..] => self.answer(decision, &rest.join(" ")),
            ["busy"] => return self.busy = true,
            ["freed"] => {
                self.busy = false;
                TurnInput::Freed
            }
            [..] => parse(line),
        };
        let step = self.turn.handle(input);
        self.take(step);
    }

    fn judge_command(
        &mut self,
        proposed: &CommandProposal,
        approved: Option<ContentDigest>,
    ) -> CallJudgement {
        let digest = ContentDigest::of(proposed.command.as_bytes());
        let may_run = approved == Some(digest) || proposed.command.starts_with("always");
        if self.busy && may_run {
            return CallJudgement::Later;
        }
        if approved == Some(digest) || proposed.command.starts_with("always") {
            return CallJudgement::Execute(Box::new(AdmittedCommand {
                command: proposed.command.clone(),
                setting: Arc::new(setting(&[], "/w")),
                digest,
                rule: "approved".to_owned(),
            }));
        }
        if proposed.command.starts_with("denied") {
            return CallJudgement::Refuse {
                denial: Some(Denial::Policy),
                content: "policy".to_owned(),
                refused: RefusedCall::default(),
            };
        }
        self.confirms += 1;
        let stand_in = ToolCall {
            id: proposed.call.clone(),
            ..call("a?")
        };
        let mut confirm = confirm(self.confirms, &stand_in);
        confirm.digest = digest;
        CallJudgement::Ask(Box::new(confirm))
    }

    fn take(&mut self, step: Step) {
        self.seen.extend(render(&step));
        self.events.extend(step.events);
        for effect in step.effects {
            if let Effect::Judge { owing, approved } = effect {
                let judged = owing.iter().enumerate();
                let judged = judged.map(|(at, it)| self.judge(it, approved.filter(|_| at == 0)));
                let judged = judged.collect();
                let step = self.turn.handle(TurnInput::Judged(judged));
                self.take(step);
            }
        }
    }

    fn judge(&mut self, owing: &OwedReplies, approved: Option<ContentDigest>) -> CallJudgement {
        let call = match owing {
            OwedReplies::Call(call) => call,
            OwedReplies::Command(proposed) | OwedReplies::CalledCommand(proposed) => {
                return self.judge_command(proposed, approved);
            }
        };
        let go = |rule: &str| {
            CallJudgement::Run(AdmittedCall {
                tool: Arc::new(tool("t__x", Access::Write)),
                arguments: serde_json::from_str(&call.arguments).unwrap(),
                digest: digest(call),
                rule: rule.to_owned(),
                allowance: None,
                binds: None,
                pace: if call.name == "t__reads" {
                    CallPace::Beside
                } else {
                    CallPace::Alone
                },
            })
        };
        match call.name.as_str() {
            "t__runs" | "t__reads" => go("rule"),
            "t__asks" if approved == Some(digest(call)) => go("approved"),
            "t__asks" => {
                self.confirms += 1;
                CallJudgement::Ask(Box::new(confirm(self.confirms, call)))
            }
            "t__denied" => CallJudgement::Refuse {
                denial: Some(Denial::Policy),
                content: "policy".to_owned(),
                refused: RefusedCall::default(),
            },
            _ => CallJudgement::Refuse {
                denial: None,
                content: "broken".to_owned(),
                refused: RefusedCall::default(),
            },
        }
    }

    /// An answer to the open confirm, or to one that nobody knows.
    fn answer(&self, decision: &str, text: &str) -> TurnInput {
        let open = self.turn.asking();
        let mut answer = ConfirmEnd {
            resolution: Resolution {
                confirm: open.map_or(ConfirmId::from_bytes([9; 16]), |it| it.id),
                fate: ConfirmFate::Allowed,
                decision: None,
                by: None,
                reason: (!text.is_empty()).then(|| text.to_owned()),
                edited: None,
                only: vec![],
                hunks: None,
                waited_ms: None,
                approved: vec![],
            },
            raised: None,
            digest: open.map_or(ContentDigest([0; 32]), |it| it.digest),
        };
        let resolution = &mut answer.resolution;
        let (fate, decision) = match decision {
            "yes" => (ConfirmFate::Allowed, Some(Decision::AllowOnce)),
            "no" => (ConfirmFate::Denied, Some(Decision::Deny)),
            "abort" => (ConfirmFate::Denied, Some(Decision::Abort)),
            "expired" => (ConfirmFate::Expired, None),
            "withdrawn" => (ConfirmFate::Cancelled, None),
            "edit" => {
                resolution.edited = Some(text.to_owned());
                let command = command_of(text);
                answer.digest = ContentDigest::of(command.as_deref().unwrap_or(text).as_bytes());
                (ConfirmFate::Allowed, Some(Decision::Edit))
            }
            "other-digest" => {
                answer.digest = ContentDigest([1; 32]);
                (ConfirmFate::Allowed, Some(Decision::AllowOnce))
            }
            _ => panic!("bad answer {decision}"),
        };
        (resolution.fate, resolution.decision) = (fate, decision);
        TurnInput::Answered(Box::new(answer))
    }
}

fn digest(call: &ToolCall) -> ContentDigest {
    ContentDigest::of(call.arguments.as_bytes())
}

fn call(id: &str) -> ToolCall {
    if let Some((id, command)) = id.split_once('$') {
        return ToolCall {
            id: id.to_owned(),
            name: "shell__run".to_owned(),
            arguments: format!("{{\"command\":\"{command}\"}}"),
            broken: None,
            extra: serde_json::Map::new(),
        };
    }
    let (name, broken) = match id.chars().last() {
        Some('!') => ("t__x", Some("column 1".to_owned())),
        Some('?') => ("t__asks", None),
        Some('~') => ("t__reads", None),
        Some('-') => ("t__denied", None),
        Some(_) | None => ("t__runs", None),
    };
    let id = id.trim_end_matches(['!', '?', '~', '-']);
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: format!("{{\"id\":\"{}\"}}", id.trim_end_matches(char::is_numeric)),
        broken,
        extra: serde_json::Map::new(),
    }
}

fn confirm(number: u32, call: &ToolCall) -> Confirm {
    Confirm {
        id: ConfirmId::from_bytes([u8::try_from(number).unwrap(); 16]),
        number,
        title: call.id.clone(),
        subject: ConfirmSubject::Call(CallSubject {
            call: ConfirmCall {
                id: call.id.clone(),
                tool: call.name.parse().unwrap(),
                arguments: call.arguments.clone(),
                cwd: "/".to_owned(),
                server: "test".to_owned(),
            },
            definition: serde_json::Value::Null,
            definition_digest: ContentDigest([0; 32]),
            provider_digest: None,
            approved_definition: None,
            needs: Access::Write,
            raise_to: None,
        }),
        why: String::new(),
        why_told: None,
        destructive: None,
        halt: false,
        digest: digest(call),
        options: vec![],
        expires_at: None,
    }
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
fn a_request_that_fails_for_a_moment_is_sent_again_a_few_times() {
    let script = |inputs: &[&str]| {
        let mut scene = Scene::start();
        scene.turn.set_retries(2);
        inputs.iter().for_each(|it| scene.play(it));
        scene.seen
    };
    let again = |why: &str| format!("= status transport: {why}; trying again in ");
    let busy = again("HTTP 529: no");
    assert_eq!(
        vec![
            "> open 0".to_owned(),
            format!("{busy}1 s"),
            "> wait 1 500ms".to_owned(),
            "> open 1".to_owned(),
            format!("{}2 s", again("the stream was cut before its end")),
            "> wait 2 2s".to_owned(),
            "> open 2".to_owned(),
            "= ended Upstream \"\" transport: HTTP 529: no".to_owned(),
        ],
        script(&[
            "http 0 529 -",
            "waited 1",
            "cut 1 -",
            "waited 2",
            "http 2 529 -"
        ])
    );
    // A server that says when is taken at its word, and what does not pass by itself is not tried.
    assert_eq!("> wait 1 7s", script(&["http 0 529 7000"])[2]);
    for lasting in [
        "http 0 529 20001",
        "http 0 401 -",
        "http 0 400 -",
        "http 0 501 -",
        "refused 0 -",
        "cut 0 half",
        "unpaid 0",
    ] {
        let seen = script(&[lasting]);
        assert!(
            seen.last().unwrap().starts_with("= ended Upstream"),
            "{lasting}: {seen:?}"
        );
        assert!(
            !seen.iter().any(|it| it.contains("again")),
            "{lasting}: {seen:?}"
        );
    }
    // Each request has its own tries.
    let next = script(&[
        "http 0 500 -",
        "waited 1",
        "done 1 look a",
        "tool a ok",
        "http 16 500 -",
    ]);
    let waits = next.iter().filter(|it| it.ends_with(" 500ms"));
    assert_eq!(2, waits.count(), "{next:?}");
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
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "= started b",
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
            "= status broken",
            "= result a \"broken\"",
            "= started b",
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
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "> open 16",
            "= says 1 \"\" +1",
            "= started b",
            "> call b",
            "= result b \"ok\"",
            "> open 32",
            "= says 2 \"so\" +1",
            "= started c",
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
            "= started a",
            "> call a",
            "= result a \"[aish] cancelled by the user while it ran; the effect of this call is unknown\"",
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
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "> open 16",
        ],
    );
}
