//! Where goes what the server of a call has to say besides its answer.

use aishd_mcp::call_listener::{BegunTask, CallListener};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{ForModel, Form, Said};

/// Where goes what the server of a call has to say besides its answer.
#[derive(Debug)]
pub struct ServerAsides {
    /// What it wants a person to fill in.
    pub forms: mpsc::Sender<Form>,
    /// What it wants a model to be asked.
    pub models: mpsc::Sender<ForModel>,
    /// The task that it makes of the call, to be kept.
    pub tasks: mpsc::Sender<BegunTask>,
    /// The daemon ends, and a task goes on without it.
    pub leaving: CancellationToken,
}

impl ServerAsides {
    pub(crate) fn heard_with(self, notes: mpsc::Sender<Said>) -> CallListener {
        CallListener {
            notes: Some(notes),
            forms: Some(self.forms),
            models: Some(self.models),
            tasks: Some(self.tasks),
            leaving: self.leaving,
        }
    }
}
