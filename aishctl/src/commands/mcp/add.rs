//! `mcp add`: a server in the person's file, which is connected to from now on; `mcp connect` is until the daemon ends.

use std::time::Duration;

use aish_proto::mcp::{List, McpServerStatus, ServerState};
use aish_proto::method::Empty;
use clap::Args;
use tokio::time::Instant;

use super::place::ServerPlace;
use super::{CONNECT_DEADLINE, ConnectArgs, contain};
use crate::client::daemon_link::DaemonWait;
use crate::commands::config::ConfigContext;
use crate::commands::toml_text::{self, TomlTable};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// A server, and which of its tools there are.
#[derive(Args, Clone, Debug)]
pub struct AddArgs {
    #[command(flatten)]
    server: ConnectArgs,
    /// Its only tools here, by name, with commas between them; `*` is any text
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Vec<String>,
    /// Tools of it that there are not here
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    without_tools: Vec<String>,
}

const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Runs it to its end.
pub async fn run(context: ConfigContext<'_>, added: &AddArgs) -> Result<Exit, Failure> {
    let args = &added.server;
    let ServerPlace {
        alias,
        url,
        command,
    } = ServerPlace::of(args)?;
    let alias = alias.ok_or_else(|| {
        let target = shlex::try_quote(&args.target).unwrap_or_default();
        Failure::new(
            Exit::USAGE,
            "a server that is kept needs a name, which its tools begin with",
        )
        .hint(format!("aishctl mcp add {target} NAME"))
    })?;
    let contain = contain::chosen(args, url.is_some(), context.may_prompt())?;
    let mut table = TomlTable::new("mcp.servers", &alias)?;
    if let Some(url) = &url {
        table = table.text("url", url)?;
    }
    if let Some((program, arguments)) = command.split_first() {
        table = table
            .text("command", program)?
            .list("args", arguments.iter().map(String::as_str))?
            .text("cwd", &context.around.cwd_text())?;
    }
    if let Some(variable) = &args.auth_env {
        table = table.text("auth_env", variable)?;
    }
    table = table.inline("env", &args.env)?;
    if let Some(profile) = contain {
        table = table.text("contain", profile.word())?;
    }
    if let Some(revision) = &args.revision {
        table = table.text("revision", revision)?;
    }
    let write = contain::written(&context.around.cwd, args);
    let table = table
        .list("write", write.iter().map(String::as_str))?
        .list("hosts", args.host.iter().map(String::as_str))?
        .list("tools", added.tools.iter().map(String::as_str))?
        .list(
            "without_tools",
            added.without_tools.iter().map(String::as_str),
        )?;
    let exit = context.add(&table.into_text()).await?;
    if exit != Exit::DONE {
        return Ok(exit);
    }
    connected(&context, &alias).await
}

/// Takes a server out of the person's file; its session ends.
pub async fn remove(context: ConfigContext<'_>, alias: &str) -> Result<Exit, Failure> {
    let table = format!("mcp.servers.{}", toml_text::key(alias)?);
    context.change(&["unset", "--", &table]).await
}

/// Waits for its first session, where a daemon runs, and says what came of it.
async fn connected(context: &ConfigContext<'_>, alias: &str) -> Result<Exit, Failure> {
    let Ok(link) = context.reach.open(DaemonWait::No).await else {
        return Ok(Exit::DONE);
    };
    let give_up = Instant::now() + context.global.timeout.unwrap_or(CONNECT_DEADLINE);
    let shown = safe::one_line(alias);
    loop {
        let found = link.caller.call::<List>(Empty {}).await?.servers;
        let ours = found.iter().find(|it| it.alias == alias);
        let settled = ours.filter(|it| it.state != ServerState::Connecting);
        match settled {
            Some(McpServerStatus {
                state: ServerState::Ready,
                tools,
                ..
            }) => {
                let line =
                    format!("{shown} is connected: {tools} tools; aishctl mcp tools {shown}\n");
                context.say(&line)?;
                return Ok(Exit::DONE);
            }
            Some(server) if server.state == ServerState::NeedsSignIn => {
                let line = format!(
                    "{shown} is in the file, and needs a sign-in: aishctl mcp login {shown}\n"
                );
                context.say(&line)?;
                return Ok(Exit::DONE);
            }
            Some(server) => {
                let why = server.why.as_deref().unwrap_or("it is off");
                let message = format!(
                    "{shown} is in the file, and not connected: {}",
                    safe::one_line(why)
                );
                return Err(Failure::new(Exit::FAILED, message).hint(format!(
                    "aishctl mcp logs {shown}; out of the file again: aishctl mcp remove {shown}"
                )));
            }
            None if Instant::now() > give_up => {
                let message =
                    format!("{shown} is in the file; the daemon is still connecting to it");
                return Err(Failure::new(Exit::TIMEOUT, message).hint("aishctl mcp list"));
            }
            None => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}
