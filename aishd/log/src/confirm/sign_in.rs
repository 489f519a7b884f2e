//! A server that a person has to sign in to before a call can run.

use serde::{Deserialize, Serialize};

use super::ConfirmCall;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInSubject {
    /// It was refused before it did anything, and runs when somebody has signed in.
    pub call: ConfirmCall,
    /// Where one signs in, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// What the server said.
    pub why: String,
    /// What it wants, where it wants more than was granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}
