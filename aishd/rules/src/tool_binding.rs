//! What rules are bound to. Whoever allows a name beforehand, by whatever rule, means the tool as it was when the rule first
//! let a call through. A tool that is another one by now is asked about, until a person has said yes to it as it is.

use std::collections::BTreeMap;
use std::fmt;

use aishd_log::tool::{ContentDigest, Tool};
use aishd_log::tool_name::ToolName;
use serde::{Deserialize, Serialize};

/// What a tool's name stands for, in all conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// As [`Tool::definition_digest`].
    pub digest: ContentDigest,
    pub by: BoundBy,
}

/// Who bound it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundBy {
    /// A rule let a call through and nothing was bound before.
    Rule,
    /// A person was shown the definition and allowed it.
    Person,
}

/// Looks them up.
pub trait ToolBindings: fmt::Debug {
    fn of(&self, tool: &ToolName) -> Option<Binding>;
}

/// Those of a test, or none.
impl ToolBindings for BTreeMap<ToolName, Binding> {
    fn of(&self, tool: &ToolName) -> Option<Binding> {
        self.get(tool).copied()
    }
}

/// Nothing is bound: for questions whose answer cannot depend on it.
#[derive(Clone, Copy, Debug)]
pub struct NoBindings;

impl ToolBindings for NoBindings {
    fn of(&self, _tool: &ToolName) -> Option<Binding> {
        None
    }
}

/// What was allowed, if that is not what the tool is now. `always` is what a person said "always" to in this conversation.
pub fn changed_from(
    bound: &dyn ToolBindings,
    always: Option<ContentDigest>,
    tool: &Tool,
) -> Option<ContentDigest> {
    let bound = bound.of(&tool.name);
    if bound.is_none() && always.is_none() {
        return None;
    }
    let now = tool.definition_digest();
    match bound {
        Some(bound) if bound.digest != now => Some(bound.digest),
        // Somebody has seen it since, here or in another conversation.
        Some(Binding {
            by: BoundBy::Person,
            ..
        }) => None,
        Some(Binding {
            by: BoundBy::Rule, ..
        })
        | None => always.filter(|it| *it != now),
    }
}

#[cfg(test)]
mod tests {
    use aishd_log::access::Access;

    use super::*;
    use crate::log_samples::tool;

    #[test]
    fn a_rule_counts_for_what_was_bound_and_for_what_a_person_saw_since() {
        let tool = tool("fs__rm", Access::Execute);
        let (now, other) = (tool.definition_digest(), ContentDigest([7; 32]));
        let check = |expected, bound: Option<(ContentDigest, BoundBy)>, always| {
            let bound = bound.map(|(digest, by)| (tool.name.clone(), Binding { digest, by }));
            let bound: BTreeMap<_, _> = bound.into_iter().collect();
            assert_eq!(expected, changed_from(&bound, always, &tool), "{bound:?}");
        };
        check(None, None, None);
        check(None, None, Some(now));
        check(Some(other), None, Some(other));
        for by in [BoundBy::Rule, BoundBy::Person] {
            check(None, Some((now, by)), None);
            check(None, Some((now, by)), Some(now));
            check(Some(other), Some((other, by)), None);
            check(Some(other), Some((other, by)), Some(now));
        }
        check(Some(other), Some((now, BoundBy::Rule)), Some(other));
        check(None, Some((now, BoundBy::Person)), Some(other));
    }
}
