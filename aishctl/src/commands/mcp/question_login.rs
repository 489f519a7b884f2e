//! Signing in as the answer to a question: the browser is opened and comes back as with `mcp login`. What becomes of the question
//! is the daemon's: it is over as soon as somebody has signed in, here or elsewhere, and then nothing is waited for any more.

use std::time::Duration;

use aish_proto::confirm::{ConfirmParams, ConfirmState, Get};
use aish_proto::id::ConfirmId;
use aish_proto::mcp::List;
use aish_proto::mcp_login::{Login, LoginCancel, LoginCancelParams, LoginParams, LoginResult};
use aish_proto::method::Empty;

use super::browser;
use super::login::{BEGIN, brought, is_far, port_of, say};
use super::loopback::LoopbackListener;
use crate::client::connect::Caller;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// How often the question is looked at while the browser is away.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct QuestionLogin {
    begun: LoginResult,
    listener: LoopbackListener,
    text: String,
}

impl QuestionLogin {
    /// Finds out where to sign in and opens the page.
    pub(crate) async fn begin(
        caller: &Caller,
        around: &ClientEnvironment,
        server: &str,
    ) -> Result<Self, Failure> {
        let by_hand = || {
            let message = "the browser is on another machine and cannot come back to this one";
            let alias = safe::one_line(server);
            Failure::new(Exit::FAILED, message).hint(format!("aishctl mcp login {alias} --paste"))
        };
        if is_far(around) {
            return Err(by_hand());
        }
        let servers = caller.call::<List>(Empty {}).await?.servers;
        let known = servers.into_iter().find(|it| it.alias == server);
        let listener = LoopbackListener::bind(None, known.as_ref().and_then(port_of)).await?;
        let params = LoginParams {
            alias: server.to_owned(),
            redirect_uri: listener.redirect(),
            scopes: None,
        };
        let begun = caller.call_within::<Login>(params, Some(BEGIN)).await?;
        let listener = listener.moved_to(&begun.redirect_uri).await?;
        let listener = listener.ok_or_else(by_hand)?;
        let opened = if browser::open(around, &begun.url) {
            "a browser was opened at this address"
        } else {
            "open this address in a browser"
        };
        let text = format!(
            "signing in to {} at {}; {opened}:\n  {}\n",
            safe::one_line(server),
            safe::one_line(&begun.issuer),
            safe::one_line(&begun.url)
        );
        Ok(Self {
            begun,
            listener,
            text,
        })
    }

    /// Signs in at a terminal where nothing else goes on meanwhile. Returns when the question is settled.
    pub(crate) async fn at_prompt(
        caller: &Caller,
        around: &ClientEnvironment,
        server: &str,
        confirm: ConfirmId,
    ) -> Result<(), Failure> {
        let login = Self::begin(caller, around, server).await?;
        say(login.text())?;
        login.finish(caller, confirm).await
    }

    /// For the person, with the address.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Waits until the browser is back, or the question is over.
    pub(crate) async fn finish(self, caller: &Caller, confirm: ConfirmId) -> Result<(), Failure> {
        let Self {
            begun, listener, ..
        } = self;
        let over = async {
            loop {
                tokio::time::sleep(LOOK).await;
                match caller.call::<Get>(ConfirmParams { confirm }).await {
                    Ok(record) if record.state == ConfirmState::Pending => {}
                    Ok(_) | Err(_) => return,
                }
            }
        };
        let (login, time) = (begun.login.clone(), begun.expires_in_ms);
        let ended = tokio::select! {
            finished = brought(caller, &begun, Some(&listener), false) => {
                return finished.map(drop);
            }
            () = over => Ok(()),
            () = tokio::time::sleep(Duration::from_millis(time)) => {
                let message = "nobody came back from the browser in time; the question still waits";
                Err(Failure::new(Exit::TIMEOUT, message))
            }
        };
        // It ends by itself where the daemon does not hear of it.
        let _ended = caller
            .call::<LoginCancel>(LoginCancelParams { login })
            .await;
        ended
    }
}
