//! What a request tells beside the log, and what has to be read for that: pinned resources before each request, and the
//! directory once for each turn, so that what a turn says of it stays the same to its end. It is read by a task: the
//! actor waits for no server and no disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use aish_proto::id::TurnId;
use aishd_log::pinned_resource::{PinnedContent, PinnedEntry};
use aishd_model::trusted_instructions::TrustedInstructions;
use aishd_project::{ProjectCache, ProjectLook};
use aishd_rules::command_instructions::CommandInstructions;
use aishd_tools::ToolRunner;
use aishd_turn::project::ProjectBlocks;

/// What is to be read.
#[derive(Debug)]
pub struct ExtraContext {
    pub(crate) pinned: Vec<PinnedEntry>,
    pub(crate) tools: ToolRunner,
    pub(crate) directory: Option<ToldDirectory>,
}

#[derive(Debug)]
pub(crate) struct ToldDirectory {
    pub(crate) folders: ProjectCache,
    pub(crate) path: String,
    pub(crate) trusted: TrustedInstructions,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct GatheredContext {
    pub held: Vec<PinnedContent>,
    /// `None`: what is known of the directory is enough.
    pub looked: Option<ProjectLook>,
}

/// What a conversation has told of its directory.
#[derive(Debug, Default)]
pub(crate) struct DirectoryTold {
    /// The turn for which somebody has looked.
    pub(crate) turn: Option<TurnId>,
    pub(crate) blocks: Option<ProjectBlocks>,
    /// For people, at the next opportunity.
    pub(crate) remarks: Vec<String>,
    pub(crate) said: BTreeSet<String>,
    /// What the requests of a turn say of the shell: the same from its first to its last.
    pub(crate) shell: Option<(TurnId, Option<Arc<CommandInstructions>>)>,
}

/// Whether the directory is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryLook {
    /// Unless the turn that runs has.
    Once,
    Anew,
    No,
}

impl ExtraContext {
    /// Reads all of it, each for as long as it may take.
    pub async fn gather(&self) -> GatheredContext {
        let look = async {
            let directory = self.directory.as_ref()?;
            let looking = directory.folders.look(&directory.path, &directory.trusted);
            Some(looking.await)
        };
        let (held, looked) = tokio::join!(self.tools.pinned_contents(&self.pinned), look);
        GatheredContext { held, looked }
    }
}

impl DirectoryTold {
    /// What the next request is told, unless somebody looks before it.
    pub(crate) fn blocks(&self) -> Option<ProjectBlocks> {
        self.blocks.clone()
    }

    /// Somebody has told people of this.
    pub(crate) fn note(&mut self, told: &[String]) {
        self.said.extend(told.iter().cloned());
    }

    /// What people have not been told yet. Once is enough.
    pub(crate) fn take_remarks(&mut self) -> Vec<String> {
        let mut remarks = std::mem::take(&mut self.remarks);
        remarks.retain(|it| self.said.insert(it.clone()));
        remarks
    }
}
