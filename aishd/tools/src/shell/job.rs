//! A command that goes on in the background: held as one that is waited for, but without a limit of time, and what its shell leaves
//! is nobody's.

use std::sync::Arc;
use std::time::Duration;

use aishd_log::command_result::CommandResult;
use aishd_log::ending::{BoundaryFailure, CommandEnding};
use aishd_rules::command_setting::CommandSetting;
use aishd_rules::policy::Policy;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{CommandHeard, CommandLimits, ContainedCommand, not_begun, spec};
use crate::ToolRunner;

/// Some of them may be in memory at a time for as long as their daemon runs, so less is kept of each than of other commands.
const MOST_JOB_BYTES: usize = 1 << 20;

/// When a job is to end.
#[derive(Clone, Debug)]
pub struct JobTokens {
    /// Somebody wants its end, and waits until nothing of it is left.
    pub stop: CancellationToken,
    /// The daemon ends, and waits for nobody.
    pub stopping: CancellationToken,
}

impl CommandLimits {
    /// Of one that goes on in the background.
    pub fn of_job(policy: &Policy) -> Self {
        let limits = Self::of(policy);
        Self {
            output_bytes: limits.output_bytes.min(MOST_JOB_BYTES),
            ..limits
        }
    }
}

impl ToolRunner {
    /// Runs a command in the background until it ends or is ended; `print` hears what it prints. Dropped, everything that it
    /// started is ended.
    pub async fn job(
        &self,
        command: &str,
        setting: &Arc<CommandSetting>,
        limits: CommandLimits,
        tokens: JobTokens,
        print: impl FnMut(&str),
    ) -> CommandResult {
        let children = self.runner.children();
        let begun = Instant::now();
        let inside = match ContainedCommand::of(setting) {
            Ok(inside) => inside,
            Err(error) => {
                let why = format!("make a temporary directory for it: {error}");
                return CommandResult::failed(why, &setting.cwd);
            }
        };
        let mut spec = spec(command, setting, inside.as_ref());
        // Later commands have begun with other variables, and elsewhere, by the time that it ends.
        spec.takes_note = false;
        spec.args = vec!["-c".to_owned(), command.to_owned()];
        let spawned = tokens.stop.run_until_cancelled(children.spawn(&spec)).await;
        let mut child = match spawned {
            Some(Ok(child)) => child,
            other => {
                if let Some(inside) = inside {
                    inside.end(children, Duration::ZERO).await;
                }
                return not_begun(other.and_then(Result::err), setting);
            }
        };
        let mut heard = CommandHeard::new(limits, print);
        let ending = tokio::select! {
            biased;
            () = tokens.stopping.cancelled() => None,
            () = tokens.stop.cancelled() => Some(CommandEnding::Cancelled),
            ending = heard.listen(&mut child) => Some(ending),
        };
        match ending {
            Some(_) => drop(child.end(Duration::ZERO).await),
            None => drop(child),
        }
        let within = match inside {
            Some(inside) => heard.end_inside(inside, ending, children).await,
            None => BoundaryFailure::None,
        };
        CommandResult {
            within,
            ..heard.result(ending, setting, limits, begun)
        }
    }
}
