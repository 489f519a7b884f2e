//! What a run, and the end of a turn, change in a transcript.

use aishd_log::event::Record;
use aishd_log::norris::{NorrisEvent, RunPause};

use super::Transcript;
use super::message::TranscriptMessage;

/// What a run is told that goes on after its daemon has ended.
const INTERRUPTED: &str = "[aish] The run was interrupted. What had begun then may have happened, in whole or in part: \
look before you do it again, and go on.";

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

    pub(super) fn run_goes_on(&mut self, record: &Record, event: &NorrisEvent) {
        match event {
            NorrisEvent::Launched(launch) => {
                self.run = record.turn.map(|turn| (turn, launch.clone()));
            }
            NorrisEvent::Nudged { text } => {
                self.push(
                    record,
                    TranscriptMessage::said(text.clone()),
                    /*keeps_more*/ false,
                );
            }
            NorrisEvent::Paused {
                pause: RunPause::Interrupted,
                ..
            } => {
                let text = INTERRUPTED.to_owned();
                self.push(
                    record,
                    TranscriptMessage::said(text),
                    /*keeps_more*/ false,
                );
            }
            NorrisEvent::StepBegun { .. }
            | NorrisEvent::Paused {
                pause: RunPause::Person,
                ..
            }
            | NorrisEvent::Resumed
            | NorrisEvent::Ended { .. } => {}
        }
    }
}
