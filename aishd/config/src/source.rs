//! One place that settings come from: its name and its text.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::safe_text;

/// Who says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// This program.
    Default,
    /// A file of the machine or of the user.
    File(PathBuf),
    /// The file of a project.
    Project(PathBuf),
    /// A variable of the daemon's environment.
    Variable(&'static str),
    /// `-c key=value` on the command line.
    CommandLine,
}

/// How far others get at a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileExposure {
    /// Only its owner can read it.
    Private,
    /// Others can, by this mode.
    Readable(u32),
}

/// A text with settings.
pub struct SourceText {
    pub origin: ConfigOrigin,
    pub access: FileExposure,
    text: String,
}

/// A part of a source.
#[derive(Clone, Debug)]
pub struct SourcePlace {
    pub source: Arc<SourceText>,
    pub span: Range<usize>,
}

impl SourceText {
    pub fn new(origin: ConfigOrigin, access: FileExposure, text: String) -> Arc<Self> {
        Arc::new(Self {
            origin,
            access,
            text,
        })
    }

    /// What nobody is shown: [`crate::redaction::cover`] says what of it may be.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What people call it.
    pub fn name(&self) -> String {
        match &self.origin {
            ConfigOrigin::Default => "default".to_owned(),
            ConfigOrigin::File(path) | ConfigOrigin::Project(path) => {
                safe_text::safe(&path.display().to_string()).into_owned()
            }
            ConfigOrigin::Variable(name) => (*name).to_owned(),
            ConfigOrigin::CommandLine => "-c".to_owned(),
        }
    }

    /// Line and column of a position, both from 1.
    pub fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default();
        (line, column.chars().count() + 1)
    }
}

/// Written by hand: the text may hold a key.
impl fmt::Debug for SourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceText").field(&self.origin).finish()
    }
}

impl SourcePlace {
    /// The line on which it begins, from 1.
    pub fn line(&self) -> usize {
        self.source.line_and_column(self.span.start).0
    }

    /// `file:line`, or the name of what is no file.
    pub fn origin(&self) -> String {
        match &self.source.origin {
            ConfigOrigin::File(_) | ConfigOrigin::Project(_) => {
                format!("{}:{}", self.source.name(), self.line())
            }
            ConfigOrigin::Default | ConfigOrigin::Variable(_) | ConfigOrigin::CommandLine => {
                self.source.name()
            }
        }
    }
}
