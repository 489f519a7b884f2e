//! Telling somebody of a question that waits while nobody is attached: a program is started. No shell reads its
//! arguments, and nothing that a model wrote is in them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::ConfirmId;
use aishd_config::environment_variables;
use aishd_config::live::LiveConfig;
use aishd_config::settings::NotifySettings;
use aishd_config::value::{NotifyMethod, NotifyWhen};
use aishd_conversation::directory::ConversationDirectory;
use aishd_conversation::questions::pending_questions::{PendingById, PendingQuestion};
use aishd_log::audit::{AuditDraft, AuditFact, NotifyOutcome};
use aishd_log::confirm::ConfirmSubject;
use aishd_log::confirm::level::LevelSubject;
use aishd_platform::clock;
use aishd_process::SpawnError;
use aishd_process::spec::{ChildExit, ChildSpec, StandardStream};
use aishd_profile::{HeldChild, ProfileError, ProfileGround, ProfileWish};
use tokio::time::Instant;

/// When it is looked again whether somebody who was there still is.
const LOOK: Duration = Duration::from_secs(30);
/// A program that tells takes no longer.
const PATIENCE: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(1);
/// How a desktop is reached. Other children do not need to.
const OF_DESKTOP: [&str; 4] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
];

/// It tells once of each question, and once more when half of its time is over.
pub(super) struct Notifier {
    directory: ConversationDirectory,
    live: Arc<LiveConfig>,
    profiles: ProfileGround,
    waiting: BTreeMap<ConfirmId, NotifySchedule>,
}

/// What is still to be told of a question.
struct NotifySchedule {
    next: Option<Instant>,
    reminder: Option<Instant>,
}

impl Notifier {
    pub(super) fn new(
        directory: ConversationDirectory,
        live: Arc<LiveConfig>,
        profiles: ProfileGround,
    ) -> Self {
        Self {
            directory,
            live,
            profiles,
            waiting: BTreeMap::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let mut open = self.directory.pending().watch().await;
        loop {
            let now = open.borrow_and_update().clone();
            self.plan(&now);
            self.notify(&now).await;
            let next = self.waiting.values().filter_map(|it| it.next).min();
            let due = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = open.changed() => if changed.is_err() { return },
                () = due => {}
            }
        }
    }

    fn plan(&mut self, open: &PendingById) {
        self.waiting.retain(|id, _| open.contains_key(id));
        for (id, question) in open.iter() {
            if !self.waiting.contains_key(id) {
                let plan = self.plan_for(question);
                self.waiting.insert(*id, plan);
            }
        }
    }

    fn plan_for(&self, question: &PendingQuestion) -> NotifySchedule {
        let now = Instant::now();
        let unattended = self.directory.policy().unattended_ms;
        let left = match question.confirm.expires_at {
            Some(at) => u64::try_from(at.0.saturating_sub(clock::now().0)).unwrap_or(0),
            None => unattended,
        };
        NotifySchedule {
            next: Some(now + self.live.watch_status().borrow().notify.after),
            reminder: now.checked_add(Duration::from_millis(left / 2)),
        }
    }

    /// Tells of what is due, unless somebody sees it.
    async fn notify(&mut self, open: &PendingById) {
        let notify = self.live.watch_status().borrow().notify.clone();
        let now = Instant::now();
        for (id, plan) in &mut self.waiting {
            let due = plan.next.is_some_and(|it| it <= now);
            let Some(question) = open.get(id).filter(|_| due) else {
                continue;
            };
            let attended = self.directory.is_attended(question.conversation);
            match notify.when {
                NotifyWhen::Never => plan.next = None,
                NotifyWhen::Unattended if attended => plan.next = Some(now + LOOK),
                NotifyWhen::Unattended | NotifyWhen::Always => {
                    if let Some(outcome) = start(&self.profiles, &notify, question).await {
                        record(&self.directory, question, outcome).await;
                    }
                    plan.next = plan.reminder.take().map(|it| it.max(now));
                }
            }
        }
    }
}

/// The program with its own arguments and two of ours.
fn command_line(notify: &NotifySettings, question: &PendingQuestion) -> Option<Vec<String>> {
    let desktop = || vec!["notify-send".to_owned(), "--app-name=aish".to_owned()];
    let mut words = match (notify.method, notify.command.is_empty()) {
        (NotifyMethod::Auto | NotifyMethod::Command, false) => notify.command.clone(),
        (NotifyMethod::Auto | NotifyMethod::Desktop, _) => desktop(),
        (NotifyMethod::Command, true) | (NotifyMethod::Osc | NotifyMethod::Bell, _) => return None,
    };
    // A name of a tool is of letters, digits and the like, and is not the first here; what it is called with is not told.
    let confirm = &question.confirm;
    let about = match &confirm.subject {
        ConfirmSubject::Level(LevelSubject { step, .. }) => {
            format!("level {} for {}", step.to.number(), step.provider)
        }
        _ => match confirm.call() {
            Some(call) => call.tool.to_string(),
            None => confirm.title.clone(),
        },
    };
    let text = format!(
        "c{} asks about {about}: aishctl confirm show {}",
        confirm.number, confirm.id
    );
    words.extend(["aish".to_owned(), text]);
    Some(words)
}

/// What a program was started for stands in the audit trail.
async fn record(
    directory: &ConversationDirectory,
    question: &PendingQuestion,
    outcome: NotifyOutcome,
) {
    let confirm = &question.confirm;
    let upgrade = match &confirm.subject {
        ConfirmSubject::Level(subject) => Some(subject.step.clone()),
        _ => None,
    };
    let told = AuditFact::NoticeGiven {
        confirm: confirm.id,
        subject: confirm.decision_subject(),
        upgrade,
        outcome,
    };
    let draft = AuditDraft {
        conversation: Some(question.conversation),
        turn: question.turn,
        ..AuditDraft::outside_conversation(clock::now(), told)
    };
    if let Err(error) = directory.record(draft).await {
        tracing::warn!(%error, "record a notice");
    }
}

/// `None`: nothing was to be started, or there is no such program of a desktop.
async fn start(
    profiles: &ProfileGround,
    notify: &NotifySettings,
    question: &PendingQuestion,
) -> Option<NotifyOutcome> {
    let words = command_line(notify, question)?;
    let [program, args @ ..] = &words[..] else {
        return None;
    };
    let mut spec = ChildSpec::new(program, PathBuf::from("/"));
    spec.args = args.to_vec();
    spec.stdout = StandardStream::Null;
    spec.env = OF_DESKTOP
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), environment_variables::key(name)?)))
        .collect();
    let wish = ProfileWish {
        profile: notify.contain,
        ..ProfileWish::OPEN
    };
    match profiles.spawn(spec, wish).await {
        Ok(HeldChild { mut child, .. }) => {
            let Ok(exit) = tokio::time::timeout(PATIENCE, child.wait()).await else {
                tracing::warn!(program, "the program of notify.command does not end");
                child.end(GRACE).await;
                return Some(NotifyOutcome::Failed);
            };
            Some(match exit {
                ChildExit::Code(0) => NotifyOutcome::Given,
                ChildExit::Code(_) | ChildExit::Signal(_) | ChildExit::Unknown => {
                    NotifyOutcome::Failed
                }
            })
        }
        Err(ProfileError::Spawn(SpawnError::NotFound { .. })) if notify.command.is_empty() => None,
        Err(error) => {
            tracing::warn!(%error, "tell of a question");
            Some(NotifyOutcome::Failed)
        }
    }
}
