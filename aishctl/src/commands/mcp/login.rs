//! `mcp login` and `mcp logout`. The daemon does every request and keeps what comes of it; here a person is sent to a page,
//! and what the browser brings back is handed over: by a listener on this machine that lives as long as the command, or by
//! a person who pastes it.

use std::io::{self, Write as _};
use std::time::Duration;

use aish_proto::mcp::{List, McpServerStatus};
use aish_proto::mcp_login::{
    Login, LoginCancel, LoginCancelParams, LoginFinish, LoginFinishParams, LoginFinishResult,
    LoginParams, LoginResult, Logout, LogoutParams,
};
use aish_proto::method::Empty;
use clap::Args;
use tokio::io::AsyncBufReadExt as _;

use super::browser;
use super::loopback::{LoopbackListener, port_and_path};
use crate::client::connect::{CallFailure, Caller};
use crate::client::daemon_link::DaemonWait;
use crate::commands::config::ConfigContext;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// Finding out where to sign in takes several questions to servers far away.
pub(super) const BEGIN: Duration = Duration::from_secs(60);
/// The tokens are fetched, and the server is connected to anew.
const FINISH: Duration = Duration::from_secs(90);
/// How the daemon refuses an answer that belongs to another sign-in; this one goes on.
const NOT_OURS: i32 = -32602;
/// The longest address that is read.
const MAX_PASTED: u64 = 16 << 10;

#[derive(Args, Clone, Debug)]
pub struct LoginArgs {
    /// The server's name, as aishctl mcp list has it
    pub alias: String,
    /// Read the address that the browser was sent to, in place of listening for it: on a machine without a browser
    #[arg(long)]
    pub paste: bool,
    /// Only print the address to open
    #[arg(long)]
    pub no_browser: bool,
    /// The port to listen on, where the authorization server knows only one
    #[arg(long)]
    pub port: Option<u16>,
    /// What to ask for, in place of what the server asks for
    #[arg(long, value_name = "SCOPE")]
    pub scope: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub struct LogoutArgs {
    /// The server's name
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub alias: Option<String>,
    /// Out of every server that somebody is signed in to
    #[arg(long)]
    pub all: bool,
    /// Forget also who this machine is there, so that the next sign-in registers anew
    #[arg(long)]
    pub forget: bool,
}

/// Signs in: 0 when it is done, 3 when the person refused there.
pub async fn run(context: ConfigContext<'_>, args: &LoginArgs) -> Result<Exit, Failure> {
    let link = context.reach.open(DaemonWait::No).await?;
    let caller = &link.caller;
    let servers = caller.call::<List>(Empty {}).await?.servers;
    let known = servers.into_iter().find(|it| it.alias == args.alias);
    let listener = LoopbackListener::bind(args.port, known.as_ref().and_then(port_of)).await?;
    let params = LoginParams {
        alias: args.alias.clone(),
        redirect_uri: listener.redirect(),
        scopes: (!args.scope.is_empty()).then(|| args.scope.clone()),
    };
    let begun = caller.call_within::<Login>(params, Some(BEGIN)).await?;
    let port = listener.port();
    let listener = listener.moved_to(&begun.redirect_uri).await?;
    // Where the browser ends up elsewhere, its address is brought by hand.
    let paste = args.paste || is_far(context.around) || listener.is_none();
    let port = listener.as_ref().map_or(port, LoopbackListener::port);
    announce(&context, args, &begun, paste, port)?;
    if !paste && !args.no_browser && !browser::open(context.around, &begun.url) {
        say(
            "no browser could be opened here: open the address above, or aishctl mcp login --paste",
        )?;
    }
    let finished = tokio::select! {
        finished = brought(caller, &begun, listener.as_ref(), paste) => finished,
        _interrupted = tokio::signal::ctrl_c() => {
            let login = begun.login.clone();
            // It ends by itself where the daemon does not hear of it.
            let _ended = caller.call::<LoginCancel>(LoginCancelParams { login }).await;
            return Ok(Exit::INTERRUPTED);
        }
        () = tokio::time::sleep(context.global.timeout.unwrap_or(Duration::from_millis(begun.expires_in_ms))) => {
            let message = "nobody came back from the browser in time";
            Err(Failure::new(Exit::TIMEOUT, message).hint(format!("aishctl mcp login {}", args.alias)))
        }
    };
    done(&context, &finished?)
}

/// A port that the authorization server knows already.
pub(super) fn port_of(server: &McpServerStatus) -> Option<u16> {
    let redirect = server.sign_in.as_ref()?.redirect_uri.as_deref()?;
    port_and_path(redirect).map(|(port, _)| port)
}

/// Somebody sits at another machine: their browser cannot reach this one.
pub(super) fn is_far(around: &ClientEnvironment) -> bool {
    let has = |name: &str| {
        let value = around.variables.get(std::ffi::OsStr::new(name));
        value.is_some_and(|it| !it.is_empty())
    };
    has("SSH_CONNECTION") && !has("DISPLAY") && !has("WAYLAND_DISPLAY") && !has("BROWSER")
}

pub(super) fn say(text: &str) -> Result<(), Failure> {
    let line = format!("{}\n", safe::screen(text));
    let mut stderr = io::stderr().lock();
    stderr
        .write_all(line.as_bytes())
        .map_err(|error| Failure::output(&error))
}

fn announce(
    context: &ConfigContext<'_>,
    args: &LoginArgs,
    begun: &LoginResult,
    paste: bool,
    port: u16,
) -> Result<(), Failure> {
    let alias = safe::one_line(&args.alias);
    say(&format!(
        "signing in to {alias} ({})",
        safe::one_line(&begun.resource)
    ))?;
    say(&format!("  at   {}", safe::one_line(&begun.issuer)))?;
    if !begun.scopes.is_empty() {
        say(&format!(
            "  for  {}",
            safe::one_line(&begun.scopes.join(" "))
        ))?;
    }
    say(&format!(
        "open in a browser:\n\n  {}\n",
        safe::one_line(&begun.url)
    ))?;
    if paste {
        say(&format!(
            "then paste the address that the browser was sent to, though it may not open there (or, on the machine with the \
             browser: ssh -L {port}:127.0.0.1:{port} THIS-MACHINE, and no --paste):"
        ))?;
    } else if context.may_prompt() {
        say("waiting for the browser to come back; Ctrl-C gives up")?;
    }
    Ok(())
}

/// What the browser brings counts once. A visit that is none of this sign-in's changes nothing.
pub(super) async fn brought(
    caller: &Caller,
    begun: &LoginResult,
    listener: Option<&LoopbackListener>,
    paste: bool,
) -> Result<LoginFinishResult, Failure> {
    let finish = |answer: String| {
        let login = begun.login.clone();
        caller.call_within::<LoginFinish>(LoginFinishParams { login, answer }, Some(FINISH))
    };
    let Some(listener) = listener.filter(|_| !paste) else {
        return Ok(finish(pasted().await?).await?);
    };
    loop {
        let visit = listener.visit().await?;
        match finish(visit.query.clone()).await {
            Ok(finished) => {
                visit.answer("Signed in. This page can be closed.").await;
                return Ok(finished);
            }
            Err(error) => {
                let stray = error.kind == CallFailure::Protocol(NOT_OURS);
                let failure = Failure::from(error);
                visit
                    .answer(&format!("Not signed in: {}", failure.message))
                    .await;
                if !stray {
                    return Err(failure);
                }
            }
        }
    }
}

/// One line from stdin: an address never stands among the arguments of a command, where others see it.
async fn pasted() -> Result<String, Failure> {
    let stdin = tokio::io::BufReader::new(tokio::io::stdin());
    let mut line = String::new();
    let read = tokio::io::AsyncReadExt::take(stdin, MAX_PASTED)
        .read_line(&mut line)
        .await;
    read.map_err(|error| Failure::new(Exit::FAILED, format!("cannot read the address: {error}")))?;
    if line.trim().is_empty() {
        let message = "no address was pasted; nobody is signed in";
        return Err(Failure::new(Exit::USAGE, message));
    }
    Ok(line)
}

fn done(context: &ConfigContext<'_>, finished: &LoginFinishResult) -> Result<Exit, Failure> {
    let alias = safe::one_line(&finished.alias);
    if context.global.json || context.global.jsonl {
        let text = serde_json::to_string(finished).unwrap_or_default();
        context.say(&format!("{}\n", safe::json_pipe(&text)))?;
    } else {
        context.say(&format!("signed in to {alias}\n"))?;
    }
    match &finished.not_connected {
        None => Ok(Exit::DONE),
        Some(why) => {
            let message = format!("signed in, and not connected: {}", safe::one_line(why));
            Err(Failure::new(Exit::FAILED, message).hint("aishctl mcp list"))
        }
    }
}

pub async fn logout(context: ConfigContext<'_>, args: &LogoutArgs) -> Result<Exit, Failure> {
    let link = context.reach.open(DaemonWait::No).await?;
    let Some(alias) = &args.alias else {
        return logout_of_all(&context, &link.caller, args.forget).await;
    };
    logout_of(&context, &link.caller, alias, args.forget).await?;
    Ok(Exit::DONE)
}

/// One after the other; one that fails does not keep the others.
async fn logout_of_all(
    context: &ConfigContext<'_>,
    caller: &Caller,
    forget: bool,
) -> Result<Exit, Failure> {
    let servers = caller.call::<List>(Empty {}).await?.servers;
    let known = servers
        .into_iter()
        .filter(|it| it.sign_in.as_ref().is_some_and(|it| it.signed_in || forget));
    let mut exit = Exit::DONE;
    let mut found = 0;
    for server in known {
        found += 1;
        if let Err(failure) = logout_of(context, caller, &server.alias, forget).await {
            let (alias, why) = (&server.alias, safe::one_line(&failure.message));
            say(&format!("[aish] mcp {alias}: {why}"))?;
            exit = Exit::FAILED;
        }
    }
    if found == 0 {
        context.say("nobody is signed in to any server\n")?;
    }
    Ok(exit)
}

async fn logout_of(
    context: &ConfigContext<'_>,
    caller: &Caller,
    alias: &str,
    forget: bool,
) -> Result<(), Failure> {
    let params = LogoutParams {
        alias: alias.to_owned(),
        forget,
    };
    let out = caller.call_within::<Logout>(params, Some(BEGIN)).await?;
    for remark in &out.remarks {
        say(&format!("[aish] {}", safe::one_line(remark)))?;
    }
    let alias = safe::one_line(alias);
    context.say(&format!(
        "signed out of {alias}; aishctl mcp login {alias} signs in again\n"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_port_that_was_registered_is_taken_again() {
        let check = |redirect: &str, expected: Option<u16>| {
            let status = json!({
                "alias": "a", "transport": "http", "endpoint": "", "state": "ready", "since": "", "name": "",
                "version": "", "protocol": "", "tools": 0, "resources": false, "prompts": false, "connectMs": null,
                "signIn": {"issuer": "", "client": "", "signedIn": true, "scopes": [], "renews": true,
                    "redirectUri": redirect},
            });
            let status: McpServerStatus = serde_json::from_value(status).unwrap();
            assert_eq!(expected, port_of(&status), "{redirect}");
        };
        check("http://127.0.0.1:7001/callback", Some(7001));
        check("http://localhost:7001", Some(7001));
        check("http://[::1]:7001/callback", Some(7001));
        check("https://elsewhere.example/callback", None);
        check("", None);
    }
}
