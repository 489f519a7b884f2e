//! Telling somebody of a question that waits while nobody is attached: a program is started. No shell reads its
//! arguments, and nothing that a model wrote is in them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::ConfirmId;
use tokio::time::Instant;

use aishd_config::env;
use aishd_config::live::Live;
use aishd_config::settings::Notify;
use aishd_config::value::{NotifyMethod, NotifyWhen};
use aishd_conversation::directory::Directory;
use aishd_conversation::pending::{Asked, Open, Question};
use aishd_log::audit::{Draft, Notice, Told};
use aishd_platform::clock;
use aishd_process::spec::{Exit, Spec, Stream};
use aishd_process::{Children, SpawnError};

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
    directory: Directory,
    live: Arc<Live>,
    children: Children,
    waiting: BTreeMap<ConfirmId, Plan>,
}

/// What is still to be told of a question.
struct Plan {
    next: Option<Instant>,
    reminder: Option<Instant>,
}

impl Notifier {
    pub(super) fn new(directory: Directory, live: Arc<Live>, children: Children) -> Self {
        Self {
            directory,
            live,
            children,
            waiting: BTreeMap::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let mut open = self.directory.pending().watch().await;
        loop {
            let now = open.borrow_and_update().clone();
            self.plan(&now);
            self.tell(&now).await;
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

    fn plan(&mut self, open: &Open) {
        self.waiting.retain(|id, _| open.contains_key(id));
        for (id, question) in open.iter() {
            if !self.waiting.contains_key(id) {
                let plan = self.plan_for(question);
                self.waiting.insert(*id, plan);
            }
        }
    }

    fn plan_for(&self, question: &Question) -> Plan {
        let now = Instant::now();
        let unattended = self.directory.policy().unattended_ms;
        let left = match question.asked.expires_at() {
            Some(at) => u64::try_from(at.0.saturating_sub(clock::now().0)).unwrap_or(0),
            None => unattended,
        };
        Plan {
            next: Some(now + self.live.standing().borrow().notify.after),
            reminder: now.checked_add(Duration::from_millis(left / 2)),
        }
    }

    /// Tells of what is due, unless somebody sees it.
    async fn tell(&mut self, open: &Open) {
        let notify = self.live.standing().borrow().notify.clone();
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
                    if let Some(outcome) = start(&self.children, &notify, question).await {
                        record(&self.directory, question, outcome).await;
                    }
                    plan.next = plan.reminder.take().map(|it| it.max(now));
                }
            }
        }
    }
}

/// The program with its own arguments and two of ours.
fn words(notify: &Notify, question: &Question) -> Option<Vec<String>> {
    let desktop = || vec!["notify-send".to_owned(), "--app-name=aish".to_owned()];
    let mut words = match (notify.method, notify.command.is_empty()) {
        (NotifyMethod::Auto | NotifyMethod::Command, false) => notify.command.clone(),
        (NotifyMethod::Auto | NotifyMethod::Desktop, _) => desktop(),
        (NotifyMethod::Command, true) | (NotifyMethod::Osc | NotifyMethod::Bell, _) => return None,
    };
    // A name of a tool is of letters, digits and the like, and is not the first here; what it is called with is not told.
    let about = match &question.asked {
        Asked::InTurn(confirm) => confirm.tool.to_string(),
        Asked::Raise(raise) => {
            let upgrade = &raise.upgrade;
            format!("level {} for {}", upgrade.to.number(), upgrade.provider)
        }
        Asked::Memory(_) => "a fact to remember".to_owned(),
    };
    let text = format!(
        "c{} asks about {about}: aishctl confirm show {}",
        question.asked.number(),
        question.asked.id()
    );
    words.extend(["aish".to_owned(), text]);
    Some(words)
}

/// What a program was started for stands in the audit trail.
async fn record(directory: &Directory, question: &Question, outcome: Notice) {
    let (subject, upgrade) = match &question.asked {
        Asked::InTurn(confirm) => (Some(confirm.subject()), None),
        Asked::Raise(raise) => (None, Some(raise.upgrade.clone())),
        Asked::Memory(_) => (None, None),
    };
    let told = Told::NoticeGiven {
        confirm: question.asked.id(),
        subject,
        upgrade,
        outcome,
    };
    let draft = Draft {
        conversation: Some(question.conversation),
        turn: question.turn,
        ..Draft::beside(clock::now(), told)
    };
    if let Err(error) = directory.tell(draft).await {
        tracing::warn!(%error, "record a notice");
    }
}

/// `None`: nothing was to be started, or there is no such program of a desktop.
async fn start(children: &Children, notify: &Notify, question: &Question) -> Option<Notice> {
    let words = words(notify, question)?;
    let [program, args @ ..] = &words[..] else {
        return None;
    };
    let mut spec = Spec::new(program, PathBuf::from("/"));
    spec.args = args.to_vec();
    spec.stdout = Stream::Null;
    spec.env = OF_DESKTOP
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), env::key(name)?)))
        .collect();
    match children.spawn(&spec).await {
        Ok(mut child) => {
            let Ok(exit) = tokio::time::timeout(PATIENCE, child.wait()).await else {
                tracing::warn!(program, "the program of notify.command does not end");
                child.end(GRACE).await;
                return Some(Notice::Failed);
            };
            Some(match exit {
                Exit::Code(0) => Notice::Given,
                Exit::Code(_) | Exit::Signal(_) | Exit::Unknown => Notice::Failed,
            })
        }
        Err(SpawnError::NotFound { .. }) if notify.command.is_empty() => None,
        Err(error) => {
            tracing::warn!(%error, "tell of a question");
            Some(Notice::Failed)
        }
    }
}
