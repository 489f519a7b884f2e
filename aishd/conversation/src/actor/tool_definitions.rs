//! Which rules count for the tools as they are now.

use std::sync::Arc;

use aishd_log::tool::{ContentDigest, Tool};
use aishd_rules::gate::{AdmittedCall, CallJudgement};
use aishd_rules::tool_binding::BoundBy;
use aishd_turn::turn::OwedReplies;

use crate::actor::Conversation;
use crate::turns::tool_definitions::{DefinitionBinding, refused};

impl Conversation {
    /// The rules of a turn or a run that begins count from here on.
    pub(crate) async fn rules_count(&self) {
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
    pub(crate) async fn bound(
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
                        None => refused(&AdmittedCall::clone(go), content),
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
                    *judged = refused(&AdmittedCall::clone(go), &content);
                }
            }
        }
        judged
    }
}
