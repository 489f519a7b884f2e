//! A conversation, picked from all of them: what is typed filters, arrows move, Enter takes one and Esc none. This is the
//! state and how it looks; the terminal is in [`terminal`].

mod keys;
pub(crate) mod terminal;

use std::fmt::Write as _;
use std::time::SystemTime;

use aish_proto::conversation::ConversationStatus;
use aish_proto::id::ConversationId;
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use self::keys::PickKey;
use crate::environment::ClientEnvironment;
use crate::global_args::GlobalArgs;
use crate::render::conversation_list::ConversationList;
use crate::render::fork_tree::{self, TreeEntry};
use crate::render::{ago, screen, table};
use crate::safe;

/// Before the one that is picked, and before all others.
const HERE: &str = "> ";
const ELSEWHERE: &str = "  ";
const ASKED: &str = "switch to: ";

/// Conversations, and which of them is picked so far.
#[derive(Debug)]
pub(crate) struct Picker {
    entries: Vec<TreeEntry>,
    /// What is looked through, for each of them.
    texts: Vec<String>,
    home: Option<String>,
    now: SystemTime,
    typed: String,
    /// Positions of those that fit what was typed, the best first.
    found: Vec<usize>,
    /// Which of those it is.
    at: usize,
}

/// What a key came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PickProgress {
    GoesOn,
    Taken(ConversationId),
    Left,
}

impl Picker {
    /// Copies stand below their originals. The one that is `open` is not what somebody looks for who would go elsewhere.
    pub(crate) fn new(
        found: Vec<ConversationStatus>,
        open: Option<ConversationId>,
        global: &GlobalArgs,
        around: &ClientEnvironment,
    ) -> Self {
        let last_used = found.iter().map(|it| it.id).find(|it| Some(*it) != open);
        let entries = fork_tree::tree(found, screen::glyphs(global.looks, around));
        let at = entries
            .iter()
            .position(|it| Some(it.conversation.id) == last_used);
        let text = |it: &TreeEntry| format!("{} {}", it.conversation.title, it.conversation.cwd);
        Self {
            texts: entries.iter().map(text).collect(),
            found: (0..entries.len()).collect(),
            entries,
            home: around.variable("HOME").map(str::to_owned),
            now: ago::now(),
            typed: String::new(),
            at: at.unwrap_or_default(),
        }
    }

    fn press(&mut self, key: PickKey, rows: usize) -> PickProgress {
        match key {
            PickKey::Text(it) => {
                self.typed.push(it);
                self.filter();
            }
            PickKey::Backspace => {
                self.typed.pop();
                self.filter();
            }
            PickKey::Clear => {
                self.typed.clear();
                self.filter();
            }
            PickKey::Up => self.at = self.at.saturating_sub(1),
            PickKey::Down => self.move_down(1),
            PickKey::PageUp => self.at = self.at.saturating_sub(rows),
            PickKey::PageDown => self.move_down(rows),
            PickKey::Leave => return PickProgress::Left,
            PickKey::Enter => {
                let taken = self.found.get(self.at).and_then(|it| self.entries.get(*it));
                if let Some(taken) = taken {
                    return PickProgress::Taken(taken.conversation.id);
                }
            }
        }
        PickProgress::GoesOn
    }

    fn move_down(&mut self, rows: usize) {
        let last = self.found.len().saturating_sub(1);
        self.at = (self.at + rows).min(last);
    }

    fn filter(&mut self) {
        self.at = 0;
        if self.typed.trim().is_empty() {
            self.found = (0..self.entries.len()).collect();
            return;
        }
        let pattern = Pattern::parse(&self.typed, CaseMatching::Smart, Normalization::Smart);
        let mut matcher = Matcher::new(Config::DEFAULT);
        let mut scored = vec![];
        let mut buffer = vec![];
        for (at, text) in self.texts.iter().enumerate() {
            let text = Utf32Str::new(text, &mut buffer);
            scored.extend(pattern.score(text, &mut matcher).map(|it| (it, at)));
        }
        // Of equals the one that was used last.
        scored.sort_by_key(|(score, at)| (std::cmp::Reverse(*score), *at));
        self.found = scored.into_iter().map(|it| it.1).collect();
    }

    /// All of a screen of this size, with the cursor behind what was typed.
    fn drawn(&self, (columns, rows): (usize, usize)) -> String {
        let mut drawn = String::from("\u{1b}[?2026h\u{1b}[H\u{1b}[2J\u{1b}[?7l");
        let list = self.list(columns);
        let height = list_rows(rows);
        let first = (self.at + 1).saturating_sub(height);
        let shown = list.iter().enumerate().skip(first).take(height);
        for (row, (at, line)) in shown.enumerate() {
            let (mark, on, off) = if at == self.at {
                (HERE, "\u{1b}[7m", "\u{1b}[0m")
            } else {
                (ELSEWHERE, "", "")
            };
            // Writing to a string cannot fail.
            let _ = write!(drawn, "\u{1b}[{};1H{on}{mark}{line}{off}", row + 2);
        }
        let (count, all) = (self.found.len(), self.entries.len());
        let said = format!("{count} of {all} · Enter opens, Esc leaves");
        let said = table::cut(&said, columns);
        let asked = table::cut(&format!("{ASKED}{}", safe::one_line(&self.typed)), columns);
        let _ = write!(
            drawn,
            "\u{1b}[{rows};1H{said}\u{1b}[1;1H{asked}\u{1b}[?7h\u{1b}[?2026l"
        );
        drawn
    }

    /// A row for each that was found.
    fn list(&self, columns: usize) -> Vec<String> {
        let is_tree = self.typed.trim().is_empty();
        let found = self.found.iter().filter_map(|it| self.entries.get(*it));
        let entries = found.cloned().map(|entry| TreeEntry {
            branch: if is_tree { entry.branch } else { String::new() },
            ..entry
        });
        let room = columns.saturating_sub(HERE.len());
        ConversationList::new(
            entries.collect(),
            self.home.as_deref(),
            self.now,
            Some(room),
        )
        .rows()
    }
}

/// Between what was typed and what is said of it.
fn list_rows(rows: usize) -> usize {
    rows.saturating_sub(2).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_daemon;

    fn picker(titles: &[(&str, Option<u8>)], open: Option<u8>) -> Picker {
        let id = |byte| ConversationId::from_bytes([byte; 16]);
        let found = titles.iter().zip(1..).map(|((title, of), byte)| {
            let mut status = test_daemon::status(title, byte);
            if let Some(of) = of {
                status["forkedFrom"] = json!({"conversation": id(*of), "seq": 3});
            }
            serde_json::from_value(status).unwrap()
        });
        let around = ClientEnvironment::default();
        Picker::new(
            found.collect(),
            open.map(id),
            &GlobalArgs::default(),
            &around,
        )
    }

    /// The titles that are shown and which is picked, after these keys.
    #[track_caller]
    fn check(picker: &mut Picker, keys: &[PickKey], expected: &[&str]) {
        for key in keys {
            assert_eq!(PickProgress::GoesOn, picker.press(*key, 5));
        }
        let rows: Vec<String> = picker
            .list(60)
            .iter()
            .enumerate()
            .map(|(at, row)| {
                let title = row.trim_start_matches(['○', ' ']);
                let title = title.split("  ").next().unwrap_or_default();
                format!("{}{title}", if at == picker.at { ">" } else { "" })
            })
            .collect();
        assert_eq!(expected, rows);
    }

    #[test]
    fn what_is_typed_filters_and_keys_move() {
        let titles = [
            ("linker trouble", None),
            ("linker trouble (fork)", Some(1)),
            ("holiday plan", None),
        ];
        let mut picker = picker(&titles, Some(1));
        let all = ["linker trouble", ">└ linker trouble (fork)", "holiday plan"];
        check(&mut picker, &[], &all);
        check(
            &mut picker,
            &[PickKey::Down, PickKey::Down],
            &["linker trouble", "└ linker trouble (fork)", ">holiday plan"],
        );
        let typed = "hopl".chars().map(PickKey::Text);
        check(&mut picker, &typed.collect::<Vec<_>>(), &[">holiday plan"]);
        check(&mut picker, &[PickKey::Text('q')], &[]);
        assert_eq!(PickProgress::GoesOn, picker.press(PickKey::Enter, 5));
        check(&mut picker, &[PickKey::Backspace], &[">holiday plan"]);
        let taken = picker.press(PickKey::Enter, 5);
        let third = ConversationId::from_bytes([3; 16]);
        assert_eq!(PickProgress::Taken(third), taken);
        check(
            &mut picker,
            &[PickKey::Clear, PickKey::PageDown, PickKey::Up],
            &["linker trouble", ">└ linker trouble (fork)", "holiday plan"],
        );
        assert_eq!(PickProgress::Left, picker.press(PickKey::Leave, 5));
    }

    /// The screen as an emulator has it.
    #[test]
    fn it_fits_on_a_small_screen_and_the_one_picked_is_in_sight() {
        let titles: Vec<String> = (0..50).map(|it| format!("conversation {it}")).collect();
        let titles: Vec<(&str, Option<u8>)> = titles.iter().map(|it| (it.as_str(), None)).collect();
        let mut picker = picker(&titles, None);
        for _ in 0..20 {
            picker.press(PickKey::Down, 5);
        }
        picker.press(PickKey::Text('c'), 5);
        for _ in 0..9 {
            picker.press(PickKey::Down, 5);
        }
        let size = (
            std::num::NonZeroU16::new(6).unwrap(),
            std::num::NonZeroU16::new(40).unwrap(),
        );
        let mut emulator = vt100::Parser::new(size.0, size.1, 0);
        emulator.process(picker.drawn((40, 6)).as_bytes());
        let rows: Vec<String> = emulator.screen().rows(0, 40).collect();
        assert_eq!("switch to: c", rows[0].trim_end());
        assert!(rows[4].starts_with("> ○  conversation 9 "), "{rows:#?}");
        assert_eq!("50 of 50 · Enter opens, Esc leaves", rows[5].trim_end());
        assert_eq!((0, 12), emulator.screen().cursor_position());
    }
}
