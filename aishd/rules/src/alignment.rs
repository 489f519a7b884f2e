//! How an action stands to the rules before anything of it runs. The rules are those of the gate, asked in the same
//! way, so that the two cannot say different things, and no provider is spoken of differently from another.

use serde_json::{Map, Value};

use crate::allowances::Allowances;
use crate::binding::Unbound;
use crate::catalog::Catalog;
use crate::intent::Routing;
use crate::policy::{Policy, Question, Verdict, decide};
use aishd_log::access::Access;
use aishd_log::constraints::Constraints;
use aishd_log::grants::Grants;
use aishd_log::pattern::Patterns;
use aishd_log::tool_name::Alias;

/// What an action is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alignment {
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
pub struct Standing<'a> {
    pub policy: &'a Policy,
    pub grants: &'a Grants,
    pub constraints: &'a Constraints,
}

impl Alignment {
    /// Of a call of what the action was routed to.
    pub fn of(
        routing: &Routing,
        arguments: &Map<String, Value>,
        catalog: &Catalog,
        standing: Standing<'_>,
    ) -> Self {
        let Some(tool) = routing.sure().and_then(|it| catalog.get(it)) else {
            return Self::Unknown;
        };
        let question = Question {
            tool,
            arguments,
            constraints: standing.constraints,
            grants: standing.grants,
            // What lets calls through beforehand comes after every rule that denies.
            turn: &Patterns::default(),
            clients: &Allowances::default(),
            bound: &Unbound,
        };
        match decide(question, standing.policy) {
            Verdict::Deny(rule) => Self::Contradiction {
                reason: rule.to_string(),
                told: rule.told(),
            },
            Verdict::Allow(_) | Verdict::Ask(_) => Self::Aligned,
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
