//! `prompt`: prompts that you keep, texts with places for arguments.

use std::path::{Path, PathBuf};

use aish_proto::method::Empty;
use aish_proto::prompt::{Get, List, PromptNameParams, Remove, Save, SaveParams, SavedPrompt};
use clap::{Args, Subcommand};

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::commands::mcp::assignment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::table;
use crate::{file, safe};

/// The daemon takes less; so much is read to tell it so.
const FILE_BYTES: u64 = 512 << 10;

#[derive(Clone, Debug, Subcommand)]
pub enum SavedPromptCommand {
    /// Their names, and what they ask for
    #[command(alias = "list")]
    Ls,
    /// The text of one
    #[command(alias = "get")]
    Show { name: String },
    /// Keep a text; {{NAME}} in it is a place for an argument
    Save {
        name: String,
        /// A file with the text; `-` is stdin
        file: PathBuf,
        /// In place of the one that is there
        #[arg(long)]
        replace: bool,
    },
    /// Delete one
    #[command(alias = "delete")]
    Rm { name: String },
    /// Ask the model what a prompt says; the answer on stdout
    #[command(alias = "call")]
    Ask(AskSaved),
}

#[derive(Args, Clone, Debug)]
pub struct AskSaved {
    /// Its name; aishctl prompt ls lists them
    pub name: String,
    #[arg(value_name = "NAME=VALUE", value_parser = assignment)]
    pub arguments: Vec<(String, String)>,
    /// Send it also where it is dear or fills half of what the model takes in
    #[arg(long)]
    pub accept_cost: bool,
}

/// All but asking, which prints as it goes.
pub async fn run(context: &CommandContext, command: Option<&SavedPromptCommand>) -> PrintResult {
    match command {
        None | Some(SavedPromptCommand::Ls) => list(context).await,
        Some(SavedPromptCommand::Show { name }) => {
            let params = PromptNameParams { name: name.clone() };
            let result = context.call::<Get>(params).await?;
            // Escapes in it are shown, and mean nothing, where it is printed.
            context.print(&result, || {
                format!("{}\n", result.text.trim_end_matches('\n'))
            })
        }
        Some(SavedPromptCommand::Save {
            name,
            file,
            replace,
        }) => {
            let params = SaveParams {
                name: name.clone(),
                text: text(file)?,
                replace: *replace,
            };
            let result = context.call::<Save>(params).await?;
            context.print(&result, || format!("{}\n", safe::one_line(&result.file)))
        }
        Some(SavedPromptCommand::Rm { name }) => {
            let params = PromptNameParams { name: name.clone() };
            let result = context.call::<Remove>(params).await?;
            context.print(&result, || {
                format!("{} is removed\n", safe::one_line(&result.file))
            })
        }
        Some(SavedPromptCommand::Ask(_)) => Err(Failure::new(
            Exit::USAGE,
            "a prompt is asked where its answer can be shown",
        )),
    }
}

async fn list(context: &CommandContext) -> PrintResult {
    let result = context.call::<List>(Empty {}).await?;
    context.print(&result, || {
        let row =
            |it: &SavedPrompt| vec![it.name.clone(), it.arguments.join(" "), it.begins.clone()];
        let rows: Vec<Vec<String>> = result.prompts.iter().map(row).collect();
        let mut shown = table::columns(&["name", "arguments", "text"], &rows);
        for error in &result.errors {
            shown.push_str(&safe::one_line(error));
            shown.push('\n');
        }
        shown
    })
}

fn text(path: &Path) -> Result<String, Failure> {
    String::from_utf8(file::read(path, FILE_BYTES)?).map_err(|error| {
        let message = format!("{} is no text: {error}", file::name(path));
        Failure::new(Exit::USAGE, message)
    })
}
