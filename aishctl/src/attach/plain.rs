//! A window without a terminal: lines of stdin in, rows on stdout, nothing else.

use aish_proto::config::NotifyMethod;
use aish_proto::id::ConfirmId;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use super::attention::{LastSeen, TerminalFocus};
use super::ui::{CompletionNames, EditorErrand, LinePurpose, PromptHead, UserInput, UserInterface};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::picture::area::{CellPixels, PictureArea};

#[derive(Debug)]
pub(crate) struct PlainWindow<R, O> {
    from: R,
    to: O,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    ended: bool,
}

impl<R, O> PlainWindow<R, O> {
    pub(crate) fn new(from: R, to: O) -> Self {
        Self {
            from,
            to,
            line: Vec::new(),
            ended: false,
        }
    }
}

impl<R: AsyncBufRead + Unpin, O: AsyncWrite + Unpin> UserInterface for PlainWindow<R, O> {
    async fn next(&mut self) -> Result<UserInput, Failure> {
        if self.ended {
            return Ok(UserInput::End);
        }
        let read = self
            .from
            .read_until(b'\n', &mut self.line)
            .await
            .map_err(|error| Failure::new(Exit::FAILED, format!("cannot read stdin: {error}")))?;
        self.ended = read == 0;
        if self.ended && self.line.is_empty() {
            return Ok(UserInput::End);
        }
        // At the end too: a last line without its line feed may have come while we did something else.
        let line = std::mem::take(&mut self.line);
        Ok(UserInput::Line(
            String::from_utf8_lossy(&line).into_owned(),
            None,
        ))
    }

    async fn show(&mut self, text: String) -> Result<(), Failure> {
        let written = async {
            self.to.write_all(text.as_bytes()).await?;
            self.to.flush().await
        };
        written.await.map_err(|error| Failure::output(&error))
    }

    fn live(&mut self, _: Option<String>) {}

    fn has_room(&self) -> bool {
        true
    }

    fn head(&mut self, _: PromptHead) {}

    /// Nobody sees it: only a command that names the question answers it.
    fn show_question(&mut self, _: Option<ConfirmId>) {}
    fn lines(&mut self, _: LinePurpose) {}

    fn errand(&mut self, _: EditorErrand) {}

    fn send(&mut self, _: &str) -> bool {
        false
    }

    fn ask_terminal(&mut self, _: &str) {}

    fn picture_area(&self, _: Option<CellPixels>) -> Option<PictureArea> {
        None
    }

    fn ring(&mut self, _: &str, _: NotifyMethod) {}

    fn waiting(&mut self, _: &str, _: usize) {}

    /// A pipe is never looked at by anybody.
    fn last_seen(&self) -> LastSeen {
        LastSeen {
            keyed_at: Instant::now(),
            focus: TerminalFocus::Here,
        }
    }

    fn names(&mut self, _: CompletionNames) {}

    fn leaving_is_near(&mut self) {}

    fn resumed(&mut self) {}

    fn columns(&self) -> Option<usize> {
        None
    }
}
