use aish_proto::id::ClientId;
use aishd_log::access::Access;
use aishd_log::confirm::Then;
use aishd_log::event::Record;

use super::*;
use crate::policy::ProviderRule;

fn level(number: &str) -> Access {
    Access::from_number(number.parse().unwrap()).unwrap()
}

fn person() -> AnsweringPerson {
    AnsweringPerson {
        client: ClientId::from_bytes([3; 16]),
        name: "test".to_owned(),
        tty: None,
        pid: None,
        uid: None,
    }
}

fn step(provider: &str, from: &str, to: &str) -> LevelStep {
    LevelStep {
        provider: provider.parse().unwrap(),
        from: level(from),
        to: level(to),
    }
}

fn asked(number: u8, step: LevelStep, expires_at: Option<Timestamp>) -> Confirm {
    let subject = LevelSubject {
        step,
        wanted_for: None,
        by: person(),
    };
    let id = ConfirmId::from_bytes([number; 16]);
    subject.confirm((id, number.into()), expires_at)
}

/// A conversation after these events, of which each says `data 1 2` for a question, `set data 2` for a level,
/// `until 20 data 1 2` for a question with an end.
fn state(events: &[&str]) -> ConversationState {
    let mut state = ConversationState::default();
    for (number, event) in (1..).zip(events) {
        let event = match event.split(' ').collect::<Vec<_>>()[..] {
            ["set", provider, to] => changed(provider, to),
            ["until", end, provider, from, to] => {
                let end = Some(Timestamp(end.parse().unwrap()));
                let asked = asked(number, step(provider, from, to), end);
                Event::ConfirmRequested(Box::new(asked))
            }
            [provider, from, to] => {
                Event::ConfirmRequested(Box::new(asked(number, step(provider, from, to), None)))
            }
            _ => panic!("bad event {event}"),
        };
        state.apply(&Record {
            seq: state.last_seq.next(),
            at: Timestamp(5),
            turn: None,
            client: None,
            event,
        });
    }
    state
}

fn changed(provider: &str, to: &str) -> Event {
    Event::PermissionChanged {
        provider: Some(provider.parse().unwrap()),
        from: Access::Read,
        to: level(to),
        revoked: false,
        by: None,
        confirm: None,
    }
}

/// `data` may have at most level 2; somebody wants a level for a provider, as `data 2`, `data 2 deny`, `data 2 attended`.
#[track_caller]
fn check(events: &[&str], wanted: &str, attended: Presence, expected: &str) {
    let (provider, rest) = wanted.split_once(' ').unwrap();
    let (to, then) = rest.split_once(' ').unwrap_or((rest, "ask"));
    let mut policy = Policy::default();
    let rule = ProviderRule {
        level: Access::Read,
        max_level: Access::Write,
    };
    policy.providers.insert("data".parse().unwrap(), rule);
    let wanted = WantedLevel {
        provider: provider.parse().unwrap(),
        to: level(to),
        wanted_for: None,
        on_confirm: OnConfirm {
            then: match then {
                "ask" => Then::Ask,
                "attended" => Then::AskAttended,
                "deny" => Then::Deny,
                _ => panic!("bad wish {wanted}"),
            },
            timeout_ms: Some(30),
            ..OnConfirm::default()
        },
        by: person(),
    };
    let state = state(events);
    let standing = LevelContext {
        state: &state,
        policy: &policy,
        attended,
        now: Timestamp(20),
        next: (ConfirmId::from_bytes([99; 16]), 99),
    };
    let said = match judge(wanted, standing) {
        LevelJudgement::Already(level) => format!("has {}", level.number()),
        LevelJudgement::AboveMaximum { provider, max } => {
            format!("{provider} at most {}", max.number())
        }
        LevelJudgement::Unasked(upgrade, why) => format!("unasked {why}: {}", upgrade.why()),
        LevelJudgement::Open(confirm, _) => format!("open c{}", confirm.to_bytes()[0]),
        LevelJudgement::TooMany => "too many".to_owned(),
        LevelJudgement::Ask(asked, _) => format!(
            "ask c{} {} until {}",
            asked.number,
            asked.why,
            asked.expires_at.unwrap().0
        ),
    };
    assert_eq!(expected, said, "{events:?}");
}

const ATTENDED: Presence = Presence::Attended;
const UNATTENDED: Presence = Presence::Unattended;

#[test]
fn a_level_that_is_missing_is_asked_for() {
    check(
        &[],
        "data 2",
        UNATTENDED,
        "ask c99 Permission upgrade required for data: level 1 → 2 until 50",
    );
    check(
        &["set other 2"],
        "other 3 attended",
        ATTENDED,
        "ask c99 Permission upgrade required for other: level 2 → 3 until 50",
    );
}

#[test]
fn a_level_that_is_there_or_cannot_be_is_not_asked_for() {
    check(&[], "data 1", ATTENDED, "has 1");
    check(&["set data 2"], "data 1", ATTENDED, "has 2");
    check(&["set data 2"], "data 2 deny", UNATTENDED, "has 2");
    check(&[], "data 3", ATTENDED, "data at most 2");
    check(&["set data 3"], "data 3", ATTENDED, "data at most 2");
}

#[test]
fn nobody_is_asked_where_nobody_is_to_be() {
    check(
        &[],
        "data 2 deny",
        ATTENDED,
        "unasked --confirm=deny: Permission upgrade required for data: level 1 → 2",
    );
    check(
        &[],
        "data 2 attended",
        UNATTENDED,
        "unasked nobody is attached who could allow it: Permission upgrade required for data: level 1 → 2",
    );
}

#[test]
fn the_same_wish_gets_the_question_that_stands() {
    check(&["data 1 2"], "data 2", ATTENDED, "open c1");
    check(
        &["other 1 2", "data 1 2", "other 1 3"],
        "other 3",
        ATTENDED,
        "open c3",
    );
    let anew = "ask c99 Permission upgrade required for other: level 1 → 3 until 50";
    check(&["other 1 2", "data 1 2"], "other 3", ATTENDED, anew);
    // Its time is over, though nobody has said so yet.
    check(&["until 20 other 1 3"], "other 3", ATTENDED, anew);
    check(&["until 21 other 1 3"], "other 3", ATTENDED, "open c1");
}

#[test]
fn a_conversation_asks_about_so_many_levels_at_once() {
    let all: Vec<String> = (0..MOST).map(|it| format!("p{it} 1 2")).collect();
    let mut all: Vec<&str> = all.iter().map(String::as_str).collect();
    check(&all, "data 2", ATTENDED, "too many");
    check(&all, "p7 2", ATTENDED, "open c8");
    all.pop();
    check(
        &all,
        "data 2",
        ATTENDED,
        "ask c99 Permission upgrade required for data: level 1 → 2 until 50",
    );
}

#[test]
fn a_yes_does_what_is_possible_when_it_is_said() {
    let upgrade = step("data", "1", "2");
    let granted = |has: &str, max: &str| upgrade.granted(level(has), level(max));
    assert_eq!(GrantOnYes::Raises { from: Access::Read }, granted("1", "3"));
    assert_eq!(GrantOnYes::AlreadyThere, granted("2", "2"));
    assert_eq!(GrantOnYes::AlreadyThere, granted("3", "3"));
    assert_eq!(GrantOnYes::AboveMaximum, granted("1", "1"));
    let other = step("data", "1", "3");
    assert_ne!(upgrade.digest(), other.digest());
}

/// Which questions are open after `event`.
#[track_caller]
fn check_ends(event: &Event, expected: &[u8]) {
    let mut state = state(&["data 1 2", "data 1 3", "other 1 2"]);
    let ends = ended_by(event, &state, Timestamp(25));
    for end in ends {
        assert_eq!(
            (ConfirmFate::Cancelled, Some(20)),
            (end.fate, end.waited_ms)
        );
        let record = Record {
            seq: state.last_seq.next(),
            at: Timestamp(25),
            turn: None,
            client: None,
            event: Event::ConfirmResolved(Box::new(end)),
        };
        state.apply(&record);
    }
    let open: Vec<u8> = state
        .confirms
        .iter()
        .map(|it| it.id.to_bytes()[0])
        .collect();
    assert_eq!(expected, open);
    assert_eq!(!expected.is_empty(), state.is_unsettled());
    assert!(!state.requires_action(), "no turn waits for a level");
}

#[test]
fn a_question_that_nobody_needs_answered_ends() {
    check_ends(&changed("data", "1"), &[1, 2, 3]);
    check_ends(&changed("data", "2"), &[2, 3]);
    check_ends(&changed("data", "3"), &[3]);
    check_ends(&Event::ArchivedChanged { archived: true }, &[]);
    check_ends(&Event::ArchivedChanged { archived: false }, &[1, 2, 3]);
}

/// The stored form is spelled out, and an older daemon's record reads as it was meant.
#[test]
fn a_question_reads_as_it_was_written() {
    let id = ConfirmId::from_bytes([1; 16]);
    let client = ClientId::from_bytes([3; 16]);
    let older = format!(
        r#"{{"raise_requested":{{"id":"{id}","number":1,"upgrade":{{"provider":"data","from":1,"to":2}},"wanted_for":"data__write","by":{{"client":"{client}","name":"test","tty":null,"pid":null,"uid":null}},"expires_at":null}}}}"#
    );
    let event: Event = serde_json::from_str(&older).unwrap();
    let digest = step("data", "1", "2").digest();
    let ours = format!(
        r#"{{"confirm_requested":{{"id":"{id}","number":1,"title":"data to level 2","subject":{{"level":{{"step":{{"provider":"data","from":1,"to":2}},"wanted_for":"data__write","by":{{"client":"{client}","name":"test","tty":null,"pid":null,"uid":null}}}}}},"why":"Permission upgrade required for data: level 1 → 2","digest":"{digest}","options":["raise_only","deny"],"expires_at":null}}}}"#
    );
    assert_eq!(ours, serde_json::to_string(&event).unwrap());
    assert_eq!(event, serde_json::from_str(&ours).unwrap());
}
