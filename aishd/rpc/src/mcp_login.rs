//! `mcp/login`, `mcp/loginFinish`, `mcp/loginCancel` and `mcp/logout`: people sign in to servers, and out again.

use aish_proto::error::ErrorKind;
use aish_proto::mcp_login::{
    Login, LoginCancel, LoginFinish, LoginFinishResult, LoginResult, Logout, LogoutResult,
    SignInStatus,
};
use aish_proto::method::Empty;
use aishd_log::audit::{AuditFact, ServerChange, SignInAudit};
use aishd_log::time::Timestamp;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::Alias;
use aishd_mcp::ServerSignInError;
use aishd_mcp_messages::bounded_text::one_line;
use aishd_platform::clock;
use aishd_signin::{AnswerFault, LoginWish, SignInFault, SignInStanding};
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, mcp, register};

const MAX_ISSUER_CHARS: usize = 200;
const MOST_SCOPES: usize = 50;
const MAX_SCOPE_CHARS: usize = 100;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Login, _, _>(module, login);
    register::<LoginFinish, _, _>(module, finish);
    register::<LoginCancel, _, _>(module, cancel);
    register::<Logout, _, _>(module, logout);
}

async fn login(call: MethodCall<Login>) -> Result<LoginResult, MethodError> {
    let alias = mcp::alias(&call.params.alias)?;
    let wish = LoginWish {
        name: alias.to_string(),
        redirect: call.params.redirect_uri,
        scopes: call.params.scopes,
    };
    let begun = call.server.hub.login(&alias, wish).await?;
    Ok(LoginResult {
        login: begun.login,
        url: begun.url,
        redirect_uri: begun.redirect,
        resource: begun.resource,
        issuer: begun.issuer,
        scopes: begun.scopes,
        expires_in_ms: u64::try_from(begun.expires_in.as_millis()).unwrap_or(u64::MAX),
    })
}

async fn finish(call: MethodCall<LoginFinish>) -> Result<LoginFinishResult, MethodError> {
    let (login, answer) = (&call.params.login, &call.params.answer);
    let finished = call.server.hub.finish_login(login, answer).await?;
    let told = AuditFact::ServerChanged {
        provider: mcp::alias(&finished.alias)?,
        change: ServerChange::SignedIn,
        place: finished
            .standing
            .as_ref()
            .map(|it| ContentDigest::of(it.issuer.as_bytes())),
        sign_in: finished.standing.as_ref().map(|it| Box::new(told_of(it))),
    };
    mcp::audit(&call.server, &call.connection, told).await?;
    Ok(LoginFinishResult {
        alias: finished.alias,
        sign_in: finished.standing.map(|it| status(it, vec![])),
        not_connected: finished.connected.err().map(|it| it.to_string()),
    })
}

async fn cancel(call: MethodCall<LoginCancel>) -> Result<Empty, MethodError> {
    // It may be over already.
    let _was = call.server.hub.cancel_login(&call.params.login);
    Ok(Empty {})
}

async fn logout(call: MethodCall<Logout>) -> Result<LogoutResult, MethodError> {
    let alias = mcp::alias(&call.params.alias)?;
    // Afterwards nobody knows.
    let before = call.server.hub.standing(&alias);
    let remarks = call.server.hub.logout(&alias, call.params.forget).await?;
    let told = AuditFact::ServerChanged {
        provider: alias,
        change: ServerChange::SignedOut,
        place: None,
        sign_in: before.map(|(it, _)| Box::new(told_of(&it))),
    };
    mcp::audit(&call.server, &call.connection, told).await?;
    Ok(LogoutResult { remarks })
}

/// What the trail has of a sign-in: words of a server, which can be of any length.
fn told_of(standing: &SignInStanding) -> SignInAudit {
    let scopes = standing.scopes.iter().take(MOST_SCOPES);
    SignInAudit {
        issuer: one_line(&standing.issuer, MAX_ISSUER_CHARS),
        scopes: scopes.map(|it| one_line(it, MAX_SCOPE_CHARS)).collect(),
        error: None,
    }
}

/// How it stands with the sign-in to a server.
pub(super) fn standing(server: &RpcServer, alias: &Alias) -> Option<SignInStatus> {
    let (standing, wanted) = server.hub.standing(alias)?;
    Some(status(standing, wanted))
}

fn status(standing: SignInStanding, wanted: Vec<String>) -> SignInStatus {
    let seconds = standing.expires_at;
    SignInStatus {
        issuer: standing.issuer,
        account: standing.account,
        client: standing.client,
        signed_in: standing.is_signed_in,
        scopes: standing.scopes,
        expires_at: seconds.map(|it| clock::rfc3339(Timestamp(it.saturating_mul(1000)))),
        renews: standing.renews,
        redirect_uri: standing.redirect,
        wanted,
    }
}

impl From<ServerSignInError> for MethodError {
    fn from(error: ServerSignInError) -> Self {
        let message = error.to_string();
        match &error {
            ServerSignInError::Unknown(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl mcp list")
            }
            ServerSignInError::Program(_) => Self::params(&message),
            ServerSignInError::HasToken(alias) => Self::params(&format!(
                "{message}; take auth_env, auth_token or the header from [mcp.servers.{alias}] first"
            )),
            ServerSignInError::Fault {
                fault:
                    fault @ SignInFault::Answer(
                        AnswerFault::OtherState
                        | AnswerFault::Missing("state")
                        | AnswerFault::Twice(_),
                    ),
                ..
            } => Self::params(&fault.to_string()),
            ServerSignInError::Fault { alias, fault } => {
                let hint = fault.hint(alias.as_ref().map_or("NAME", Alias::as_str));
                let kind = match fault {
                    SignInFault::Answer(AnswerFault::Refused { .. }) => ErrorKind::Denied,
                    SignInFault::NoLogin => ErrorKind::NotFound,
                    _another => ErrorKind::McpFailed,
                };
                Self::new(kind, message).hint(hint)
            }
        }
    }
}
