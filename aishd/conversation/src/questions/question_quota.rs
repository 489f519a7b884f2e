//! How much the server of one call may ask of people. Every question that is put before them, or answered in their
//! place, is in the log; what comes after so many is declined without a word each, and told of once.

use std::sync::atomic::{AtomicU32, Ordering};

use aishd_log::event::ProviderLevel;
use tokio::sync::oneshot;

use crate::questions::elicitation::{ElicitKind, ElicitMessage};
use crate::turns::call::StartedCall;

/// Forms and pages. Nobody fills in more of them for one call.
const FORMS: u32 = 16;
/// Requests for a model. A server that wants more makes its user answer questions without end.
const MODELS: u32 = 4;

/// Of one kind of question.
#[derive(Debug)]
pub(crate) struct Quota {
    what: &'static str,
    most: u32,
    asked: AtomicU32,
}

impl Quota {
    pub(crate) fn of_forms() -> Self {
        Self::new("for input", FORMS)
    }

    pub(crate) fn of_models() -> Self {
        Self::new("for a model", MODELS)
    }

    fn new(what: &'static str, most: u32) -> Self {
        Self {
            what,
            most,
            asked: AtomicU32::new(0),
        }
    }

    /// Whether there may be one more.
    pub(crate) fn take(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) < self.most
    }

    fn declined(&self) -> u32 {
        self.asked.load(Ordering::Relaxed).saturating_sub(self.most)
    }

    /// Says at the end of the call what was declined.
    pub(crate) async fn end(&self, started: &StartedCall) {
        let declined = self.declined();
        if declined == 0 {
            return;
        }
        let (alias, tool) = (started.go.tool.name.alias(), &started.go.tool.name);
        let text = format!(
            "mcp {alias}: {tool} asked {} {declined} times more than one call may; all of that was declined",
            self.what
        );
        let (kept, told) = oneshot::channel();
        let level = ProviderLevel::Warning;
        let asking = ElicitMessage::of(started, ElicitKind::Told { level, text, kept });
        if started.forms.send(asking).await.is_ok() {
            let _kept_or_gone = told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_counted() {
        let quota = Quota::of_models();
        let allowed = (0..10).filter(|_| quota.take()).count();
        assert_eq!((4, 6), (allowed, quota.declined()));
    }
}
