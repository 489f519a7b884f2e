//! `tools add|remove|reload`: tools that are written down in manifests. The daemon reads, checks and keeps the files.

use std::path::Path;

use aish_proto::method::Empty;
use aish_proto::tool::{
    Register, RegisterParams, RegisterResult, Reload, Unregister, UnregisterParams,
};

use crate::command_output::{CommandOutput, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// More than the daemon takes, so that it is the daemon that says so.
const MAX_FILE_BYTES: u64 = 512 << 10;

pub(super) async fn add(context: &CommandContext, file: &Path) -> PrintResult {
    let wrong = |error: std::io::Error| {
        Failure::new(
            Exit::USAGE,
            format!("cannot read {}: {error}", file.display()),
        )
    };
    let file = file.canonicalize().map_err(wrong)?;
    let about = file.metadata().map_err(wrong)?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        let message = format!("{} is no manifest of a tool", file.display());
        return Err(Failure::new(Exit::USAGE, message));
    }
    let params = RegisterParams {
        manifest: std::fs::read_to_string(&file).map_err(wrong)?,
        base: file.parent().map(|it| it.display().to_string()),
    };
    let result = context.call::<Register>(params).await?;
    context.print(&result, || registered_text("written", &result))
}

pub(super) async fn remove(context: &CommandContext, name: &str) -> PrintResult {
    let name = name.to_owned();
    let params = UnregisterParams { name };
    let result = context.call::<Unregister>(params).await?;
    context.print(&result, || registered_text("removed", &result))
}

pub(super) async fn reload(context: &CommandContext) -> PrintResult {
    let result = context.call::<Reload>(Empty {}).await?;
    let printed = context.print(&result, || {
        let mut text = format!("{} read\n", result.read);
        for line in result.changes.iter().chain(&result.errors) {
            text.push_str(&safe::one_line(line));
            text.push('\n');
        }
        text
    })?;
    Ok(CommandOutput {
        exit: if result.errors.is_empty() {
            Exit::DONE
        } else {
            Exit::FAILED
        },
        ..printed
    })
}

fn registered_text(done: &str, result: &RegisterResult) -> String {
    let mut text = format!("{done}: {}\n", safe::one_line(&result.file));
    for line in &result.changes {
        text.push_str(&safe::one_line(line));
        text.push('\n');
    }
    text
}
