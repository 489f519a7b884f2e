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
use aishd_rules::gate::{ApprovedCall, CallJudgement};
use aishd_rules::tool_binding::{Binding, BoundBy, ToolBindings};
use aishd_store::{CommitError, Note, Store};
use aishd_tools::builtin;
use aishd_turn::turn::OwedReplies;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Conversation;

/// Notes that the store is given in one go.
const AT_ONCE: usize = 128;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct ToolDefinitions(Arc<DefinitionsInner>);

#[derive(Debug)]
struct DefinitionsInner {
    store: Store,
    known: Mutex<HashMap<ToolName, Binding>>,
    /// Held by the one that is being bound.
    binding: tokio::sync::Mutex<()>,
}

/// As it is stored, with what a person needs to see what has changed.
#[derive(Debug, Serialize, Deserialize)]
struct StoredDefinition {
    digest: ContentDigest,
    by: BoundBy,
    definition: Value,
    place: String,
}

/// Whether a rule counts for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DefinitionBinding {
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
    pub(super) fn stored_definition(&self, tool: &ToolName) -> Option<(Value, String)> {
        let text = self.0.store.note(&key(tool)).ok()??;
        let kept: StoredDefinition = serde_json::from_str(&text).ok()?;
        Some((kept.definition, kept.place))
    }

    /// Returns once it is durable. What a person saw takes the place of what was bound before, and what a rule lets
    /// through does not.
    async fn bind(&self, tool: &Tool, by: BoundBy) -> Result<DefinitionBinding, CommitError> {
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

impl Conversation {
    /// The rules of a turn or a run that begins count from here on.
    pub(super) async fn rules_count(&self) {
        let has_some = self
            .turn
            .as_ref()
            .is_some_and(|it| !it.on_confirm.allow.is_empty());
        if !has_some && self.autonomy().is_none() {
            return;
        }
        let let_through: Vec<Arc<Tool>> = self.with_gate(|gate| {
            let tools = gate.catalog.iter();
            tools.filter(|it| gate.lets_through(it)).cloned().collect()
        });
        self.services.definitions.count_for(&let_through).await;
    }

    /// Binds what is let through, before any of it runs. What cannot be bound does not run by a rule.
    pub(super) async fn bound(
        &self,
        owing: &[OwedReplies],
        approved: Option<ContentDigest>,
        mut judged: Vec<CallJudgement>,
    ) -> Vec<CallJudgement> {
        for (position, (owed, judged)) in owing.iter().zip(&mut judged).enumerate() {
            let CallJudgement::Run(go) = &*judged else {
                continue;
            };
            let Some(by) = go.binds else { continue };
            match self.services.definitions.bind(&go.tool, by).await {
                Ok(DefinitionBinding::ToIt) => {}
                Ok(DefinitionBinding::ToAnother) => {
                    let approved = approved.filter(|_| position == 0);
                    let again = self.judge(std::slice::from_ref(owed), approved).pop();
                    let content = "[aish] tool dispatch failed: it changed while it was let through; nothing ran";
                    *judged = match again {
                        Some(CallJudgement::Run(go)) => refused(&go, content),
                        Some(other) => other,
                        None => refused(&ApprovedCall::clone(go), content),
                    };
                }
                // A person has allowed this call. The next one is asked about.
                Err(error) if by == BoundBy::Person => {
                    tracing::warn!(tool = %go.tool.name, %error, "an approved definition could not be kept");
                }
                Err(error) => {
                    let content = format!(
                        "[aish] tool dispatch failed: the store could not keep what the rule is bound to: {error}; nothing ran"
                    );
                    *judged = refused(&ApprovedCall::clone(go), &content);
                }
            }
        }
        judged
    }
}

fn refused(go: &ApprovedCall, content: &str) -> CallJudgement {
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

fn key(tool: &ToolName) -> String {
    format!("definition {tool}")
}
