//! What this machine is, for models that write commands for it.

use std::fs;
use std::sync::LazyLock;

/// Characters of what a distribution calls itself.
const MOST_CHARS: usize = 80;

/// The system, its architecture and its distribution: the same text as long as the daemon runs.
pub fn system() -> &'static str {
    static SYSTEM: LazyLock<String> = LazyLock::new(|| {
        let files = ["/etc/os-release", "/usr/lib/os-release"];
        let release = files.iter().find_map(|it| fs::read_to_string(it).ok());
        described(&release.unwrap_or_default())
    });
    &SYSTEM
}

/// `release` is the text of os-release(5).
fn described(release: &str) -> String {
    let kernel = match std::env::consts::OS {
        "linux" => "Linux",
        other => other,
    };
    let kernel = format!("{kernel} {}", std::env::consts::ARCH);
    let named = release
        .lines()
        .find_map(|it| it.strip_prefix("PRETTY_NAME="));
    let named = named.map(|it| it.trim().trim_matches(['"', '\'']));
    let named: String = named
        .unwrap_or_default()
        .chars()
        .filter(|it| it.is_ascii_graphic() || *it == ' ')
        .take(MOST_CHARS)
        .collect();
    if named.is_empty() {
        kernel
    } else {
        format!("{kernel}, {named}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(release: &str, expected: &str) {
        let kernel = format!("Linux {}", std::env::consts::ARCH);
        assert_eq!(kernel + expected, described(release), "{release:?}");
    }

    #[test]
    fn a_machine_says_what_it_is_in_one_line() {
        check(
            "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
            ", Debian GNU/Linux 12 (bookworm)",
        );
        check("PRETTY_NAME='Alpine'", ", Alpine");
        check("PRETTY_NAME=Void\u{202e}\u{1b}[2J", ", Void[2J");
        check("", "");
        check("PRETTY_NAME=\"\"", "");
    }
}
