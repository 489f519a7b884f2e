//! Signing in to a server and out again, with what that does to its sessions.

use aishd_log::tool_name::Alias;
use aishd_mcp_messages::settings::ServerEndpoint;
use aishd_signin::{
    FailedRenewal, LoginBegun, LoginWish, ServerBearer, SignInFault, SignInReason, SignInStanding,
};

use super::error::{ToolCallError, WireFailure};
use super::hub::{Hub, ServerChangeError};

/// Nobody was signed in or out.
#[derive(Debug, thiserror::Error)]
pub enum ServerSignInError {
    #[error("there is no MCP server {0}")]
    Unknown(Alias),
    #[error("{0} is a program; people sign in to servers behind a url")]
    Program(Alias),
    #[error("{0} has a token of the configuration, so that nobody signs in to it")]
    HasToken(Alias),
    #[error("{alias}: {fault}", alias = .alias.as_ref().map_or("the sign-in", Alias::as_str))]
    Fault {
        /// `None`: it is known only by its number.
        alias: Option<Alias>,
        fault: SignInFault,
    },
}

/// What a person has to sign in for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInWanted {
    /// Where that is, as far as it is known.
    pub issuer: Option<String>,
    pub why: String,
    pub scopes: Vec<String>,
}

/// Somebody has signed in.
#[derive(Debug)]
pub struct LoginFinished {
    pub alias: String,
    pub standing: Option<SignInStanding>,
    /// Whether there is a session now.
    pub connected: Result<(), ServerChangeError>,
}

impl Hub {
    fn bearer(&self, alias: &Alias) -> Result<ServerBearer, ServerSignInError> {
        let all = self.endpoints();
        let found = all.into_iter().find(|(it, _)| it == alias);
        let (_, server) = found.ok_or_else(|| ServerSignInError::Unknown(alias.clone()))?;
        match &server.endpoint {
            ServerEndpoint::Stdio(_) => Err(ServerSignInError::Program(alias.clone())),
            http @ ServerEndpoint::Http(_) => self
                .shared()
                .bearer(http)
                .ok_or_else(|| ServerSignInError::HasToken(alias.clone())),
        }
    }

    /// How it stands with the sign-in to a server.
    pub fn standing(&self, alias: &Alias) -> Option<(SignInStanding, Vec<String>)> {
        let bearer = self.bearer(alias).ok()?;
        Some((bearer.standing()?, bearer.wanted()))
    }

    /// How often somebody has signed in to a server.
    pub fn sign_ins(&self, alias: &Alias) -> Option<u64> {
        Some(self.bearer(alias).ok()?.sign_ins())
    }

    /// Whether a call failed because a person has to sign in first. Then nothing ran.
    pub fn sign_in_wanted(&self, error: &ToolCallError) -> Option<SignInWanted> {
        let ToolCallError::Transport {
            alias,
            failure: WireFailure::SignIn(need),
        } = error
        else {
            return None;
        };
        let by_person = !matches!(need.why, SignInReason::Unattended { .. });
        by_person.then(|| SignInWanted {
            issuer: self.standing(alias).map(|(it, _)| it.issuer),
            why: need.to_string(),
            scopes: need.scopes.clone(),
        })
    }

    /// Begins a sign-in; a person opens its address.
    pub async fn login(
        &self,
        alias: &Alias,
        wish: LoginWish,
    ) -> Result<LoginBegun, ServerSignInError> {
        let bearer = self.bearer(alias)?;
        let begun = self.shared().parts.sign_in.begin(&bearer, wish).await;
        begun.map_err(|fault| ServerSignInError::Fault {
            alias: Some(alias.clone()),
            fault,
        })
    }

    /// Takes what the browser brought, and connects to the server anew: under each name that shares the sign-in.
    pub async fn finish_login(
        &self,
        login: &str,
        said: &str,
    ) -> Result<LoginFinished, ServerSignInError> {
        let sign_in = &self.shared().parts.sign_in;
        let alias = sign_in.name(login).and_then(|it| it.parse().ok());
        let finished = sign_in.finish(login, said).await;
        let (bearer, name) = finished.map_err(|fault| ServerSignInError::Fault { alias, fault })?;
        let mut connected = Ok(());
        for alias in self.sharing(&bearer) {
            let restarted = self.restart(&alias).await;
            if alias.as_str() == name {
                connected = restarted;
            }
        }
        Ok(LoginFinished {
            alias: name,
            standing: bearer.standing(),
            connected,
        })
    }

    /// Waits for renewals that are under way.
    pub async fn signed(&self) {
        self.shared().parts.sign_in.stop().await;
    }

    pub fn cancel_login(&self, login: &str) -> bool {
        self.shared().parts.sign_in.cancel(login)
    }

    /// Signs out: what remains to be said.
    pub async fn logout(
        &self,
        alias: &Alias,
        forget: bool,
    ) -> Result<Vec<String>, ServerSignInError> {
        let bearer = self.bearer(alias)?;
        let done = self.shared().parts.sign_in.logout(&bearer, forget).await;
        let remarks = done.map_err(|fault| ServerSignInError::Fault {
            alias: Some(alias.clone()),
            fault,
        })?;
        for alias in self.sharing(&bearer) {
            // Without a token it says that it needs one.
            let _needs_it = self.restart(&alias).await;
        }
        Ok(remarks)
    }

    /// The servers whose sign-in that is which was not renewed.
    pub fn not_renewed(&self, failed: &FailedRenewal) -> Vec<Alias> {
        let all = self.endpoints();
        let ours = all.into_iter().filter(|(_, server)| {
            let bearer = self.shared().bearer(&server.endpoint);
            server.off.is_none() && bearer.is_some_and(|it| it.is_of(failed))
        });
        ours.map(|(alias, _)| alias).collect()
    }

    fn sharing(&self, bearer: &ServerBearer) -> Vec<Alias> {
        let all = self.endpoints();
        let ours = all.into_iter().filter(|(_, server)| {
            let other = self.shared().bearer(&server.endpoint);
            server.off.is_none() && other.is_some_and(|it| it.is_same(bearer))
        });
        ours.map(|(alias, _)| alias).collect()
    }
}
