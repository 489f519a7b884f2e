//! One sign-in, as it is kept.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client::OAuthClient;
use crate::secret::Secret;
use crate::token::TokenSet;

pub(crate) const VERSION: u32 = 1;

/// Who signed in where, with what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignInRecord {
    pub(crate) version: u32,
    /// The address of the MCP server, and whose account it is.
    pub(crate) server: String,
    #[serde(default)]
    pub(crate) account: String,
    /// As the server calls itself: what tokens are asked for.
    pub(crate) resource: String,
    pub(crate) issuer: String,
    pub(crate) token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) client: OAuthClient,
    /// `None`: signed out, or refused; the client is still known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<TokenSet>,
    /// What was asked for: a further scope is asked for together with these.
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    /// The key that the tokens are bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proof_key: Option<Secret>,
    /// What a newer version has written.
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

impl SignInRecord {
    /// Everything in it that nobody is to see.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let tokens = self.tokens.iter().flat_map(|it| {
            let refresh = it.refresh.as_ref();
            std::iter::once(&it.access).chain(refresh)
        });
        let client = self.client.secret.as_ref();
        tokens.chain(client).chain(self.proof_key.as_ref())
    }
}
