//! A trial that runs, and what one came to.

use std::sync::Arc;

use aish_proto::id::{ConfirmId, ConversationId, TurnId};
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::command_result::{CommandResult, LeftByShell, WholeOutput};
use aishd_log::confirm::{Confirm, KeptHunks};
use aishd_log::ending::{BoundaryFailure, CommandEnding};
use aishd_log::event::Event;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::ToolName;
use aishd_log::tried::{ChangeSummary, TriedCommand};
use aishd_platform::clock;
use aishd_tools::trial::{ChangeFailure, KeepReport, KeptAbout, Trial, TrialRoom};
use tokio_util::sync::CancellationToken;

use crate::requests::ActorReply;

/// The command of an open question, on its way through layers.
#[derive(Debug)]
pub(crate) struct RunningTrial {
    pub(crate) confirm: ConfirmId,
    pub(crate) digest: ContentDigest,
    pub(crate) token: CancellationToken,
    /// `None`: it is tried without anybody having to say so.
    pub(crate) by: Option<AnsweringPerson>,
    /// Who waits for its end.
    pub(crate) replies: Vec<ActorReply<Box<TriedCommand>>>,
}

impl RunningTrial {
    pub(crate) fn new(
        confirm: &Confirm,
        token: CancellationToken,
        by: Option<&AnsweringPerson>,
    ) -> Self {
        Self {
            confirm: confirm.id,
            digest: confirm.digest,
            token,
            by: by.cloned(),
            replies: vec![],
        }
    }
}

/// A person's word that what was tried becomes real.
#[derive(Clone, Debug)]
pub(crate) struct KeepOrder {
    pub(crate) tried: Arc<TriedCommand>,
    /// Of the question.
    pub(crate) turn: Option<TurnId>,
    /// Of the question.
    pub(crate) number: u32,
    /// These paths and what is in them; empty: all.
    pub(crate) only: Vec<String>,
    /// Or these hunks of the difference, which are not all.
    pub(crate) hunks: Option<Box<KeptHunks>>,
    /// What the person says about it.
    pub(crate) reason: Option<String>,
    /// What its shell left, which lasts once all of it is real.
    pub(crate) left: Option<Box<LeftByShell>>,
}

impl KeepOrder {
    /// Makes it real, and says so for the model.
    ///
    /// # Errors
    /// Why it is not, or not known to be.
    pub(crate) fn keep(
        &self,
        room: &TrialRoom,
        conversation: ConversationId,
    ) -> Result<String, ChangeFailure> {
        let changed = &self.tried.changed;
        let about = KeptAbout {
            conversation: Some(conversation),
            turn: self.turn,
            number: Some(self.number),
            paths: changed.paths_within(&self.only),
        };
        let now = clock::now();
        let told = match &self.hunks {
            Some(chosen) => {
                let kept = room.keep_hunks_or_drop(self.tried.changes, chosen, now, &about);
                let (kept, told) = kept?;
                let but = kept_remark(&kept);
                format!(
                    "kept only a part of it{but}: {told}. Read a file again before you change it"
                )
            }
            None => {
                let kept = room.keep_or_drop(self.tried.changes, &self.only, now, &about)?;
                let but = kept_remark(&kept);
                if self.only.is_empty() {
                    format!("kept it{but}: {}", listed(changed))
                } else {
                    format!("kept only this of it{but}: {}", self.only.join(", "))
                }
            }
        };
        Ok(match &self.reason {
            Some(reason) => format!("{told}. They say: {reason}"),
            None => told,
        })
    }

    /// The command's end as its trial had it, once what it changed is real.
    pub(crate) fn keep_command(
        &self,
        room: &TrialRoom,
        conversation: ConversationId,
    ) -> CommandResult {
        let tried = TriedCommand::clone(&self.tried);
        let kept = self.keep(room, conversation);
        let told = match &kept {
            Ok(kept) => format!(
                "[aish] it ran in a copy of the files first, without keys and with no network but the hosts that were allowed; a person looked at what it changed and {kept}"
            ),
            Err(error @ ChangeFailure::Unfinished(_)) => format!("[aish] {error}"),
            Err(error) => format!("[aish] nothing of it was kept: {error}"),
        };
        let mut output = tried.output;
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&told);
        output.push('\n');
        CommandResult {
            ending: match &kept {
                Ok(_) => tried.ending,
                Err(ChangeFailure::Unfinished(_)) => CommandEnding::Unknown,
                Err(_) => CommandEnding::Refused,
            },
            output,
            bytes: tried.bytes,
            ms: tried.ms,
            kept: tried.kept.map(WholeOutput::Stored),
            ran_in: tried.cwd,
            within: BoundaryFailure::None,
            moved: None,
            left: self
                .left
                .clone()
                .filter(|_| kept.is_ok() && self.only.is_empty() && self.hunks.is_none()),
            network: tried.network,
        }
    }
}

/// Why a change is not real, or not known to be, for the model.
pub(crate) fn not_kept(failure: &ChangeFailure) -> String {
    match failure {
        ChangeFailure::Unfinished(_) => format!("[aish] {failure}"),
        ChangeFailure::Conflicts(_) | ChangeFailure::Unseen | ChangeFailure::Other(_) => {
            format!("[aish] nothing was changed: {failure}")
        }
    }
}

/// What there is to be said of a keep besides, in brackets.
pub(crate) fn kept_remark(kept: &KeepReport) -> String {
    if kept.remark.is_empty() {
        return String::new();
    }
    format!(" ({})", kept.remark)
}

/// A few of the changed files, for the model.
fn listed(changed: &ChangeSummary) -> String {
    const FEW: usize = 10;
    let paths = changed.listed.iter().take(FEW);
    let paths: Vec<&str> = paths.map(|it| it.path.as_str()).collect();
    match changed.count {
        0 => "no files changed".to_owned(),
        count if count > paths.len() as u64 => {
            format!("{count} files changed, {} among them", paths.join(", "))
        }
        _ => format!("changed {}", paths.join(", ")),
    }
}

/// What it came to.
#[derive(Debug)]
pub(crate) struct TrialEnd {
    /// Its layers go with it, until somebody holds them.
    pub(crate) trial: Box<Trial>,
    pub(crate) command: String,
    pub(crate) digest: ContentDigest,
    pub(crate) ended: CommandResult,
    pub(crate) changed: ChangeSummary,
    /// What stands beside its question; empty: nothing.
    pub(crate) difference: String,
    pub(crate) difference_lines: u64,
    /// The tool whose call it is; none: it is a command.
    pub(crate) tool: Option<ToolName>,
}

impl TrialEnd {
    /// As a fact, the parts of its output that stand before it, and its layers.
    pub(crate) fn told(
        self,
        confirm: ConfirmId,
        by: Option<AnsweringPerson>,
    ) -> (TriedCommand, Vec<Event>, Box<Trial>) {
        let mut events = vec![];
        let ended = self.ended;
        let tried = TriedCommand {
            confirm,
            digest: self.digest,
            command: self.command,
            tool: self.tool,
            changes: self.trial.id,
            ending: ended.ending,
            output: ended.output,
            bytes: ended.bytes,
            ms: ended.ms,
            kept: ended.kept.map(|it| it.store(&mut events)),
            cwd: ended.ran_in,
            changed: self.changed,
            difference: self.difference,
            difference_lines: self.difference_lines,
            network: ended.network,
            by,
        };
        (tried, events, self.trial)
    }
}
