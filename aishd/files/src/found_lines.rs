//! What the searcher finds in one file: matching lines and those around them, as many as are wanted, cut around the match
//! where they are long.

use std::io;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};

use crate::call::SearchOutput;
use crate::shown::without_end;
use crate::text::shown_bytes;

/// Bytes of a line that are shown.
const LINE_BYTES: usize = 400;
/// Of them before the match.
const BEFORE_MATCH: usize = 80;

/// Where what is found in one file goes.
pub(crate) struct FoundLines<'a> {
    matcher: &'a RegexMatcher,
    output: SearchOutput,
    /// Matching lines that are still passed over.
    skip: &'a mut u64,
    /// Matching lines that there is still room for.
    room: &'a mut u64,
    /// Lines before a match whose match is still to come.
    waiting: Vec<(u64, String)>,
    /// The last line that was shown.
    last: Option<u64>,
    pub(crate) text: String,
    pub(crate) count: u64,
    /// There was one more match than there was room for.
    pub(crate) has_more: bool,
    pub(crate) is_binary: bool,
    pub(crate) has_cut: bool,
}

impl<'a> FoundLines<'a> {
    pub(crate) fn of(
        matcher: &'a RegexMatcher,
        output: SearchOutput,
        skip: &'a mut u64,
        room: &'a mut u64,
    ) -> Self {
        Self {
            matcher,
            output,
            skip,
            room,
            waiting: vec![],
            last: None,
            text: String::new(),
            count: 0,
            has_more: false,
            is_binary: false,
            has_cut: false,
        }
    }

    fn push(&mut self, number: u64, sign: char, line: &str) {
        if self.last.is_some_and(|last| last + 1 < number) {
            self.text.push_str("--\n");
        }
        self.last = Some(number);
        self.text.push_str(&format!("{number}{sign} {line}\n"));
    }

    fn line(&mut self, bytes: &[u8]) -> String {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.len() <= LINE_BYTES {
            let (text, _invalid) = shown_bytes(bytes);
            return without_end(&text).to_owned();
        }
        self.has_cut = true;
        let found = self.matcher.find(bytes).ok().flatten();
        let begin = found.map_or(0, |it| it.start().saturating_sub(BEFORE_MATCH));
        let begin = character(bytes, begin);
        let end = character(bytes, (begin + LINE_BYTES).min(bytes.len()));
        let (text, _invalid) = shown_bytes(&bytes[begin..end]);
        let before = if begin > 0 { "…" } else { "" };
        let after = if end < bytes.len() { "…" } else { "" };
        format!("{before}{text}{after} [a line of {} bytes]", bytes.len())
    }
}

/// Where the character begins that a byte is part of.
fn character(bytes: &[u8], at: usize) -> usize {
    let is_inside = |at: &usize| bytes.get(*at).is_some_and(|it| it & 0xc0 == 0x80);
    let mut steps = (at.saturating_sub(3)..=at).rev();
    steps.find(|it| !is_inside(it)).unwrap_or(at)
}

impl Sink for &mut FoundLines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.output {
            SearchOutput::Count => {
                self.count += 1;
                return Ok(true);
            }
            SearchOutput::FilesWithMatches => {
                self.count += 1;
                return Ok(false);
            }
            SearchOutput::Content => {}
        }
        if *self.skip > 0 {
            *self.skip -= 1;
            self.waiting.clear();
            return Ok(true);
        }
        if *self.room == 0 {
            self.has_more = true;
            return Ok(false);
        }
        *self.room -= 1;
        self.count += 1;
        for (number, line) in std::mem::take(&mut self.waiting) {
            self.push(number, '-', &line);
        }
        let line = self.line(found.bytes());
        self.push(found.line_number().unwrap_or(0), ':', &line);
        Ok(true)
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let number = context.line_number().unwrap_or(0);
        let line = self.line(context.bytes());
        match context.kind() {
            SinkContextKind::Before => self.waiting.push((number, line)),
            // Those behind a match that was passed over are passed over too.
            SinkContextKind::After | SinkContextKind::Other if self.count > 0 => {
                self.push(number, '-', &line);
            }
            SinkContextKind::After | SinkContextKind::Other => {}
        }
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _at: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(true)
    }

    fn finish(&mut self, _searcher: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.is_binary |= end.binary_byte_offset().is_some();
        Ok(())
    }
}
