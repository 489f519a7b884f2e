//! `mcp`: the servers that the daemon holds sessions with, what they offer, and what they last said.

pub mod add;
mod browser;
mod contain;
pub mod import;
pub mod login;
mod loopback;
mod pinned;
mod place;
pub mod question_login;
mod show;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aish_proto::hosts::NetworkUse;
use aish_proto::mcp::{
    Connect, ConnectParams, Disconnect, GetPrompt, GetPromptParams, List, Logs, McpResource,
    McpServerStatus, McpTransport, Profile, Prompts, ReadResource, ReadResourceParams, Refresh,
    RefreshParams, Resources, Restart, ServerParams, ServerState, Tool, ToolParams, Tools,
    ToolsParams,
};
use aish_proto::method::Empty;
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::commands::mcp::place::ServerPlace;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::gateway::ServeArgs;
use crate::render::{held_to, table};
use crate::safe;

/// A program may have to be fetched before it says its first word; the daemon gives up before this.
const CONNECT_DEADLINE: Duration = Duration::from_secs(90);
/// A server's own work; the daemon's limit for a call is shorter unless it reports progress.
pub(crate) const ASK_DEADLINE: Duration = Duration::from_secs(130);
const SUMMARY_COLUMNS: usize = 80;

#[derive(Clone, Debug, Subcommand)]
pub enum McpCommand {
    /// The servers, and how they do
    #[command(alias = "ls")]
    List,
    /// One server: how it is reached, how it does, and what it has
    Show { alias: String },
    /// The tools that can be called
    Tools { alias: Option<String> },
    /// One tool's whole definition
    Tool {
        #[arg(value_name = "ALIAS__TOOL")]
        name: String,
    },
    /// Connect to a server until it is disconnected or the daemon ends
    Connect(ConnectArgs),
    /// Keep a server in your configuration, where it is connected to from now on
    Add(add::AddArgs),
    /// Take a server out of your configuration
    #[command(alias = "rm")]
    Remove { alias: String },
    /// Sign in to a server, in a browser
    Login(login::LoginArgs),
    /// Sign out of a server, and take its tokens back
    Logout(login::LogoutArgs),
    /// End a session; a configured server comes back when the daemon is started again
    Disconnect { alias: String },
    /// End a session and begin another
    Restart { alias: String },
    /// List the tools again, of one server or of all
    Refresh { alias: Option<String> },
    /// What a server wrote to its standard error, and said in log messages
    Logs { alias: String },
    /// What the servers in another program's file are here: tables for the configuration, on stdout
    Import(import::ImportServersArgs),
    /// What a server can be asked to read
    Resources { alias: String },
    /// Read a resource
    Read { alias: String, uri: String },
    /// Keep a resource in the context of this conversation, as it is at each request
    Pin { alias: String, uri: String },
    /// Keep it there no longer
    Unpin { alias: String, uri: String },
    /// The resources that this conversation has pinned
    Pinned,
    /// Be an MCP server on stdin and stdout, with the tools of the daemon
    Serve(ServeArgs),
    /// The prompts that a server keeps ready
    Prompts { alias: String },
    /// Ask the model what a prompt says; the answer on stdout
    Ask(AskPrompt),
    /// One prompt, filled in
    Prompt {
        alias: String,
        name: String,
        #[arg(value_name = "NAME=VALUE", value_parser = assignment)]
        arguments: Vec<(String, String)>,
    },
}

#[derive(Args, Clone, Debug)]
pub struct AskPrompt {
    pub alias: String,
    /// Its name; aishctl mcp prompts ALIAS lists them
    pub prompt: String,
    #[arg(value_name = "NAME=VALUE", value_parser = assignment)]
    pub arguments: Vec<(String, String)>,
    /// Send it also where it is dear or fills half of what the model takes in
    #[arg(long)]
    pub accept_cost: bool,
}

#[derive(Args, Clone, Debug)]
pub struct ConnectArgs {
    /// The server's URL, or a command as one word; before `--` the server's name here
    #[arg(value_name = "URL|COMMAND")]
    pub target: String,
    /// Its name here; `connect` makes one of the host or the program
    pub alias: Option<String>,
    /// The variable of the daemon that holds the token for the URL
    #[arg(long, value_name = "VARIABLE")]
    pub auth_env: Option<String>,
    /// A variable for the command
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub env: Vec<(String, String)>,
    /// What the kernel is to hold the command to: read, workspace or open
    #[arg(long, value_name = "PROFILE", value_parser = contain::profile)]
    pub contain: Option<Profile>,
    /// What it may write besides this directory, with --contain workspace
    #[arg(long, value_name = "PATH")]
    pub write: Vec<PathBuf>,
    /// A host that it may reach, with --contain: example.org, *.example.org, example.org:8443
    #[arg(long, value_name = "HOST", requires = "contain")]
    pub host: Vec<String>,
    /// The revision of MCP to speak, such as 2025-06-18, without finding it out
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// The command in words of its own: `NAME -- COMMAND ARGUMENTS`
    #[arg(last = true, value_name = "COMMAND")]
    pub words: Vec<String>,
}

pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("it is NAME=VALUE".to_owned()),
    }
}

pub async fn run(context: &CommandContext, command: Option<&McpCommand>) -> PrintResult {
    match command.unwrap_or(&McpCommand::List) {
        McpCommand::List => list(context).await,
        McpCommand::Show { alias } => show::show(context, alias).await,
        McpCommand::Tools { alias } => tools(context, alias.clone()).await,
        McpCommand::Tool { name } => tool(context, name).await,
        McpCommand::Connect(args) => connect(context, args).await,
        McpCommand::Disconnect { alias } => {
            let done = context.call::<Disconnect>(of(alias)).await?;
            context.print(&done, || format!("{alias} is disconnected\n"))
        }
        McpCommand::Restart { alias } => {
            let deadline = Some(context.global.timeout.unwrap_or(CONNECT_DEADLINE));
            let restarted = context.caller.call_within::<Restart>(of(alias), deadline);
            let done = restarted.await?;
            context.print(&done, || format!("{alias} is connected again\n"))
        }
        McpCommand::Refresh { alias } => refresh(context, alias.clone()).await,
        McpCommand::Logs { alias } => {
            let logs = context.call::<Logs>(of(alias)).await?;
            context.print(&logs, || match logs.lost {
                0 => logs.text.clone(),
                lost => format!("[aish] {lost} bytes before this are gone\n{}", logs.text),
            })
        }
        McpCommand::Import(args) => match &args.file {
            Some(file) => import::print(context, file, args).await,
            None => import::usual(context, args).await,
        },
        McpCommand::Resources { alias } => resources(context, alias).await,
        McpCommand::Read { alias, uri } => read(context, alias, uri).await,
        McpCommand::Prompts { alias } => prompts(context, alias).await,
        McpCommand::Pin { alias, uri } => pinned::pin(context, alias, uri).await,
        McpCommand::Unpin { alias, uri } => pinned::unpin(context, alias, uri).await,
        McpCommand::Pinned => pinned::list(context).await,
        McpCommand::Ask(_)
        | McpCommand::Serve(_)
        | McpCommand::Add(_)
        | McpCommand::Remove { .. }
        | McpCommand::Login(_)
        | McpCommand::Logout(_) => Err(Failure::for_a_shell()),
        McpCommand::Prompt {
            alias,
            name,
            arguments,
        } => prompt(context, alias, name, arguments).await,
    }
}

fn of(alias: &str) -> ServerParams {
    ServerParams {
        alias: alias.to_owned(),
    }
}

/// How long a server may take for what it is asked now.
fn patience(context: &CommandContext) -> Duration {
    context.global.timeout.unwrap_or(ASK_DEADLINE)
}

async fn list(context: &CommandContext) -> PrintResult {
    let result = context.call::<List>(Empty {}).await?;
    context.print(&result, || {
        if result.servers.is_empty() {
            return "no MCP server is configured; aishctl mcp add URL|COMMAND NAME keeps one\n"
                .to_owned();
        }
        let rows: Vec<Vec<String>> = result.servers.iter().map(row).collect();
        let head = ["alias", "kind", "state", "tools", "time", "server", "where"];
        let held: Vec<_> = result.servers.iter().map(|it| it.contain).collect();
        let mut text = held_to::columns(&head, rows, 3, &held);
        for server in &result.servers {
            let remarks = server.remarks.iter().map(|it| (it, None));
            let why = server.why.iter().map(|it| (it, server.hint.as_ref()));
            for (said, hint) in why.chain(remarks) {
                let (alias, said) = (&server.alias, safe::one_line(said));
                text.push_str(&format!("[aish] mcp {alias}: {said}\n"));
                if let Some(hint) = hint {
                    text.push_str(&format!("hint: {}\n", safe::one_line(hint)));
                }
            }
            if let Some(wanted) = server.sign_in.as_ref().map(|it| it.wanted.join(" "))
                && !wanted.is_empty()
            {
                let (alias, wanted) = (&server.alias, safe::one_line(&wanted));
                text.push_str(&format!(
                    "[aish] mcp {alias}: it wanted more than was granted: {wanted}\nhint: aishctl mcp login {alias}\n"
                ));
            }
            if let Some(network) = &server.network {
                text.push_str(&told_of_network(&server.alias, network));
            }
        }
        text
    })
}

/// What a server's program reached, and the line that allows what it was refused.
fn told_of_network(alias: &str, network: &NetworkUse) -> String {
    let mut text = format!(
        "[aish] mcp {alias}: network: {}\n",
        safe::one_line(&network.line)
    );
    if !network.refused.is_empty() {
        let hosts: Vec<&str> = network.refused.iter().map(|it| it.named()).collect();
        let line = format!("hosts = {hosts:?} in [mcp.servers.{alias}] allows what was refused");
        text.push_str(&format!("hint: {}\n", safe::one_line(&line)));
    }
    text
}

fn state_word(state: ServerState) -> &'static str {
    match state {
        ServerState::Off => "off",
        ServerState::Connecting => "connecting",
        ServerState::Ready => "ready",
        ServerState::NeedsSignIn => "needs sign-in",
        ServerState::Failed => "failed",
    }
}

/// The one that is spoken, and whether somebody set it.
fn revision_of(server: &McpServerStatus) -> String {
    match &server.revision {
        Some(set) if server.protocol.is_empty() || server.protocol == *set => {
            format!("{set} (set)")
        }
        Some(set) => format!("{} (set: {set})", server.protocol),
        None => server.protocol.clone(),
    }
}

fn row(server: &McpServerStatus) -> Vec<String> {
    let kind = match server.transport {
        McpTransport::Http => "http",
        McpTransport::Stdio => "stdio",
    };
    let state = state_word(server.state);
    let none = || "–".to_owned();
    let revision = revision_of(server);
    let about = [&server.name, &server.version, &revision];
    let about: Vec<&str> = about
        .map(String::as_str)
        .into_iter()
        .filter(|it| !it.is_empty())
        .collect();
    vec![
        server.alias.clone(),
        kind.to_owned(),
        state.to_owned(),
        match server.left_out {
            0 => server.tools.to_string(),
            left_out => format!("{} of {}", server.tools, server.tools + left_out),
        },
        server.connect_ms.map_or_else(none, |it| format!("{it} ms")),
        if about.is_empty() {
            none()
        } else {
            about.join(" ")
        },
        table::cut(&server.endpoint, SUMMARY_COLUMNS),
    ]
}

async fn tools(context: &CommandContext, alias: Option<String>) -> PrintResult {
    let result = context.call::<Tools>(ToolsParams { alias }).await?;
    context.print(&result, || {
        let rows: Vec<Vec<String>> = result
            .tools
            .iter()
            .map(|it| {
                let says = match (it.read_only, it.destructive) {
                    (Some(true), _) => "reads",
                    (_, Some(true)) => "destroys",
                    (Some(false), _) => "writes",
                    (None, _) => "–",
                };
                let description = table::cut(&it.description, SUMMARY_COLUMNS);
                vec![it.name.clone(), says.to_owned(), description]
            })
            .collect();
        table::columns(&["tool", "says it", "description"], &rows)
    })
}

async fn tool(context: &CommandContext, name: &str) -> PrintResult {
    let name = name.to_owned();
    let tool = context.call::<Tool>(ToolParams { name }).await?;
    context.print(&tool, || {
        let title = tool.title.iter().map(|it| format!(" · {it}"));
        let mut text = format!("{}{}\n", tool.name, title.collect::<String>());
        for line in tool.description.lines() {
            text.push_str(&format!("  {line}\n"));
        }
        let parts = [
            ("arguments", Some(&tool.input_schema)),
            ("result", tool.output_schema.as_ref()),
            (
                "annotations (nothing is believed for them)",
                Some(&tool.annotations),
            ),
        ];
        for (name, value) in parts {
            if let Some(value) = value.filter(|it| !it.is_null()) {
                let shown = serde_json::to_string_pretty(value).unwrap_or_default();
                text.push_str(&format!("{name}:\n{shown}\n"));
            }
        }
        text.push_str(&format!("digest: {}\n", tool.digest));
        text
    })
}

async fn connect(context: &CommandContext, args: &ConnectArgs) -> PrintResult {
    let ServerPlace {
        alias,
        url,
        command,
    } = ServerPlace::of(args)?;
    let contain = contain::chosen(args, url.is_some(), context.may_prompt)?;
    let params = ConnectParams {
        alias,
        url,
        auth_env: args.auth_env.clone(),
        cwd: (!command.is_empty()).then(|| context.around.cwd_text()),
        command,
        env: args.env.iter().cloned().collect(),
        contain,
        write: contain::written(&context.around.cwd, args),
        hosts: args.host.clone(),
        revision: args.revision.clone(),
    };
    let deadline = Some(context.global.timeout.unwrap_or(CONNECT_DEADLINE));
    let result = context
        .caller
        .call_within::<Connect>(params, deadline)
        .await?;
    context.print(&result, || {
        let server = &result.server;
        format!(
            "{} is connected: {} tools; aishctl mcp tools {}\n",
            server.alias, server.tools, server.alias
        )
    })
}

async fn refresh(context: &CommandContext, alias: Option<String>) -> PrintResult {
    let refreshed = context
        .caller
        .call_within::<Refresh>(RefreshParams { alias }, Some(patience(context)));
    let result = refreshed.await?;
    let mut printed = context.print(&result, || {
        let failed = result.failed.values();
        let lines: Vec<String> = failed
            .map(|it| format!("{}\n", safe::one_line(it)))
            .collect();
        format!("the tools are those of now\n{}", lines.concat())
    })?;
    if !result.failed.is_empty() {
        printed.exit = Exit::FAILED;
    }
    Ok(printed)
}

async fn resources(context: &CommandContext, alias: &str) -> PrintResult {
    let asked = context
        .caller
        .call_within::<Resources>(of(alias), Some(patience(context)));
    let result = asked.await?;
    context.print(&result, || {
        let row = |it: &McpResource| {
            let kind = it.mime_type.clone().unwrap_or_else(|| "–".to_owned());
            let about = if it.description.is_empty() {
                &it.name
            } else {
                &it.description
            };
            vec![it.uri.clone(), kind, table::cut(about, SUMMARY_COLUMNS)]
        };
        let rows: Vec<_> = result
            .resources
            .iter()
            .chain(&result.templates)
            .map(row)
            .collect();
        table::columns(&["uri", "type", "what"], &rows)
    })
}

async fn read(context: &CommandContext, alias: &str, uri: &str) -> PrintResult {
    let params = ReadResourceParams {
        alias: alias.to_owned(),
        uri: uri.to_owned(),
    };
    let asked = context
        .caller
        .call_within::<ReadResource>(params, Some(patience(context)));
    let result = asked.await?;
    context.print(&result, || {
        let each = result.contents.iter().map(|it| match it["text"].as_str() {
            Some(text) => text.to_owned(),
            None => placeholder(it, it["blob"].as_str().unwrap_or_default()),
        });
        lines(each)
    })
}

/// Each with a line feed at its end.
fn lines(texts: impl Iterator<Item = String>) -> String {
    let mut all = String::new();
    for text in texts {
        all.push_str(&text);
        if !text.ends_with('\n') {
            all.push('\n');
        }
    }
    all
}

fn placeholder(content: &Value, base64: &str) -> String {
    let kind = content["mimeType"].as_str().unwrap_or("bytes");
    let bytes = base64.len() / 4 * 3;
    format!(
        "[{} {} about {bytes} bytes; --json has them]",
        content["uri"].as_str().unwrap_or("data"),
        kind
    )
}

async fn prompts(context: &CommandContext, alias: &str) -> PrintResult {
    let asked = context
        .caller
        .call_within::<Prompts>(of(alias), Some(patience(context)));
    let result = asked.await?;
    context.print(&result, || {
        let rows: Vec<Vec<String>> = result
            .prompts
            .iter()
            .map(|it| {
                let arguments = it.arguments.iter().map(|it| {
                    if it.required {
                        it.name.clone()
                    } else {
                        format!("[{}]", it.name)
                    }
                });
                let arguments: Vec<String> = arguments.collect();
                let about = table::cut(&it.description, SUMMARY_COLUMNS);
                vec![it.name.clone(), arguments.join(" "), about]
            })
            .collect();
        table::columns(&["prompt", "arguments", "description"], &rows)
    })
}

async fn prompt(
    context: &CommandContext,
    alias: &str,
    name: &str,
    arguments: &[(String, String)],
) -> PrintResult {
    let params = GetPromptParams {
        alias: alias.to_owned(),
        name: name.to_owned(),
        arguments: arguments.iter().cloned().collect::<BTreeMap<_, _>>(),
    };
    let asked = context
        .caller
        .call_within::<GetPrompt>(params, Some(patience(context)));
    let result = asked.await?;
    context.print(&result, || {
        let each = result.messages.iter().map(|it| {
            let role = it["role"].as_str().unwrap_or("?");
            let content = &it["content"];
            let text = match (
                content["text"].as_str(),
                content["resource"]["text"].as_str(),
            ) {
                (Some(text), _) | (None, Some(text)) => text.to_owned(),
                (None, None) => placeholder(content, content["data"].as_str().unwrap_or_default()),
            };
            format!("{role} › {text}")
        });
        lines(each)
    })
}
