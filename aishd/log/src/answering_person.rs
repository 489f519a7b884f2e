//! Who did something, as a fact.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::ClientId;
use serde::{Deserialize, Serialize};

/// Who answered: the socket says which process and user, the client which terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweringPerson {
    pub client: ClientId,
    pub name: String,
    #[serde(default)]
    pub tty: Option<String>,
    #[serde(default)]
    pub pid: Option<u32>,
    #[serde(default)]
    pub uid: Option<u32>,
}
