//! What is told of a renewal that failed: where, and the code of the error. No token and no word of a server but that code.

/// A token that was to be renewed, and was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRenewal {
    /// The MCP server, as a URL, and the account there.
    pub(crate) server: String,
    pub(crate) account: String,
    pub issuer: String,
    /// The code of OAuth (`invalid_grant`), or what happened in place of an answer.
    pub error: String,
}
