//! What is configured about signing in to one server (`[mcp.servers.ALIAS.oauth]`). Nothing has to be.

use std::fmt;
use std::path::PathBuf;

/// How, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    pub grant: OAuthGrant,
    /// Two servers with the same address and account share a sign-in.
    pub account: String,
    pub client_id: Option<String>,
    pub client_secret: Option<SecretSource>,
    /// Signs in place of a secret.
    pub private_key: Option<PathBuf>,
    /// What is handed in for a token: a workload's token, or an identity token.
    pub assertion: Option<SecretSource>,
    pub identity_provider: Option<IdentityProvider>,
    /// In place of what the server asks for.
    pub scopes: Option<Vec<String>>,
    /// What the authorization server calls itself, where that is not how it was named.
    pub issuer: Option<String>,
    /// It does PKCE and does not say so.
    pub assumes_pkce: bool,
    /// Where the browser is sent back to, as the authorization server knows it.
    pub redirect: Option<String>,
    /// The address of a document about this client.
    pub client_document: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OAuthGrant {
    /// A person signs in.
    #[default]
    Person,
    /// The client is its own account.
    ClientCredentials,
    /// A token from somewhere else is handed in (RFC 7523).
    JwtBearer,
    /// The same, with a token that an identity provider gives for an identity token (RFC 8693).
    Enterprise,
}

impl OAuthGrant {
    /// Nobody has to be asked.
    pub fn is_unattended(self) -> bool {
        match self {
            Self::Person => false,
            Self::ClientCredentials | Self::JwtBearer | Self::Enterprise => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityProvider {
    pub token_endpoint: String,
    pub client_id: String,
}

/// Where a secret is read from, each time that it is needed.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the daemon.
    Env(String),
    File(PathBuf),
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl SecretSource {
    /// The place, for people.
    pub fn name(&self) -> String {
        match self {
            Self::Env(name) => format!("${name}"),
            Self::File(path) => path.display().to_string(),
        }
    }
}
