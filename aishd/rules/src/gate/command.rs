//! The gate for commands of this machine. What decides about calls decides here too, but for everything that allows a name
//! beforehand: no pattern, level or setting but `shell.confirm` lets text of a model run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aish_proto::id::ConfirmId;
use aishd_log::access::Access;
use aishd_log::canonical::canonical;
use aishd_log::confirm::{
    CommandSubject, Confirm, ConfirmCall, ConfirmSubject, Decision, Denial, OnConfirm,
};
use aishd_log::constraints::Constraints;
use aishd_log::event::{Event, RefusedCall};
use aishd_log::grants::GrantList;
use aishd_log::job::{MOST_JOBS, STOP_TOOL};
use aishd_log::norris::launch::RunHold;
use aishd_log::pattern::Patterns;
use aishd_log::shell::{self, CommandProposal, OutputUse};
use aishd_log::state::shell::RunningJob;
use aishd_log::time::Timestamp;
use aishd_log::tool::{ContentDigest, DecisionSubject};
use aishd_model::norris_settings::WidenedLimits;

use super::{CallJudgement, refuse};
use crate::allowances::AllowanceList;
use crate::asking::{Presence, may_ask};
use crate::autonomy::{Autonomy, HaltReason, of_command};
use crate::boundary::{Boundary, BoundaryError, BoundaryFailures, BoundaryGround};
use crate::command_explanation::look;
use crate::command_instructions::CommandConsent;
use crate::command_setting::{CommandHold, CommandSetting};
use crate::policy::{AskReason, DecidingRule, Policy, PolicyDecision, PolicyQuestion, decide};
use crate::tool_binding::NoBindings;

/// All that a judgement of a command is made from.
#[derive(Clone, Copy, Debug)]
pub struct CommandGate<'a> {
    pub policy: &'a Policy,
    pub grants: &'a GrantList,
    pub constraints: &'a Constraints,
    pub on_confirm: &'a OnConfirm,
    /// What an autonomous run was granted.
    pub autonomy: Option<Autonomy<'a>>,
    pub inside: RunGround<'a>,
    pub attended: Presence,
    /// Where it would run.
    pub setting: &'a Arc<CommandSetting>,
    /// What goes on in the background already.
    pub jobs: &'a [RunningJob],
    pub now: Timestamp,
    /// Names the next confirm.
    pub next: (ConfirmId, u32),
}

/// From this follows what holds a run's commands that nobody approves.
#[derive(Clone, Copy, Debug)]
pub struct RunGround<'a> {
    pub ground: &'a BoundaryGround,
    pub widened: &'a WidenedLimits,
    pub failures: &'a BoundaryFailures,
    /// What holds them.
    pub hold: RunHold,
    /// Why this machine's kernel has no layers, once that is known.
    pub no_layers: Option<&'a str>,
    /// The conversation's directory when the run began.
    pub top: Option<&'a str>,
}

/// A command that may run, as it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmittedCommand {
    pub command: String,
    pub setting: Arc<CommandSetting>,
    pub digest: ContentDigest,
    /// What lets it through.
    pub rule: String,
}

impl AdmittedCommand {
    /// The mark that it begins.
    pub fn started(&self, call: &str, confirm: Option<ConfirmId>, given: OutputUse) -> Event {
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
    pub fn judge(&self, proposed: &CommandProposal) -> CallJudgement {
        self.judge_by(proposed, CommandAuthor::Model)
    }

    /// One that a person wrote in the place of another: it is asked about whatever would let it run, for nobody has seen
    /// how it is judged.
    pub fn edited(&self, proposed: &CommandProposal) -> CallJudgement {
        let on_confirm = self.on_confirm.as_answered();
        let gate = CommandGate {
            on_confirm: &on_confirm,
            ..*self
        };
        gate.judge_by(proposed, CommandAuthor::Person)
    }

    fn judge_by(&self, proposed: &CommandProposal, author: CommandAuthor) -> CallJudgement {
        let setting = self.setting.in_background(proposed.background);
        let gate = CommandGate {
            setting: &setting,
            ..*self
        };
        gate.judge_there(proposed, author)
    }

    fn judge_there(&self, proposed: &CommandProposal, author: CommandAuthor) -> CallJudgement {
        let digest = self.setting.digest(&proposed.command);
        // To a question about it no answer would be true.
        if let Some(why) = shell::why_it_cannot_run(&proposed.command) {
            let content = format!("[aish] {why} and cannot run; nothing ran");
            return refuse(None, content, refused(digest, why));
        }
        if let Some(why) = self.no_job().filter(|_| proposed.background) {
            let content = format!("[aish] {why}; nothing ran");
            return refuse(None, content, refused(digest, &why));
        }
        let doubt = match self.verdict() {
            PolicyDecision::Deny(rule) => {
                let content = format!("[aish] denied by policy: {rule}");
                return refuse(
                    Some(Denial::Policy),
                    content,
                    refused(digest, &rule.describe()),
                );
            }
            PolicyDecision::Ask(why @ AskReason::Unclear { .. }) => {
                Some(why.text(&shell::tool().name))
            }
            PolicyDecision::Ask(_) | PolicyDecision::Allow(_) => None,
        };
        let roots = match self.constraints.directories() {
            // Who is at the top of everything is in no project.
            roots if roots.is_empty() && self.setting.cwd == "/" => vec![],
            roots if roots.is_empty() => vec![PathBuf::from(&self.setting.cwd)],
            roots => roots,
        };
        let mut looked = look(&proposed.command, self.setting, &roots);
        looked.beyond = self.autonomy.as_ref().map(|_run| self.inside.hold);
        if let Some(run) = &self.autonomy {
            let needs = match self.inside.hold {
                RunHold::Wall => of_command(&proposed.command, self.setting, &roots),
                // Whatever it does, it is nothing that stays unless a person keeps it.
                RunHold::Layers | RunHold::Reads => Ok(Access::Read),
            };
            let inside = self.inside(&proposed.command, &roots);
            let inside_digest = inside
                .as_ref()
                .map_or(digest, |it| it.digest(&proposed.command));
            let which = (proposed.call.as_str(), inside_digest);
            let weighed = run.weigh_command(which, shell::tool().name.alias(), needs);
            // Whatever is asked about runs outside, once somebody has agreed to its text.
            return match (doubt, weighed.and_then(|it| Ok((it, inside?)))) {
                (None, Ok(_)) if author == CommandAuthor::Person => {
                    let asks =
                        AskedFor::Halt(HaltReason::Edited.text(), HaltReason::Edited.describe());
                    self.ask(proposed, digest, looked, asks)
                }
                (None, Ok((granted, setting))) => {
                    CallJudgement::Execute(Box::new(AdmittedCommand {
                        command: proposed.command.clone(),
                        rule: format!("{}, {}", DecidingRule::Norris(granted), within(&setting)),
                        setting,
                        digest: inside_digest,
                    }))
                }
                (Some(doubt), _) => {
                    let told = "HALT: the conversation keeps itself from it";
                    let asks = AskedFor::Halt(format!("HALT: {doubt}"), told.to_owned());
                    self.ask(proposed, digest, looked, asks)
                }
                (None, Err(halt)) => self.ask(
                    proposed,
                    digest,
                    looked,
                    AskedFor::Halt(halt.text(), halt.describe()),
                ),
            };
        }
        // What the conversation keeps itself from is asked about whatever was said of commands.
        if doubt.is_none() && author == CommandAuthor::Model {
            if !self.policy.shell.confirm {
                return self.execute(proposed, digest, "shell.confirm = false");
            }
            if looked.destructive().is_none() && self.grants.commands.contains(&digest) {
                return self.execute(proposed, digest, "always allowed here by a person");
            }
        }
        self.ask(proposed, digest, looked, AskedFor::EveryTime(doubt))
    }

    /// Where a command runs that nobody has approved, or why it does not.
    fn inside(&self, command: &str, roots: &[PathBuf]) -> Result<Arc<CommandSetting>, HaltReason> {
        let RunGround {
            ground,
            widened,
            failures,
            hold,
            no_layers,
            top,
        } = self.inside;
        // Where nothing else is said, a project stays one when the run changes to a directory of it.
        let top = top.filter(|it| {
            let below = Path::new(&self.setting.cwd).starts_with(it);
            below && self.constraints.directories().is_empty() && !roots.is_empty()
        });
        let top = top.map(|it| [PathBuf::from(it)]);
        let roots = top.as_ref().map_or(roots, |it| it);
        let held_by = match (hold, no_layers) {
            (RunHold::Wall, _) => {
                let boundary = Boundary::of_run(ground, widened, roots, self.setting);
                CommandHold::Wall(Arc::new(boundary.map_err(HaltReason::Unheld)?))
            }
            (RunHold::Layers | RunHold::Reads, Some(why)) => {
                return Err(HaltReason::Unheld(BoundaryError::Kernel(why.to_owned())));
            }
            (RunHold::Layers, None) => CommandHold::Layers(roots.into()),
            (RunHold::Reads, None) => CommandHold::Reads(roots.into()),
        };
        let setting = self.setting.held(held_by);
        if failures.hold(setting.digest(command)) {
            return Err(HaltReason::Beyond(hold));
        }
        Ok(Arc::new(setting))
    }

    /// Why nothing more can go on in the background.
    fn no_job(&self) -> Option<String> {
        if self.autonomy.is_some() {
            // What holds a run ends with it, and what it changed is looked at then.
            return Some(
                "commands of a run do not go on in the background: run it without `background`"
                    .to_owned(),
            );
        }
        let running: Vec<String> = self.jobs.iter().map(|it| it.job.to_string()).collect();
        (running.len() >= MOST_JOBS).then(|| {
            let running = running.join(", ");
            format!("{running} run in the background, and no more than {MOST_JOBS} may: end one with {STOP_TOOL} first")
        })
    }

    /// One that a person has just approved: the same checks, and it runs if it is what was approved.
    pub fn approved(&self, proposed: &CommandProposal, digest: ContentDigest) -> CallJudgement {
        let on_confirm = self.on_confirm.as_answered();
        let setting = self.setting.in_background(proposed.background);
        let gate = CommandGate {
            on_confirm: &on_confirm,
            setting: &setting,
            ..*self
        };
        match gate.judge(proposed) {
            CallJudgement::Ask(confirm) if confirm.digest == digest => {
                gate.execute(proposed, digest, "approved by a person")
            }
            // It could run inside by now, and a person has agreed to more.
            CallJudgement::Execute(run)
                if run.setting.held_by.is_held()
                    && gate.setting.digest(&proposed.command) == digest =>
            {
                gate.execute(proposed, digest, "approved by a person")
            }
            other @ (CallJudgement::Ask(_)
            | CallJudgement::Run(_)
            | CallJudgement::Execute(_)
            | CallJudgement::Later
            | CallJudgement::Refuse { .. }) => other,
        }
    }

    fn verdict(&self) -> PolicyDecision {
        verdict(self.policy, self.constraints)
    }

    fn execute(
        &self,
        proposed: &CommandProposal,
        digest: ContentDigest,
        rule: &str,
    ) -> CallJudgement {
        CallJudgement::Execute(Box::new(AdmittedCommand {
            command: proposed.command.clone(),
            setting: self.setting.clone(),
            digest,
            rule: rule.to_owned(),
        }))
    }

    fn ask(
        &self,
        proposed: &CommandProposal,
        digest: ContentDigest,
        asked: shell::CommandQuestion,
        asks: AskedFor,
    ) -> CallJudgement {
        if let Err(unasked) = may_ask(self.on_confirm, self.attended) {
            let refused = refused(digest, unasked.describe());
            return refuse(Some(Denial::NoApprover), unasked.reply(), refused);
        }
        let tool = shell::tool();
        let (id, number) = self.next;
        let mut options = vec![Decision::AllowOnce];
        let destructive = asked.destructive();
        if destructive.is_none() && asks.allows_more() {
            options.push(Decision::AllowConversation);
        }
        options.extend([Decision::Deny, Decision::Edit, Decision::Abort]);
        let halt = matches!(asks, AskedFor::Halt(..));
        let (why, why_told) = asks.question_text(destructive.clone());
        let call = ConfirmCall {
            id: proposed.call.clone(),
            tool: tool.name.clone(),
            arguments: canonical(&proposed.arguments()),
            cwd: self.setting.cwd.clone(),
            server: match self.autonomy {
                Some(_) if self.inside.hold == RunHold::Layers => {
                    format!("{}, outside the copy of the run", tool.place)
                }
                Some(_) => format!("{}, outside the boundary of the run", tool.place),
                None => tool.place.to_string(),
            },
        };
        CallJudgement::Ask(Box::new(Confirm {
            id,
            number,
            title: "CMD".to_owned(),
            why,
            why_told: Some(why_told),
            destructive,
            halt,
            digest,
            options,
            expires_at: self.on_confirm.expires_at(self.now),
            subject: ConfirmSubject::Command(CommandSubject {
                call,
                needs: self.policy.needs(tool),
                asked,
            }),
        }))
    }
}

/// Where a command of a run runs, behind the rule that lets it.
fn within(setting: &CommandSetting) -> &'static str {
    match setting.held_by {
        CommandHold::Nothing | CommandHold::Wall(_) => "inside its boundary",
        CommandHold::Layers(_) => "in its copy of the files",
        CommandHold::Reads(_) => "where it can write nothing",
    }
}

/// Who wrote a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandAuthor {
    Model,
    Person,
}

/// What a person is asked for.
enum AskedFor {
    /// Every command is asked about; there may be a doubt besides.
    EveryTime(Option<String>),
    /// A run does not do that unasked: why, for people and for the audit trail.
    Halt(String, String),
}

impl AskedFor {
    /// Whether the same may be allowed beforehand.
    fn allows_more(&self) -> bool {
        matches!(self, Self::EveryTime(None))
    }

    /// Why it is asked, and what is told of that.
    fn question_text(self, destructive: Option<String>) -> (String, String) {
        match self {
            Self::EveryTime(doubt) => {
                let every = "every command is asked about";
                let told = match &destructive {
                    None => every,
                    Some(_) => "the command may be destructive",
                };
                let why: Vec<String> = [doubt, destructive].into_iter().flatten().collect();
                let why = if why.is_empty() {
                    every.to_owned()
                } else {
                    why.join("; ")
                };
                (why, told.to_owned())
            }
            Self::Halt(why, told) => (why, told),
        }
    }
}

fn refused(digest: ContentDigest, because: &str) -> RefusedCall {
    RefusedCall {
        subject: Some(DecisionSubject {
            tool: shell::tool().name.clone(),
            digest,
        }),
        because: because.to_owned(),
        imported: false,
    }
}

/// How a command that the model proposes could come to run in a turn. `None`: none can, so a request says nothing of
/// commands. `by_itself`: the turn is a run.
pub fn command_consent(
    policy: &Policy,
    constraints: &Constraints,
    on_confirm: &OnConfirm,
    attended: Presence,
    by_itself: bool,
) -> Option<CommandConsent> {
    let is_unclear = match verdict(policy, constraints) {
        PolicyDecision::Deny(_) => return None,
        PolicyDecision::Ask(why) => matches!(why, AskReason::Unclear { .. }),
        PolicyDecision::Allow(_) => false,
    };
    if by_itself {
        Some(CommandConsent::OfRun)
    } else if !policy.shell.confirm && !is_unclear {
        Some(CommandConsent::Unasked)
    } else {
        may_ask(on_confirm, attended)
            .ok()
            .map(|()| CommandConsent::Asked)
    }
}

/// Deny rules, constraints and the highest level; whatever else it says, nobody has agreed to the text.
fn verdict(policy: &Policy, constraints: &Constraints) -> PolicyDecision {
    // Paths in it are no arguments: what runs programs goes where they go.
    let arguments = serde_json::Map::new();
    let question = PolicyQuestion {
        tool: shell::tool(),
        arguments: &arguments,
        reads_beyond: false,
        constraints,
        grants: &GrantList::default(),
        turn: &Patterns::default(),
        clients: &AllowanceList::default(),
        bound: &NoBindings,
    };
    decide(question, policy)
}

#[cfg(test)]
mod tests {
    use aish_proto::id::{JobId, Seq};
    use aishd_log::access::Access;
    use aishd_log::confirm::Then;
    use aishd_log::ending::BoundaryFailure;
    use aishd_log::norris::launch::UnaskedLevels;
    use aishd_log::pattern::Pattern;
    use aishd_model::second_opinion::Opinion;

    use super::*;
    use crate::autonomy::SecondOpinion;
    use crate::boundary::tests::ground;
    use crate::policy::ProviderRule;
    use crate::samples::setting;

    fn proposed(command: &str) -> CommandProposal {
        CommandProposal {
            call: "cmd0-0".to_owned(),
            command: command.to_owned(),
            background: false,
        }
    }

    /// Judges a command under a policy, in a conversation with these grants and constraints.
    struct Scene {
        policy: Policy,
        grants: GrantList,
        constraints: Constraints,
        on_confirm: OnConfirm,
        attended: Presence,
        ground: BoundaryGround,
        failures: BoundaryFailures,
        hold: RunHold,
        no_layers: Option<&'static str>,
        /// What a run was granted, and what another model said.
        run: Option<(UnaskedLevels, Option<SecondOpinion>)>,
        path: &'static str,
        /// How many go on in the background.
        jobs: u32,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                policy: Policy::default(),
                grants: GrantList::default(),
                constraints: Constraints::default(),
                on_confirm: OnConfirm::default(),
                attended: Presence::Attended,
                ground: ground(),
                failures: BoundaryFailures::default(),
                hold: RunHold::Wall,
                no_layers: None,
                run: None,
                path: "/bin",
                jobs: 0,
            }
        }

        fn run(level: Access) -> Self {
            let levels = UnaskedLevels {
                all: level,
                ..UnaskedLevels::default()
            };
            Self {
                hold: if level == Access::Read {
                    RunHold::Reads
                } else {
                    RunHold::Wall
                },
                run: Some((levels, None)),
                ..Self::new()
            }
        }

        fn gate<T>(&self, cwd: &str, work: impl FnOnce(CommandGate<'_>) -> T) -> T {
            let autonomy = self.run.as_ref().map(|(levels, heard)| Autonomy {
                levels,
                heard: heard.as_ref(),
            });
            let job = |it| RunningJob {
                job: JobId(it),
                seq: Seq(u64::from(it)),
            };
            let jobs: Vec<RunningJob> = (1..=self.jobs).map(job).collect();
            work(CommandGate {
                jobs: &jobs,
                policy: &self.policy,
                grants: &self.grants,
                constraints: &self.constraints,
                on_confirm: &self.on_confirm,
                autonomy,
                inside: RunGround {
                    ground: &self.ground,
                    widened: &WidenedLimits::default(),
                    failures: &self.failures,
                    hold: self.hold,
                    no_layers: self.no_layers,
                    top: Some("/w"),
                },
                attended: self.attended,
                setting: &Arc::new(setting(&[("PATH", self.path)], cwd)),
                now: Timestamp(0),
                next: (ConfirmId::from_bytes([1; 16]), 1),
            })
        }

        fn judge(&self, command: &str) -> CallJudgement {
            self.gate("/w", |gate| gate.judge(&proposed(command)))
        }

        #[track_caller]
        fn check(&self, command: &str, expected: &str) {
            let said = match self.judge(command) {
                CallJudgement::Ask(confirm)
                    if confirm.options.contains(&Decision::AllowConversation) =>
                {
                    "asks".to_owned()
                }
                CallJudgement::Ask(_) => "asks for once".to_owned(),
                CallJudgement::Execute(run) => format!("runs: {}", run.rule),
                CallJudgement::Run(_) => "runs a tool".to_owned(),
                CallJudgement::Later => "runs later".to_owned(),
                CallJudgement::Refuse { content, .. } => content,
            };
            assert_eq!(expected, said, "{command}");
        }
    }

    #[test]
    fn what_no_shell_can_be_given_is_no_question() {
        let scene = Scene::new();
        let check = |command: &str, why: &str| {
            scene.check(
                command,
                &format!("[aish] the command {why} and cannot run; nothing ran"),
            );
        };
        check("echo a\0b", "has a zero byte");
        check(" ", "is empty");
        check(&"x".repeat((64 << 10) + 1), "is longer than 64 KiB");
        scene.check(&"x".repeat(64 << 10), "asks for once");
    }

    #[test]
    fn no_rule_about_names_lets_a_command_run() {
        let mut scene = Scene::new();
        scene.check("ls", "asks");
        for pattern in ["shell__run", "shell__*"] {
            let pattern: Pattern = pattern.parse().unwrap();
            scene.policy.auto_approve.insert(pattern.clone(), true);
            scene.on_confirm.allow = Patterns::new([pattern]);
        }
        let alias: aishd_log::tool_name::Alias = "shell".parse().unwrap();
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
        assert!(matches!(elsewhere, CallJudgement::Ask(_)));
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
        let CallJudgement::Refuse { denial, .. } = scene.judge("ls") else {
            panic!("it is above the highest level");
        };
        assert_eq!(Some(Denial::Policy), denial);
        scene.policy.providers.clear();
        scene.policy.deny = Patterns::new(["shell__run".parse().unwrap()]);
        let approved = scene.gate("/w", |gate| {
            gate.approved(&proposed("ls"), gate.setting.digest("ls"))
        });
        assert!(matches!(approved, CallJudgement::Refuse { .. }));
        scene.policy.deny = Patterns::default();
        scene.constraints.read_only = true;
        assert!(matches!(scene.judge("ls"), CallJudgement::Refuse { .. }));
        scene.constraints.read_only = false;
        scene.constraints.roots = vec!["/w".to_owned().try_into().unwrap()];
        scene.check("ls", "asks for once");
    }

    #[test]
    fn without_anybody_to_ask_nothing_runs() {
        let mut scene = Scene::new();
        scene.on_confirm.then = Then::AskAttended;
        scene.check("ls", "asks");
        scene.attended = Presence::Unattended;
        scene.check("ls", "[aish] denied: nobody is attached who could allow it");
        scene.on_confirm.then = Then::Deny;
        scene.check("ls", "[aish] denied by policy: --confirm=deny");
    }

    /// What a request tells of commands is what the gate would let happen.
    #[test]
    fn a_model_is_told_of_commands_where_one_could_run() {
        let check = |scene: &Scene, by_itself, expected| {
            let offers = scene.gate("/w", |gate| {
                command_consent(
                    gate.policy,
                    gate.constraints,
                    gate.on_confirm,
                    gate.attended,
                    by_itself,
                )
            });
            assert_eq!(expected, offers);
        };
        let mut scene = Scene::new();
        check(&scene, false, Some(CommandConsent::Asked));
        check(&scene, true, Some(CommandConsent::OfRun));
        scene.on_confirm.then = Then::AskAttended;
        check(&scene, false, Some(CommandConsent::Asked));
        scene.attended = Presence::Unattended;
        check(&scene, false, None);
        check(&scene, true, Some(CommandConsent::OfRun));
        scene.on_confirm.then = Then::Deny;
        scene.attended = Presence::Attended;
        check(&scene, false, None);
        scene.policy.shell.confirm = false;
        check(&scene, false, Some(CommandConsent::Unasked));
        scene.constraints.roots = vec!["/w".to_owned().try_into().unwrap()];
        check(&scene, false, None);
        scene.on_confirm.then = Then::Ask;
        check(&scene, false, Some(CommandConsent::Asked));
        scene.constraints.read_only = true;
        check(&scene, false, None);
        check(&scene, true, None);
        let mut denied = Scene::new();
        denied.policy.deny = Patterns::new(["shell__run".parse().unwrap()]);
        check(&denied, false, None);
        let mut low = Scene::new();
        let rule = ProviderRule {
            level: Access::Read,
            max_level: Access::Write,
        };
        low.policy.providers.insert("shell".parse().unwrap(), rule);
        check(&low, true, None);
    }

    #[test]
    fn what_was_approved_runs_and_nothing_else() {
        let scene = Scene::new();
        let digest = setting(&[], "/w").digest("ls");
        let run =
            |command, digest| scene.gate("/w", |gate| gate.approved(&proposed(command), digest));
        assert!(matches!(run("ls", digest), CallJudgement::Execute(_)));
        assert!(matches!(run("ls -l", digest), CallJudgement::Ask(_)));
        assert!(matches!(
            run("ls", ContentDigest([0; 32])),
            CallJudgement::Ask(_)
        ));
    }

    const LEVEL_2: &str = "norris run at level 2, inside its boundary";

    #[test]
    fn in_a_run_what_nobody_approved_runs_inside_or_is_asked_about() {
        let mut scene = Scene::run(Access::Write);
        let CallJudgement::Execute(run) = scene.judge("ls") else {
            panic!("it runs inside");
        };
        assert!(run.setting.held_by.is_held());
        assert_ne!(
            run.setting.digest("ls"),
            setting(&[("PATH", "/bin")], "/w").digest("ls")
        );
        scene.failures.on_begin(Some(run.digest));
        scene.failures.ended(BoundaryFailure::Stopped);
        let beyond = "HALT: it failed inside the boundary of the run; allowed, it runs outside";
        check_run(&scene, "ls", beyond);
        check_run(&scene, "ls -l", LEVEL_2);
        for (cwd, root) in [("/w/sub", "/w"), ("/v", "/v")] {
            let CallJudgement::Execute(run) = scene.gate(cwd, |gate| gate.judge(&proposed("ls")))
            else {
                panic!("it runs inside");
            };
            let boundary = run.setting.held_by.wall().unwrap();
            assert_eq!(vec![PathBuf::from(root)], boundary.roots);
        }
        let outside = scene.gate("/w", |gate| gate.setting.digest("ls"));
        let CallJudgement::Ask(confirm) = scene.judge("ls") else {
            panic!("it is asked about");
        };
        assert_eq!(outside, confirm.digest);
        let call = confirm.call().unwrap();
        assert!(call.server.ends_with("outside the boundary of the run"));
        let approved = scene.gate("/w", |gate| gate.approved(&proposed("ls"), outside));
        let CallJudgement::Execute(run) = approved else {
            panic!("it runs outside");
        };
        assert!(!run.setting.held_by.is_held());
        scene.ground.missing = Some("the kernel is too old".to_owned());
        let unheld = "HALT: nothing on this machine would hold it: the kernel is too old";
        check_run(&scene, "ls -l", unheld);
    }

    /// What is asked in a run, or what lets it run.
    #[track_caller]
    fn check_run(scene: &Scene, command: &str, expected: &str) {
        let said = match scene.judge(command) {
            CallJudgement::Ask(confirm) => {
                assert!(confirm.halt, "{command}");
                assert!(!confirm.options.contains(&Decision::AllowConversation));
                confirm.why
            }
            CallJudgement::Execute(run) => run.rule,
            CallJudgement::Run(_) => "runs a tool".to_owned(),
            CallJudgement::Later => "runs later".to_owned(),
            CallJudgement::Refuse { content, .. } => content,
        };
        assert_eq!(expected, said, "{command}");
    }

    #[test]
    fn in_layers_whatever_nobody_knows_runs_unasked_and_nothing_of_it_stays() {
        let mut scene = Scene::run(Access::Write);
        scene.hold = RunHold::Layers;
        for command in [
            "ls",
            "deploy --now",
            "rm -rf .",
            "echo 'not closed",
            "curl x | sh",
        ] {
            check_run(
                &scene,
                command,
                "norris run at level 2, in its copy of the files",
            );
        }
        let CallJudgement::Execute(run) = scene.judge("rm -rf .") else {
            panic!("it runs in layers");
        };
        let layers = CommandHold::Layers([PathBuf::from("/w")].into());
        assert_eq!(layers, run.setting.held_by);
        scene.failures.on_begin(Some(run.digest));
        scene.failures.ended(BoundaryFailure::Stopped);
        let beyond = HaltReason::Beyond(RunHold::Layers).describe();
        check_run(&scene, "rm -rf .", &beyond);
        scene.no_layers = Some("the kernel has no overlay");
        let unheld = "HALT: nothing on this machine would hold it: the kernel has no overlay";
        check_run(&scene, "ls -l", unheld);
        let read = Scene::run(Access::Read);
        let CallJudgement::Execute(run) = read.judge("make") else {
            panic!("it runs where nothing can be written");
        };
        let reads = CommandHold::Reads([PathBuf::from("/w")].into());
        assert_eq!(reads, run.setting.held_by);
    }

    #[test]
    fn in_a_run_commands_run_within_its_level_and_what_is_destructive_halts() {
        let write = Scene::run(Access::Write);
        let read = Scene::run(Access::Read);
        check_run(&write, "ls -l | wc -l", LEVEL_2);
        check_run(&write, "mkdir d; cp a d/b", LEVEL_2);
        check_run(&write, "deploy", LEVEL_2);
        let nothing = "norris run at level 1, where it can write nothing";
        check_run(&read, "ls -l | wc -l", nothing);
        check_run(&read, "mkdir d; rm -rf e", nothing);
        let mut some = Scene::run(Access::Execute);
        let shell = "shell".parse().unwrap();
        let levels = some.run.as_mut().map(|it| &mut it.0.providers);
        levels.unwrap().insert(shell, Access::Read);
        some.hold = RunHold::Reads;
        check_run(&some, "mkdir d", nothing);
        for (command, why) in [
            ("rm -rf d", "deletes directories and all that is in them"),
            ("git push --force", "rewrites or discards history"),
            ("echo 'not closed", "cannot be read with certainty"),
            (
                "cp a /etc/passwd",
                "writes outside of the project's directories",
            ),
            ("sudo ls", "runs as another user"),
        ] {
            let execute = Scene::run(Access::Execute);
            let CallJudgement::Ask(confirm) = execute.judge(command) else {
                panic!("{command} is not asked about");
            };
            assert!(
                confirm.why.starts_with("HALT: the command "),
                "{}",
                confirm.why
            );
            assert!(confirm.why.contains(why), "{command}: {}", confirm.why);
            let told = confirm.why_told.as_deref();
            assert_eq!(Some("HALT: the command may be destructive"), told);
        }
    }

    #[test]
    fn nothing_that_was_allowed_before_makes_a_run_less_strict() {
        let mut scene = Scene::run(Access::Execute);
        scene.policy.shell.confirm = false;
        let command = "rm -rf d";
        let digest = scene.gate("/w", |gate| gate.setting.digest(command));
        scene.grants.commands.insert(digest);
        let why = "HALT: the command deletes directories and all that is in them";
        check_run(&scene, command, why);
        scene.policy.deny = Patterns::new(["shell__run".parse().unwrap()]);
        check_run(
            &scene,
            "ls",
            "[aish] denied by policy: permissions.deny shell__run",
        );
    }

    /// What a person writes in the place of a command is shown as what it is.
    #[test]
    fn what_a_person_wrote_is_asked_about_as_what_it_is_whatever_would_let_it_run() {
        let check = |scene: &Scene, command: &str, expected: (bool, &str, usize)| {
            let judged = scene.gate("/w", |gate| gate.edited(&proposed(command)));
            let CallJudgement::Ask(confirm) = judged else {
                panic!("{command} is not asked about: {judged:?}");
            };
            let asked = &confirm.command().unwrap().asked;
            assert_eq!(command, asked.command);
            let said = (confirm.halt, confirm.why.as_str(), asked.segments.len());
            assert_eq!(expected, said, "{command}");
        };
        let mut scene = Scene::new();
        scene.policy.shell.confirm = false;
        scene.on_confirm.then = Then::Deny;
        let every = "every command is asked about";
        check(&scene, "ls", (false, every, 1));
        let rm = "deletes directories and all that is in them";
        check(&scene, "echo a; rm -rf d", (false, rm, 2));
        let run = Scene::run(Access::Execute);
        let edited = "HALT: a person changed it";
        check(&run, "ls", (true, edited, 1));
        let halt = "HALT: the command deletes directories and all that is in them";
        check(&run, "rm -rf d", (true, halt, 1));
        scene.policy.deny = Patterns::new(["shell__run".parse().unwrap()]);
        let denied = scene.gate("/w", |gate| gate.edited(&proposed("ls")));
        assert!(matches!(denied, CallJudgement::Refuse { .. }));
    }

    #[test]
    fn who_is_approved_by_a_person_runs_as_it_was_asked() {
        let scene = Scene::run(Access::Write);
        let command = "rm -rf d";
        let digest = scene.gate("/w", |gate| gate.setting.digest(command));
        let approved =
            |command, digest| scene.gate("/w", |gate| gate.approved(&proposed(command), digest));
        assert!(matches!(
            approved(command, digest),
            CallJudgement::Execute(_)
        ));
        assert!(matches!(
            approved("rm -rf e", digest),
            CallJudgement::Ask(_)
        ));
    }

    #[test]
    fn a_second_opinion_about_a_command_only_makes_it_stricter() {
        let mut scene = Scene::run(Access::Write);
        let CallJudgement::Execute(run) = scene.judge("ls") else {
            panic!("it runs inside");
        };
        let digest = run.digest;
        let mut check = |command: &str, opinion, expected: &str| {
            let heard = SecondOpinion {
                call: "cmd0-0".to_owned(),
                digest,
                preset: "other".to_owned(),
                opinion,
            };
            scene.run.as_mut().unwrap().1 = Some(heard);
            check_run(&scene, command, expected);
        };
        let no = || Opinion::Unsafe("too much".to_owned());
        check("ls", Opinion::Safe, LEVEL_2);
        check(
            "ls",
            no(),
            "HALT: other says that it is not safe for the goal: \"too much\"",
        );
        check("ls -l", no(), LEVEL_2);
        let rm = "HALT: the command deletes files";
        check("rm a", Opinion::Safe, rm);
    }

    #[test]
    fn what_goes_on_in_the_background_is_asked_about_as_that_and_there_are_not_many() {
        let job = CommandProposal {
            background: true,
            ..proposed("serve")
        };
        let mut scene = Scene::new();
        let judged = |scene: &Scene| scene.gate("/w", |gate| gate.judge(&job));
        let asked = |scene: &Scene| {
            let CallJudgement::Ask(confirm) = judged(scene) else {
                panic!("it is not asked about");
            };
            confirm
        };
        let refusal = |scene: &Scene| {
            let CallJudgement::Refuse { content, .. } = judged(scene) else {
                panic!("it is not refused");
            };
            content
        };
        let confirm = asked(&scene);
        let call = confirm.call().unwrap();
        assert_eq!(r#"{"background":true,"command":"serve"}"#, call.arguments);
        assert!(confirm.command().unwrap().asked.background);
        // A yes to the one is none to the other.
        let other = scene.gate("/w", |gate| {
            gate.approved(&proposed("serve"), confirm.digest)
        });
        assert!(matches!(other, CallJudgement::Ask(_)), "{other:?}");
        let own = scene.gate("/w", |gate| gate.approved(&job, confirm.digest));
        assert!(matches!(own, CallJudgement::Execute(run) if run.setting.background));
        scene.jobs = 3;
        asked(&scene);
        scene.jobs = 4;
        assert_eq!(
            "[aish] job-1, job-2, job-3, job-4 run in the background, and no more than 4 may: end one with shell__stop first; nothing ran",
            refusal(&scene)
        );
        let run = Scene::run(Access::Execute);
        assert!(
            refusal(&run).contains("commands of a run do not go on in the background"),
            "{}",
            refusal(&run)
        );
    }
}
