//! Is this destructive? The one place that says so, for whatever a run wants to do (NOR-2). The answer can only make a
//! call stricter: what is not destructive still has to be let through by the levels of the launch.

use serde_json::Value;

use super::launch::Levels;
use super::opinion::Opinion;
use crate::core::access::Access;
use crate::core::policy::{Rule, Verdict, Why};
use crate::core::tool::{Sha, Tool};

/// Why a person is asked about an action of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// It needs the highest level.
    NeedsExecute,
    /// Its provider says that it destroys.
    SaysSo,
    /// Its provider does not say that it is harmless, and a configured level does not say so in its place.
    NotSaidHarmless,
    /// The launch granted less than it needs.
    Level { granted: Access, needs: Access },
    /// Another model said no, or nothing that counts (NOR-3).
    Opinion { preset: String, opinion: Opinion },
}

impl Halt {
    /// For people. The word of the other model is in it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Opinion {
                preset,
                opinion: Opinion::Unsafe(reason),
            } if !reason.is_empty() => {
                format!("HALT: {preset} says that it is not safe for the goal: {reason:?}")
            }
            Self::NeedsExecute
            | Self::SaysSo
            | Self::NotSaidHarmless
            | Self::Level { .. }
            | Self::Opinion { .. } => self.told(),
        }
    }

    /// For the audit trail: without a word of a model.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Self::NeedsExecute => "HALT: it needs level 3 (execute)".to_owned(),
            Self::SaysSo => "HALT: its provider says that it is destructive".to_owned(),
            Self::NotSaidHarmless => {
                "HALT: its provider does not say that it is harmless".to_owned()
            }
            Self::Level { granted, needs } => format!(
                "HALT: it needs level {} and the run was launched with level {}",
                needs.number(),
                granted.number()
            ),
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

/// Whether a call of this tool may destroy something. Annotations count only where they make it stricter.
#[must_use]
pub fn of_tool(tool: &Tool, needs: Access) -> Option<Halt> {
    if tool.annotations.get("destructiveHint") == Some(&Value::Bool(true)) {
        Some(Halt::SaysSo)
    } else if needs == Access::Execute {
        Some(Halt::NeedsExecute)
    } else if tool.needs == Access::Execute {
        Some(Halt::NotSaidHarmless)
    } else {
        None
    }
}

/// What a run was granted, and what was said of the call that is judged.
#[derive(Clone, Copy, Debug)]
pub struct Autonomy<'a> {
    pub levels: &'a Levels,
    pub heard: Option<&'a Heard>,
}

/// The second opinion about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub call: String,
    pub digest: Sha,
    /// Who was asked.
    pub preset: String,
    pub opinion: Opinion,
}

impl Autonomy<'_> {
    /// What the ordinary verdict comes to in a run. A denial stays one, and whatever asks for another reason than that
    /// every call is asked about, or that a level is too low, asks here too.
    #[must_use]
    pub fn weigh(
        &self,
        call: &str,
        digest: Sha,
        tool: &Tool,
        needs: Access,
        verdict: Verdict,
    ) -> Verdict {
        match &verdict {
            Verdict::Deny(_)
            | Verdict::Allow(Rule::OwnConversation)
            | Verdict::Ask(
                Why::Unclear { .. } | Why::Packages { .. } | Why::Changed { .. } | Why::Halt(_),
            ) => return verdict,
            Verdict::Allow(_) | Verdict::Ask(Why::EveryCall | Why::Level { .. }) => {}
        }
        if let Some(halt) = of_tool(tool, needs) {
            return Verdict::Ask(Why::Halt(halt));
        }
        let granted = self.levels.of(tool.name.alias());
        let allowed = matches!(verdict, Verdict::Allow(_));
        if !allowed && granted < needs {
            return Verdict::Ask(Why::Halt(Halt::Level { granted, needs }));
        }
        let heard = self
            .heard
            .filter(|it| it.call == call && it.digest == digest);
        match heard.map(|it| (&it.preset, &it.opinion)) {
            Some((preset, opinion @ (Opinion::Unsafe(_) | Opinion::Missing(_)))) => {
                Verdict::Ask(Why::Halt(Halt::Opinion {
                    preset: preset.clone(),
                    opinion: opinion.clone(),
                }))
            }
            Some((_, Opinion::Safe)) | None if allowed => verdict,
            Some((_, Opinion::Safe)) | None => Verdict::Allow(Rule::Norris(granted)),
        }
    }
}

#[cfg(test)]
mod tests;
