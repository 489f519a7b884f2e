//! Whether a directory can be gone to: by `cd` alone, and where the shell of another command has ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aishd_log::command_result::CommandResult;
use aishd_log::ending::{BoundaryFailure, CommandEnding};
use aishd_platform::failpoint;
use rustix::fs::{Access, access};
use tokio::time::timeout;

use super::shell::CommandLimits;

/// So long it is looked whether commands can go on where a shell has ended; the conversation waits for that.
const LOOK_WITHIN: Duration = Duration::from_secs(2);
/// No path that a program is given is longer.
const MAX_PATH_BYTES: usize = 4096;

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
                left: None,
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

/// Where commands run after one whose shell began in one directory and ended in another. `None`: it went nowhere.
///
/// # Errors
/// Why nothing can go on there.
pub async fn ended_in(
    began: &str,
    ended: &str,
    hidden: Vec<PathBuf>,
) -> Result<Option<String>, String> {
    if ended == began {
        return Ok(None);
    }
    if ended.len() > MAX_PATH_BYTES || !ended.starts_with('/') {
        return Err("its path is not one of at most 4096 bytes from the root".to_owned());
    }
    let (began, target) = (began.to_owned(), ended.to_owned());
    let looking = tokio::task::spawn_blocking(move || goes_on(&began, &target, &hidden));
    let Ok(looked) = timeout(LOOK_WITHIN, looking).await else {
        return Err("it does not answer".to_owned());
    };
    let goes_on = looked.unwrap_or_else(|panic| Err(panic.to_string()))?;
    Ok(goes_on.then(|| ended.to_owned()))
}

/// Where commands run when the directory that they ran in is gone: the nearest one above it. `None`: it is there, or
/// does not answer.
pub async fn left_above(gone: &str) -> Option<String> {
    let gone = PathBuf::from(gone);
    let looking = tokio::task::spawn_blocking(move || {
        failpoint::pass("cd.look");
        for above in gone.ancestors() {
            match std::fs::metadata(above) {
                Ok(found) if found.is_dir() => {
                    let is_another = above != gone;
                    return above.to_str().filter(|_| is_another).map(str::to_owned);
                }
                Ok(_) => {}
                Err(error) if is_gone(&error) => {}
                Err(_) => return None,
            }
        }
        None
    });
    timeout(LOOK_WITHIN, looking).await.ok()?.ok()?
}

fn is_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// Whether that is another directory than the one where it began.
fn goes_on(began: &str, target: &str, hidden: &[PathBuf]) -> Result<bool, String> {
    enter(target)?;
    let real = |path: &Path| std::fs::canonicalize(path);
    let there = real(Path::new(target)).map_err(|error| error.to_string())?;
    if hidden
        .iter()
        .any(|it| there.starts_with(real(it).as_deref().unwrap_or(it)))
    {
        return Err("it was hidden from the command".to_owned());
    }
    // A path that a shell spells in another way is no other directory.
    Ok(real(Path::new(began)).ok() != Some(there))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commands_go_on_in_the_nearest_directory_that_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir_all(path("a/b")).unwrap();
        std::fs::write(path("a/file"), "").unwrap();
        for (gone, expected) in [
            ("a/b/c/d", Some("a/b")),
            ("a/file", Some("a")),
            ("a/file/sub", Some("a")),
            ("a/b", None),
        ] {
            let expected = expected.map(path);
            assert_eq!(expected, left_above(&path(gone)).await, "{gone}");
        }
    }
}
