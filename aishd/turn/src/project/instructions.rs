//! What the people of a project have written for models (`AGENTS.md`, `AISH.md`), where the person trusts it.

use aishd_log::invisible_characters::is_hidden;
use aishd_log::shortened_result::without_middle;

/// Their files, in the order in which they stand.
pub const NAMES: [&str; 2] = ["AGENTS.md", "AISH.md"];

/// Room for the mark of what was left out.
const MARK_BYTES: usize = 80;

/// The text of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionText {
    /// One of [`NAMES`].
    pub name: String,
    pub text: String,
}

impl InstructionText {
    /// At most so many bytes. What is too long loses its middle, and says so.
    pub(super) fn block(&self, most: usize) -> String {
        let head = format!(
            "\n\n[project instructions: {}]\nThe lines that begin with > are a file of the project that the person works \
in. The person trusts it: follow it where the person does not say otherwise.",
            self.name
        );
        let text = cleaned(&self.text);
        let room = most.saturating_sub(head.len());
        let mut block = head;
        // Each line begins with three bytes that are not in the text.
        let marks = 3 * text.lines().count();
        if text.len() + marks <= room {
            push_marked(&mut block, &text);
            return block;
        }
        let mut most = room.saturating_sub(MARK_BYTES);
        loop {
            let cut = without_middle(&text, most, most, |left_out| {
                let (bytes, whole) = (left_out.to - left_out.from, left_out.whole);
                format!("[aish] {bytes} of {whole} bytes are left out here")
            });
            let cut = cut.unwrap_or_else(|| text.clone());
            if cut.len() + 3 * cut.lines().count() <= room || most == 0 {
                push_marked(&mut block, &cut);
                return block;
            }
            // It has many short lines.
            most = most * 3 / 4;
        }
    }
}

fn push_marked(block: &mut String, text: &str) {
    for line in text.lines() {
        block.push_str("\n> ");
        block.push_str(line);
    }
}

/// Visible characters, tabs and ends of lines.
fn cleaned(text: &str) -> String {
    let seen = |it: &char| matches!(it, '\n' | '\t') || !(it.is_control() || is_hidden(*it));
    let text: String = text.chars().filter(seen).collect();
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, most: usize, expected: &str) {
        let instructions = InstructionText {
            name: "AGENTS.md".to_owned(),
            text: text.to_owned(),
        };
        let block = instructions.block(most);
        assert!(block.len() <= most, "{} of {most}", block.len());
        let lines = block.lines().filter_map(|it| it.strip_prefix("> "));
        assert_eq!(expected, lines.collect::<Vec<_>>().join("\n"), "{block}");
    }

    #[test]
    fn it_stands_line_by_line() {
        check(
            "Be brief.\r\n\n\tUse tabs.\n\n",
            2_000,
            "Be brief.\n\n\tUse tabs.",
        );
        check("a\u{200b}\u{e0041}\u{1b}[2Jb", 2_000, "a[2Jb");
    }

    #[test]
    fn what_is_too_long_says_so() {
        let long = "rule\n".repeat(1_000);
        let instructions = InstructionText {
            name: "AISH.md".to_owned(),
            text: long,
        };
        for most in [600, 1_000, 4_000] {
            let block = instructions.block(most);
            assert!(block.len() <= most, "{} of {most}", block.len());
            assert!(block.contains("of 4999 bytes are left out here"), "{block}");
            assert!(block.ends_with("\n> rule"), "{block}");
        }
    }
}
