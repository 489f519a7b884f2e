//! The definitions that rules are bound to, of all conversations, kept in the store beside what servers were last found to
//! offer: they outlive the daemon, the server and its cached tools.
//!
//! A rule is bound when it first counts for a tool: when the configuration has it and the tool is there, when a client says it,
//! when its turn or its run begins; and at the latest when it lets a call through.

use std::collections::HashMap;
use std::sync::Arc;

use aishd_log::event::RefusedCall;
use aishd_log::tool::{ContentDigest, DecisionSubject, Tool};
use aishd_log::tool_name::ToolName;
use aishd_rules::gate::{AdmittedCall, CallJudgement};
use aishd_rules::tool_binding::{Binding, BoundBy, ToolBindings};
use aishd_store::{CommitError, Note, Store};
use aishd_tools::builtin;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Notes that the store is given in one go.
pub(crate) const AT_ONCE: usize = 128;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct ToolDefinitions(Arc<DefinitionsInner>);

#[derive(Debug)]
pub(crate) struct DefinitionsInner {
    pub(crate) store: Store,
    pub(crate) known: Mutex<HashMap<ToolName, Binding>>,
    /// Held by the one that is being bound.
    pub(crate) binding: tokio::sync::Mutex<()>,
}

/// As it is stored, with what a person needs to see what has changed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredDefinition {
    pub(crate) digest: ContentDigest,
    pub(crate) by: BoundBy,
    pub(crate) definition: Value,
    pub(crate) place: String,
}

/// Whether a rule counts for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefinitionBinding {
    ToIt,
    /// Another conversation was first, with another definition.
    ToAnother,
}

impl ToolDefinitions {
    pub fn new(store: &Store) -> Self {
        Self(Arc::new(DefinitionsInner {
            store: store.clone(),
            known: Mutex::default(),
            binding: tokio::sync::Mutex::default(),
        }))
    }

    /// What was bound to a name, as [`Tool::definition`], and where it ran.
    pub(crate) fn stored_definition(&self, tool: &ToolName) -> Option<(Value, String)> {
        let text = self.0.store.note(&key(tool)).ok()??;
        let kept: StoredDefinition = serde_json::from_str(&text).ok()?;
        Some((kept.definition, kept.place))
    }

    /// Returns once it is durable. What a person saw takes the place of what was bound before, and what a rule lets
    /// through does not.
    pub(crate) async fn bind(
        &self,
        tool: &Tool,
        by: BoundBy,
    ) -> Result<DefinitionBinding, CommitError> {
        if builtin::is_builtin(&tool.name) {
            return Ok(DefinitionBinding::ToIt);
        }
        let digest = tool.definition_digest();
        let _alone = self.0.binding.lock().await;
        match (self.of(&tool.name), by) {
            (Some(bound), BoundBy::Rule) if bound.digest == digest => {
                return Ok(DefinitionBinding::ToIt);
            }
            (Some(_), BoundBy::Rule) => return Ok(DefinitionBinding::ToAnother),
            (Some(bound), BoundBy::Person) if bound == (Binding { digest, by }) => {
                return Ok(DefinitionBinding::ToIt);
            }
            (Some(_), BoundBy::Person) | (None, BoundBy::Rule | BoundBy::Person) => {}
        }
        self.keep(tool, by).await?;
        Ok(DefinitionBinding::ToIt)
    }

    /// Binds those of which nothing is bound yet, as they are. Returns once it is durable.
    pub async fn count_for(&self, tools: impl IntoIterator<Item = &Arc<Tool>>) {
        let _alone = self.0.binding.lock().await;
        let new = tools.into_iter().filter(|it| {
            // The daemon's own tools are not looked up.
            !builtin::is_builtin(&it.name) && self.of(&it.name).is_none()
        });
        let new: Vec<&Arc<Tool>> = new.collect();
        if new.is_empty() {
            return;
        }
        for some in new.chunks(AT_ONCE) {
            let kept = some.iter().map(|it| self.keep(it, BoundBy::Rule));
            for kept in join_all(kept).await {
                if let Err(error) = kept {
                    // The call that comes will see to it, or not run.
                    tracing::warn!(%error, "what a rule is bound to could not be kept");
                    return;
                }
            }
        }
        tracing::debug!(tools = new.len(), "rules count for tools as they are now");
    }

    async fn keep(&self, tool: &Tool, by: BoundBy) -> Result<(), CommitError> {
        let digest = tool.definition_digest();
        let kept = StoredDefinition {
            digest,
            by,
            definition: tool.definition(),
            place: tool.place.to_string(),
        };
        let note = Note {
            key: key(&tool.name),
            text: serde_json::to_string(&kept).unwrap_or_default(),
            forgets: false,
        };
        self.0.store.keep(note, vec![]).await?;
        self.0
            .known
            .lock()
            .insert(tool.name.clone(), Binding { digest, by });
        Ok(())
    }
}

impl ToolBindings for ToolDefinitions {
    /// Of what cannot be read nothing is known but that it was something, so that it is asked about.
    fn of(&self, tool: &ToolName) -> Option<Binding> {
        // The daemon's own tools change with the daemon, which the person chose.
        if builtin::is_builtin(tool) {
            return None;
        }
        if let Some(known) = self.0.known.lock().get(tool) {
            return Some(*known);
        }
        let unreadable = Binding {
            digest: ContentDigest([0; 32]),
            by: BoundBy::Rule,
        };
        match self.0.store.note(&key(tool)) {
            Ok(None) => None,
            Ok(Some(text)) => {
                let Ok(StoredDefinition { digest, by, .. }) = serde_json::from_str(&text) else {
                    return Some(unreadable);
                };
                let binding = Binding { digest, by };
                self.0.known.lock().insert(tool.clone(), binding);
                Some(binding)
            }
            Err(error) => {
                tracing::warn!(%tool, %error, "what rules about a tool are bound to cannot be read");
                Some(unreadable)
            }
        }
    }
}

pub(crate) fn refused(go: &AdmittedCall, content: &str) -> CallJudgement {
    CallJudgement::Refuse {
        denial: None,
        content: content.to_owned(),
        refused: RefusedCall {
            subject: Some(DecisionSubject {
                tool: go.tool.name.clone(),
                digest: go.digest,
            }),
            because: "its definition could not be bound".to_owned(),
            imported: false,
        },
    }
}

pub(crate) fn key(tool: &ToolName) -> String {
    format!("definition {tool}")
}
