//! What a run halts for: the one place that says so, for whatever a run wants to do. What is destructive in a command it
//! asks `aishd_command::destructive`. The answer can only make a call stricter: what is no reason to halt still has to be
//! let through by the levels of the launch.

use std::path::{Path, PathBuf};

use aishd_command::change_directory;
use aishd_command::command::{self, Dialect};
use aishd_command::destructive::{self, Danger, Surroundings};
use aishd_log::access::Access;
use aishd_log::norris::launch::{RunHold, UnaskedLevels};
use aishd_log::tool::{ClaimSource, ContentDigest, Tool};
use aishd_log::tool_name::Alias;
use aishd_model::second_opinion::Opinion;
use serde_json::Value;

use crate::boundary::BoundaryError;
use crate::command_setting::CommandSetting;
use crate::policy::{AskReason, DecidingRule, PolicyDecision};

/// Why a person is asked about an action of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HaltReason {
    /// It needs the highest level.
    NeedsExecute,
    /// Its provider says that it destroys.
    SaysSo,
    /// It is a command that may not be undone, or that cannot be read.
    Command(Vec<Danger>),
    /// Nobody but its server says what it may do.
    OnlyItsWord,
    /// The launch granted less than it needs.
    Level { granted: Access, needs: Access },
    /// Another model said no, or nothing that counts.
    Opinion { preset: String, opinion: Opinion },
    /// A person wrote it in the place of what was halted for.
    Edited,
    /// There is no boundary that the kernel could hold around it.
    Unheld(BoundaryError),
    /// It failed inside what holds the run, and is wanted again.
    Beyond(RunHold),
}

impl HaltReason {
    /// For people. The word of the other model is in it.
    pub fn text(&self) -> String {
        match self {
            Self::Opinion {
                preset,
                opinion: Opinion::Unsafe(reason),
            } if !reason.is_empty() => {
                format!("HALT: {preset} says that it is not safe for the goal: {reason:?}")
            }
            Self::Command(dangers) => {
                let reasons: Vec<&str> = dangers.iter().map(|it| it.reason()).collect();
                format!("HALT: the command {}", reasons.join("; it "))
            }
            Self::Unheld(why) => format!("{}: {why}", self.describe()),
            _ => self.describe(),
        }
    }

    /// For the audit trail: without a word of a model.
    pub fn describe(&self) -> String {
        match self {
            Self::NeedsExecute => "HALT: it needs level 3 (execute)".to_owned(),
            Self::SaysSo => "HALT: its provider says that it is destructive".to_owned(),
            Self::Command(_) => "HALT: the command may be destructive".to_owned(),
            Self::OnlyItsWord => {
                "HALT: only its server says what it may do; a level of its own counts: permissions.needs"
                    .to_owned()
            }
            Self::Level { granted, needs } => format!(
                "HALT: it needs level {} and the run was launched with level {}",
                needs.number(),
                granted.number()
            ),
            Self::Edited => "HALT: a person changed it".to_owned(),
            Self::Unheld(BoundaryError::Kernel(_)) => {
                "HALT: nothing on this machine would hold it".to_owned()
            }
            Self::Unheld(_) => {
                "HALT: nothing would hold it to the directories of the run".to_owned()
            }
            Self::Beyond(RunHold::Wall | RunHold::Reads) => {
                "HALT: it failed inside the boundary of the run; allowed, it runs outside"
                    .to_owned()
            }
            Self::Beyond(RunHold::Layers) => {
                "HALT: it failed in the copy of the files that the run works in; allowed, it runs for real, on the files as they are without the changes of the run"
                    .to_owned()
            }
            Self::Opinion { preset, opinion } => match opinion {
                Opinion::Unsafe(_) => {
                    format!("HALT: {preset} says that it is not safe for the goal")
                }
                Opinion::Missing(why) => format!("HALT: there is no second opinion: {why}"),
                // Nobody is asked for that.
                Opinion::Safe => "HALT".to_owned(),
            },
        }
    }
}

/// Whether a call of this tool may destroy something. Annotations count only where they make it stricter: a level that a
/// server gives its tool lets nothing run.
pub fn of_tool(tool: &Tool, needs: Access, by: ClaimSource) -> Option<HaltReason> {
    if tool.annotations.get("destructiveHint") == Some(&Value::Bool(true)) {
        Some(HaltReason::SaysSo)
    } else if needs == Access::Execute {
        Some(HaltReason::NeedsExecute)
    } else if by == ClaimSource::Servers {
        Some(HaltReason::OnlyItsWord)
    } else {
        None
    }
}

/// The level that a command needs, if nothing that is known of it may not be undone. Nobody said what it may do but the
/// command itself, so that there is no third level: what is destructive or cannot be read halts.
pub fn of_command(
    command: &str,
    setting: &CommandSetting,
    roots: &[PathBuf],
) -> Result<Access, HaltReason> {
    let cwd = Path::new(&setting.cwd);
    if let Some(halt) = leaves(command, setting, roots) {
        return Err(halt);
    }
    let reading = command::read(command, Dialect::of(&setting.shell));
    let surroundings = Surroundings {
        home: setting.home(),
    };
    let mut dangers = destructive::judge(&reading, command, roots, cwd, surroundings);
    dangers.retain(|it| it.is_destructive());
    if dangers.is_empty() {
        Ok(Access::Write)
    } else {
        Err(HaltReason::Command(dangers))
    }
}

/// Why a run may not change to a directory unasked: what it may write in follows it there.
fn leaves(command: &str, setting: &CommandSetting, roots: &[PathBuf]) -> Option<HaltReason> {
    let from = change_directory::StartingDirectory {
        cwd: &setting.cwd,
        previous: None,
        home: setting.home(),
    };
    let Ok(target) = change_directory::target(command, from)? else {
        return Some(HaltReason::Command(vec![Danger::KnownOnlyWhenRun]));
    };
    let stays = roots.iter().any(|it| Path::new(&target).starts_with(it));
    (!stays).then(|| HaltReason::Command(vec![Danger::OutsideRoots]))
}

/// What a run was granted, and what was said of the call that is judged.
#[derive(Clone, Copy, Debug)]
pub struct Autonomy<'a> {
    pub levels: &'a UnaskedLevels,
    pub heard: Option<&'a SecondOpinion>,
}

/// The second opinion about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondOpinion {
    pub call: String,
    pub digest: ContentDigest,
    /// Who was asked.
    pub preset: String,
    pub opinion: Opinion,
}

impl Autonomy<'_> {
    /// What the ordinary verdict comes to in a run. A denial stays one, and whatever asks for another reason than that
    /// every call is asked about, or that a level is too low, asks here too.
    pub fn weigh(
        &self,
        call: &str,
        digest: ContentDigest,
        tool: &Tool,
        (needs, by): (Access, ClaimSource),
        verdict: PolicyDecision,
    ) -> PolicyDecision {
        match &verdict {
            PolicyDecision::Deny(_)
            | PolicyDecision::Allow(
                DecidingRule::OwnConversation | DecidingRule::HeldReading | DecidingRule::HeldHosts,
            )
            | PolicyDecision::Ask(
                AskReason::Unclear { .. }
                | AskReason::Packages { .. }
                | AskReason::Changed { .. }
                | AskReason::ReadsBeyond
                | AskReason::Changes
                | AskReason::Halt(_),
            ) => return verdict,
            PolicyDecision::Allow(_)
            | PolicyDecision::Ask(AskReason::EveryCall | AskReason::Level { .. }) => {}
        }
        if let Some(halt) = of_tool(tool, needs, by) {
            return PolicyDecision::Ask(AskReason::Halt(halt));
        }
        let granted = self.levels.of(tool.name.alias());
        let allowed = matches!(verdict, PolicyDecision::Allow(_));
        if !allowed && granted < needs {
            return PolicyDecision::Ask(AskReason::Halt(HaltReason::Level { granted, needs }));
        }
        match self.warned(call, digest) {
            Some(halt) => PolicyDecision::Ask(AskReason::Halt(halt)),
            None if allowed => verdict,
            None => PolicyDecision::Allow(DecidingRule::Norris(granted)),
        }
    }

    /// The level that lets a command run unasked, or why none does. Whatever else allows commands counts for nothing here.
    pub fn weigh_command(
        &self,
        (call, digest): (&str, ContentDigest),
        provider: &Alias,
        needs: Result<Access, HaltReason>,
    ) -> Result<Access, HaltReason> {
        let needs = needs?;
        let granted = self.levels.of(provider);
        if granted < needs {
            return Err(HaltReason::Level { granted, needs });
        }
        self.warned(call, digest).map_or(Ok(granted), Err)
    }

    /// What another model said of exactly this.
    fn warned(&self, call: &str, digest: ContentDigest) -> Option<HaltReason> {
        let heard = self
            .heard
            .filter(|it| it.call == call && it.digest == digest)?;
        match &heard.opinion {
            Opinion::Safe => None,
            opinion @ (Opinion::Unsafe(_) | Opinion::Missing(_)) => Some(HaltReason::Opinion {
                preset: heard.preset.clone(),
                opinion: opinion.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
