//! What is said of a program that wants a terminal: commands have none, so that nothing of it gets onto anybody's screen.

use super::setting::Setting;
use crate::core::command::{self, Dialect};
use crate::core::destructive::{self, Danger};

/// Stands behind what such a program printed.
pub const NONE: &str =
    "[aish] commands have no terminal here; what needs one runs in a shell of your own";
/// How far from its end a text is looked through.
const END_BYTES: usize = 4 << 10;
/// What programs say that found none.
const COMPLAINTS: [&str; 7] = [
    "not a terminal",
    "not to a terminal",
    "not a tty",
    "failed tty get",
    "/dev/tty",
    "error opening terminal",
    "terminal is required",
];

/// Whether a command that failed with this output may have failed for want of a terminal.
#[must_use]
pub fn is_missed(command: &str, setting: &Setting, output: &str) -> bool {
    let mut begin = output.len().saturating_sub(END_BYTES);
    while !output.is_char_boundary(begin) {
        begin += 1;
    }
    let end = output[begin..].to_ascii_lowercase();
    COMPLAINTS.iter().any(|it| end.contains(it)) || is_interactive(command, setting)
}

fn is_interactive(command: &str, setting: &Setting) -> bool {
    let reading = command::read(command, Dialect::of(&setting.shell));
    let cwd = std::path::Path::new(&setting.cwd);
    let dangers = destructive::judge(&reading, command, &[cwd.to_path_buf()], cwd);
    dangers.contains(&Danger::Interactive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::shell::setting::tests::setting;

    #[track_caller]
    fn check(command: &str, output: &str, expected: bool) {
        let setting = setting(&[], "/w");
        assert_eq!(expected, is_missed(command, &setting, output), "{command}");
    }

    #[test]
    fn what_wants_a_terminal_is_known_by_its_name_or_its_complaint() {
        check("vim file", "", true);
        check("sudo nano /etc/hosts", "", true);
        check("top", "top: failed tty get\n", true);
        check("tmux", "open terminal failed: not a terminal\n", true);
        check("false", "é".repeat(END_BYTES).as_str(), false);
        check("make", "error: no rule\n", false);
        let long_ago = format!("not a tty\n{}", "x".repeat(END_BYTES));
        check("make", &long_ago, false);
    }
}
