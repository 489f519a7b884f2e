//! Where a text stands in a file, and putting another one there. Line ends count as equal unless the text names them, and what is
//! put in gets those of its place.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use crate::text::{LineEnds, with_windows_ends};

/// Where a text stands: not overlapping, from the beginning.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundSpans {
    pub(crate) spans: Vec<Range<usize>>,
    /// It stands there in another way too, which overlaps these.
    pub(crate) overlaps: bool,
}

impl FoundSpans {
    pub(crate) fn of(text: &str, wanted: &str) -> Self {
        let exact = Self::exact(text, wanted);
        let names_ends = wanted.contains("\r\n");
        if names_ends && !exact.spans.is_empty() {
            return exact;
        }
        let has_other_ends = wanted.contains('\n') && text.contains("\r\n");
        if !names_ends && !has_other_ends {
            return exact;
        }
        let wanted = wanted.replace("\r\n", "\n");
        let plain = PlainEnds::of(text);
        let mut found = Self::exact(&plain.text, &wanted);
        for span in &mut found.spans {
            *span = plain.original(span.start)..plain.original(span.end);
        }
        found
    }

    fn exact(text: &str, wanted: &str) -> Self {
        if wanted.is_empty() {
            return Self::default();
        }
        let finder = memmem::Finder::new(wanted);
        let spans = finder.find_iter(text.as_bytes());
        let spans: Vec<_> = spans.map(|at| at..at + wanted.len()).collect();
        // Text that is whole characters is found at their beginnings only.
        let overlaps = spans.iter().any(|it| {
            let around =
                &text.as_bytes()[it.start + 1..(it.end + wanted.len() - 1).min(text.len())];
            finder
                .find(around)
                .is_some_and(|at| it.start + 1 + at < it.end)
        });
        Self { spans, overlaps }
    }
}

/// A text without the carriage returns of its line ends, and where they were.
struct PlainEnds<'a> {
    text: Cow<'a, str>,
    /// For each, where its newline is now.
    newlines: Vec<usize>,
}

impl<'a> PlainEnds<'a> {
    fn of(text: &'a str) -> Self {
        let ends = memmem::find_iter(text.as_bytes(), b"\r\n");
        let newlines: Vec<usize> = ends.enumerate().map(|(before, at)| at - before).collect();
        let text = match newlines.is_empty() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(text.replace("\r\n", "\n")),
        };
        Self { text, newlines }
    }

    /// Where a place was in the original: at a line end before its carriage return.
    fn original(&self, at: usize) -> usize {
        at + self.newlines.partition_point(|it| *it < at)
    }
}

/// A text in which other text stands now.
#[derive(Debug)]
pub(crate) struct ReplacedText {
    pub(crate) text: String,
    /// Where that is.
    pub(crate) spans: Vec<Range<usize>>,
}

impl ReplacedText {
    pub(crate) fn of(text: &str, spans: &[Range<usize>], new: &str) -> Self {
        let ends = LineEnds::of(text);
        let windows = with_windows_ends(new);
        let mut replaced = Self {
            text: String::with_capacity(text.len()),
            spans: Vec::with_capacity(spans.len()),
        };
        let mut from = 0;
        for span in spans {
            replaced.text.push_str(&text[from..span.start]);
            let begin = replaced.text.len();
            let has_windows = match ends {
                LineEnds::Plain => false,
                LineEnds::Windows => true,
                LineEnds::Mixed { .. } => has_windows_ends(text, span),
            };
            replaced
                .text
                .push_str(if has_windows { &windows } else { new });
            replaced.spans.push(begin..replaced.text.len());
            from = span.end;
        }
        replaced.text.push_str(&text[from..]);
        replaced
    }

    /// Where places of the text before are now, of which `spans` were replaced.
    pub(crate) fn moved(&self, before: &[Range<usize>], places: &mut [Range<usize>]) {
        for place in places {
            *place = self.place(before, place.start, false)..self.place(before, place.end, true);
        }
    }

    fn place(&self, before: &[Range<usize>], at: usize, is_end: bool) -> usize {
        let passed = before.partition_point(|it| it.start < at);
        let Some(last) = passed.checked_sub(1) else {
            return at;
        };
        let (old, new) = (&before[last], &self.spans[last]);
        match (at < old.end, is_end) {
            // It begins or ends within what was replaced.
            (true, false) => new.start,
            (true, true) => new.end,
            (false, _) => at - old.end + new.end,
        }
    }
}

/// How lines end at a place: within it, else behind it, else before it.
fn has_windows_ends(text: &str, span: &Range<usize>) -> bool {
    let bytes = text.as_bytes();
    let within = memchr::memchr(b'\n', &bytes[span.clone()]).map(|it| span.start + it);
    let behind = || memchr::memchr(b'\n', &bytes[span.end..]).map(|it| span.end + it);
    let before = || memchr::memrchr(b'\n', &bytes[..span.start]);
    let newline = within.or_else(behind).or_else(before);
    newline.is_some_and(|it| bytes[..it].ends_with(b"\r"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, old: &str, new: &str, expected: &str) {
        let found = FoundSpans::of(text, old);
        let replaced = ReplacedText::of(text, &found.spans, new);
        assert_eq!(expected, replaced.text);
        for span in &replaced.spans {
            let put = replaced.text[span.clone()].replace("\r\n", "\n");
            assert_eq!(new.replace("\r\n", "\n"), put);
        }
    }

    #[test]
    fn text_is_replaced_and_line_ends_stay() {
        check("a b a", "a", "xy", "xy b xy");
        check("a\nb\n", "a\nb", "c\nd\ne", "c\nd\ne\n");
        check("a\r\nb\r\n", "a\nb", "c\nd\ne", "c\r\nd\r\ne\r\n");
        check("a\r\nb\r\n", "a\r\nb", "c\r\nd", "c\r\nd\r\n");
        check("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n");
        check("a\r\nb\r\nc", "b\n", "", "a\r\nc");
        check("a\r\nb\r\nc", "\nb", "", "a\r\nc");
        check("a\r\nb\nc\r\nd", "b\nc", "x\ny", "a\r\nx\ny\r\nd");
        check("a\nb\r\nc\nd", "b\nc", "x\ny", "a\nx\r\ny\nd");
        check("a\nb\r\nc", "c", "c\nd", "a\nb\r\nc\r\nd");
        check("a\nb", "a\r\nb", "x", "x");
        check("größe 🦀", "🦀", "日本", "größe 日本");
        check("a", "b", "c", "a");
    }

    #[test]
    fn text_that_overlaps_itself_is_found_more_than_once() {
        let check = |text: &str, wanted: &str, count: usize, overlaps: bool| {
            let found = FoundSpans::of(text, wanted);
            assert_eq!((count, overlaps), (found.spans.len(), found.overlaps));
        };
        check("aaa", "aa", 1, true);
        check("aa aa", "aa", 2, false);
        check("abab ab", "aba", 1, false);
        check("a\r\na\r\na", "a\na", 1, true);
        check("äää", "ää", 1, true);
        check("x", "", 0, false);
    }

    #[test]
    fn places_move_with_what_is_replaced_before_them() {
        let text = "one two three two";
        let first = FoundSpans::of(text, "three");
        let replaced = ReplacedText::of(text, &first.spans, "3");
        let mut places = replaced.spans.clone();
        let second = FoundSpans::of(&replaced.text, "two");
        let again = ReplacedText::of(&replaced.text, &second.spans, "zwei");
        again.moved(&second.spans, &mut places);
        assert_eq!("one zwei 3 zwei", again.text);
        assert_eq!("3", &again.text[places[0].clone()]);
    }
}
