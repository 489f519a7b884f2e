//! `mcp/login` and what follows on it: signing in to MCP servers. Tokens are never in here: only the daemon has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::method::{Empty, methods};

methods! {
    /// Begins a sign-in: the daemon finds out where, and gives the address that a person opens.
    Login: "mcp/login", Driver, Unordered, LoginParams => LoginResult;
    /// Hands over what the browser brought back, and returns when the server is connected to anew.
    LoginFinish: "mcp/loginFinish", Driver, Unordered, LoginFinishParams => LoginFinishResult;
    /// Gives up a sign-in that was begun; none is as good.
    LoginCancel: "mcp/loginCancel", Driver, Unordered, LoginCancelParams => Empty;
    /// Takes the tokens back where the authorization server can, and forgets them.
    Logout: "mcp/logout", Driver, Unordered, LogoutParams => LogoutResult;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoginParams {
    pub alias: String,
    /// Where the browser is to come back to, on this machine: `http://127.0.0.1:PORT/callback`. Somebody listens there, or a
    /// person copies the address that their browser failed to open.
    pub redirect_uri: String,
    /// In place of what the server asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginResult {
    pub login: String,
    /// What the person opens.
    pub url: String,
    /// Where the browser comes back to: it may be another than was asked for, where the configuration says so.
    pub redirect_uri: String,
    /// What is signed in to, as it calls itself.
    pub resource: String,
    /// Who asks for a password, if anybody does.
    pub issuer: String,
    pub scopes: Vec<String>,
    pub expires_in_ms: u64,
}

/// Who has the address could be taken for who began.
impl std::fmt::Debug for LoginResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginResult")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoginFinishParams {
    pub login: String,
    /// The query of the address that the browser was sent to, or all of the address.
    pub answer: String,
}

/// The answer holds a code that is as good as a key.
impl std::fmt::Debug for LoginFinishParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginFinishParams").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginFinishResult {
    pub alias: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignInStatus>,
    /// Why there is no session with the server all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_connected: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoginCancelParams {
    pub login: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogoutParams {
    pub alias: String,
    /// Forgets who we are there as well, so that the next sign-in registers anew.
    #[serde(default)]
    pub forget: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogoutResult {
    /// What could not be done there. Here nothing is left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// How it stands with a sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInStatus {
    pub issuer: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// Who we are there.
    pub client: String,
    pub signed_in: bool,
    pub scopes: Vec<String>,
    /// When the token of now is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whether it is renewed then without a person.
    pub renews: bool,
    /// Where the browser came back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// What the server wanted beyond what was granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<String>,
}
