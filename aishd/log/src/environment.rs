//! The environment that a client gives the commands that it asks for.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tool::ContentDigest;

/// What a client may give altogether.
pub const MAX_ENVIRONMENT_BYTES: usize = 64 << 10;

/// What a client gave of its own environment, and the daemon takes.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientVariables {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// The terminal that the client sits on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
}

/// Values may be secrets.
impl fmt::Debug for ClientVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientVariables")
            .field("variables", &self.variables.keys())
            .field("umask", &self.umask)
            .field("tty", &self.tty)
            .finish()
    }
}

impl ClientVariables {
    /// Of what a client gives, what is taken: the named variables, and the shell.
    pub fn taken(
        variables: BTreeMap<String, String>,
        umask: Option<u32>,
        tty: Option<String>,
        names: &[String],
    ) -> Self {
        let wanted = |name: &str| name == "SHELL" || names.iter().any(|it| it == name);
        let usable = |name: &str, value: &str| !name.contains(['=', '\0']) && !value.contains('\0');
        Self {
            variables: variables
                .into_iter()
                .filter(|(name, value)| wanted(name) && usable(name, value))
                .collect(),
            umask: umask.map(|it| it & 0o777),
            tty,
        }
    }

    pub fn digest(&self) -> ContentDigest {
        ContentDigest::of_value(&json!({
            "variables": self.variables,
            "umask": self.umask,
            "tty": self.tty,
        }))
    }
}
