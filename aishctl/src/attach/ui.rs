//! What a window needs of the place where a person (or a pipe) sits: lines and keys come in, rows go out. The
//! two that exist are [`super::plain`] and [`super::terminal`]; an editor is swapped by writing a third.

use std::time::Duration;

use aish_proto::config::NotifyMethod;
use aish_proto::id::{ConfirmId, ConversationId};

use super::attention::LastSeen;
use crate::client::editor::{ArgumentDraft, TextDraft};
use crate::completion::server_words::WantedCompletion;
use crate::failure::Failure;
use crate::picker::Picker;
use crate::picture::answers::TerminalAnswer;
use crate::picture::area::{CellPixels, PictureArea};

/// A second Ctrl-C within this time leaves.
pub(super) const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// What came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UserInput {
    /// A line, and the question to which it may be an answer: the one that had stood on the screen for a while when
    /// the line was begun.
    Line(String, Option<ConfirmId>),
    /// What became of arguments that were edited, and their question.
    Edited(ConfirmId, Result<String, Failure>),
    /// The last question in other words; `None`: in the same.
    Rewritten(Result<Option<String>, Failure>),
    /// The conversation that was picked, if one was.
    Picked(Result<Option<ConversationId>, Failure>),
    /// Somebody turned to this terminal, or away from it.
    Turned,
    /// Alt-y, Alt-n or Enter, at the question that stands.
    Answer(ConfirmId, PressedKey),
    /// Ctrl-C that was not used up by clearing the line.
    Interrupt(HalfTyped),
    /// What the terminal says of itself.
    Terminal(TerminalAnswer),
    /// Ctrl-D, or the end of the pipe.
    End,
    /// Completion would like to know the names of today, and what a server says to this.
    NamesWanted(Option<WantedCompletion>),
    /// There is room for rows again.
    Room,
    /// The editor ended by itself.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PressedKey {
    Yes,
    No,
    /// A line without a word: a no where something waits for the answer.
    Enter,
}

/// What a line is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LinePurpose {
    #[default]
    Free,
    /// For a form: it may be empty, and it is remembered nowhere.
    Field,
}

/// Whether a line was half typed at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfTyped {
    Something,
    Nothing,
}

/// What the prompt says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptHead {
    pub(crate) conversation: String,
    /// The preset by name, once it is known.
    pub(crate) model: Option<String>,
    pub(crate) state: PromptState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PromptState {
    #[default]
    Idle,
    Running,
    /// For a person: a confirm, or a queue that was held.
    Waiting,
    /// The model's server or the daemon.
    Problem,
}

/// Words that Tab knows besides those of the grammar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompletionNames {
    pub(crate) conversations: Vec<String>,
    pub(crate) models: Vec<String>,
    /// MCP servers, by alias.
    pub(crate) servers: Vec<String>,
    /// Those of them that have something to read.
    pub(crate) readable: Vec<String>,
    /// What a server said a word may become.
    pub(crate) offered: Option<(WantedCompletion, Vec<String>)>,
}

/// What is done where a line is given up for a while, for some of it with the terminal lent to somebody else.
#[derive(Debug)]
pub(crate) enum EditorErrand {
    /// The next line begins with this.
    Line(String),
    /// Arguments are edited, and this is the question that they belong to; [`UserInput::Edited`] comes back.
    Arguments(ConfirmId, ArgumentDraft),
    /// The last question is edited that read like this; [`UserInput::Rewritten`] comes back.
    Question(String, TextDraft),
    /// A conversation is picked; [`UserInput::Picked`] comes back.
    Pick(Box<Picker>),
}

pub(crate) trait UserInterface {
    /// The next input. Nothing is lost when the wait is given up.
    async fn next(&mut self) -> Result<UserInput, Failure>;
    /// Adds text under everything that was shown before: whole lines, safe, styled.
    async fn show(&mut self, text: String) -> Result<(), Failure>;
    /// What goes on now, in one row of its own that is no part of the conversation; none: nothing worth a row.
    fn live(&mut self, row: Option<String>);
    /// False: what was shown piles up; show no more until [`UserInput::Room`].
    fn has_room(&self) -> bool;
    fn head(&mut self, head: PromptHead);
    /// What is shown next is this question, or none stands any more.
    fn show_question(&mut self, question: Option<ConfirmId>);
    /// What the lines to come are for.
    fn lines(&mut self, lines: LinePurpose);
    /// Does this between two lines.
    fn errand(&mut self, errand: EditorErrand);
    /// Calls somebody who does not look.
    fn ring(&mut self, text: &str, method: NotifyMethod);
    /// Gives bytes to the terminal that are no text and move nothing. False: there is none that takes them.
    fn send(&mut self, bytes: &str) -> bool;
    /// Asks the terminal something; [`UserInput::Terminal`] comes back, or nothing.
    fn ask_terminal(&mut self, question: &str);
    /// What room a picture has among the rows; `None`: there are none that it could stand in.
    fn picture_area(&self, cell: Option<CellPixels>) -> Option<PictureArea>;
    /// So many questions wait in this conversation.
    fn waiting(&mut self, conversation: &str, count: usize);
    /// When somebody was last there.
    fn last_seen(&self) -> LastSeen;
    fn names(&mut self, names: CompletionNames);
    /// A second Ctrl-C is ours for this long, even where a line is half typed.
    fn leaving_is_near(&mut self);
    /// The program goes on after it was stopped.
    fn resumed(&mut self);
    /// The columns of a row; `None` where rows are not cut.
    fn columns(&self) -> Option<usize>;
}
