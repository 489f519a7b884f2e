//! What a window shows: rows of the conversation and lines of aish itself, through the one [`UserInterface`].

use std::collections::VecDeque;

use super::look::WindowLook;
use super::ui::UserInterface;
use crate::command_output::{CommandOutput, OutputKind};
use crate::failure::Failure;
use crate::render::rows::{RowAsker, SafeRow};
use crate::render::{difference, notice, wrap};
use crate::{safe, window_help};

/// Rows of one question that a person is shown; more is somebody's paste.
const QUESTION_ROWS: usize = 20;
/// Rows of one command's output that a person is shown; `aishctl` in a pager shows more.
const COMMAND_ROWS: usize = 200;

#[derive(Debug)]
pub(super) struct Display<U> {
    pub(super) ui: U,
    look: WindowLook,
    tail: usize,
    /// First lines of questions that stand on the screen as they were typed, and nothing of the conversation
    /// after them: they are not shown again.
    standing: VecDeque<String>,
}

impl<U: UserInterface> Display<U> {
    pub(super) fn new(ui: U, look: WindowLook, tail: u32) -> Self {
        let tail = usize::try_from(tail).unwrap_or(usize::MAX);
        Self {
            ui,
            look,
            tail,
            standing: VecDeque::new(),
        }
    }

    /// A question was typed on this screen.
    pub(super) fn typed(&mut self, question: &str) {
        let line = safe::screen(question)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        self.standing.push_back(line);
    }

    /// What was typed here is of another conversation now.
    pub(super) fn forget(&mut self) {
        self.standing.clear();
    }

    /// One line of aish itself, or several.
    pub(super) async fn print_notice(&mut self, text: &str) -> Result<(), Failure> {
        self.ui
            .show(notice::rows(
                text,
                self.look.is_colored(),
                self.ui.columns(),
            ))
            .await
    }

    pub(super) async fn refuse(&mut self, failure: &Failure) -> Result<(), Failure> {
        let hint = failure
            .hint
            .as_ref()
            .map(|it| format!("\nhint: {}", window_help::hint(it)))
            .unwrap_or_default();
        self.print_notice(&format!("{}{hint}", failure.message))
            .await
    }

    pub(super) async fn show(&mut self, rows: Vec<SafeRow>) -> Result<(), Failure> {
        let dim = self.look.is_colored();
        let (bold, plain) = if dim {
            ("\u{1b}[1m", "\u{1b}[0m")
        } else {
            ("", "")
        };
        let mut text = String::new();
        let mut asked = ShownQuestion::default();
        for row in rows {
            match row {
                SafeRow::Asked(asker, line) => {
                    if asked.rows == 0 {
                        asked.stands = asker == RowAsker::Us && self.stands(&line);
                    }
                    asked.rows += 1;
                    if !asked.stands && (asked.rows <= QUESTION_ROWS || self.ui.columns().is_none())
                    {
                        text.push_str(&format!("{bold}{line}{plain}\n"));
                    }
                    continue;
                }
                SafeRow::Text(line) => {
                    self.standing.clear();
                    text.push_str(&asked.rest(dim, self.ui.columns()));
                    text.push_str(&wrap::ends_of_frames(&line, self.ui.columns()));
                    text.push('\n');
                }
                SafeRow::Notice(line) => {
                    text.push_str(&asked.rest(dim, self.ui.columns()));
                    text.push_str(&notice::rows(&line, dim, self.ui.columns()));
                }
                SafeRow::Aside(line) => {
                    text.push_str(&asked.rest(dim, self.ui.columns()));
                    text.push_str(&notice::aside(&line, dim, self.ui.columns()));
                }
            }
            asked = ShownQuestion::default();
        }
        text.push_str(&asked.rest(dim, self.ui.columns()));
        if text.is_empty() {
            return Ok(());
        }
        self.ui.show(text).await
    }

    /// The past: only the last of it. `earlier`: something stands before these rows, too.
    pub(super) async fn show_tail(
        &mut self,
        mut rows: Vec<SafeRow>,
        earlier: bool,
    ) -> Result<(), Failure> {
        let over = rows.len().saturating_sub(self.tail);
        rows.drain(..over);
        if (earlier || over > 0) && self.ui.columns().is_some() && !rows.is_empty() {
            rows.insert(0, SafeRow::Aside("what was before: :log".to_owned()));
        }
        self.show(rows).await
    }

    /// What a command printed. A person gets as much as can be read; what is left out stands first, where the text is
    /// a transcript and its end matters.
    pub(super) async fn print(&mut self, printed: &CommandOutput) -> Result<(), Failure> {
        let text = printed.render(true);
        if printed.kind == OutputKind::Difference {
            return self.print_difference(&text).await;
        }
        let text = self.notices_laid_out(text);
        let rows = text.lines().count();
        if self.ui.columns().is_none() || rows <= COMMAND_ROWS {
            return self.ui.show(text).await;
        }
        let left_out = rows - COMMAND_ROWS;
        self.print_notice(&format!(
            "{left_out} rows are left out; the same command of aishctl prints them all"
        ))
        .await?;
        let last: String = text
            .lines()
            .skip(left_out)
            .flat_map(|it| [it, "\n"])
            .collect();
        self.ui.show(last).await
    }

    /// Rows of ours in what a command prints end between words, as they do elsewhere.
    fn notices_laid_out(&self, text: String) -> String {
        const OURS: &str = "[aish] ";
        let columns = self.ui.columns();
        if columns.is_none() || !text.contains(OURS) {
            return text;
        }
        let rows = text
            .split_inclusive('\n')
            .map(|it| match it.strip_prefix(OURS) {
                Some(notice) => notice::rows(notice, false, columns),
                None => it.to_owned(),
            });
        rows.collect()
    }

    /// Of changes the beginning: it says which files they are of.
    async fn print_difference(&mut self, text: &str) -> Result<(), Failure> {
        let (begin, more) = difference::beginning(text);
        if self.ui.columns().is_none() || more == 0 {
            return self.show_difference(text).await;
        }
        self.show_difference(begin).await?;
        self.print_notice(&format!(
            "{more} rows more are left out; the same command of aishctl prints them all"
        ))
        .await
    }

    /// A safe difference, as it is laid out, in its colours where there are any.
    pub(super) async fn show_difference(&mut self, diff: &str) -> Result<(), Failure> {
        let text = if self.look.is_colored() {
            difference::painted(diff)
        } else {
            diff.to_owned()
        };
        self.ui.show(text).await
    }

    /// Whether this question is the oldest of those that stand on the screen.
    fn stands(&mut self, line: &str) -> bool {
        let at = self.standing.iter().position(|it| {
            let asked = line.split_once("› ").map_or("", |it| it.1);
            asked == it
        });
        match at {
            Some(at) => {
                self.standing.drain(..=at);
                true
            }
            None => false,
        }
    }
}

/// A question while its rows come.
#[derive(Default)]
struct ShownQuestion {
    rows: usize,
    stands: bool,
}

impl ShownQuestion {
    /// What is said of the rows that were not shown.
    fn rest(&self, dim: bool, columns: Option<usize>) -> String {
        if self.stands || self.rows <= QUESTION_ROWS || columns.is_none() {
            return String::new();
        }
        notice::rows(
            &format!(
                "{} more lines of this question; :log has them",
                self.rows - QUESTION_ROWS
            ),
            dim,
            columns,
        )
    }
}
