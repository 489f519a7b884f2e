//! The pages of the protocol as the tests read them: headings, and under them exchanges in fenced blocks. A long frame
//! stands on several lines.
//!
//! ````text
//! ### turn/send
//! ```json-lines second upstream=held
//! → {"jsonrpc":"2.0","id":1,"method":"turn/send","params":{…}}
//! ← {"jsonrpc":"2.0","id":1,"result":{…}}
//! ```
//! ````
//!
//! What follows `json-lines` is not shown by a viewer: the name of the connection (`main` when there is none),
//! and `name=value` for the test that replays the document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{pretty, repository};

const FENCE: &str = "```json-lines";
pub const SENT: &str = "→ ";
pub const RECEIVED: &str = "← ";

/// One fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The `###` heading it stands under.
    pub heading: String,
    pub connection: String,
    pub options: BTreeMap<String, String>,
    /// What stands between the fences, each frame as one line.
    pub lines: Vec<String>,
    /// Index of the line after the opening fence.
    first: usize,
    /// How many lines of the page they take.
    height: usize,
}

/// The entrance to the pages, which lists them in the order in which they are played.
pub const ENTRANCE: &str = "docs/PROTOCOL.md";

/// The pages of the protocol in their order. Panics when the entrance does not list each of them once.
#[track_caller]
pub fn pages() -> Vec<PathBuf> {
    let entrance = repository::text(Path::new(ENTRANCE)).expect("it is text");
    let pages: Vec<PathBuf> = entrance
        .split("](protocol/")
        .skip(1)
        .filter_map(|it| it.split_once(')'))
        .map(|(name, _)| Path::new("docs/protocol").join(name))
        .collect();
    let listed: BTreeSet<&PathBuf> = pages.iter().collect();
    let there: Vec<PathBuf> = repository::files()
        .into_iter()
        .filter(|it| it.starts_with("docs/protocol"))
        .collect();
    assert_eq!(listed, there.iter().collect(), "{ENTRANCE} lists the pages");
    assert_eq!(pages.len(), there.len(), "{ENTRANCE} lists each page once");
    pages
}

/// A document in lines, and its blocks in order.
#[derive(Clone, Debug)]
pub struct Document {
    lines: Vec<String>,
    pub blocks: Vec<Block>,
}

impl Document {
    /// Panics when a fence is not closed.
    #[track_caller]
    pub fn parse(text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut blocks = vec![];
        let mut heading = String::new();
        let mut at = 0;
        while at < lines.len() {
            if let Some(name) = lines[at].strip_prefix("### ") {
                name.clone_into(&mut heading);
            }
            if let Some(info) = lines[at].strip_prefix(FENCE) {
                let first = at + 1;
                let length = lines[first..].iter().position(|it| it == "```");
                let length =
                    length.unwrap_or_else(|| panic!("line {first}: the fence is not closed"));
                let mut connection = "main".to_owned();
                let mut options = BTreeMap::new();
                for word in info.split_whitespace() {
                    match word.split_once('=') {
                        Some((name, value)) => {
                            options.insert(name.to_owned(), value.to_owned());
                        }
                        None => word.clone_into(&mut connection),
                    }
                }
                blocks.push(Block {
                    heading: heading.clone(),
                    connection,
                    options,
                    lines: frames(&lines[first..first + length]),
                    first,
                    height: length,
                });
                at = first + length;
            }
            at += 1;
        }
        Self { lines, blocks }
    }

    /// Whether a frame is not shown as [`Self::with_lines`] shows it.
    pub fn is_shown_otherwise(&self) -> bool {
        self.blocks.iter().any(|block| {
            let shown: Vec<String> = block.lines.iter().flat_map(|it| shown(it)).collect();
            shown != self.lines[block.first..block.first + block.height]
        })
    }

    /// The names of its `###` headings.
    pub fn headings(&self) -> Vec<&str> {
        self.lines
            .iter()
            .filter_map(|it| it.strip_prefix("### "))
            .collect()
    }

    /// The text with other lines in its blocks, one list for each block.
    #[track_caller]
    pub fn with_lines(&self, replaced: &[Vec<String>]) -> String {
        assert_eq!(self.blocks.len(), replaced.len(), "a list for each block");
        let mut text = String::new();
        let mut at = 0;
        for (block, lines) in self.blocks.iter().zip(replaced) {
            let shown = lines.iter().flat_map(|it| shown(it));
            for line in self.lines[at..block.first].iter().cloned().chain(shown) {
                text.push_str(&line);
                text.push('\n');
            }
            at = block.first + block.height;
        }
        for line in &self.lines[at..] {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// Frames that stand on one or several lines, each as one line.
fn frames(lines: &[String]) -> Vec<String> {
    let mut frames: Vec<String> = vec![];
    for line in lines {
        let begins = [SENT, RECEIVED].iter().any(|it| line.starts_with(it));
        match frames.last_mut() {
            Some(frame) if !begins => frame.push_str(line.trim_start()),
            _ => frames.push(line.clone()),
        }
    }
    for frame in &mut frames {
        for mark in [SENT, RECEIVED] {
            if let Some(json) = frame.strip_prefix(mark) {
                *frame = format!("{mark}{}", pretty::compact(json));
            }
        }
    }
    frames
}

/// The lines in which a frame is shown.
fn shown(frame: &str) -> Vec<String> {
    let mark = [SENT, RECEIVED]
        .into_iter()
        .find(|it| frame.starts_with(it));
    let mark = mark.unwrap_or_default();
    pretty::lines(mark, &frame[mark.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# P\n### a/b\nText.\n```json-lines\n→ 1\n← 2\n```\n### event\n```json\nno\n```\n```json-lines two upstream=held\n```\nend\n";

    #[test]
    fn blocks_know_their_heading_and_connection() {
        let document = Document::parse(TEXT);
        assert_eq!(vec!["a/b", "event"], document.headings());
        let [one, two] = &document.blocks[..] else {
            panic!("two blocks: {document:?}");
        };
        assert_eq!(
            ("a/b", "main"),
            (one.heading.as_str(), one.connection.as_str())
        );
        assert_eq!(vec!["→ 1", "← 2"], one.lines);
        assert_eq!(
            ("event", "two"),
            (two.heading.as_str(), two.connection.as_str())
        );
        assert_eq!("held", two.options["upstream"]);
    }

    #[test]
    fn lines_are_replaced_in_their_place() {
        let document = Document::parse(TEXT);
        let same: Vec<_> = document.blocks.iter().map(|it| it.lines.clone()).collect();
        assert_eq!(TEXT, document.with_lines(&same));
        let other = document.with_lines(&[vec![], vec!["← 3".to_owned()]]);
        assert!(other.contains("upstream=held\n← 3\n```\nend\n"), "{other}");
        assert!(!other.contains("→ 1"));
    }
}
