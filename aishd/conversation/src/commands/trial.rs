//! A trial that runs, and what one came to.

use std::sync::Arc;

use aish_proto::id::{ChangesId, ConfirmId};
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::command_result::CommandResult;
use aishd_log::event::Event;
use aishd_log::tool::ContentDigest;
use aishd_log::tried::{ChangeSummary, TriedCommand};
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

/// A person's word that what was tried becomes real.
#[derive(Clone, Debug)]
pub(crate) struct KeepOrder {
    pub(crate) tried: Arc<TriedCommand>,
    /// Of the question.
    pub(crate) number: u32,
    /// These paths and what is in them; empty: all.
    pub(crate) only: Vec<String>,
}

/// What it came to.
#[derive(Debug)]
pub(crate) struct TrialEnd {
    pub(crate) changes: ChangesId,
    pub(crate) command: String,
    pub(crate) digest: ContentDigest,
    pub(crate) ended: CommandResult,
    pub(crate) changed: ChangeSummary,
}

impl TrialEnd {
    /// As a fact, and the parts of its output that stand before it.
    pub(crate) fn told(
        self,
        confirm: ConfirmId,
        by: Option<AnsweringPerson>,
    ) -> (TriedCommand, Vec<Event>) {
        let mut events = vec![];
        let ended = self.ended;
        let tried = TriedCommand {
            confirm,
            digest: self.digest,
            command: self.command,
            changes: self.changes,
            ending: ended.ending,
            output: ended.output,
            bytes: ended.bytes,
            ms: ended.ms,
            kept: ended.kept.map(|it| it.store(&mut events)),
            cwd: ended.ran_in,
            changed: self.changed,
            network: ended.network,
            by,
        };
        (tried, events)
    }
}
