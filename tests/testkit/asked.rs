//! What a question is about, by the kind that a test expects.

use aish_proto::confirm::{CallSubject, CommandSubject, ConfirmCall, ConfirmSubject};
use aish_proto::event::ConfirmRequested;
use aish_proto::form::ElicitationRequest;
use aish_proto::memory::ProposedMemory;
use aish_proto::permission::LevelUpgrade;
use aish_proto::sampling::SamplingRequest;

/// Each ends the test where the question is about something else.
pub trait Asked {
    /// The call that waits, or runs meanwhile.
    fn call(&self) -> &ConfirmCall;
    fn tool_call(&self) -> &CallSubject;
    fn command(&self) -> &CommandSubject;
    fn form(&self) -> &ElicitationRequest;
    fn model(&self) -> &SamplingRequest;
    fn level(&self) -> &LevelUpgrade;
    fn memory(&self) -> &ProposedMemory;
}

macro_rules! subject {
    ($request:expr, $kind:ident) => {
        match &*$request.subject {
            ConfirmSubject::$kind(subject) => subject,
            other => panic!("asked about something else: {other:?}"),
        }
    };
}

impl Asked for ConfirmRequested {
    #[track_caller]
    fn call(&self) -> &ConfirmCall {
        let call = self.subject.call();
        call.unwrap_or_else(|| panic!("about no call: {:?}", self.subject))
    }

    #[track_caller]
    fn tool_call(&self) -> &CallSubject {
        subject!(self, Call)
    }

    #[track_caller]
    fn command(&self) -> &CommandSubject {
        subject!(self, Command)
    }

    #[track_caller]
    fn form(&self) -> &ElicitationRequest {
        &subject!(self, Form).asked
    }

    #[track_caller]
    fn model(&self) -> &SamplingRequest {
        &subject!(self, Model).asked
    }

    #[track_caller]
    fn level(&self) -> &LevelUpgrade {
        subject!(self, Level)
    }

    #[track_caller]
    fn memory(&self) -> &ProposedMemory {
        subject!(self, Memory)
    }
}
