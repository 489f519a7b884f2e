//! Every call passes here before anything runs: is it a call at all, of a tool that was offered, and may it run?

mod command;

use std::fmt::Write as _;
use std::sync::Arc;

use aish_proto::id::ConfirmId;
use serde_json::{Map, Value};

use crate::allowances::{Allowances, Number};
use crate::autonomy::{Autonomy, Halt};
use crate::binding::{Bindings, By};
use crate::catalog::{Catalog, Offer};
use crate::policy::{Policy, Question, Verdict, Why, decide};
use aishd_log::canonical::canonical;
use aishd_log::confirm::{Confirm, ConfirmKind, Decision, Denial, OnConfirm, Then};
use aishd_log::constraints::Constraints;
use aishd_log::event::Refused;
use aishd_log::grants::Grants;
use aishd_log::time::At;
use aishd_log::tool::{Sha, Subject, Tool};
use aishd_log::tool_call::ToolCall;
pub use command::{CommandGate, Execution, Inside};

const NOT_OFFERED: &str = "no such tool is offered";
const MISFIT: &str = "its arguments do not fit the tool's schema";

/// All that a judgement is made from.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    pub catalog: &'a Catalog,
    /// What the request that led to the calls offered.
    pub offer: &'a Offer,
    pub policy: &'a Policy,
    pub grants: &'a Grants,
    pub constraints: &'a Constraints,
    pub on_confirm: &'a OnConfirm,
    /// What attached clients allow for as long as they are there.
    pub clients: &'a Allowances,
    /// What all that lets calls through is bound to.
    pub bound: &'a dyn Bindings,
    /// What an autonomous run was granted.
    pub autonomy: Option<Autonomy<'a>>,
    pub attended: Attended,
    pub cwd: &'a str,
    pub now: At,
    /// Names the next confirm.
    pub next: (ConfirmId, u32),
}

/// Whether a person is attached who could answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attended {
    ByPerson,
    ByNobody,
}

/// What the gate says of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    Run(Go),
    /// A command, and no call of a tool.
    Execute(Box<Execution>),
    Ask(Box<Confirm>),
    /// It may run when what runs has ended, and is judged again then.
    Later,
    /// It does not run; this is its reply.
    Refuse {
        denial: Option<Denial>,
        content: String,
        refused: Refused,
    },
}

/// A call that may run, as it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Go {
    pub tool: Arc<Tool>,
    pub arguments: Map<String, Value>,
    pub digest: Sha,
    /// What lets it through.
    pub rule: String,
    /// The client's word that lets it through. It is one call fewer when this one begins.
    pub allowance: Option<Number>,
    /// Its definition is what the tool's name stands for from here on, as far as rules are concerned.
    pub binds: Option<By>,
    pub pace: Pace,
}

/// How a call stands to the others of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
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
        let question = Question {
            tool,
            arguments: &Map::new(),
            constraints: self.constraints,
            grants: self.grants,
            turn: &self.on_confirm.allow,
            clients: self.clients,
            bound: self.bound,
        };
        let rule = match self.decided("", tool.definition_digest(), question) {
            Verdict::Allow(rule) => rule,
            Verdict::Ask(_) | Verdict::Deny(_) => return false,
        };
        rule.binds().is_some()
    }

    /// What is decided of a call with this id and digest, in a run by what it was granted besides.
    fn decided(&self, call: &str, digest: Sha, question: Question<'_>) -> Verdict {
        let verdict = decide(question, self.policy);
        let Some(run) = &self.autonomy else {
            return verdict;
        };
        let tool = question.tool;
        let needs = (self.policy.needs(tool), self.policy.needs_by(tool));
        run.weigh(call, digest, tool, needs, verdict)
    }

    pub fn judge(&self, call: &ToolCall) -> Judged {
        let arguments = match parse(call) {
            Ok(arguments) => arguments,
            Err(why) => {
                let content = format!("[aish] tool arguments not parseable as JSON: {why}");
                return refuse(None, content, because("its arguments are no JSON object"));
            }
        };
        let Some(tool) = self.find(&call.name) else {
            let content = format!("[aish] tool dispatch failed: unknown tool {}", call.name);
            return refuse(None, content, because(NOT_OFFERED));
        };
        let question = Question {
            tool,
            arguments: &arguments,
            constraints: self.constraints,
            grants: self.grants,
            turn: &self.on_confirm.allow,
            clients: self.clients,
            bound: self.bound,
        };
        let digest = tool.call_digest(&arguments, self.cwd);
        let refused = |because: String| Refused {
            subject: Some(Subject {
                tool: tool.name.clone(),
                digest,
            }),
            because,
            imported: false,
        };
        if self.offered(tool)
            && let Some(why) = self.catalog.misfit(tool, &arguments)
        {
            let content = format!("[aish] tool arguments do not fit: {why}");
            return refuse(None, content, refused(MISFIT.to_owned()));
        }
        match self.decided(&call.id, digest, question) {
            Verdict::Deny(rule) => {
                let content = format!("[aish] denied by policy: {rule}");
                refuse(Some(Denial::Policy), content, refused(rule.told()))
            }
            Verdict::Allow(rule) if self.offered(tool) => Judged::Run(Go {
                tool: tool.clone(),
                arguments,
                digest,
                rule: rule.to_string(),
                allowance: rule.allowance(),
                binds: rule.binds(),
                // One action of a run after another, so that each is known and can be looked at.
                pace: if tool.reads_only && self.policy.parallel_readonly && self.autonomy.is_none()
                {
                    Pace::Beside
                } else {
                    Pace::Alone
                },
            }),
            Verdict::Ask(why) if self.offered(tool) => {
                self.ask(call, tool, &arguments, digest, &why)
            }
            Verdict::Allow(_) | Verdict::Ask(_) => {
                let content = format!("[aish] tool dispatch failed: unknown tool {}", call.name);
                refuse(None, content, refused(NOT_OFFERED.to_owned()))
            }
        }
    }

    /// A call that a person has just approved: the same checks, and it runs if it is what was approved.
    pub fn approved(&self, call: &ToolCall, digest: Sha) -> Judged {
        let on_confirm = self.on_confirm.answered();
        let gate = Gate {
            on_confirm: &on_confirm,
            // It rests on that answer, and costs nobody a call that was allowed beforehand.
            clients: &Allowances::default(),
            ..*self
        };
        match gate.judge(call) {
            Judged::Ask(confirm) if confirm.digest == digest => {
                match (parse(call), self.find(&call.name)) {
                    (Ok(arguments), Some(tool)) => Judged::Run(Go {
                        tool: tool.clone(),
                        arguments,
                        digest,
                        rule: "approved by a person".to_owned(),
                        allowance: None,
                        binds: Some(By::Person),
                        pace: Pace::Alone,
                    }),
                    (Ok(_) | Err(_), _) => Judged::Ask(confirm),
                }
            }
            other @ (Judged::Ask(_)
            | Judged::Run(_)
            | Judged::Execute(_)
            | Judged::Later
            | Judged::Refuse { .. }) => other,
        }
    }

    /// One that a person wrote in the place of another: it is asked about whatever would let it run, for nobody has seen
    /// how it is judged.
    pub fn edited(&self, call: &ToolCall) -> Judged {
        let on_confirm = self.on_confirm.answered();
        let gate = Gate {
            on_confirm: &on_confirm,
            ..*self
        };
        match gate.judge(call) {
            Judged::Run(go) => {
                let why = match self.autonomy {
                    Some(_) => Why::Halt(Halt::Edited),
                    None => Why::EveryCall,
                };
                gate.ask(call, &go.tool, &go.arguments, go.digest, &why)
            }
            other @ (Judged::Ask(_)
            | Judged::Execute(_)
            | Judged::Later
            | Judged::Refuse { .. }) => other,
        }
    }

    /// What the call would be bound to now, if it is one.
    pub fn digest(&self, call: &ToolCall) -> Option<Sha> {
        let arguments = parse(call).ok()?;
        Some(self.find(&call.name)?.call_digest(&arguments, self.cwd))
    }

    fn find(&self, name: &str) -> Option<&Arc<Tool>> {
        let offered = self.offer.real_name(name);
        let name = offered.cloned().or_else(|| name.parse().ok())?;
        self.catalog.get(&name)
    }

    fn offered(&self, tool: &Tool) -> bool {
        self.offer.real_name(&tool.name.to_string()).is_some()
    }

    fn ask(
        &self,
        call: &ToolCall,
        tool: &Tool,
        arguments: &Map<String, Value>,
        digest: Sha,
        why: &Why,
    ) -> Judged {
        let refused = |because: &str| Refused {
            subject: Some(Subject {
                tool: tool.name.clone(),
                digest,
            }),
            because: because.to_owned(),
            imported: false,
        };
        match (self.on_confirm.then, self.attended) {
            (Then::Ask, _) | (Then::AskAttended, Attended::ByPerson) => {}
            (Then::AskAttended, Attended::ByNobody) => {
                let mut content = "[aish] denied: nobody is attached who could allow it".to_owned();
                add_upgrade(&mut content, tool, why);
                let refused = refused("nobody is attached who could allow it");
                return refuse(Some(Denial::NoApprover), content, refused);
            }
            (Then::Deny, _) => {
                let mut content = "[aish] denied by policy: --confirm=deny".to_owned();
                add_upgrade(&mut content, tool, why);
                let refused = refused("--confirm=deny");
                return refuse(Some(Denial::NoApprover), content, refused);
            }
        }
        let raise_to = why.raise_to();
        let timeout = self.on_confirm.timeout_ms;
        let expires_at = timeout.map(|it| At(self.now.0.saturating_add_unsigned(it)));
        let (id, number) = self.next;
        let is_halt = matches!(why, Why::Halt(_));
        let mut options = vec![Decision::AllowOnce];
        // A run that wants the same again asks again.
        if !is_halt {
            options.extend([Decision::AllowConversation, Decision::AllowProvider]);
        }
        if raise_to.is_some() {
            options.push(Decision::RaiseOnly);
        }
        options.extend([Decision::Deny, Decision::Edit, Decision::Abort]);
        Judged::Ask(Box::new(Confirm {
            id,
            number,
            kind: if is_halt {
                ConfirmKind::Halt
            } else {
                ConfirmKind::Tool
            },
            title: tool.name.to_string(),
            call: call.id.clone(),
            tool: tool.name.clone(),
            arguments: spelled(arguments),
            cwd: tool.directory.as_deref().unwrap_or(self.cwd).to_owned(),
            server: tool.place.to_string(),
            digest,
            definition: tool.definition(),
            definition_digest: tool.definition_digest(),
            provider_digest: Some(self.catalog.provider_digest(tool.name.alias())),
            approved_definition: None,
            needs: self.policy.needs(tool),
            raise_to,
            why: why.text(&tool.name),
            why_told: Some(why.told(&tool.name)).filter(|it| *it != why.text(&tool.name)),
            elicitation: None,
            sampling: None,
            shell: None,
            options,
            expires_at,
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
fn add_upgrade(content: &mut String, tool: &Tool, why: &Why) {
    if let Why::Packages { .. } = why {
        let _never_fails = write!(content, ": {}", why.text(&tool.name));
    } else if let Some(level) = why.raise_to() {
        let _never_fails = write!(
            content,
            ". {}; a person can do that with: aishctl perm grant {} {}",
            why.text(&tool.name),
            tool.name.alias(),
            level.number()
        );
    } else if let Why::Changed { .. } = why {
        let _never_fails = write!(content, ": {}", why.text(&tool.name));
    }
}

fn because(because: &str) -> Refused {
    Refused {
        subject: None,
        because: because.to_owned(),
        imported: false,
    }
}

fn refuse(denial: Option<Denial>, content: String, refused: Refused) -> Judged {
    Judged::Refuse {
        denial,
        content,
        refused,
    }
}

#[cfg(test)]
mod tests;
