//! Where goes what the server of a call has to say besides its answer.

use aishd_mcp::call_listener::{BegunTask, CallListener};
use aishd_mcp::{CallNote, ElicitationCall, SamplingCall};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Where goes what the server of a call has to say besides its answer.
#[derive(Debug)]
pub struct ServerAsides {
    /// What it wants a person to fill in.
    pub forms: mpsc::Sender<ElicitationCall>,
    /// What it wants a model to be asked.
    pub models: mpsc::Sender<SamplingCall>,
    /// The task that it makes of the call, to be kept.
    pub tasks: mpsc::Sender<BegunTask>,
    /// The daemon ends, and a task goes on without it.
    pub leaving: CancellationToken,
}

impl ServerAsides {
    pub(crate) fn heard_with(self, notes: mpsc::Sender<CallNote>) -> CallListener {
        CallListener {
            notes: Some(notes),
            forms: Some(self.forms),
            models: Some(self.models),
            tasks: Some(self.tasks),
            leaving: self.leaving,
        }
    }
}
