//! Who hears what a call says and wants to know while it runs.

use aishd_log::server_task::ServerTask;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::elicitation::ElicitationCall;
use super::inbox::CallNote;
use super::sampling::SamplingCall;

/// Who hears what a call says and wants to know while it runs.
#[derive(Clone, Debug, Default)]
pub struct CallListener {
    /// Progress and log messages; what this has no room for is left out.
    pub notes: Option<mpsc::Sender<CallNote>>,
    /// Forms that the server wants filled in. `None`: nobody can.
    pub forms: Option<mpsc::Sender<ElicitationCall>>,
    /// What the server wants a model to be asked. `None`: nobody can allow it.
    pub models: Option<mpsc::Sender<SamplingCall>>,
    /// The task that the server makes of the call, to be kept before it is asked for. `None`: it is kept nowhere.
    pub tasks: Option<mpsc::Sender<BegunTask>>,
    /// The daemon ends: a task goes on without it, and is not called off.
    pub leaving: CancellationToken,
}

/// A call goes on as a task.
#[derive(Debug)]
pub struct BegunTask {
    pub task: ServerTask,
    /// Told, or dropped, when it has been kept as well as can be.
    pub kept: oneshot::Sender<()>,
}
