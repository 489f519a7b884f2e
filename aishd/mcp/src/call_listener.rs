//! Who hears what a call says and wants to know while it runs.

use tokio::sync::mpsc;

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
}
