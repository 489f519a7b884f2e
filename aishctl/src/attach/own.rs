//! Commands of this window's person (`!COMMAND`) that run. Their end may be told before the reply that names them.

use std::collections::VecDeque;

use aish_proto::event::{Envelope, ShellFinished};

/// Ends that are remembered, for a reply that comes after them.
const ENDED: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Own {
    /// The newest last.
    running: Vec<String>,
    ended: VecDeque<String>,
}

impl Own {
    pub(super) fn began(&mut self, call: String) {
        if !self.ended.contains(&call) {
            self.running.push(call);
        }
    }

    pub(super) fn take(&mut self, event: &Envelope) {
        let Some(finished) = event.read::<ShellFinished>() else {
            return;
        };
        self.running.retain(|it| *it != finished.call);
        self.ended.push_back(finished.call);
        if self.ended.len() > ENDED {
            self.ended.pop_front();
        }
    }

    /// The one that Ctrl-C means.
    pub(super) fn newest(&self) -> Option<&String> {
        self.running.last()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Another conversation is looked at, or a daemon has gone and its commands with it.
    pub(super) fn clear(&mut self) {
        self.running.clear();
    }
}
