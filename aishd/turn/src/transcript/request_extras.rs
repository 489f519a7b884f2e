//! What a request tells beside the log: how it begins, the shell, what people keep, and the directory.

use std::sync::Arc;

use aishd_rules::command_instructions::CommandInstructions;

use super::Transcript;
use crate::project::ProjectBlocks;

impl Transcript {
    /// Facts that people keep for all conversations.
    pub fn background(&self) -> Option<&str> {
        self.background.as_deref()
    }

    pub fn set_background(&mut self, background: Option<Arc<str>>) {
        self.background = background;
    }

    /// What a server that keeps what it has read may know the conversation by.
    pub fn cache_key(&self) -> Option<&str> {
        self.cache_key.as_deref()
    }

    pub fn set_cache_key(&mut self, cache_key: Option<Arc<str>>) {
        self.cache_key = cache_key;
    }

    /// What the system message begins with instead of what it usually does.
    pub fn opening(&self) -> Option<&str> {
        self.opening.as_deref()
    }

    pub fn set_opening(&mut self, opening: Option<Arc<str>>) {
        self.opening = opening;
    }

    /// What the next request tells of the shell; `None`: no command can run.
    pub fn shell(&self) -> Option<&CommandInstructions> {
        self.shell.as_deref()
    }

    pub fn set_shell(&mut self, shell: Option<Arc<CommandInstructions>>) {
        self.shell = shell;
    }

    /// What the next request tells of the directory.
    pub fn project(&self) -> Option<&str> {
        self.project.as_ref().map(|(_, shown)| &**shown)
    }

    pub fn set_project(&mut self, project: Option<ProjectBlocks>) {
        self.project = project.and_then(|it| {
            let largest = it.within(None)?.clone();
            Some((it, largest))
        });
    }

    /// Whether less is to be told of the directory in a request with room for so many bytes.
    pub fn is_project_over(&self, request_bytes: u64) -> bool {
        let known = self.project.as_ref();
        known.is_some_and(|(all, shown)| all.within(Some(request_bytes)) != Some(shown))
    }

    /// Tells as much of it as such a request has room for.
    pub fn narrow_project(&mut self, request_bytes: u64) {
        self.project = self.project.take().and_then(|(all, _)| {
            let shown = all.within(Some(request_bytes))?.clone();
            Some((all, shown))
        });
    }

    /// Whether there was anything of it.
    pub fn take_project(&mut self) -> bool {
        self.project.take().is_some()
    }
}
