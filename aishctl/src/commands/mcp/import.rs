//! `mcp import`: servers out of the files of other programs. Nothing is connected to before a person has
//! taken it over.

use std::path::{Path, PathBuf};

use aish_proto::mcp::{Import, ImportProgram, List, McpImportParams, McpImportResult, Profile};
use aish_proto::method::Empty;
use clap::{Args, ValueEnum};
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

/// Where other programs keep their servers, below the working directory and the home. What stands below `~/.config` is below
/// `$XDG_CONFIG_HOME` where that is set, and a name that ends in `/` is of a folder of files.
const USUAL: [(Option<SourceProgram>, &str); 39] = [
    (None, "./.mcp.json"),
    (None, "./.cursor/mcp.json"),
    (None, "./.vscode/mcp.json"),
    (None, "./.codex/config.toml"),
    (None, "./.gemini/settings.json"),
    (None, "./.roo/mcp.json"),
    (None, "./.kiro/settings/mcp.json"),
    (None, "./.amazonq/mcp.json"),
    (None, "~/.claude.json"),
    (None, "~/.config/Claude/claude_desktop_config.json"),
    (None, "~/.cursor/mcp.json"),
    (None, "~/.copilot/mcp-config.json"),
    (None, "~/.gemini/settings.json"),
    (None, "~/.codex/config.toml"),
    (None, "~/.erasmus/mcp/config.json"),
    (None, "~/.codeium/windsurf/mcp_config.json"),
    (None, "~/.kiro/settings/mcp.json"),
    (None, "~/.aws/amazonq/mcp.json"),
    (None, "~/.config/Code/User/mcp.json"),
    (
        None,
        "~/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    ),
    (
        None,
        "~/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
    ),
    (Some(SourceProgram::Opencode), "./opencode.json"),
    (Some(SourceProgram::Opencode), "./opencode.jsonc"),
    (Some(SourceProgram::Opencode), "./.opencode/opencode.json"),
    (Some(SourceProgram::Opencode), "./.opencode/opencode.jsonc"),
    (
        Some(SourceProgram::Opencode),
        "~/.config/opencode/opencode.json",
    ),
    (
        Some(SourceProgram::Opencode),
        "~/.config/opencode/opencode.jsonc",
    ),
    (Some(SourceProgram::Zed), "./.zed/settings.json"),
    (Some(SourceProgram::Zed), "~/.config/zed/settings.json"),
    (Some(SourceProgram::Crush), "./.crush.json"),
    (Some(SourceProgram::Crush), "./crush.json"),
    (Some(SourceProgram::Crush), "~/.config/crush/crush.json"),
    (Some(SourceProgram::Crush), "/etc/crush/crush.json"),
    (Some(SourceProgram::Goose), "~/.config/goose/config.yaml"),
    (Some(SourceProgram::Goose), "/etc/goose/config.yaml"),
    (Some(SourceProgram::Continue), "./.continue/mcpServers/"),
    (Some(SourceProgram::Continue), "~/.continue/mcpServers/"),
    (Some(SourceProgram::Continue), "~/.continue/config.yaml"),
    (Some(SourceProgram::Continue), "~/.continue/config.json"),
];

/// A program whose files have a form of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceProgram {
    Opencode,
    Zed,
    Crush,
    Goose,
    Continue,
}

impl SourceProgram {
    fn on_the_wire(self) -> ImportProgram {
        match self {
            Self::Opencode => ImportProgram::OpenCode,
            Self::Zed => ImportProgram::Zed,
            Self::Crush => ImportProgram::Crush,
            Self::Goose => ImportProgram::Goose,
            Self::Continue => ImportProgram::Continue,
        }
    }
}

#[derive(Args, Clone, Debug, Default)]
pub struct ImportServersArgs {
    /// For example .mcp.json; absent: what the usual files hold (or those of mcp.import)
    pub file: Option<PathBuf>,
    /// Whose file it is, where that cannot be seen; without a file: those of this program
    #[arg(long, value_name = "PROGRAM")]
    pub from: Option<SourceProgram>,
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
    /// Whether it has rules about their tools that would be taken over.
    rules: bool,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong: Option<String>,
}

/// What the usual files hold, or those that are configured.
pub(super) async fn usual(context: &CommandContext, args: &ImportServersArgs) -> PrintResult {
    let configured = context.call::<List>(Empty {}).await?.import;
    let names: Vec<(Option<SourceProgram>, String)> = match (configured, args.from) {
        (Some(configured), None) => configured.into_iter().map(|it| (None, it)).collect(),
        (_, from) => {
            let wanted = USUAL
                .iter()
                .filter(|(program, _)| from.is_none() || *program == from);
            wanted
                .map(|(program, it)| (*program, (*it).to_owned()))
                .collect()
        }
    };
    let mut files: Vec<(Option<SourceProgram>, PathBuf)> = vec![];
    for (program, name) in names {
        let Some(place) = place(context, &name) else {
            continue;
        };
        let found = within(place);
        files.extend(found.into_iter().map(|it| (program, it)));
    }
    files.dedup();
    let mut all = vec![];
    for (program, file) in files {
        let args = ImportServersArgs {
            from: args.from.or(program),
            ..ImportServersArgs::default()
        };
        let read = read(&context.caller, &file, &args, ImportAudience::Person).await;
        let (servers, rules, wrong) = match read {
            Ok(result) => {
                let each = result.servers.into_iter();
                let servers = each.map(|it| (it.alias, it.endpoint)).collect();
                (servers, !result.rules.is_empty(), None)
            }
            Err(failure) if failure.transient => return Err(failure),
            Err(failure) => (vec![], false, Some(failure.message)),
        };
        let file = file.display().to_string();
        all.push(FoundImport {
            file,
            servers,
            rules,
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
    if found.rules {
        text.push_str("  and rules about their tools\n");
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
    if let Some(rest) = name.strip_prefix("~/.config/") {
        return Some(context.around.config_home()?.join(rest));
    }
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

/// The file, or the files of a folder by their names.
fn within(place: PathBuf) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place];
    }
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let is_read = |it: &PathBuf| {
        let ending = it.extension().and_then(|it| it.to_str());
        it.is_file() && matches!(ending, Some("json" | "yaml" | "yml"))
    };
    let mut files: Vec<PathBuf> = entries.map(|it| it.path()).filter(is_read).collect();
    files.sort();
    files
}

/// The tables for the configuration.
pub(super) async fn print(
    context: &CommandContext,
    file: &Path,
    args: &ImportServersArgs,
) -> PrintResult {
    let path = context.around.cwd.join(file);
    let result = read_only(&context.caller, &path, args, ImportAudience::Person).await?;
    context.print(&result, || tables(&path, &result))
}

/// Puts them into the user's configuration, and says what runs unasked from now on.
pub async fn write(
    context: config::ConfigContext<'_>,
    args: &ImportServersArgs,
) -> Result<Exit, Failure> {
    // Without a file, the arguments are refused.
    let file = args.file.clone().unwrap_or_default();
    let path = context.around.cwd.join(file);
    let link = context.reach.open(DaemonWait::No).await?;
    let result = read_only(&link.caller, &path, args, ImportAudience::Configuration).await?;
    let exit = context.add(&tables(&path, &result)).await?;
    if exit == Exit::DONE && !result.rules.is_empty() {
        context.say(&format!("its rules are yours now:\n{}", result.rules))?;
    }
    Ok(exit)
}

/// Who reads what comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImportAudience {
    /// Secrets are covered.
    Person,
    Configuration,
}

/// Where one file is read, what is wrong is of that file.
async fn read_only(
    caller: &Caller,
    path: &Path,
    args: &ImportServersArgs,
    reader: ImportAudience,
) -> Result<McpImportResult, Failure> {
    let named = |failure: Failure| {
        let (path, message) = (path.display(), &failure.message);
        let message = format!("cannot import from {path}: {message}");
        Failure { message, ..failure }
    };
    read(caller, path, args, reader).await.map_err(named)
}

async fn read(
    caller: &Caller,
    path: &Path,
    args: &ImportServersArgs,
    reader: ImportAudience,
) -> Result<McpImportResult, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(Exit::FAILED, error.to_string())
            .hint("aishctl mcp import lists the files that are there")
    })?;
    // Where Goose keeps what a person has said of its tools.
    let rules = path.with_file_name("permission.yaml");
    let has_rules = path.file_name().is_some_and(|it| it == "config.yaml");
    let params = McpImportParams {
        path: path.display().to_string(),
        text,
        program: args.from.map(SourceProgram::on_the_wire),
        beside: has_rules
            .then(|| std::fs::read_to_string(rules).ok())
            .flatten(),
        covered: reader == ImportAudience::Person,
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
    let mut tables: Vec<String> = each.collect();
    let remarks = result.remarks.iter().map(|it| safe::one_line(it));
    let remarks: String = remarks.map(|it| format!("# {it}\n")).collect();
    if !remarks.is_empty() || !result.rules.is_empty() {
        tables.push(format!("{remarks}{}", result.rules));
    }
    format!(
        "# from {}\n{}",
        safe::one_line(&path.display().to_string()),
        tables.join("\n")
    )
}
