//! What people have granted in a conversation, and for how long.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::tool::ContentDigest;
use crate::tool_name::{Alias, ToolName};

/// What people have granted in one conversation. Kept in its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantList {
    #[serde(default)]
    pub levels: BTreeMap<Alias, Access>,
    /// "Always", for exactly this definition.
    #[serde(default)]
    pub approved: BTreeMap<ToolName, ContentDigest>,
    /// "Always", for exactly this command where and as it was asked about.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub commands: BTreeSet<ContentDigest>,
    /// "Always here", for this host and port.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hosts: BTreeSet<String>,
}

/// When it ends, if its client stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// With the running turn; where none runs, with the next one.
    Turn,
    Client,
}
