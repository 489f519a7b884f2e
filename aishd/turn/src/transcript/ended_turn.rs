//! What the end of a turn takes out of a transcript.

use aishd_log::event::Record;

use super::Transcript;

impl Transcript {
    pub(super) fn turn_finished(&mut self, record: &Record, is_merged: bool) {
        let ended = self.run.take_if(|(turn, _)| record.turn == Some(*turn));
        if ended.is_some() {
            self.parts.clear();
        }
        if is_merged {
            self.place(record, record.turn);
        } else if let Some(turn) = record.turn {
            // A waiting turn that was taken out says nothing to the model.
            self.waiting.remove(&turn);
        }
    }
}
