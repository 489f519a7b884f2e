//! Streams of a model's server, damaged: an answer ends well or as a failure, the same however it was cut, and no call
//! of it is anything but one JSON object.

use aish_testkit::{Chance, fuzz};
use aishd_log::api_dialect::ApiDialect;
use aishd_model::call_assembly::MAX_CALLS;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::streams::{block_on, cases, outcome, read_as};

#[test]
fn damaged_streams_end_well_and_in_any_pieces_alike() {
    let mut chance = Chance::seeded(1);
    fuzz(cases().into_iter().map(|it| it.body), |input| {
        // Whatever it was, it may come from a server that is spoken to in another way.
        ApiDialect::ALL
            .map(|api| became(api, input, &mut chance))
            .join(" / ")
    });
}

fn became(api: ApiDialect, input: &[u8], chance: &mut Chance) -> String {
    let body = Bytes::copy_from_slice(input);
    let mut rest = body.clone();
    let mut pieces = vec![];
    while !rest.is_empty() {
        pieces.push(rest.split_to(rest.len().min(1 + chance.below(60))));
    }
    let (whole, whole_deltas) = block_on(read_as(api, vec![body], "m"));
    let (cut, deltas) = block_on(read_as(api, pieces, "m"));
    let (calls, became) = match &whole {
        Ok(reply) => (&reply.calls, format!("{:?}", reply.finish)),
        Err(broken) => (
            &broken.partial.calls,
            format!("{:?}", broken.failure.class()),
        ),
    };
    assert!(calls.len() <= MAX_CALLS);
    for call in calls {
        let object = serde_json::from_str::<Map<String, Value>>(&call.arguments);
        assert!(object.is_ok(), "{call:?}");
        assert!(whole.is_ok() || call.broken.is_some(), "{call:?}");
    }
    let became = format!("{became} {}", calls.len());
    let whole = outcome(whole, &whole_deltas);
    assert_eq!(whole, outcome(cut, &deltas));
    let said: Vec<String> = whole
        .as_object()
        .map_or(vec![], |it| it.keys().cloned().collect());
    format!("{became} {said:?} {}", whole["notes"])
}
