//! Lines of an input that anybody may write: a line that is too long costs itself only.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Longer than any call that the daemon takes, and than any other request that makes sense.
pub(super) const MAX_LINE_BYTES: usize = 4 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineRead {
    /// Without its line feed.
    Line(Vec<u8>),
    TooLong,
    End,
}

#[derive(Debug)]
pub(super) struct GatewayLines<R> {
    from: R,
    line: Vec<u8>,
    /// The rest of the line is passed over.
    over: bool,
}

impl<R: AsyncBufRead + Unpin> GatewayLines<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            line: vec![],
            over: false,
        }
    }

    /// May be dropped: what was read is kept.
    pub(super) async fn next(&mut self) -> io::Result<LineRead> {
        loop {
            let page = self.from.fill_buf().await?;
            let ended = page.is_empty();
            let end = page.iter().position(|it| *it == b'\n');
            let taken = end.unwrap_or(page.len());
            if self.line.len() + taken > MAX_LINE_BYTES {
                self.over = true;
            }
            if self.over {
                self.line.clear();
            } else {
                self.line
                    .extend_from_slice(page.get(..taken).unwrap_or_default());
            }
            self.from.consume(taken + usize::from(end.is_some()));
            if end.is_some() && std::mem::take(&mut self.over) {
                return Ok(LineRead::TooLong);
            }
            if end.is_some() || (ended && !self.line.is_empty()) {
                return Ok(LineRead::Line(std::mem::take(&mut self.line)));
            }
            if ended {
                return Ok(LineRead::End);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_whole_and_a_huge_one_costs_itself_only() {
        let mut text = b"one\n\n".to_vec();
        text.extend(vec![b'x'; MAX_LINE_BYTES + 1]);
        text.extend(b"\ntwo");
        let mut lines = GatewayLines::new(&text[..]);
        let line = |text: &str| LineRead::Line(text.as_bytes().to_vec());
        let expected = [
            line("one"),
            line(""),
            LineRead::TooLong,
            line("two"),
            LineRead::End,
        ];
        for it in expected {
            assert_eq!(it, lines.next().await.unwrap());
        }
    }
}
