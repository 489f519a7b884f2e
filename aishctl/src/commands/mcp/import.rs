//! `mcp import`: servers out of the files of other programs. Nothing is connected to before a person has
//! taken it over.

use std::path::{Path, PathBuf};

use aish_proto::mcp::{Import, List, McpImportParams, McpImportResult, Profile};
use aish_proto::method::Empty;
use clap::Args;
use serde::Serialize;

use super::contain;
use crate::client::connect::Caller;
use crate::client::daemon_link::DaemonWait;
use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::commands::config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// Where other programs keep their servers, below the working directory and the home.
const USUAL: [&str; 10] = [
    "./.mcp.json",
    "./.cursor/mcp.json",
    "./.vscode/mcp.json",
    "~/.claude.json",
    "~/.config/Claude/claude_desktop_config.json",
    "~/.cursor/mcp.json",
    "~/.copilot/mcp-config.json",
    "~/.gemini/settings.json",
    "~/.codex/config.toml",
    "~/.erasmus/mcp/config.json",
];

#[derive(Args, Clone, Debug, Default)]
pub struct ImportServersArgs {
    /// For example .mcp.json; absent: what the usual files hold (or those of mcp.import)
    pub file: Option<PathBuf>,
    /// Into your configuration, where they are connected to from now on
    #[arg(long, requires = "file")]
    pub write: bool,
    /// What the kernel is to hold the programs among them to: read, workspace or open
    #[arg(long, requires = "file", value_name = "PROFILE", value_parser = contain::profile)]
    pub contain: Option<Profile>,
    /// A host that they may reach then: example.org, *.example.org, example.org:8443
    #[arg(long, requires = "contain", value_name = "HOST")]
    pub host: Vec<String>,
}

/// A file, and what is in it.
#[derive(Serialize)]
struct FoundImport {
    file: String,
    /// Servers by the names that they would have here, with where they are.
    servers: Vec<(String, String)>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong: Option<String>,
}

/// What the usual files hold, or those that are configured.
pub(super) async fn usual(context: &CommandContext) -> PrintResult {
    let configured = context.call::<List>(Empty {}).await?.import;
    let names = configured.unwrap_or_else(|| USUAL.map(str::to_owned).to_vec());
    let mut files: Vec<PathBuf> = names.iter().filter_map(|it| place(context, it)).collect();
    files.retain(|it| it.is_file());
    files.dedup();
    let mut all = vec![];
    for file in files {
        let read = read(&context.caller, &file, &ImportServersArgs::default()).await;
        let (servers, wrong) = match read {
            Ok(result) => {
                let each = result.servers.into_iter();
                (each.map(|it| (it.alias, it.endpoint)).collect(), None)
            }
            Err(failure) if failure.transient => return Err(failure),
            Err(failure) => (vec![], Some(failure.message)),
        };
        let file = file.display().to_string();
        all.push(FoundImport {
            file,
            servers,
            wrong,
        });
    }
    context.print(&all, || {
        if all.is_empty() {
            return "no file of another program was found; aishctl mcp import FILE\n".to_owned();
        }
        all.iter().map(table).collect()
    })
}

fn table(found: &FoundImport) -> String {
    let mut text = format!("{}\n", found.file);
    for (alias, endpoint) in &found.servers {
        text.push_str(&format!("  {alias}  {}\n", safe::one_line(endpoint)));
    }
    match &found.wrong {
        Some(wrong) => text.push_str(&format!("  {}\n", safe::one_line(wrong))),
        None => {
            let word = shlex::try_quote(&found.file).unwrap_or_default();
            text.push_str(&format!("  aishctl mcp import --write {word}\n"));
        }
    }
    text
}

fn place(context: &CommandContext, name: &str) -> Option<PathBuf> {
    match name.strip_prefix("~/") {
        Some(rest) => Some(Path::new(context.around.variable("HOME")?).join(rest)),
        None => Some(
            context
                .around
                .cwd
                .join(name.strip_prefix("./").unwrap_or(name)),
        ),
    }
}

/// The tables for the configuration.
pub(super) async fn print(
    context: &CommandContext,
    file: &Path,
    args: &ImportServersArgs,
) -> PrintResult {
    let path = context.around.cwd.join(file);
    let result = read_only(&context.caller, &path, args).await?;
    context.print(&result, || tables(&path, &result))
}

/// Puts them into the user's configuration.
pub async fn write(
    context: config::ConfigContext<'_>,
    args: &ImportServersArgs,
) -> Result<Exit, Failure> {
    // Without a file, the arguments are refused.
    let file = args.file.clone().unwrap_or_default();
    let path = context.around.cwd.join(file);
    let link = context.reach.open(DaemonWait::No).await?;
    let result = read_only(&link.caller, &path, args).await?;
    context.add(&tables(&path, &result)).await
}

/// Where one file is read, what is wrong is of that file.
async fn read_only(
    caller: &Caller,
    path: &Path,
    args: &ImportServersArgs,
) -> Result<McpImportResult, Failure> {
    let named = |failure: Failure| {
        let (path, message) = (path.display(), &failure.message);
        let message = format!("cannot import from {path}: {message}");
        Failure { message, ..failure }
    };
    read(caller, path, args).await.map_err(named)
}

async fn read(
    caller: &Caller,
    path: &Path,
    args: &ImportServersArgs,
) -> Result<McpImportResult, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(Exit::FAILED, error.to_string())
            .hint("aishctl mcp import lists the files that are there")
    })?;
    let params = McpImportParams {
        path: path.display().to_string(),
        text,
        contain: args.contain,
        hosts: args.host.clone(),
    };
    Ok(caller.call::<Import>(params).await?)
}

fn tables(path: &Path, result: &McpImportResult) -> String {
    let each = result.servers.iter().map(|it| {
        let off = it.off.iter().map(|why| format!("off: {why}"));
        let notes = off.chain(it.remarks.iter().cloned());
        let notes: String = notes
            .map(|it| format!("# {}\n", safe::one_line(&it)))
            .collect();
        format!("{notes}{}", it.toml)
    });
    let tables: Vec<String> = each.collect();
    format!(
        "# from {}\n{}",
        safe::one_line(&path.display().to_string()),
        tables.join("\n")
    )
}
