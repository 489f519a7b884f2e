use aishd_log::pattern::Pattern;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::allowances::AllowanceNumber;
use crate::log_samples::tool;
use crate::samples::setting;

const EXECUTE: &str = "HALT: it needs level 3 (execute)";

/// A tool whose provider says this of it, at the level that follows from that.
fn said(annotations: Value) -> Tool {
    let hint = |name: &str| annotations.get(name).and_then(Value::as_bool);
    let needs = Access::from_hints(hint("readOnlyHint"), hint("destructiveHint"));
    Tool {
        annotations,
        ..tool("fs__x", needs)
    }
}

fn why(halt: Option<HaltReason>) -> Option<String> {
    halt.map(|it| it.text())
}

#[test]
fn what_a_provider_says_only_makes_it_stricter() {
    let check =
        |annotations: Value, by: ClaimSource, needs: Option<Access>, expected: Option<&str>| {
            let tool = said(annotations.clone());
            let found = why(of_tool(&tool, needs.unwrap_or(tool.needs), by));
            assert_eq!(expected, found.as_deref(), "{annotations} {needs:?}");
        };
    let says_so = "HALT: its provider says that it is destructive";
    let own_word =
        "HALT: only its server says what it may do; a level of its own counts: permissions.needs";
    let (ours, theirs) = (ClaimSource::Ours, ClaimSource::Servers);
    let mild = [
        json!({"readOnlyHint": true}),
        json!({"readOnlyHint": true, "destructiveHint": false}),
        json!({"destructiveHint": false}),
    ];
    for hints in mild {
        check(hints.clone(), theirs, None, Some(own_word));
        check(hints.clone(), ours, Some(Access::Execute), Some(EXECUTE));
        check(hints, ours, Some(Access::Read), None);
    }
    check(json!({}), theirs, None, Some(EXECUTE));
    check(json!({"readOnlyHint": "yes"}), theirs, None, Some(EXECUTE));
    // What a person configured counts, whether its server says anything or not.
    check(json!({}), ours, Some(Access::Write), None);
    let harsh = json!({"destructiveHint": true});
    check(harsh, ours, Some(Access::Read), Some(says_so));
    let both = json!({"readOnlyHint": true, "destructiveHint": true});
    check(both, ours, Some(Access::Read), Some(says_so));
}

fn weigh(
    tool: &Tool,
    levels: &UnaskedLevels,
    heard: Option<&SecondOpinion>,
    verdict: PolicyDecision,
) -> String {
    let run = Autonomy { levels, heard };
    match run.weigh(
        "1",
        ContentDigest([1; 32]),
        tool,
        (tool.needs, tool.needs_by),
        verdict,
    ) {
        PolicyDecision::Allow(rule) => format!("run: {rule}"),
        PolicyDecision::Ask(why) => format!("ask: {}", why.text(&tool.name)),
        PolicyDecision::Deny(rule) => format!("deny: {rule}"),
    }
}

fn level(all: Access) -> UnaskedLevels {
    UnaskedLevels {
        all,
        ..UnaskedLevels::default()
    }
}

fn heard(call: &str, digest: u8, opinion: Opinion) -> SecondOpinion {
    SecondOpinion {
        call: call.to_owned(),
        digest: ContentDigest([digest; 32]),
        preset: "other".to_owned(),
        opinion,
    }
}

#[test]
fn within_its_levels_a_run_goes_on_unasked() {
    let write = tool("fs__put", Access::Write);
    let low = AskReason::Level {
        has: Access::Read,
        needs: Access::Write,
    };
    let check = |granted, verdict: PolicyDecision, expected: &str| {
        assert_eq!(expected, weigh(&write, &level(granted), None, verdict));
    };
    check(
        Access::Write,
        PolicyDecision::Ask(AskReason::EveryCall),
        "run: norris run at level 2",
    );
    check(
        Access::Write,
        PolicyDecision::Ask(low.clone()),
        "run: norris run at level 2",
    );
    let above = "ask: HALT: it needs level 2 and the run was launched with level 1";
    check(Access::Read, PolicyDecision::Ask(low), above);
    check(
        Access::Read,
        PolicyDecision::Ask(AskReason::EveryCall),
        above,
    );
    check(
        Access::Read,
        PolicyDecision::Allow(DecidingRule::Always),
        "run: always, in this conversation",
    );
    let changed = AskReason::Changed {
        approved: ContentDigest([2; 32]),
        has: Access::Write,
        needs: Access::Write,
    };
    let text = "ask: the tool's definition changed since it was allowed";
    check(Access::Execute, PolicyDecision::Ask(changed), text);
}

#[test]
fn what_destroys_is_asked_about_whatever_was_allowed_before() {
    let rm = tool("fs__rm", Access::Execute);
    let star: Pattern = "fs__*".parse().unwrap();
    for verdict in [
        PolicyDecision::Allow(DecidingRule::Always),
        PolicyDecision::Allow(DecidingRule::AutoApprove(star.clone())),
        PolicyDecision::Allow(DecidingRule::ThisTurn(star)),
        PolicyDecision::Ask(AskReason::EveryCall),
    ] {
        let text = weigh(&rm, &level(Access::Execute), None, verdict);
        assert_eq!(format!("ask: {EXECUTE}"), text);
    }
}

#[test]
fn a_second_opinion_counts_for_its_own_call_and_only_against_it() {
    let read = tool("fs__get", Access::Read);
    let check = |heard: SecondOpinion, expected: &str| {
        let verdict = PolicyDecision::Ask(AskReason::EveryCall);
        let told = weigh(&read, &level(Access::Read), Some(&heard), verdict);
        assert_eq!(expected, told);
    };
    let runs = "run: norris run at level 1";
    check(heard("1", 1, Opinion::Safe), runs);
    let no = || Opinion::Unsafe("it \u{202e}leaks".to_owned());
    check(
        heard("1", 1, no()),
        "ask: HALT: other says that it is not safe for the goal: \"it \\u{202e}leaks\"",
    );
    check(heard("2", 1, no()), runs);
    check(heard("1", 2, no()), runs);
    check(
        heard(
            "1",
            1,
            Opinion::Missing("it said neither yes nor no".to_owned()),
        ),
        "ask: HALT: there is no second opinion: it said neither yes nor no",
    );
    let rm = tool("fs__rm", Access::Execute);
    let safe = heard("1", 1, Opinion::Safe);
    let told = weigh(
        &rm,
        &level(Access::Execute),
        Some(&safe),
        PolicyDecision::Ask(AskReason::EveryCall),
    );
    assert_eq!(format!("ask: {EXECUTE}"), told);
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![
        Just(Access::Read),
        Just(Access::Write),
        Just(Access::Execute)
    ]
}

fn verdict() -> impl Strategy<Value = PolicyDecision> {
    let pattern: Pattern = "fs__*".parse().unwrap();
    let client = DecidingRule::Client {
        allowance: AllowanceNumber(1),
        whose: "somebody".to_owned(),
        pattern: pattern.clone(),
    };
    prop_oneof![
        Just(PolicyDecision::Ask(AskReason::EveryCall)),
        Just(PolicyDecision::Allow(DecidingRule::Always)),
        Just(PolicyDecision::Allow(DecidingRule::AutoApprove(
            pattern.clone()
        ))),
        Just(PolicyDecision::Allow(client)),
        Just(PolicyDecision::Deny(DecidingRule::Denied(pattern))),
        (access(), access())
            .prop_map(|(has, needs)| PolicyDecision::Ask(AskReason::Level { has, needs })),
    ]
}

fn opinion() -> impl Strategy<Value = Option<Opinion>> {
    prop_oneof![
        Just(None),
        Just(Some(Opinion::Safe)),
        Just(Some(Opinion::Unsafe(String::new()))),
        Just(Some(Opinion::Missing(String::new()))),
    ]
}

proptest! {
    /// Whatever comes together, nothing destructive runs unasked, a denial stays one, and another opinion
    /// never lets anything run.
    #[test]
    fn nothing_makes_a_run_less_strict(
        needs in access(),
        own in access(),
        granted in access(),
        hint in proptest::option::of(any::<bool>()),
        verdict in verdict(),
        opinion in opinion(),
    ) {
        let tool = Tool {
            annotations: hint.map_or(json!({}), |it| json!({"destructiveHint": it})),
            ..tool("fs__x", own)
        };
        let heard = opinion.map(|it| heard("1", 1, it));
        let levels = level(granted);
        let run = Autonomy { levels: &levels, heard: heard.as_ref() };
        let came = run.weigh("1", ContentDigest([1; 32]), &tool, (needs, ClaimSource::Ours), verdict.clone());
        let destroys = needs == Access::Execute || hint == Some(true);
        let warned = heard.is_some_and(|it| it.opinion != Opinion::Safe);
        match &came {
            PolicyDecision::Allow(_) => {
                prop_assert!(!destroys && !warned);
                prop_assert!(matches!(verdict, PolicyDecision::Allow(_)) || needs <= granted);
            }
            PolicyDecision::Ask(_) => prop_assert!(!matches!(verdict, PolicyDecision::Deny(_))),
            PolicyDecision::Deny(_) => prop_assert_eq!(&verdict, &came),
        }
        let unheard = Autonomy { levels: &levels, heard: None };
        let without = unheard.weigh("1", ContentDigest([1; 32]), &tool, (needs, ClaimSource::Ours), verdict);
        prop_assert!(matches!(without, PolicyDecision::Allow(_)) || !matches!(came, PolicyDecision::Allow(_)));
    }
}

/// What a run may write in follows it where it goes, so it goes nowhere unasked that is not below.
#[test]
fn a_run_leaves_its_directory_only_with_a_persons_word() {
    let setting = setting(&[], "/w/proj");
    let check = |command: &str, goes: bool| {
        let needs = of_command(command, &setting, &[PathBuf::from("/w/proj")]);
        assert_eq!(goes, needs.is_ok(), "{command}: {needs:?}");
    };
    check("cd src/deep", true);
    check("cd /w/proj/src", true);
    check("cd ..", false);
    check("cd /w/other", false);
    check("cd", false);
    check("cd -", false);
    check("cd .git", true);
}

#[test]
fn a_command_halts_for_what_is_destructive_or_unreadable_and_for_nothing_else() {
    let setting = setting(&[], "/w/proj");
    let check = |command: &str, expected: Result<Access, &[Danger]>| {
        let needs = of_command(command, &setting, &[PathBuf::from("/w/proj")]);
        let expected = expected.map_err(|it| HaltReason::Command(it.to_vec()));
        assert_eq!(expected, needs, "{command}");
    };
    check("ls -l", Ok(Access::Write));
    check("surely-unknown --all", Ok(Access::Write));
    check("curl https://x.example", Ok(Access::Write));
    check("rm -r src", Err(&[Danger::DeletesTree]));
    check("echo 'open", Err(&[Danger::NotUnderstood]));
    check("$x", Err(&[Danger::KnownOnlyWhenRun]));
}
