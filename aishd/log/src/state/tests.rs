//! The fold, over what older programs wrote.

use super::*;

/// Records of the first version that asked people, with fields of a later one among them.
const CONSENT: &str = include_str!("../../../../tests/data/store/consent.jsonl");

#[test]
fn what_was_granted_long_ago_is_granted() {
    let mut state = ConversationState::default();
    let mut waited = 0;
    for line in CONSENT.lines() {
        let record: Record = serde_json::from_str(line).unwrap();
        state.apply(&record);
        waited += usize::from(state.requires_action());
    }
    assert_eq!((12, 1, 1), (state.last_seq.0, state.confirm_count, waited));
    assert!(state.confirms.is_empty());
    let levels: Vec<_> = state.grants.levels.iter().collect();
    assert_eq!(vec![(&"aish".parse().unwrap(), &Access::Execute)], levels);
    assert_eq!(BTreeSet::from(["aish".parse().unwrap()]), state.used);
    let approved: Vec<String> = state
        .grants
        .approved
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(vec!["aish__time"], approved);
    let running = state.running.unwrap();
    assert_eq!((1, 0), (running.rounds, running.open_calls.len()));
}

#[test]
fn behind_a_lost_record_nothing_goes_on_that_began_before_it() {
    let records: Vec<Record> = CONSENT
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    for lost in 0..records.len() {
        let mut state = ConversationState::default();
        for (at, record) in records.iter().enumerate() {
            let event = if at == lost {
                Event::RecordLost {}
            } else {
                record.event.clone()
            };
            state.apply(&Record {
                event,
                ..record.clone()
            });
            if at == lost {
                let granted = [state.grants.levels.len(), state.grants.approved.len()];
                assert_eq!([0, 0], granted, "record {lost}");
                assert!(!state.is_unsettled(), "record {lost}");
                assert!(state.constraints.read_only && state.constraints.no_network);
            }
        }
        assert_eq!(records.len() as u64, state.last_seq.0, "record {lost}");
    }
}
