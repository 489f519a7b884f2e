//! The gate for commands of this machine. What decides about calls decides here too, but for everything that allows a name
//! beforehand: no pattern, level or setting but `shell.confirm` lets text of a model run (R1).

use std::path::PathBuf;
use std::sync::Arc;

use aish_proto::id::ConfirmId;
use serde_json::json;

use super::{Attended, Judged, refuse};
use crate::core::allowances::Allowances;
use crate::core::canonical::canonical;
use crate::core::confirm::{Confirm, ConfirmKind, Decision, Denial, OnConfirm, Then};
use crate::core::constraints::Constraints;
use crate::core::event::{At, Event, Refused};
use crate::core::policy::{Grants, Patterns, Policy, Question, Verdict, Why, decide};
use crate::core::shell::reading::{Looked, look};
use crate::core::shell::setting::Setting;
use crate::core::shell::{self, Given, Proposed};
use crate::core::tool::{Sha, Subject};

/// All that a judgement of a command is made from.
#[derive(Clone, Copy, Debug)]
pub struct CommandGate<'a> {
    pub policy: &'a Policy,
    pub grants: &'a Grants,
    pub constraints: &'a Constraints,
    pub on_confirm: &'a OnConfirm,
    pub attended: Attended,
    /// Where it would run.
    pub setting: &'a Arc<Setting>,
    pub now: At,
    /// Names the next confirm.
    pub next: (ConfirmId, u32),
}

/// A command that may run, as it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    pub command: String,
    pub setting: Arc<Setting>,
    pub digest: Sha,
    /// What lets it through.
    pub rule: String,
}

impl Execution {
    /// The mark that it begins.
    #[must_use]
    pub fn started(&self, call: &str, confirm: Option<ConfirmId>, given: Given) -> Event {
        Event::ShellStarted {
            call: call.to_owned(),
            command: self.command.clone(),
            cwd: self.setting.cwd.clone(),
            shell: self.setting.shell.clone(),
            digest: self.digest,
            rule: self.rule.clone(),
            confirm,
            given,
        }
    }
}

impl CommandGate<'_> {
    #[must_use]
    pub fn judge(&self, proposed: &Proposed) -> Judged {
        let digest = self.setting.digest(&proposed.command);
        let doubt = match self.verdict() {
            Verdict::Deny(rule) => {
                let content = format!("[aish] denied by policy: {rule}");
                return refuse(Some(Denial::Policy), content, about(digest, &rule.told()));
            }
            Verdict::Ask(why @ Why::Unclear { .. }) => Some(why.text(&shell::tool().name)),
            Verdict::Ask(_) | Verdict::Allow(_) => None,
        };
        let roots = match self.constraints.directories() {
            roots if roots.is_empty() => vec![PathBuf::from(&self.setting.cwd)],
            roots => roots,
        };
        let looked = look(&proposed.command, self.setting, &roots);
        // What the conversation keeps itself from is asked about whatever was said of commands.
        if doubt.is_none() {
            if !self.policy.shell.confirm {
                return self.execute(proposed, digest, "shell.confirm = false");
            }
            if looked.is_harmless() && self.grants.commands.contains(&digest) {
                return self.execute(proposed, digest, "always allowed here by a person");
            }
        }
        self.ask(proposed, digest, looked, doubt)
    }

    /// One that a person has just approved: the same checks, and it runs if it is what was approved.
    #[must_use]
    pub fn approved(&self, proposed: &Proposed, digest: Sha) -> Judged {
        // Whoever answered was there, attached or not.
        let on_confirm = OnConfirm {
            then: Then::Ask,
            ..self.on_confirm.clone()
        };
        let gate = CommandGate {
            on_confirm: &on_confirm,
            ..*self
        };
        match gate.judge(proposed) {
            Judged::Ask(confirm) if confirm.digest == digest => {
                gate.execute(proposed, digest, "approved by a person")
            }
            other @ (Judged::Ask(_)
            | Judged::Run(_)
            | Judged::Execute(_)
            | Judged::Later
            | Judged::Refuse { .. }) => other,
        }
    }

    /// Deny rules, constraints and the highest level; whatever else it says, nobody has agreed to the text.
    fn verdict(&self) -> Verdict {
        // Paths in it are no arguments: what runs programs goes where they go.
        let arguments = serde_json::Map::new();
        let question = Question {
            tool: shell::tool(),
            arguments: &arguments,
            constraints: self.constraints,
            grants: &Grants::default(),
            turn: &Patterns::default(),
            clients: &Allowances::default(),
        };
        decide(question, self.policy)
    }

    fn execute(&self, proposed: &Proposed, digest: Sha, rule: &str) -> Judged {
        Judged::Execute(Box::new(Execution {
            command: proposed.command.clone(),
            setting: self.setting.clone(),
            digest,
            rule: rule.to_owned(),
        }))
    }

    fn ask(
        &self,
        proposed: &Proposed,
        digest: Sha,
        looked: Looked,
        doubt: Option<String>,
    ) -> Judged {
        let nobody = |content: &str, because: &str| {
            let content = format!("[aish] {content}");
            refuse(Some(Denial::NoApprover), content, about(digest, because))
        };
        match (self.on_confirm.then, self.attended) {
            (Then::Ask, _) | (Then::AskAttended, Attended::ByPerson) => {}
            (Then::AskAttended, Attended::ByNobody) => {
                let because = "nobody is attached who could allow it";
                return nobody(&format!("denied: {because}"), because);
            }
            (Then::Deny, _) => return nobody("denied by policy: --confirm=deny", "--confirm=deny"),
        }
        let tool = shell::tool();
        let (id, number) = self.next;
        let timeout = self.on_confirm.timeout_ms;
        let mut options = vec![Decision::AllowOnce];
        if looked.is_harmless() && doubt.is_none() {
            options.push(Decision::AllowConversation);
        }
        options.extend([Decision::Deny, Decision::Edit, Decision::Abort]);
        let why_told = if looked.is_harmless() {
            "every command is asked about"
        } else {
            "the command may be destructive"
        };
        let why = [doubt, looked.why()].into_iter().flatten();
        let why: Vec<String> = why.collect();
        let Looked {
            segments,
            unread,
            dangers,
        } = looked;
        Judged::Ask(Box::new(Confirm {
            id,
            number,
            kind: ConfirmKind::Shell,
            title: "CMD".to_owned(),
            call: proposed.call.clone(),
            tool: tool.name.clone(),
            arguments: canonical(&json!({"command": proposed.command})),
            cwd: self.setting.cwd.clone(),
            server: tool.place.to_string(),
            digest,
            definition: serde_json::Value::Null,
            definition_digest: digest,
            provider_digest: None,
            approved_definition: None,
            needs: self.policy.needs(tool),
            raise_to: None,
            why: if why.is_empty() {
                "every command is asked about".to_owned()
            } else {
                why.join("; ")
            },
            why_told: Some(why_told.to_owned()),
            elicitation: None,
            sampling: None,
            shell: Some(Box::new(shell::Asked {
                command: proposed.command.clone(),
                shell: self.setting.shell.clone(),
                environment: self.setting.given.clone(),
                segments,
                unread,
                dangers,
            })),
            options,
            expires_at: timeout.map(|it| At(self.now.0.saturating_add_unsigned(it))),
        }))
    }
}

fn about(digest: Sha, because: &str) -> Refused {
    Refused {
        subject: Some(Subject {
            tool: shell::tool().name.clone(),
            digest,
        }),
        because: because.to_owned(),
        imported: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::access::Access;
    use crate::core::policy::{Pattern, ProviderRule};
    use crate::core::shell::setting::tests::setting;

    fn proposed(command: &str) -> Proposed {
        Proposed {
            call: "cmd0-0".to_owned(),
            command: command.to_owned(),
        }
    }

    /// Judges a command under a policy, in a conversation with these grants and constraints.
    struct Scene {
        policy: Policy,
        grants: Grants,
        constraints: Constraints,
        on_confirm: OnConfirm,
        attended: Attended,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                policy: Policy::default(),
                grants: Grants::default(),
                constraints: Constraints::default(),
                on_confirm: OnConfirm::default(),
                attended: Attended::ByPerson,
            }
        }

        fn gate<T>(&self, cwd: &str, work: impl FnOnce(CommandGate<'_>) -> T) -> T {
            work(CommandGate {
                policy: &self.policy,
                grants: &self.grants,
                constraints: &self.constraints,
                on_confirm: &self.on_confirm,
                attended: self.attended,
                setting: &Arc::new(setting(&[], cwd)),
                now: At(0),
                next: (ConfirmId::from_bytes([1; 16]), 1),
            })
        }

        fn judge(&self, command: &str) -> Judged {
            self.gate("/w", |gate| gate.judge(&proposed(command)))
        }

        #[track_caller]
        fn check(&self, command: &str, expected: &str) {
            let said = match self.judge(command) {
                Judged::Ask(confirm) if confirm.options.contains(&Decision::AllowConversation) => {
                    "asks".to_owned()
                }
                Judged::Ask(_) => "asks for once".to_owned(),
                Judged::Execute(run) => format!("runs: {}", run.rule),
                Judged::Run(_) => "runs a tool".to_owned(),
                Judged::Later => "runs later".to_owned(),
                Judged::Refuse { content, .. } => content,
            };
            assert_eq!(expected, said, "{command}");
        }
    }

    /// R1
    #[test]
    fn no_rule_about_names_lets_a_command_run() {
        let mut scene = Scene::new();
        scene.check("ls", "asks");
        for pattern in ["shell__run", "shell__*"] {
            let pattern: Pattern = pattern.parse().unwrap();
            scene.policy.auto_approve.insert(pattern.clone(), true);
            scene.on_confirm.allow = Patterns::new([pattern]);
        }
        let alias: crate::core::tool_name::Alias = "shell".parse().unwrap();
        scene.grants.levels.insert(alias, Access::Execute);
        let tool = shell::tool();
        let definition = tool.definition_digest();
        scene.grants.approved.insert(tool.name.clone(), definition);
        scene.check("ls", "asks");
    }

    #[test]
    fn always_is_this_text_in_this_directory() {
        let mut scene = Scene::new();
        let digest = setting(&[], "/w").digest("ls");
        scene.grants.commands.insert(digest);
        scene.check("ls", "runs: always allowed here by a person");
        scene.check("ls ", "asks");
        scene.check("ls -l", "asks");
        let elsewhere = scene.gate("/", |gate| gate.judge(&proposed("ls")));
        assert!(matches!(elsewhere, Judged::Ask(_)));
    }

    #[test]
    fn what_may_destroy_is_asked_about_each_time() {
        let mut scene = Scene::new();
        scene.check("rm -rf /w", "asks for once");
        let digest = setting(&[], "/w").digest("rm -rf /w");
        scene.grants.commands.insert(digest);
        scene.check("rm -rf /w", "asks for once");
        scene.check("echo 'not closed", "asks for once");
    }

    #[test]
    fn rules_that_forbid_are_stronger_than_a_person_and_than_no_confirm() {
        let mut scene = Scene::new();
        scene.policy.shell.confirm = false;
        scene.check("ls", "runs: shell.confirm = false");
        let low = ProviderRule {
            level: Access::Read,
            max_level: Access::Write,
        };
        scene.policy.providers.insert("shell".parse().unwrap(), low);
        let Judged::Refuse { denial, .. } = scene.judge("ls") else {
            panic!("it is above the highest level");
        };
        assert_eq!(Some(Denial::Policy), denial);
        scene.policy.providers.clear();
        scene.policy.deny = Patterns::new(["shell__run".parse().unwrap()]);
        let approved = scene.gate("/w", |gate| {
            gate.approved(&proposed("ls"), gate.setting.digest("ls"))
        });
        assert!(matches!(approved, Judged::Refuse { .. }));
        scene.policy.deny = Patterns::default();
        scene.constraints.read_only = true;
        assert!(matches!(scene.judge("ls"), Judged::Refuse { .. }));
        scene.constraints.read_only = false;
        scene.constraints.roots = vec!["/w".to_owned().try_into().unwrap()];
        scene.check("ls", "asks for once");
    }

    /// R6
    #[test]
    fn without_anybody_to_ask_nothing_runs() {
        let mut scene = Scene::new();
        scene.on_confirm.then = Then::AskAttended;
        scene.check("ls", "asks");
        scene.attended = Attended::ByNobody;
        scene.check("ls", "[aish] denied: nobody is attached who could allow it");
        scene.on_confirm.then = Then::Deny;
        scene.check("ls", "[aish] denied by policy: --confirm=deny");
    }

    /// R3
    #[test]
    fn what_was_approved_runs_and_nothing_else() {
        let scene = Scene::new();
        let digest = setting(&[], "/w").digest("ls");
        let run =
            |command, digest| scene.gate("/w", |gate| gate.approved(&proposed(command), digest));
        assert!(matches!(run("ls", digest), Judged::Execute(_)));
        assert!(matches!(run("ls -l", digest), Judged::Ask(_)));
        assert!(matches!(run("ls", Sha([0; 32])), Judged::Ask(_)));
    }
}
