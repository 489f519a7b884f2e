//! Calls in the actor: what the gate says of them, by everything that holds in this conversation now.

use aishd_log::confirm::{ConfirmSubject, OnConfirm};
use aishd_log::event::Event;
use aishd_log::tool::ContentDigest;
use aishd_platform::clock;
use aishd_rules::allowances::AllowanceList;
use aishd_rules::gate::{AdmittedCall, CallJudgement, Gate};
use aishd_rules::tool_binding::ToolBindings as _;
use aishd_store::ReadError;
use aishd_turn::turn::{Effect, OwedReplies, Step};
use serde_json::Value;

use crate::actor::Conversation;

impl Conversation {
    /// What the gate says of calls that have not begun.
    pub(crate) fn judge(
        &self,
        owing: &[OwedReplies],
        approved: Option<ContentDigest>,
    ) -> Vec<CallJudgement> {
        let mut clients = AllowanceList::clone(&self.services.allowances.of(self.id));
        self.with_gate(|gate| {
            let mut judged = Vec::with_capacity(owing.len());
            for (position, owed) in owing.iter().enumerate() {
                let approved = approved.filter(|_| position == 0);
                let call = match owed {
                    OwedReplies::Call(call) => call,
                    OwedReplies::Command(proposed) | OwedReplies::CalledCommand(proposed) => {
                        judged.push(self.judge_command(proposed, approved));
                        continue;
                    }
                };
                let gate = Gate {
                    clients: &clients,
                    ..gate
                };
                let judgement = match approved {
                    Some(digest) => gate.approved(call, digest),
                    None => gate.judge(call),
                };
                // The last call that a client allows is not there for two.
                if let CallJudgement::Run(AdmittedCall {
                    allowance: Some(allowance),
                    ..
                }) = &judgement
                {
                    clients.take(*allowance);
                }
                judged.push(judgement);
            }
            judged
        })
        .into_iter()
        .map(|it| self.with_approved_definition(it))
        .collect()
    }

    /// Counts the calls that begin with a step against what clients allow. This actor alone does so for its
    /// conversation, so that nothing was counted since the calls were judged.
    pub(crate) fn use_up(&self, step: &Step) {
        for effect in &step.effects {
            if let Effect::CallTool { go, .. } = effect
                && let Some(allowance) = go.allowance
            {
                self.services.allowances.take(self.id, allowance);
            }
        }
    }

    /// Adds to a question what its tool was when it was allowed, if it is not that any more.
    pub(crate) fn with_approved_definition(&self, judged: CallJudgement) -> CallJudgement {
        let CallJudgement::Ask(mut confirm) = judged else {
            return judged;
        };
        let halt = confirm.halt;
        let subject = match &mut confirm.subject {
            ConfirmSubject::Call(subject) if !halt => subject,
            _ => return CallJudgement::Ask(confirm),
        };
        let now = subject.definition_digest;
        let definitions = &self.services.definitions;
        let tool = &subject.call.tool;
        let bound = definitions.of(tool).map(|it| it.digest);
        let approved = self.state.grants.approved.get(tool).copied();
        let kept = bound.filter(|it| *it != now);
        let kept = kept.and_then(|_| definitions.stored_definition(tool));
        let approved = approved.filter(|it| *it != now);
        if kept.is_some() || approved.is_some() {
            let before = kept.or_else(|| self.definition(approved?).unwrap_or_else(|error| {
                tracing::warn!(conversation = %self.id, %error, "an approved definition cannot be read");
                None
            }));
            if let Some((mut definition, server)) = before {
                // Where it runs is part of what was approved.
                if server != subject.call.server {
                    definition["server"] = server.into();
                    subject.definition["server"] = subject.call.server.clone().into();
                }
                subject.approved_definition = Some(definition);
            }
        }
        CallJudgement::Ask(confirm)
    }

    /// A definition that was asked about here and where it ran, from the newest confirm backwards.
    fn definition(&self, digest: ContentDigest) -> Result<Option<(Value, String)>, ReadError> {
        let before = self.state.last_seq.next();
        for record in self.services.store.newest_records(self.id, before) {
            if let Event::ConfirmRequested(asked) = record?.event
                && let ConfirmSubject::Call(asked) = asked.subject
                && asked.definition_digest == digest
            {
                return Ok(Some((asked.definition, asked.call.server)));
            }
        }
        Ok(None)
    }

    pub(crate) fn with_gate<T>(&self, work: impl FnOnce(Gate<'_>) -> T) -> T {
        let catalog = self.services.tools.catalog();
        let policy = self.services.policy.borrow().clone();
        let offered = self.turn.as_ref().and_then(|it| it.offer.clone());
        let offer = offered.unwrap_or_else(|| self.offer().into());
        let asks = OnConfirm::default();
        let on_confirm = self.turn.as_ref().map_or(&asks, |it| &it.on_confirm);
        work(Gate {
            catalog: &catalog,
            offer: &offer,
            policy: &policy,
            grants: &self.state.grants,
            constraints: &self.state.constraints,
            on_confirm,
            clients: &AllowanceList::default(),
            bound: &self.services.definitions,
            autonomy: self.autonomy(),
            attended: self.expiry.presence(),
            cwd: &self.state.cwd,
            now: clock::now(),
            next: self.next_confirm(),
        })
    }
}
