//! What `ask` writes to stdout, in each of its forms.

use std::io;

use aish_proto::event::CalledTool;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::kept::KeptBlock;
use aish_proto::turn::StopReason;
use aish_proto::usage::Usage;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::ask_args::AskArgs;
use crate::global_args::GlobalArgs;
use crate::render::extract;
use crate::render::turn_stream::AnswerAuthor;
use crate::{environment, safe};

/// What the output is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputForm {
    /// The text as it comes.
    Text,
    /// One object at the end.
    Json,
    /// The events, one a line.
    Events,
    /// Fenced code at the end.
    Code,
    /// The commands that were proposed, at the end.
    Commands,
    /// The one line of fenced code at the end.
    Line,
    /// What the calls of a list gave, at the end.
    Results,
}

impl OutputForm {
    pub fn of(args: &AskArgs, global: &GlobalArgs) -> Self {
        match () {
            () if args.code => Self::Code,
            () if args.cmd => Self::Commands,
            () if global.json => Self::Json,
            () if global.jsonl => Self::Events,
            () => Self::Text,
        }
    }
}

/// Stdout, and whether a person looks at it.
#[derive(Debug)]
pub struct AnswerOutput<O> {
    pub to: O,
    pub form: OutputForm,
    pub terminal: bool,
    /// How a person sees the answer; `None`: as the model wrote it.
    pub markdown: Option<Box<dyn TypesetAnswer>>,
    /// A row of it has been shown.
    pub begun: bool,
    /// The last text that was written did not end its line.
    pub open_line: bool,
    /// The object of `--json` has been written.
    pub reported: bool,
}

/// Lays out an answer as it comes. Behind a trait, so that a program that never does need not hold what can.
pub trait TypesetAnswer: std::fmt::Debug {
    /// The terminal is so wide now.
    fn resize(&mut self, columns: usize);
    /// The rows that are whole with this piece.
    fn push(&mut self, text: &str) -> String;
    /// The rows of what was held back; what comes next is another text.
    fn finish(&mut self) -> String;
}

/// The object of `ask --json`. Unknown is null, never 0.
#[derive(Debug, Serialize)]
pub struct AskReport<'a> {
    pub v: u32,
    pub conversation: Option<ConversationId>,
    pub turn: Option<TurnId>,
    pub model: Option<&'a str>,
    pub routed: Option<&'a str>,
    /// Who wrote the answer in the end; null: nobody did, or what is left of the turn does not say.
    pub answered: Option<&'a AnswerAuthor>,
    /// Who was asked before, in vain.
    pub fallback: Vec<ReportedFallback<'a>>,
    pub text: &'a str,
    pub tool_calls: &'a [CalledTool],
    /// That the model made: `aishctl result` has their bytes.
    #[serde(skip_serializing_if = "<[KeptBlock]>::is_empty")]
    pub pictures: &'a [KeptBlock],
    pub denied: u32,
    pub usage: Option<ReportedUsage>,
    pub cost_usd: Option<f64>,
    pub ms: u64,
    pub stop_reason: Option<StopReason>,
    pub error: Option<ReportedError>,
}

#[derive(Debug, Serialize)]
pub struct ReportedFallback<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub reason: &'a str,
}

#[derive(Debug, Serialize)]
pub struct ReportedUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_written_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    /// Some of it was counted by no server.
    estimated: bool,
}

impl From<Usage> for ReportedUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_input_tokens: usage.cached_input_tokens,
            cache_written_tokens: usage.cache_written_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            estimated: usage.estimated,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct ReportedError {
    pub class: String,
    pub message: String,
    /// Why the first preset failed, where the one that it fell back to has failed too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl<O> AnswerOutput<O> {
    /// The same output, to somewhere else.
    pub fn to<P>(self, to: P) -> AnswerOutput<P> {
        AnswerOutput {
            to,
            form: self.form,
            terminal: self.terminal,
            markdown: self.markdown,
            begun: self.begun,
            open_line: self.open_line,
            reported: self.reported,
        }
    }
}

impl<O: AsyncWrite + Unpin> AnswerOutput<O> {
    /// A piece of the answer, where the form shows it as it comes.
    pub async fn text(&mut self, text: &str) -> io::Result<()> {
        if self.form != OutputForm::Text {
            return Ok(());
        }
        if let Some(markdown) = &mut self.markdown {
            if self.terminal
                && let Some(columns) = environment::stdout_columns()
            {
                markdown.resize(columns);
            }
            let rows = markdown.push(text);
            return self.rows(&rows).await;
        }
        self.as_it_is(text).await
    }

    /// Text that is no Markdown.
    pub async fn as_it_is(&mut self, text: &str) -> io::Result<()> {
        let text = if self.terminal {
            safe::screen(text)
        } else {
            safe::pipe(text)
        };
        if let Some(last) = text.chars().last() {
            self.open_line = last != '\n';
        }
        self.write(&text).await
    }

    /// An event, where the form shows events.
    pub async fn event(&mut self, raw: &str) -> io::Result<()> {
        if self.form != OutputForm::Events {
            return Ok(());
        }
        self.json_line(raw).await
    }

    pub async fn json_line(&mut self, raw: &str) -> io::Result<()> {
        let mut line = if self.terminal {
            safe::json(raw)
        } else {
            safe::json_pipe(raw).into_owned()
        };
        line.push('\n');
        self.write(&line).await
    }

    /// The text so far is a whole; what comes now is another one, and nothing of the first is held any longer.
    pub async fn end_text(&mut self) -> io::Result<()> {
        let Some(markdown) = &mut self.markdown else {
            return Ok(());
        };
        let rows = markdown.finish();
        self.rows(&rows).await
    }

    /// [`AnswerOutput::end_text`], and a row between the texts.
    pub async fn next_text(&mut self) -> io::Result<()> {
        self.end_text().await?;
        if self.begun {
            self.write("\n").await?;
        }
        Ok(())
    }

    async fn rows(&mut self, rows: &str) -> io::Result<()> {
        self.begun |= !rows.is_empty();
        self.write(rows).await
    }

    /// Ends the line of an answer that did not.
    pub async fn end_line(&mut self) -> io::Result<()> {
        self.end_text().await?;
        if std::mem::take(&mut self.open_line) {
            self.write("\n").await?;
        }
        Ok(())
    }

    /// A picture below what was written: its name, and what draws it, every byte of which is ours.
    pub async fn picture(&mut self, name: &str, drawing: &str) -> io::Result<()> {
        let name = safe::screen(name);
        self.write(&format!("\n{name}\n{drawing}")).await
    }

    /// What the forms that wait for the end show of the answer and of what was called on the way; false: there is nothing of that
    /// kind in it.
    pub async fn extracted(&mut self, text: &str, calls: &[CalledTool]) -> io::Result<bool> {
        let part = match self.form {
            OutputForm::Code => extract::code(text),
            OutputForm::Commands => extract::called_commands(calls) + &extract::commands(text),
            OutputForm::Line => extract::line(text).unwrap_or_default(),
            OutputForm::Text | OutputForm::Json | OutputForm::Events | OutputForm::Results => {
                return Ok(true);
            }
        };
        let part = if self.terminal {
            safe::screen(&part)
        } else {
            safe::pipe(&part)
        };
        self.write(&part).await?;
        Ok(!part.is_empty())
    }

    async fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.to.write_all(text.as_bytes()).await?;
        self.to.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::{Painter, Style};

    /// What comes out of texts that follow each other.
    async fn written(style: Option<Style>, texts: &[&str]) -> String {
        let mut output = AnswerOutput {
            to: Vec::new(),
            form: OutputForm::Text,
            terminal: false,
            markdown: style.map(Painter::boxed),
            begun: false,
            open_line: false,
            reported: false,
        };
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                output.next_text().await.unwrap();
            }
            output.text(text).await.unwrap();
        }
        output.end_line().await.unwrap();
        String::from_utf8(output.to).unwrap()
    }

    #[tokio::test]
    async fn one_text_ends_before_the_next_begins() {
        let style = Style::plain(Some(40));
        let texts = ["```\nopen", "# next\nand", "last"];
        let rows = written(Some(style), &texts).await;
        assert_eq!("```\nopen\n\n# next\nand\n\nlast\n", rows);
        assert_eq!("", written(Some(style), &["\u{1b}"]).await);
        assert_eq!("```\nopen# next\nandlast\n", written(None, &texts).await);
    }
}
