//! The hosts that programs in layers and under profiles reach by their names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::TurnId;

/// Which hosts a program reached, and which it was not given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkUse {
    /// Hosts that were connected to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<HostCount>,
    /// Hosts that a rule or a person did not want reached, or that nobody allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<HostCount>,
    /// Hosts that were allowed and could not be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<HostCount>,
    /// Connections to hosts behind the first twenty of each kind.
    #[serde(default, skip_serializing_if = "is_none")]
    pub others: u64,
    /// The same for people, in one line.
    pub line: String,
}

/// Connections to one host and port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostCount {
    /// `example.org:443`
    pub host: String,
    pub times: u64,
    /// Both ways together.
    #[serde(default, skip_serializing_if = "is_none")]
    pub bytes: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// A host that a command in layers, or a call that reads a page, wants to reach, as a question; its connection waits for the answer.
/// `allowOnce` is for all commands of the run, for what is tried, or for the call; `allowConversation` is for all that works in
/// layers, and all such calls, in this conversation. They mean public addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantedHost {
    /// With its port: `example.org:443`.
    pub host: String,
    /// What allows it always: an entry of `contain.hosts`.
    pub rule: String,
    /// Everybody on the way can read what is sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
    /// Which wants it; its beginning.
    pub command: String,
    /// The tool whose call wants it; it is the call in short then. Absent: it is a command of the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The run that it is of. Absent: it is tried, or a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<TurnId>,
}

impl HostCount {
    /// As a rule would name it: ports that go without saying are left out.
    pub fn named(&self) -> &str {
        let usual = [":443", ":80"];
        let named = usual.iter().find_map(|it| self.host.strip_suffix(it));
        named.unwrap_or(&self.host)
    }
}
