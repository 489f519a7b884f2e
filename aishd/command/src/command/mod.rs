//! What a shell would do with a text: which programs it would start with which words, where it would write, and what it
//! would run to make a word. Read by a real parser and within bounds; nothing is run, looked up or expanded.
//! Whether that is dangerous is `destructive`'s.

mod bounds;
#[cfg(test)]
mod tests;
mod walk;
mod word;

pub use bounds::{MAX_BYTES, MAX_OPENERS, MAX_SEGMENTS};

/// The language that the shell speaks. All are read as bash is; what would mean something else in the other is then not
/// understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sh,
    Bash,
    Zsh,
    Fish,
}

impl Dialect {
    /// The dialect of a shell by the last part of its path. What is no shell that is known runs its text in `/bin/sh`
    pub fn of(shell: &str) -> Self {
        match shell.rsplit('/').next().unwrap_or(shell) {
            "bash" => Self::Bash,
            "zsh" => Self::Zsh,
            "fish" => Self::Fish,
            _ => Self::Sh,
        }
    }
}

/// What was read of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// In the order of the text; empty when it was not understood.
    pub segments: Vec<Segment>,
    /// Whether all of it is what a shell of that dialect would do. If not, nothing may be concluded from it.
    pub understood: bool,
}

/// One command, or one construct that holds commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub joined: Joined,
    pub shape: Shape,
    /// Variables that it sets, for itself or for what follows.
    pub sets: Vec<Setting>,
    /// What runs and what it is told, as it is written. For a function its name, for a loop or a choice what it goes over,
    /// for a test what it compares.
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
    /// What runs first to make its words: `$(…)`, backticks, `<(…)`. In order.
    pub substitutes: Vec<Self>,
    /// What runs within it: the commands of a loop, a condition, a subshell, a function.
    pub inner: Vec<Self>,
}

impl Segment {
    /// The name of the program or builtin, if it is certain before it runs.
    pub fn program(&self) -> Option<&str> {
        match self.shape {
            Shape::Runs => self.words.first().and_then(Word::fixed),
            _ => None,
        }
    }

    /// Its words with single spaces between them, as they are written.
    pub fn written(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|it| it.written.as_str()).collect();
        words.join(" ")
    }
}

/// How a segment follows the one before it in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It is the first.
    First,
    /// `;` or a new line.
    Then,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`: it reads what the one before it writes.
    Pipe,
    /// `&`: the one before it goes on beside it.
    Beside,
}

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A program or builtin, or only settings and redirections.
    Runs,
    /// `{ … }`
    Group,
    /// `( … )`
    Subshell,
    /// `for`, `while`, `until`
    Loop,
    /// `if`
    Condition,
    /// `case`
    Choice,
    /// It defines a function; `inner` is what that would do.
    Function,
    /// `[[ … ]]`
    Test,
    /// `(( … ))`
    Arithmetic,
}

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// As it stands in the text, with its quotes.
    pub written: String,
    pub value: Value,
}

impl Word {
    /// What it is, if that is certain.
    pub fn fixed(&self) -> Option<&str> {
        match &self.value {
            Value::Fixed(value) => Some(value),
            Value::Pattern(_) | Value::Open { .. } => None,
        }
    }
}

/// What a word will be when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Exactly this.
    Fixed(String),
    /// What this pattern finds or makes: wildcards, braces, a home directory. None, one or many words.
    Pattern(String),
    /// Something that is known only then.
    Open {
        /// What it certainly begins with.
        before: String,
        /// Whether it stays one word whatever it is.
        one_word: bool,
    },
}

/// A variable that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    /// None for a list of values.
    pub value: Option<Word>,
}

/// Where a segment reads from or writes to besides what its program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// `<`
    From(Word),
    /// `>`, `>>`, `>|`, `<>`, `&>`
    To(Word, Writing),
    /// `2>&1`, `>&-`: nothing but descriptors that are open already.
    Descriptor,
    /// The text of a here-document or a here-string, which it reads.
    Here(Word),
}

/// How a redirection writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// What was there is gone.
    Anew,
    /// Behind what was there.
    Append,
    /// `>|`: anew, even where the shell was told not to.
    Clobber,
    /// `<>`
    Both,
}

/// Reads a text as a shell of the dialect would. Pure, and bounded whatever the text is: one that is longer, nests deeper
/// or has more parts than [`MAX_BYTES`], [`MAX_OPENERS`] and [`MAX_SEGMENTS`] is not understood.
pub fn read(text: &str, dialect: Dialect) -> Reading {
    match walk::segments(text, dialect) {
        Ok(segments) => Reading {
            segments,
            understood: true,
        },
        Err(walk::NotUnderstood) => Reading {
            segments: vec![],
            understood: false,
        },
    }
}
