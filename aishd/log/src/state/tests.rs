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
