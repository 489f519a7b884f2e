//! What `cd` alone comes to: whether a directory can be gone to.

use aishd_log::command_result::CommandResult;
use aishd_log::ending::{BoundaryFailure, CommandEnding};
use aishd_platform::failpoint;
use rustix::fs::{Access, access};
use tokio::time::timeout;

use super::shell::CommandLimits;

/// Looks whether a directory can be gone to.
pub async fn change_directory(
    from: String,
    target: String,
    limits: CommandLimits,
    ran_in: String,
) -> CommandResult {
    let looking = {
        let target = target.clone();
        tokio::task::spawn_blocking(move || enter(&target))
    };
    let Ok(looked) = timeout(limits.time, looking).await else {
        return CommandResult {
            ending: limits.is_over(),
            ..CommandResult::failed(format!("cd: {target}: it does not answer\n"), &ran_in)
        };
    };
    let why = match looked {
        Ok(Ok(())) => {
            return CommandResult {
                ending: CommandEnding::Exited { code: 0 },
                output: format!("{target}\n"),
                bytes: 0,
                ms: 0,
                kept: None,
                within: BoundaryFailure::None,
                ran_in,
                moved: (from != target).then_some((from, target)),
                network: None,
                exported: None,
            };
        }
        Ok(Err(why)) => why,
        Err(panic) => panic.to_string(),
    };
    CommandResult {
        ending: CommandEnding::Exited { code: 1 },
        ..CommandResult::failed(format!("cd: {target}: {why}\n"), &ran_in)
    }
}

fn enter(target: &str) -> Result<(), String> {
    failpoint::pass("cd.look");
    let found = std::fs::metadata(target).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            return "no such directory".to_owned();
        }
        error.to_string()
    })?;
    if !found.is_dir() {
        return Err("not a directory".to_owned());
    }
    access(target, Access::EXEC_OK).map_err(|_| "it may not be entered".to_owned())
}
