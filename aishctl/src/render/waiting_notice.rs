//! What waits for the daemon's store: said once, and once more when it is stored.

use aish_proto::event::{ClientEvent, Event};

/// Whether it was said that something waits.
#[derive(Debug, Default)]
pub(crate) struct WaitingNotice(bool);

impl WaitingNotice {
    /// A line for people, where an event changes what they know.
    pub(crate) fn event_line(&mut self, event: &ClientEvent) -> Option<String> {
        let waits = match &event.data {
            Event::State(state) => state.waits.as_ref(),
            Event::Snapshot(snapshot) => snapshot.waits.as_ref(),
            _ => return None,
        };
        let before = std::mem::replace(&mut self.0, waits.is_some());
        match (before, waits) {
            (false, Some(why)) => Some(format!("what happened here waits to be stored: {why}")),
            (true, None) => Some("what waited is stored".to_owned()),
            (true, Some(_)) | (false, None) => None,
        }
    }
}
