//! Commands of this window's person (`!COMMAND`) that run or wait. Their end may be told before the reply that names them.

use std::collections::VecDeque;

use aish_proto::event::{ClientEvent, Event};
use aish_proto::shell::RunResult;

/// Ends that are remembered, for a reply that comes after them.
const ENDED: usize = 64;

#[derive(Debug, Default)]
pub(super) struct OwnCommands {
    /// Those whose reply has not come.
    asked: usize,
    /// The newest last.
    taken: Vec<TakenCommand>,
    ended: VecDeque<String>,
}

#[derive(Debug)]
struct TakenCommand {
    call: String,
    command: String,
    began: bool,
    /// The daemon that took it is gone.
    left: bool,
}

impl OwnCommands {
    pub(super) fn submitted(&mut self) {
        self.asked += 1;
    }

    /// The reply has come: it was taken, or not. Whether it waits.
    pub(super) fn on_result(&mut self, command: String, result: Option<RunResult>) -> bool {
        self.asked = self.asked.saturating_sub(1);
        let Some(RunResult { call, seq }) = result else {
            return false;
        };
        let ended = self.ended.contains(&call);
        let began = seq.is_some();
        if !ended {
            self.taken.push(TakenCommand {
                call,
                command,
                began,
                left: false,
            });
        }
        !ended && !began
    }

    pub(super) fn take(&mut self, event: &ClientEvent) {
        match &event.data {
            Event::ShellStarted(started) => {
                let mut taken = self.taken.iter_mut();
                if let Some(one) = taken.find(|it| it.call == started.call) {
                    one.began = true;
                }
            }
            Event::ShellFinished(finished) => {
                self.taken.retain(|it| it.call != finished.call);
                self.ended.push_back(finished.call.clone());
                if self.ended.len() > ENDED {
                    self.ended.pop_front();
                }
            }
            _ => {}
        }
    }

    /// The one that Ctrl-C means: what runs, and where nothing does what was said last.
    pub(super) fn to_cancel(&self) -> Option<&String> {
        let runs = self.taken.iter().find(|it| it.began);
        runs.or(self.taken.last()).map(|it| &it.call)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Nothing runs, waits, or is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.taken.is_empty() && self.asked == 0
    }

    /// Another daemon answers. What had begun is in its log, and perhaps was not seen here.
    pub(super) fn leave(&mut self) {
        self.taken.iter_mut().for_each(|it| it.left = true);
    }

    /// All that is in the log has been seen: what was left and is not in it never began. Those are given back.
    pub(super) fn take_lost(&mut self) -> Vec<String> {
        let lost = self.taken.extract_if(.., |it| it.left && !it.began);
        lost.map(|it| it.command).collect()
    }

    /// What has not begun, as far as was seen.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &str> {
        let waits = self.taken.iter().filter(|it| !it.began);
        waits.map(|it| it.command.as_str())
    }

    /// Another conversation is looked at.
    pub(super) fn clear(&mut self) {
        self.taken.clear();
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::id::Seq;
    use serde_json::json;

    use super::*;
    use crate::test_daemon;

    fn event(kind: &str, call: &str) -> ClientEvent {
        let data = json!({
            "call": call, "command": "x", "cwd": "/", "shell": "/bin/sh", "digest": "", "rule": "", "ending": "exited",
            "exitCode": 0, "output": "", "bytes": 0, "intoContext": true
        });
        test_daemon::event(test_daemon::envelope(None, kind, data))
    }

    fn taken(own: &mut OwnCommands, call: &str, seq: Option<u64>) -> bool {
        own.submitted();
        let result = RunResult {
            call: call.to_owned(),
            seq: seq.map(Seq),
        };
        own.on_result(format!("do {call}"), Some(result))
    }

    #[test]
    fn ctrl_c_means_what_runs_and_then_what_waits() {
        let mut own = OwnCommands::default();
        assert!(!taken(&mut own, "a", Some(3)));
        assert!(taken(&mut own, "b", None));
        assert!(taken(&mut own, "c", None));
        assert_eq!(Some("a"), own.to_cancel().map(String::as_str));
        own.take(&event("shellFinished", "a"));
        assert_eq!(Some("c"), own.to_cancel().map(String::as_str));
        own.take(&event("shellStarted", "b"));
        assert_eq!(Some("b"), own.to_cancel().map(String::as_str));
        assert_eq!(vec!["do c"], own.waiting().collect::<Vec<_>>());
        own.take(&event("shellFinished", "b"));
        own.take(&event("shellFinished", "c"));
        assert!(own.is_idle());
    }

    #[test]
    fn what_another_daemon_knows_nothing_of_never_began() {
        let mut own = OwnCommands::default();
        taken(&mut own, "a", Some(3));
        taken(&mut own, "b", None);
        taken(&mut own, "c", None);
        taken(&mut own, "d", None);
        own.leave();
        // The new one has taken this already.
        taken(&mut own, "e", None);
        own.take(&event("shellFinished", "a"));
        // It began, and nobody here had seen that; and this one was ended in order.
        own.take(&event("shellStarted", "b"));
        own.take(&event("shellFinished", "c"));
        assert_eq!(vec!["do d"], own.take_lost());
        assert_eq!(Vec::<String>::new(), own.take_lost());
        assert_eq!(vec!["do e"], own.waiting().collect::<Vec<_>>());
        own.take(&event("shellFinished", "b"));
        own.take(&event("shellFinished", "e"));
        assert!(own.is_idle());
    }

    #[test]
    fn an_end_before_the_reply_and_a_refusal_leave_nothing() {
        let mut own = OwnCommands::default();
        own.submitted();
        assert!(own.is_empty() && !own.is_idle());
        own.on_result("x".to_owned(), None);
        assert!(own.is_idle());
        own.take(&event("shellFinished", "a"));
        assert!(!taken(&mut own, "a", None));
        assert!(own.is_idle());
    }
}
