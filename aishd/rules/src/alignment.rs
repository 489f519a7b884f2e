//! How an action stands to the rules before anything of it runs. The rules are those of the gate, asked in the same
//! way, so that the two cannot say different things, and no provider is spoken of differently from another.

use aishd_log::access::Access;
use aishd_log::constraints::Constraints;
use aishd_log::grants::GrantList;
use aishd_log::pattern::Patterns;
use aishd_log::tool_name::Alias;
use serde_json::{Map, Value};

use crate::allowances::AllowanceList;
use crate::catalog::Catalog;
use crate::intent::IntentDecision;
use crate::policy::{Policy, PolicyDecision, PolicyQuestion, decide};
use crate::tool_binding::NoBindings;

/// What an action is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionVerdict {
    /// No rule is against it; that is no consent.
    Aligned,
    Contradiction {
        /// The rule, for whoever asked.
        reason: String,
        /// The same for the audit trail: without a word of the model.
        told: String,
    },
    /// It means nothing for certain, so that no rule can be asked.
    Unknown,
}

/// What holds in the conversation.
#[derive(Clone, Copy, Debug)]
pub struct AlignmentContext<'a> {
    pub policy: &'a Policy,
    pub grants: &'a GrantList,
    pub constraints: &'a Constraints,
}

impl ActionVerdict {
    /// Of a call of what the action was routed to.
    pub fn of(
        routing: &IntentDecision,
        arguments: &Map<String, Value>,
        catalog: &Catalog,
        standing: AlignmentContext<'_>,
    ) -> Self {
        let Some(tool) = routing.sure().and_then(|it| catalog.get(it)) else {
            return Self::Unknown;
        };
        let question = PolicyQuestion {
            tool,
            arguments,
            reads_beyond: false,
            constraints: standing.constraints,
            grants: standing.grants,
            // What lets calls through beforehand comes after every rule that denies.
            turn: &Patterns::default(),
            clients: &AllowanceList::default(),
            bound: &NoBindings,
        };
        match decide(question, standing.policy) {
            PolicyDecision::Deny(rule) => Self::Contradiction {
                reason: rule.to_string(),
                told: rule.describe(),
            },
            PolicyDecision::Allow(_) | PolicyDecision::Ask(_) => Self::Aligned,
        }
    }

    /// Of a provider's level that somebody wants raised.
    pub fn of_level(provider: &Alias, to: Access, policy: &Policy) -> Self {
        let max = policy.providers.get(provider).map(|it| it.max_level);
        match max.filter(|max| to > *max) {
            Some(max) => {
                let reason = format!("max_level of {provider} is {}", max.number());
                Self::Contradiction {
                    told: reason.clone(),
                    reason,
                }
            }
            None => Self::Aligned,
        }
    }
}

#[cfg(test)]
mod tests;
