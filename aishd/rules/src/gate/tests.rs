use aish_testkit::fuzz;
use aishd_log::access::Access;
use aishd_log::confirm::Then;
use aishd_log::pattern::Patterns;

use super::*;
use crate::allowances::tests::allowed_by;
use crate::log_samples::tool;
use crate::tool_binding::NoBindings;

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: "1".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        broken: None,
        extra: Map::new(),
    }
}

fn arguments(confirm: &Confirm) -> &str {
    &confirm.call().unwrap().arguments
}

fn with_gate<T>(on_confirm: &OnConfirm, attended: Presence, work: impl FnOnce(Gate<'_>) -> T) -> T {
    let rm = tool("fs__rm", Access::Execute);
    let secret = tool("fs__secret", Access::Read);
    let mut put = tool("fs__put", Access::Write);
    put.schema =
        serde_json::json!({"properties": {"path": {"type": "string"}}, "required": ["path"]});
    let mut odd = tool("fs__odd", Access::Execute);
    odd.schema = serde_json::json!({"$ref": "http://127.0.0.1:1/schema.json"});
    let catalog = Catalog::new([rm, secret, put, odd].map(Arc::new));
    let policy = Policy {
        deny: Patterns::new(["fs__secret".parse().unwrap()]),
        ..Policy::default()
    };
    let offer = catalog.offer(&policy, |_| true);
    work(Gate {
        catalog: &catalog,
        offer: &offer,
        policy: &policy,
        grants: &GrantList::default(),
        constraints: &Constraints::default(),
        on_confirm,
        clients: &AllowanceList::default(),
        bound: &NoBindings,
        autonomy: None,
        attended,
        cwd: "/work",
        now: Timestamp(1_000),
        next: (ConfirmId::from_bytes([1; 16]), 4),
    })
}

#[track_caller]
fn check(call: &ToolCall, on_confirm: &OnConfirm, attended: Presence, expected: &str) {
    let judged = with_gate(on_confirm, attended, |gate| gate.judge(call));
    let said = match judged {
        CallJudgement::Run(go) => format!("run {}: {}", spelled(&go.arguments), go.rule),
        CallJudgement::Ask(confirm) => format!("ask {}: {}", arguments(&confirm), confirm.why),
        CallJudgement::Execute(run) => panic!("{} is no call", run.command),
        CallJudgement::Later => panic!("a call waits for no command"),
        CallJudgement::Refuse {
            denial, content, ..
        } => format!("{denial:?} {content}"),
    };
    assert_eq!(expected, said);
}

fn on(then: Then) -> OnConfirm {
    OnConfirm {
        then,
        ..OnConfirm::default()
    }
}

/// Every flavour has its own words.
#[test]
fn what_is_no_call_is_refused_with_a_reason() {
    let ask = OnConfirm::default();
    let by = Presence::Attended;
    let broken = ToolCall {
        broken: Some("the arguments are JSON, but no object".to_owned()),
        ..call("fs__rm", "{}")
    };
    check(
        &broken,
        &ask,
        by,
        "None [aish] tool arguments not parseable as JSON: the arguments are JSON, but no object",
    );
    check(
        &call("fs__mv", "{}"),
        &ask,
        by,
        "None [aish] tool dispatch failed: unknown tool fs__mv",
    );
    check(
        &call("rm", "{}"),
        &ask,
        by,
        "None [aish] tool dispatch failed: unknown tool rm",
    );
    check(
        &call("fs__secret", "{}"),
        &ask,
        by,
        "Some(Policy) [aish] denied by policy: permissions.deny fs__secret",
    );
}

/// Nobody is asked about what could not run, and nothing is fetched to find out.
#[test]
fn arguments_that_do_not_fit_are_refused_before_anybody_is_asked() {
    let ask = OnConfirm::default();
    let by = Presence::Attended;
    check(
        &call("fs__put", r#"{"path": 7}"#),
        &ask,
        by,
        "None [aish] tool arguments do not fit: /path: 7 is not of type \"string\"",
    );
    check(
        &call("fs__put", r#"{"path": "/a"}"#),
        &ask,
        by,
        r#"ask {"path":"/a"}: Permission upgrade required for fs: level 1 → 2"#,
    );
    check(
        &call("fs__odd", r#"{"path": 7}"#),
        &ask,
        by,
        r#"ask {"path":7}: Permission upgrade required for fs: level 1 → 3"#,
    );
}

/// No terminal and nobody attached means no consent.
#[test]
fn a_person_is_asked_where_one_can_be() {
    let call = call("fs__rm", r#"{ "b": 2, "a": "\u0031" }"#);
    let asked = r#"ask {"a":"1","b":2}: Permission upgrade required for fs: level 1 → 3"#;
    let upgrade = ". Permission upgrade required for fs: level 1 → 3; a person can do that with: aishctl perm grant fs 3";
    check(&call, &on(Then::Ask), Presence::Unattended, asked);
    check(&call, &on(Then::AskAttended), Presence::Attended, asked);
    check(
        &call,
        &on(Then::AskAttended),
        Presence::Unattended,
        &format!("Some(NoApprover) [aish] denied: nobody is attached who could allow it{upgrade}"),
    );
    check(
        &call,
        &on(Then::Deny),
        Presence::Attended,
        &format!("Some(NoApprover) [aish] denied by policy: --confirm=deny{upgrade}"),
    );
    let allow = OnConfirm {
        allow: Patterns::new(["fs__*".parse().unwrap()]),
        ..on(Then::Deny)
    };
    check(
        &call,
        &allow,
        Presence::Unattended,
        r#"run {"a":"1","b":2}: allowed for this turn fs__*"#,
    );
}

/// A script that allows a name reads why that was not enough.
#[test]
fn who_allowed_a_name_beforehand_is_told_that_it_means_another_tool_now() {
    let mut grants = GrantList::default();
    grants
        .approved
        .insert("fs__rm".parse().unwrap(), ContentDigest([7; 32]));
    grants.levels.insert("fs".parse().unwrap(), Access::Execute);
    let allow = OnConfirm {
        allow: Patterns::new(["fs__*".parse().unwrap()]),
        ..on(Then::Deny)
    };
    with_gate(&allow, Presence::Unattended, |gate| {
        let gate = Gate {
            grants: &grants,
            ..gate
        };
        let CallJudgement::Refuse { content, .. } = gate.judge(&call("fs__rm", "{}")) else {
            panic!("nobody can be asked")
        };
        assert_eq!(
            "[aish] denied by policy: --confirm=deny: the tool's definition changed since it was allowed",
            content
        );
    });
}

/// A script that allows a name reads what it would have fetched.
#[test]
fn who_allowed_a_name_beforehand_is_told_of_the_packages() {
    let mut fetches = tool("fs__rm", Access::Execute);
    fetches.packages = ["rich".to_owned()].into();
    let catalog = Catalog::new([Arc::new(fetches)]);
    let offer = catalog.offer(&Policy::default(), |_| true);
    let allow = OnConfirm {
        allow: Patterns::new(["fs__*".parse().unwrap()]),
        ..on(Then::Deny)
    };
    with_gate(&allow, Presence::Unattended, |gate| {
        let gate = Gate {
            catalog: &catalog,
            offer: &offer,
            ..gate
        };
        let CallJudgement::Refuse { content, .. } = gate.judge(&call("fs__rm", "{}")) else {
            panic!("nobody can be asked")
        };
        assert_eq!(
            "[aish] denied by policy: --confirm=deny: it fetches packages, and is asked about until it is always allowed \
             here: rich",
            content
        );
    });
}

/// An answer is for one call, whatever else would let it through.
#[test]
fn what_a_person_has_approved_rests_on_the_answer() {
    let mut clients = AllowanceList::default();
    clients.set(allowed_by(1, &["fs__*"], Some(1)));
    with_gate(&on(Then::Ask), Presence::Attended, |gate| {
        let asked = call("fs__rm", "{}");
        let CallJudgement::Ask(confirm) = gate.judge(&asked) else {
            panic!("it asks")
        };
        let gate = Gate {
            clients: &clients,
            ..gate
        };
        let rule = |judged| {
            let CallJudgement::Run(go) = judged else {
                panic!("it runs")
            };
            (go.rule, go.allowance)
        };
        let approved = rule(gate.approved(&asked, confirm.digest));
        assert_eq!(("approved by a person".to_owned(), None), approved);
        let (text, allowance) = rule(gate.judge(&asked));
        assert!(text.starts_with("allowed by pts/1, client"), "{text}");
        assert_eq!(Some(1), allowance.map(|it| it.0));
    });
}

/// The bytes that are shown are those that are hashed and run.
#[test]
fn a_yes_is_for_exactly_what_was_shown() {
    with_gate(&on(Then::AskAttended), Presence::Attended, |gate| {
        let asked = call("fs__rm", r#"{"path":"/a"}"#);
        let CallJudgement::Ask(confirm) = gate.judge(&asked) else {
            panic!("it asks")
        };
        assert_eq!(r#"{"path":"/a"}"#, arguments(&confirm));
        assert_eq!(Some("its name says rm"), confirm.destructive.as_deref());
        assert!(!confirm.options.contains(&Decision::AllowConversation));
        let ConfirmSubject::Call(CallSubject { raise_to, .. }) = confirm.subject else {
            panic!("{confirm:?}");
        };
        assert_eq!((4, Some(Access::Execute)), (confirm.number, raise_to));
        let alone = Gate {
            attended: Presence::Unattended,
            ..gate
        };
        let CallJudgement::Run(go) = alone.approved(&asked, confirm.digest) else {
            panic!("it was approved, by whoever could")
        };
        assert_eq!(
            (confirm.digest, "approved by a person"),
            (go.digest, go.rule.as_str())
        );
        let other = call("fs__rm", r#"{"path":"/b"}"#);
        assert!(matches!(
            gate.approved(&other, confirm.digest),
            CallJudgement::Ask(_)
        ));
        let elsewhere = Gate { cwd: "/", ..gate };
        assert!(matches!(
            elsewhere.approved(&asked, confirm.digest),
            CallJudgement::Ask(_)
        ));
        let denied = call("fs__secret", "{}");
        let judged = gate.approved(&denied, confirm.digest);
        assert!(matches!(judged, CallJudgement::Refuse { .. }), "{judged:?}");
    });
}

#[test]
fn a_turn_can_limit_how_long_it_waits() {
    let on_confirm = OnConfirm {
        timeout_ms: Some(30_000),
        ..OnConfirm::default()
    };
    with_gate(&on_confirm, Presence::Unattended, |gate| {
        let CallJudgement::Ask(confirm) = gate.judge(&call("fs__rm", "{}")) else {
            panic!("it asks")
        };
        assert_eq!(Some(Timestamp(31_000)), confirm.expires_at);
    });
}

/// Whatever a model writes as arguments, what a person is shown is what would run, to the last byte.
#[test]
fn damaged_arguments_are_shown_as_they_would_run() {
    let corpus = [
        r#"{"path":"/tmp/a","recursive":true}"#,
        r#"{"b":1.0,"a":[1,2.5e3,-0.0,18446744073709551615],"é":{"x":null,"y":"\u202e\u0000\ud83e\udd80"}}"#,
        "{}",
    ];
    fuzz(corpus, |input| {
        let text = String::from_utf8_lossy(input);
        let call = call("fs__rm", &text);
        let (judged, digest) = with_gate(&OnConfirm::default(), Presence::Attended, |gate| {
            (gate.judge(&call), gate.digest(&call))
        });
        let confirm = match judged {
            CallJudgement::Execute(run) => panic!("{} is no call", run.command),
            CallJudgement::Later => panic!("a call waits for no command"),
            CallJudgement::Refuse {
                denial,
                content,
                refused,
            } => {
                assert_eq!((None, None, None), (denial, digest, refused.subject));
                return content.chars().take(60).collect();
            }
            CallJudgement::Run(go) => panic!("nobody allowed {go:?}"),
            CallJudgement::Ask(confirm) => confirm,
        };
        assert_eq!(Some(confirm.digest), digest);
        let meant: Map<String, Value> = serde_json::from_str(&text).unwrap();
        let shown: Map<String, Value> = serde_json::from_str(arguments(&confirm)).unwrap();
        assert_eq!(
            arguments(&confirm),
            spelled(&shown),
            "one spelling for each value"
        );
        let approved = with_gate(&OnConfirm::default(), Presence::Attended, |gate| {
            gate.approved(&call, confirm.digest)
        });
        let CallJudgement::Run(go) = approved else {
            panic!("{approved:?}");
        };
        assert_eq!(
            (&meant, arguments(&confirm)),
            (&go.arguments, spelled(&go.arguments).as_str())
        );
        let kind = |it: &Value| it.to_string().chars().next();
        format!("{:?}", meant.values().map(kind).collect::<Vec<_>>())
    });
}
