//! Why nobody is signed in, and what a person can do about it.

use std::path::PathBuf;

use crate::authorization::AnswerFault;
use crate::metadata::{AddressFault, MetadataFault};
use crate::secret::NoChance;
use crate::signature::KeyFault;
use crate::store::StoreFault;
use crate::token::{TokenFault, TokenRefusal};

/// A sign-in, or something that it needs, did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum SignInFault {
    #[error("{place} cannot be reached: {why}")]
    Unreachable { place: String, why: String },
    #[error("{place} answers with HTTP {status}")]
    Broken { place: String, status: u16 },
    #[error("{place} redirects, which is not followed with what is secret")]
    Redirected { place: String },
    #[error("what {place} says cannot be used: {fault}")]
    Metadata { place: String, fault: MetadataFault },
    #[error("the authorization server {issuer} publishes no metadata that can be used")]
    NoMetadata { issuer: String },
    /// A secret of the one is nobody else's.
    #[error(
        "its authorization server was {before}, and it names {named} now; nothing secret was sent there"
    )]
    OtherIssuer { before: String, named: String },
    #[error("{what}: {fault}")]
    Address {
        what: &'static str,
        fault: AddressFault,
    },
    #[error("{issuer} registers no clients by itself, and no client id is configured")]
    NeedsClient { issuer: String, redirect: String },
    #[error("{issuer} did not register this client: {refusal}")]
    NotRegistered {
        issuer: String,
        refusal: TokenRefusal,
    },
    #[error("the address that the browser is sent back to is not on this machine: {0}")]
    Redirect(String),
    #[error("{issuer} has no page to sign in at")]
    NoPage { issuer: String },
    #[error(transparent)]
    Answer(#[from] AnswerFault),
    #[error("{issuer} gave no token: {refusal}")]
    Refused {
        issuer: String,
        refusal: TokenRefusal,
    },
    #[error("{issuer}: {fault}")]
    Token { issuer: String, fault: TokenFault },
    #[error(
        "there is no such sign-in under way; it ends after ten minutes, and when another is begun"
    )]
    NoLogin,
    #[error("oauth.{key} is needed for this grant")]
    Unconfigured { key: &'static str },
    #[error("{place} holds nothing")]
    NoSecret { place: String },
    #[error("{path}: {why}", path = .path.display())]
    File { path: PathBuf, why: String },
    #[error("{path}: {fault}", path = .path.display())]
    Key { path: PathBuf, fault: KeyFault },
    #[error("a proof cannot be made: {0}")]
    Proof(#[from] KeyFault),
    #[error(transparent)]
    Store(#[from] StoreFault),
    #[error(transparent)]
    NoChance(#[from] NoChance),
    #[error("it signs in without a person (oauth.grant)")]
    Unattended,
    #[error("its renewal was cut off; what became of it is not known")]
    Lost,
    #[error("{why}; it is asked again in {seconds} s")]
    Resting {
        why: String,
        seconds: u64,
        is_temporary: bool,
    },
    #[error("what is kept of it cannot be read, so that nothing was revoked: {0}")]
    Unread(String),
}

impl SignInFault {
    /// The same may go well a little later, and nothing has to be forgotten for it.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } | Self::Lost => true,
            Self::Resting { is_temporary, .. } => *is_temporary,
            Self::Redirected { .. }
            | Self::Metadata { .. }
            | Self::NoMetadata { .. }
            | Self::OtherIssuer { .. }
            | Self::Address { .. }
            | Self::NeedsClient { .. }
            | Self::NotRegistered { .. }
            | Self::Redirect(_)
            | Self::NoPage { .. }
            | Self::Answer(_)
            | Self::Refused { .. }
            | Self::Token { .. }
            | Self::NoLogin
            | Self::Unconfigured { .. }
            | Self::NoSecret { .. }
            | Self::File { .. }
            | Self::Key { .. }
            | Self::Proof(_)
            | Self::Store(_)
            | Self::NoChance(_)
            | Self::Unread(_)
            | Self::Unattended => false,
        }
    }

    /// Whether it is what a server did or said, and not a matter of this machine.
    pub(crate) fn is_of_a_server(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Broken { .. }
                | Self::Redirected { .. }
                | Self::Metadata { .. }
                | Self::NoMetadata { .. }
                | Self::OtherIssuer { .. }
                | Self::Refused { .. }
                | Self::Token { .. }
        )
    }

    /// The next command, or the key of the configuration that helps.
    pub fn hint(&self, alias: &str) -> String {
        let key = |key: &str| format!("[mcp.servers.{alias}] oauth = {{ {key} }}");
        match self {
            Self::Metadata {
                fault: MetadataFault::NoPkce,
                ..
            } => format!(
                "if you know that it does PKCE all the same: {}",
                key("pkce = \"assume\"")
            ),
            Self::Metadata {
                fault: MetadataFault::OfAnother { named, .. },
                ..
            } => format!(
                "if you know that this is right: {}",
                key(&format!("issuer = \"{named}\""))
            ),
            Self::NeedsClient { redirect, .. } => format!(
                "register a client there with the redirect {redirect}, then {}",
                key("client_id = \"...\"")
            ),
            Self::NotRegistered { .. } => {
                format!(
                    "a client that you registered there: {}",
                    key("client_id = \"...\"")
                )
            }
            Self::Unconfigured { key: needed } => key(&format!("{needed} = \"...\"")),
            Self::NoSecret { .. } | Self::File { .. } | Self::Key { .. } => {
                format!(
                    "correct what [mcp.servers.{alias}.oauth] names, then aishctl mcp restart {alias}"
                )
            }
            Self::Unattended => format!("aishctl mcp restart {alias}"),
            Self::OtherIssuer { .. } => format!(
                "if you know that this is right: aishctl mcp logout {alias} --forget, and sign in anew"
            ),
            Self::Unread(_) => format!(
                "aishctl mcp logout {alias} --forget takes it away; end the session where you signed in, too"
            ),
            Self::Unreachable { .. } | Self::Broken { .. } | Self::Resting { .. } => {
                format!("aishctl mcp restart {alias}, when it is there again")
            }
            Self::Answer(_) | Self::NoLogin | Self::Refused { .. } | Self::Lost => {
                format!("aishctl mcp login {alias}")
            }
            Self::Redirect(_) => key("redirect_uri = \"http://127.0.0.1:PORT/callback\""),
            Self::Redirected { .. }
            | Self::Metadata { .. }
            | Self::NoMetadata { .. }
            | Self::Address { .. }
            | Self::NoPage { .. }
            | Self::Token { .. }
            | Self::Proof(_)
            | Self::Store(_)
            | Self::NoChance(_) => format!("aishctl mcp list says more of {alias}"),
        }
    }
}
