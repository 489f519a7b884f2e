//! Every call passes here before anything runs: is it a call at all, of a tool that was offered, and may it run?

#![warn(clippy::wildcard_enum_match_arm)]

mod command;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use aish_proto::id::ConfirmId;
use aishd_log::canonical::canonical;
use aishd_log::confirm::{
    CallSubject, Confirm, ConfirmCall, ConfirmSubject, Decision, Denial, OnConfirm,
};
use aishd_log::constraints::Constraints;
use aishd_log::event::RefusedCall;
use aishd_log::grants::GrantList;
use aishd_log::shell;
use aishd_log::time::Timestamp;
use aishd_log::tool::{ContentDigest, DecisionSubject, Tool};
use aishd_log::tool_call::ToolCall;
pub use command::{AdmittedCommand, CommandGate, RunGround, command_consent};
use serde_json::{Map, Value};

use crate::allowances::{AllowanceList, AllowanceNumber};
use crate::asking::{Presence, may_ask};
use crate::autonomy::{Autonomy, HaltReason};
use crate::catalog::{Catalog, ToolOffer};
use crate::destructive_call;
use crate::policy::{AskReason, Policy, PolicyDecision, PolicyQuestion, decide};
use crate::read_extent::{reads_beyond, reason_text};
use crate::tool_binding::{BoundBy, ToolBindings};

const NOT_OFFERED: &str = "no such tool is offered";
const MISFIT: &str = "its arguments do not fit the tool's schema";

/// All that a judgement is made from.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    pub catalog: &'a Catalog,
    /// What the request that led to the calls offered.
    pub offer: &'a ToolOffer,
    pub policy: &'a Policy,
    pub grants: &'a GrantList,
    pub constraints: &'a Constraints,
    pub on_confirm: &'a OnConfirm,
    /// What attached clients allow for as long as they are there.
    pub clients: &'a AllowanceList,
    /// What all that lets calls through is bound to.
    pub bound: &'a dyn ToolBindings,
    /// What an autonomous run was granted.
    pub autonomy: Option<Autonomy<'a>>,
    pub attended: Presence,
    pub cwd: &'a str,
    pub now: Timestamp,
    /// Names the next confirm.
    pub next: (ConfirmId, u32),
}

/// What the gate says of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallJudgement {
    Run(AdmittedCall),
    /// A command, and no call of a tool.
    Execute(Box<AdmittedCommand>),
    Ask(Box<Confirm>),
    /// It may run when what runs has ended, and is judged again then.
    Later,
    /// It does not run; this is its reply.
    Refuse {
        denial: Option<Denial>,
        content: String,
        refused: RefusedCall,
    },
}

/// A call that may run, as it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmittedCall {
    pub tool: Arc<Tool>,
    pub arguments: Map<String, Value>,
    pub digest: ContentDigest,
    /// What lets it through.
    pub rule: String,
    /// The client's word that lets it through. It is one call fewer when this one begins.
    pub allowance: Option<AllowanceNumber>,
    /// Its definition is what the tool's name stands for from here on, as far as rules are concerned.
    pub binds: Option<BoundBy>,
    pub pace: CallPace,
}

/// How a call stands to the others of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPace {
    /// It begins when those before it have ended, and those after it wait.
    Alone,
    /// It may run beside others that only read.
    Beside,
}

impl Gate<'_> {
    /// Whether some rule lets calls of a tool through to which nobody has bound it yet, as far as that does not depend on
    /// their arguments.
    pub fn lets_through(&self, tool: &Tool) -> bool {
        if self.bound.of(&tool.name).is_some() {
            return false;
        }
        let question = PolicyQuestion {
            tool,
            arguments: &Map::new(),
            reads_beyond: false,
            constraints: self.constraints,
            grants: self.grants,
            turn: &self.on_confirm.allow,
            clients: self.clients,
            bound: self.bound,
        };
        let rule = match self.decided("", tool.definition_digest(), question) {
            PolicyDecision::Allow(rule) => rule,
            PolicyDecision::Ask(_) | PolicyDecision::Deny(_) => return false,
        };
        rule.binds().is_some()
    }

    /// What is decided of a call with this id and digest, in a run by what it was granted besides.
    fn decided(
        &self,
        call: &str,
        digest: ContentDigest,
        question: PolicyQuestion<'_>,
    ) -> PolicyDecision {
        let verdict = decide(question, self.policy);
        let Some(run) = &self.autonomy else {
            return verdict;
        };
        let tool = question.tool;
        let needs = (self.policy.needs(tool), self.policy.needs_by(tool));
        run.weigh(call, digest, tool, needs, verdict)
    }

    pub fn judge(&self, call: &ToolCall) -> CallJudgement {
        let arguments = match parse(call) {
            Ok(arguments) => arguments,
            Err(why) => {
                let content = format!("[aish] tool arguments not parseable as JSON: {why}");
                return refuse(None, content, refused("its arguments are no JSON object"));
            }
        };
        if call.name == shell::TOOL {
            let content = "[aish] tool arguments do not fit: a command is run by {\"command\": \"…\"}, with \"background\": true where it is to go on by itself";
            return refuse(None, content.to_owned(), refused(MISFIT));
        }
        let Some(tool) = self.find(&call.name) else {
            let content = format!("[aish] tool dispatch failed: unknown tool {}", call.name);
            return refuse(None, content, refused(NOT_OFFERED));
        };
        let question = PolicyQuestion {
            tool,
            arguments: &arguments,
            reads_beyond: reads_beyond(tool, &arguments, self.constraints, self.cwd),
            constraints: self.constraints,
            grants: self.grants,
            turn: &self.on_confirm.allow,
            clients: self.clients,
            bound: self.bound,
        };
        let digest = tool.call_digest(&arguments, self.cwd);
        let refused = |because: String| RefusedCall {
            subject: Some(DecisionSubject {
                tool: tool.name.clone(),
                digest,
            }),
            because,
            imported: false,
        };
        if self.is_offered(tool)
            && let Some(why) = self.catalog.misfit(tool, &arguments)
        {
            let content = format!("[aish] tool arguments do not fit: {why}");
            return refuse(None, content, refused(MISFIT.to_owned()));
        }
        match self.decided(&call.id, digest, question) {
            PolicyDecision::Deny(rule) => {
                let content = format!("[aish] denied by policy: {rule}");
                refuse(Some(Denial::Policy), content, refused(rule.describe()))
            }
            PolicyDecision::Allow(rule) if self.is_offered(tool) => {
                CallJudgement::Run(AdmittedCall {
                    tool: tool.clone(),
                    arguments,
                    digest,
                    rule: rule.to_string(),
                    allowance: rule.allowance(),
                    binds: rule.binds(),
                    // One action of a run after another, so that each is known and can be looked at.
                    pace: if tool.reads_only
                        && self.policy.parallel_readonly
                        && self.autonomy.is_none()
                    {
                        CallPace::Beside
                    } else {
                        CallPace::Alone
                    },
                })
            }
            PolicyDecision::Ask(why) if self.is_offered(tool) => {
                self.ask(call, tool, &arguments, digest, &why)
            }
            PolicyDecision::Allow(_) | PolicyDecision::Ask(_) => {
                let found_by = self.offer.selection().filter(|it| it.has(&tool.name));
                let help = match found_by {
                    Some(_) => "; it is none of those that this request had: search for it first",
                    None => "",
                };
                let content = format!(
                    "[aish] tool dispatch failed: unknown tool {}{help}",
                    call.name
                );
                refuse(None, content, refused(NOT_OFFERED.to_owned()))
            }
        }
    }

    /// A call that a person has just approved: the same checks, and it runs if it is what was approved.
    pub fn approved(&self, call: &ToolCall, digest: ContentDigest) -> CallJudgement {
        let on_confirm = self.on_confirm.as_answered();
        let gate = Gate {
            on_confirm: &on_confirm,
            // It rests on that answer, and costs nobody a call that was allowed beforehand.
            clients: &AllowanceList::default(),
            ..*self
        };
        match gate.judge(call) {
            CallJudgement::Ask(confirm) if confirm.digest == digest => {
                match (parse(call), self.find(&call.name)) {
                    (Ok(arguments), Some(tool)) => CallJudgement::Run(AdmittedCall {
                        tool: tool.clone(),
                        arguments,
                        digest,
                        rule: "approved by a person".to_owned(),
                        allowance: None,
                        binds: Some(BoundBy::Person),
                        pace: CallPace::Alone,
                    }),
                    (Ok(_) | Err(_), _) => CallJudgement::Ask(confirm),
                }
            }
            other @ (CallJudgement::Ask(_)
            | CallJudgement::Run(_)
            | CallJudgement::Execute(_)
            | CallJudgement::Later
            | CallJudgement::Refuse { .. }) => other,
        }
    }

    /// One that a person wrote in the place of another: it is asked about whatever would let it run, for nobody has seen
    /// how it is judged.
    pub fn edited(&self, call: &ToolCall) -> CallJudgement {
        let on_confirm = self.on_confirm.as_answered();
        let gate = Gate {
            on_confirm: &on_confirm,
            ..*self
        };
        match gate.judge(call) {
            CallJudgement::Run(go) => {
                let why = match self.autonomy {
                    Some(_) => AskReason::Halt(HaltReason::Edited),
                    None => AskReason::EveryCall,
                };
                gate.ask(call, &go.tool, &go.arguments, go.digest, &why)
            }
            other @ (CallJudgement::Ask(_)
            | CallJudgement::Execute(_)
            | CallJudgement::Later
            | CallJudgement::Refuse { .. }) => other,
        }
    }

    /// What the call would be bound to now, if it is one.
    pub fn digest(&self, call: &ToolCall) -> Option<ContentDigest> {
        let arguments = parse(call).ok()?;
        Some(self.find(&call.name)?.call_digest(&arguments, self.cwd))
    }

    fn find(&self, name: &str) -> Option<&Arc<Tool>> {
        let offered = self.offer.real_name(name);
        let name = offered.cloned().or_else(|| name.parse().ok())?;
        self.catalog.get(&name)
    }

    fn is_offered(&self, tool: &Tool) -> bool {
        self.offer.real_name(&tool.name.to_string()).is_some()
    }

    fn ask(
        &self,
        call: &ToolCall,
        tool: &Tool,
        arguments: &Map<String, Value>,
        digest: ContentDigest,
        why: &AskReason,
    ) -> CallJudgement {
        let refused = |because: &str| RefusedCall {
            subject: Some(DecisionSubject {
                tool: tool.name.clone(),
                digest,
            }),
            because: because.to_owned(),
            imported: false,
        };
        if let Err(unasked) = may_ask(self.on_confirm, self.attended) {
            let mut content = unasked.reply();
            add_upgrade(&mut content, tool, why);
            return refuse(
                Some(Denial::NoApprover),
                content,
                refused(unasked.describe()),
            );
        }
        let needs = self.policy.needs(tool);
        let raise_to = why.raise_to();
        let (id, number) = self.next;
        let halt = matches!(why, AskReason::Halt(_));
        let cwd = tool.directory.as_deref().unwrap_or(self.cwd);
        let destructive = destructive_call::reason(tool, arguments, needs, Path::new(cwd));
        let mut options = vec![Decision::AllowOnce];
        // A run that wants the same again asks again, and nothing that may not be undone is allowed beforehand.
        if !halt && destructive.is_none() {
            options.extend([Decision::AllowConversation, Decision::AllowProvider]);
        }
        if raise_to.is_some() {
            options.push(Decision::RaiseOnly);
        }
        options.extend([Decision::Deny, Decision::Edit, Decision::Abort]);
        let said = reason_text(why, tool, arguments, self.constraints, self.cwd);
        let call = ConfirmCall {
            id: call.id.clone(),
            tool: tool.name.clone(),
            arguments: spelled(arguments),
            cwd: cwd.to_owned(),
            server: tool.place.to_string(),
        };
        CallJudgement::Ask(Box::new(Confirm {
            id,
            number,
            title: tool.name.to_string(),
            subject: ConfirmSubject::Call(CallSubject {
                call,
                definition: tool.definition(),
                definition_digest: tool.definition_digest(),
                provider_digest: Some(self.catalog.provider_digest(tool.name.alias())),
                approved_definition: None,
                needs,
                raise_to,
            }),
            why_told: Some(why.describe(&tool.name)).filter(|it| *it != said),
            why: said,
            destructive,
            halt,
            digest,
            options,
            expires_at: self.on_confirm.expires_at(self.now),
        }))
    }
}

/// The bytes of a call's arguments, as they are shown, hashed and run.
pub fn spelled(arguments: &Map<String, Value>) -> String {
    canonical(&Value::Object(arguments.clone()))
}

fn parse(call: &ToolCall) -> Result<Map<String, Value>, String> {
    match &call.broken {
        Some(why) => Err(why.clone()),
        None => serde_json::from_str(&call.arguments).map_err(|error| error.to_string()),
    }
}

/// How the level could be raised; or what was allowed beforehand, and why that does not count.
fn add_upgrade(content: &mut String, tool: &Tool, why: &AskReason) {
    if let AskReason::Packages { .. } = why {
        let _never_fails = write!(content, ": {}", why.text(&tool.name));
    } else if let Some(level) = why.raise_to() {
        let _never_fails = write!(
            content,
            ". {}; a person can do that with: aishctl perm grant {} {}",
            why.text(&tool.name),
            tool.name.alias(),
            level.number()
        );
    } else if let AskReason::Changed { .. } = why {
        let _never_fails = write!(content, ": {}", why.text(&tool.name));
    }
}

fn refused(because: &str) -> RefusedCall {
    RefusedCall {
        subject: None,
        because: because.to_owned(),
        imported: false,
    }
}

fn refuse(denial: Option<Denial>, content: String, refused: RefusedCall) -> CallJudgement {
    CallJudgement::Refuse {
        denial,
        content,
        refused,
    }
}

#[cfg(test)]
mod tests;
