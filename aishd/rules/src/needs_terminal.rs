//! What is said of a program that wants a terminal: commands have none, so that nothing of it gets onto anybody's screen.

use std::time::Duration;

use aishd_command::command::{self, Dialect};
use aishd_command::destructive::{self, Danger, Surroundings};

use crate::command_setting::CommandSetting;

/// Stands behind what such a program printed.
pub const NONE: &str = "[aish] commands have no terminal here; what needs one runs in a shell of your own, whose directory and variables do not last here";
/// So long such a program may take to find out that nobody is there.
pub const PATIENCE: Duration = Duration::from_secs(5);
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

/// Whether a program that failed with this output says that it found none.
pub fn is_missed_in(output: &str) -> bool {
    let mut begin = output.len().saturating_sub(END_BYTES);
    while !output.is_char_boundary(begin) {
        begin += 1;
    }
    let end = output[begin..].to_ascii_lowercase();
    COMPLAINTS.iter().any(|it| end.contains(it))
}

/// Whether a command starts what is known to wait for somebody at a terminal. Some of it finds out that nobody is there, and
/// some waits for ever.
pub fn is_wanted_by(command: &str, setting: &CommandSetting) -> bool {
    let reading = command::read(command, Dialect::of(&setting.shell));
    let cwd = std::path::Path::new(&setting.cwd);
    let roots = [cwd.to_path_buf()];
    let dangers = destructive::judge(&reading, command, &roots, cwd, Surroundings::default());
    dangers.contains(&Danger::Interactive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::setting;

    #[track_caller]
    fn check(command: &str, output: &str, expected: bool) {
        let missed = is_wanted_by(command, &setting(&[], "/w")) || is_missed_in(output);
        assert_eq!(expected, missed, "{command}");
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
