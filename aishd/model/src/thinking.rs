//! Thinking that a model writes into its answer, between tags at the very start: told apart from the answer while it streams,
//! however the stream is cut. Later tags, and those in code, are text.

use aish_proto::proposed::outside_code;

/// What a model may begin with, and what ends it.
const TAGS: [(&str, &str); 4] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("[THINK]", "[/THINK]"),
];
/// White space that may stand before a tag.
const MOST_SPACE: usize = 64;

/// How a preset's answers begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingStart {
    /// With a tag, if the model thinks; where its template has written the tag already, that is learned.
    #[default]
    Auto,
    /// In the middle of thinking.
    Open,
    /// Tags are text.
    Off,
}

/// A piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerPart<'a> {
    Thinking(&'a str),
    Text(&'a str),
}

/// Tells thinking and text apart. What may be the beginning of a tag is held back until it is known.
#[derive(Debug)]
pub struct Splitter {
    phase: ThinkingPhase,
    held: String,
    /// The answer begins in thinking, with or without a tag.
    is_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThinkingPhase {
    /// Nothing but white space and the beginning of a tag has come.
    Start,
    /// Nothing but white space has come of the thinking.
    Opened(ThinkingEnd),
    Inside(ThinkingEnd),
    /// Nothing but white space has come since its end.
    Closed,
    Text,
}

/// What ends the thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThinkingEnd {
    Of(&'static str),
    Any,
}

/// How it stands at the end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingStatus {
    /// All of it was thinking, and no tag has said so.
    OnlyOpen,
    /// All of it was text.
    OnlyText,
    /// There was a tag.
    Tagged,
}

impl Splitter {
    pub fn new(think: ThinkingStart) -> Self {
        Self {
            phase: match think {
                ThinkingStart::Auto | ThinkingStart::Open => ThinkingPhase::Start,
                ThinkingStart::Off => ThinkingPhase::Text,
            },
            held: String::new(),
            is_open: think == ThinkingStart::Open,
        }
    }

    /// Takes the next piece of the answer.
    pub fn push<'a>(&'a mut self, text: &'a str, mut sink: impl FnMut(AnswerPart<'_>)) {
        if self.phase == ThinkingPhase::Text && self.held.is_empty() {
            // By far the most.
            sink(AnswerPart::Text(text));
            return;
        }
        let mut rest = std::mem::take(&mut self.held);
        rest.push_str(text);
        self.held = self.take(&rest, &mut sink).to_owned();
    }

    /// The end of the answer: what was held back is what it looks like.
    pub fn finish(&mut self, mut sink: impl FnMut(AnswerPart<'_>)) -> ThinkingStatus {
        let held = std::mem::take(&mut self.held);
        match self.phase {
            ThinkingPhase::Start if self.is_open => {
                let thought = held.trim_ascii_start();
                if !thought.is_empty() {
                    sink(AnswerPart::Thinking(thought));
                }
                return ThinkingStatus::OnlyOpen;
            }
            ThinkingPhase::Start | ThinkingPhase::Text => {
                if !held.is_empty() {
                    sink(AnswerPart::Text(&held));
                }
            }
            ThinkingPhase::Opened(_) | ThinkingPhase::Inside(_) => {
                if !held.is_empty() {
                    sink(AnswerPart::Thinking(&held));
                }
            }
            ThinkingPhase::Closed => {}
        }
        match self.phase {
            ThinkingPhase::Opened(ThinkingEnd::Any) | ThinkingPhase::Inside(ThinkingEnd::Any) => {
                ThinkingStatus::OnlyOpen
            }
            ThinkingPhase::Start | ThinkingPhase::Text if !self.is_open => ThinkingStatus::OnlyText,
            ThinkingPhase::Start
            | ThinkingPhase::Text
            | ThinkingPhase::Opened(ThinkingEnd::Of(_))
            | ThinkingPhase::Inside(ThinkingEnd::Of(_))
            | ThinkingPhase::Closed => ThinkingStatus::Tagged,
        }
    }

    /// Hands on what is known of it, and returns what is to be held back.
    fn take<'t>(&mut self, mut rest: &'t str, sink: &mut impl FnMut(AnswerPart<'_>)) -> &'t str {
        loop {
            match self.phase {
                ThinkingPhase::Start => {
                    let text = rest.trim_ascii_start();
                    let is_short = rest.len() - text.len() <= MOST_SPACE;
                    let opened = TAGS.iter().find(|(tag, _)| text.starts_with(tag));
                    let may_open = || TAGS.iter().any(|(tag, _)| tag.starts_with(text));
                    if let Some((tag, end)) = opened.filter(|_| is_short) {
                        self.phase = ThinkingPhase::Opened(ThinkingEnd::Of(end));
                        rest = &text[tag.len()..];
                    } else if is_short && may_open() {
                        return rest;
                    } else if self.is_open {
                        self.phase = ThinkingPhase::Opened(ThinkingEnd::Any);
                    } else {
                        self.phase = ThinkingPhase::Text;
                    }
                }
                ThinkingPhase::Opened(ends) => {
                    rest = rest.trim_ascii_start();
                    if rest.is_empty() {
                        return "";
                    }
                    self.phase = ThinkingPhase::Inside(ends);
                }
                ThinkingPhase::Inside(ends) => {
                    let found = ends.all().filter_map(|it| Some((rest.find(it)?, it)));
                    if let Some((at, end)) = found.min_by_key(|(at, _)| *at) {
                        if at > 0 {
                            sink(AnswerPart::Thinking(&rest[..at]));
                        }
                        self.phase = ThinkingPhase::Closed;
                        rest = &rest[at + end.len()..];
                        continue;
                    }
                    let known =
                        rest.len() - ends.all().map(|it| begun(rest, it)).max().unwrap_or(0);
                    if known > 0 {
                        sink(AnswerPart::Thinking(&rest[..known]));
                    }
                    return &rest[known..];
                }
                ThinkingPhase::Closed => {
                    rest = rest.trim_ascii_start();
                    if rest.is_empty() {
                        return "";
                    }
                    self.phase = ThinkingPhase::Text;
                }
                ThinkingPhase::Text => {
                    if !rest.is_empty() {
                        sink(AnswerPart::Text(rest));
                    }
                    return "";
                }
            }
        }
    }
}

impl ThinkingEnd {
    fn all(self) -> impl Iterator<Item = &'static str> {
        TAGS.iter()
            .map(|(_, end)| *end)
            .filter(move |end| match self {
                Self::Of(own) => own == *end,
                Self::Any => true,
            })
    }
}

/// How many bytes at the end of a text are the beginning of a tag.
fn begun(text: &str, tag: &str) -> usize {
    (1..tag.len())
        .rev()
        .find(|length| text.ends_with(&tag[..*length]))
        .unwrap_or(0)
}

/// Thinking and answer of a text that was not known to begin in thinking: an end without a beginning, alone at the end of
/// its line and outside of code, shows that it did. `None`: it did not.
pub fn lone_end(text: &str) -> Option<(&str, &str)> {
    // Most answers end here.
    if !TAGS.iter().any(|(_, end)| text.contains(end)) {
        return None;
    }
    for line in outside_code(text) {
        let written = line.trim_ascii_end();
        let end = TAGS
            .iter()
            .map(|(_, end)| *end)
            .find(|it| written.ends_with(it));
        if let Some(end) = end {
            let line_begins = line.as_ptr() as usize - text.as_ptr() as usize;
            let tag_begins = line_begins + written.len() - end.len();
            let before = &text[..tag_begins];
            let is_quoted = before[line_begins..].matches('`').count() % 2 == 1;
            if !is_quoted && TAGS.iter().all(|(tag, _)| !before.contains(tag)) {
                let answer = text[tag_begins + end.len()..].trim_ascii_start();
                return Some((before.trim_ascii(), answer));
            }
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Thinking and text of an answer that arrives in these pieces.
    fn split<'a>(
        think: ThinkingStart,
        pieces: impl IntoIterator<Item = &'a str>,
    ) -> (String, String) {
        let mut splitter = Splitter::new(think);
        let (mut thinking, mut text) = (String::new(), String::new());
        let mut take = |part: AnswerPart<'_>| match part {
            AnswerPart::Thinking(piece) => thinking.push_str(piece),
            AnswerPart::Text(piece) => text.push_str(piece),
        };
        for piece in pieces {
            splitter.push(piece, &mut take);
        }
        splitter.finish(&mut take);
        (thinking, text)
    }

    #[track_caller]
    fn check(think: ThinkingStart, answer: &str, thinking: &str, text: &str) {
        let expected = (thinking.to_owned(), text.to_owned());
        assert_eq!(expected, split(think, [answer]), "{answer:?}");
        for at in (0..=answer.len()).filter(|it| answer.is_char_boundary(*it)) {
            let (one, two) = answer.split_at(at);
            assert_eq!(expected, split(think, [one, two]), "{one:?} {two:?}");
        }
        let mut buffer = [0; 4];
        let letters: Vec<String> = answer
            .chars()
            .map(|it| it.encode_utf8(&mut buffer).to_owned())
            .collect();
        let letters = letters.iter().map(String::as_str);
        assert_eq!(expected, split(think, letters), "{answer:?}");
    }

    #[test]
    fn what_stands_between_tags_at_the_very_start_is_thinking() {
        let auto = |answer, thinking, text| check(ThinkingStart::Auto, answer, thinking, text);
        auto("<think>plan b</think>\n\nYes", "plan b", "Yes");
        auto(
            "\n <think>\nplan b</think>Yes <think>",
            "plan b",
            "Yes <think>",
        );
        auto("<thinking>a</think></thinking>Yes", "a</think>", "Yes");
        auto("<thought>ü</thought> ja", "ü", "ja");
        auto("[THINK]a[/THINK]b", "a", "b");
        auto("<think></think>\n\nYes", "", "Yes");
        auto("<think>never closed </thin", "never closed </thin", "");
    }

    #[test]
    fn every_other_tag_is_text() {
        for answer in [
            "Yes <think>no</think>",
            "`<think>` opens",
            "```\n<think>\n```",
            "<thinker>",
            "<Think>x</Think>",
            "<th",
            "\n\n Hello",
            "[THINKING]",
            "",
            "> <think>quoted</think>",
        ] {
            check(ThinkingStart::Auto, answer, "", answer);
        }
        let far = format!("{}<think>a</think>b", " ".repeat(MOST_SPACE + 1));
        check(ThinkingStart::Auto, &far, "", &far);
        check(
            ThinkingStart::Off,
            "<think>a</think>b",
            "",
            "<think>a</think>b",
        );
    }

    #[test]
    fn an_answer_can_begin_in_the_middle_of_thinking() {
        check(
            ThinkingStart::Open,
            "plan b</think>\n\nYes",
            "plan b",
            "Yes",
        );
        check(
            ThinkingStart::Open,
            "\nplan[/THINK]Yes </think>",
            "plan",
            "Yes </think>",
        );
        check(ThinkingStart::Open, "<think>plan</think>Yes", "plan", "Yes");
        check(ThinkingStart::Open, "<th", "<th", "");
        check(ThinkingStart::Open, "only text", "only text", "");
    }

    #[test]
    fn an_end_without_a_beginning_shows_that_all_before_it_was_thinking() {
        assert_eq!(Some(("plan b", "Yes")), lone_end("plan b</think>\n\nYes"));
        assert_eq!(
            Some(("a\nb", "Yes")),
            lone_end("a\nb\n</think>\nYes\n").map(|(a, b)| (a, b.trim()))
        );
        for text in [
            "Yes.",
            "the tag </think> closes",
            "```\na</think>\n```\nb",
            "`</think>\n` is one",
            "Yes <think>a\n</think>\nb",
        ] {
            assert_eq!(None, lone_end(text), "{text:?}");
        }
    }

    proptest! {
        /// However the stream is cut, and whatever it holds.
        #[test]
        fn the_cut_makes_no_difference(
            words in prop::collection::vec(prop_oneof![
                Just("<think>"), Just("</think>"), Just("<thinking>"), Just("</thinking>"), Just("<thought>"),
                Just("[THINK]"), Just("[/THINK]"), Just("<"), Just("</"), Just("think"), Just(">"), Just(" "), Just("\n"),
                Just("a"), Just("ü漢"), Just("`"), Just("CMD: ls\n"),
            ], 0..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
            think in prop_oneof![Just(ThinkingStart::Auto), Just(ThinkingStart::Open), Just(ThinkingStart::Off)],
        ) {
            let answer = words.concat();
            let mut places: Vec<usize> = cuts.iter().map(|it| it.index(answer.len() + 1)).collect();
            places.retain(|it| answer.is_char_boundary(*it));
            places.extend([0, answer.len()]);
            places.sort_unstable();
            let pieces = places.windows(2).map(|it| &answer[it[0]..it[1]]);
            let whole = split(think, [answer.as_str()]);
            prop_assert_eq!(&whole, &split(think, pieces));
            if !whole.0.is_empty() && think == ThinkingStart::Auto {
                let starts = answer.trim_ascii_start();
                prop_assert!(TAGS.iter().any(|(tag, _)| starts.starts_with(tag)));
            }
        }

        /// No more is held back than a tag can be long, once something has come.
        #[test]
        fn little_is_held_back(answer in "[a-z<>/ \\[\\]THINK]{0,40}") {
            let mut splitter = Splitter::new(ThinkingStart::Auto);
            for letter in answer.chars() {
                splitter.push(letter.encode_utf8(&mut [0; 4]), |_part| {});
                prop_assert!(splitter.held.trim_ascii_start().len() <= 12);
            }
        }
    }
}
