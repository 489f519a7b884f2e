//! What waits for the daemon's store: said once, and once more when it is stored.

use aish_proto::envelope::Envelope;
use aish_proto::event::{Snapshot, State};

/// Whether it was said that something waits.
#[derive(Debug, Default)]
pub(crate) struct WaitingNotice(bool);

impl WaitingNotice {
    /// A line for people, where an event changes what they know.
    pub(crate) fn event_line(&mut self, event: &Envelope) -> Option<String> {
        let waits = match (event.read::<State>(), event.read::<Snapshot>()) {
            (Some(state), _) => state.waits,
            (None, Some(snapshot)) => snapshot.waits,
            (None, None) => return None,
        };
        let before = std::mem::replace(&mut self.0, waits.is_some());
        match (before, waits) {
            (false, Some(why)) => Some(format!("what happened here waits to be stored: {why}")),
            (true, None) => Some("what waited is stored".to_owned()),
            (true, Some(_)) | (false, None) => None,
        }
    }
}
