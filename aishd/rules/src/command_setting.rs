//! Where a command runs: the shell that reads it, its directory, and the environment of whoever asked. What a person
//! approves is bound to all of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aishd_log::environment::ClientVariables;
use aishd_log::tool::ContentDigest;
use serde_json::json;

use crate::boundary::{self, Boundary};

/// The shell of those who have none that is known here.
pub const PLAIN_SHELL: &str = "/bin/sh";
/// Shells whose `-c` is what we take it for.
const KNOWN_SHELLS: [&str; 4] = ["sh", "bash", "zsh", "fish"];
/// What files of a command may not be for others, where its asker does not say.
const PRIVATE: u32 = 0o077;
/// `safe.bareRepository=explicit`, see git-config(1).
const GIT_ASKS_FOR_REPOSITORIES: [(&str, &str); 3] = [
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
];

/// All that a command's effect depends on besides its text and the world.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandSetting {
    /// An absolute path.
    pub shell: String,
    pub cwd: String,
    /// What the client gave.
    pub given: ClientVariables,
    /// Every variable of it, the base among them.
    pub variables: BTreeMap<String, String>,
    /// What the kernel keeps it within; `None`: nothing does, so that somebody has to approve what runs.
    pub boundary: Option<Arc<Boundary>>,
}

impl fmt::Debug for CommandSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSetting")
            .field("shell", &self.shell)
            .field("cwd", &self.cwd)
            .field("variables", &self.variables.keys())
            .field("boundary", &self.boundary.is_some())
            .finish_non_exhaustive()
    }
}

impl CommandSetting {
    /// `base` is what every child has; `is_program` says whether a path can be executed.
    pub fn new(
        given: ClientVariables,
        base: &BTreeMap<String, String>,
        cwd: &str,
        is_program: impl Fn(&str) -> bool,
    ) -> Self {
        let mut variables = base.clone();
        variables.extend(given.variables.clone());
        // There is no terminal, whatever the asker's is called.
        variables.insert("TERM".to_owned(), "dumb".to_owned());
        variables.insert("PWD".to_owned(), cwd.to_owned());
        // A directory that only looks like a repository is none: its settings could name programs.
        for (name, value) in GIT_ASKS_FOR_REPOSITORIES {
            variables.insert(name.to_owned(), value.to_owned());
        }
        let named = variables.get("SHELL").filter(|it| is_known(it));
        let shell = named
            .filter(|it| is_program(it))
            .map_or(PLAIN_SHELL, String::as_str)
            .to_owned();
        Self {
            shell,
            cwd: cwd.to_owned(),
            given,
            variables,
            boundary: None,
        }
    }

    /// The same within a boundary. What would lead out of it is not in the environment either.
    pub fn within(&self, boundary: Boundary) -> Self {
        let mut inside = self.clone();
        inside.variables.retain(|name, _| !boundary::is_cut(name));
        inside.boundary = Some(Arc::new(boundary));
        inside
    }

    pub fn umask(&self) -> u32 {
        self.given.umask.unwrap_or(PRIVATE)
    }

    pub fn home(&self) -> Option<&str> {
        let home = self.variables.get("HOME").map(String::as_str);
        home.filter(|it| it.starts_with('/'))
    }

    /// What one consent to a command is bound to.
    pub fn digest(&self, command: &str) -> ContentDigest {
        let mut bound = json!({
            "command": command,
            "shell": self.shell,
            "cwd": self.cwd,
            "environment": self.variables,
            "umask": self.umask(),
        });
        // What runs inside is no consent to run outside.
        if let Some(boundary) = &self.boundary {
            bound["boundary"] = json!(**boundary);
        }
        ContentDigest::of_value(&bound)
    }
}

fn is_known(shell: &str) -> bool {
    let name = shell.rsplit_once('/').map(|(_, name)| name);
    shell.starts_with('/') && name.is_some_and(|it| KNOWN_SHELLS.contains(&it))
}

#[cfg(test)]
mod tests {
    use aishd_model::norris_settings::WidenedLimits;

    use super::*;
    use crate::boundary::tests::ground;
    use crate::samples::{setting, variables};

    #[track_caller]
    fn check_shell(named: &str, expected: &str) {
        assert_eq!(expected, setting(&[("SHELL", named)], "/").shell);
    }

    #[test]
    fn only_shells_that_are_known_and_there_read_commands() {
        check_shell("/usr/bin/zsh", "/usr/bin/zsh");
        check_shell("/opt/fish", "/opt/fish");
        check_shell("/usr/bin/nu", "/bin/sh");
        check_shell("/usr/bin/tcsh", "/bin/sh");
        check_shell("bash", "/bin/sh");
        check_shell("", "/bin/sh");
        check_shell("/gone/bash", "/bin/sh");
        assert_eq!("/bin/sh", setting(&[], "/").shell);
    }

    #[test]
    fn a_client_gives_what_is_named_and_nothing_else() {
        let given = variables(&[
            ("PATH", "/mine"),
            ("SHELL", "/bin/bash"),
            ("AWS_SECRET", "s3cret"),
            ("LANG", "a\0b"),
        ]);
        let names = ["PATH".to_owned(), "LANG".to_owned()];
        let taken = ClientVariables::taken(given, Some(0o7022), None, &names);
        let names: Vec<&String> = taken.variables.keys().collect();
        assert_eq!(
            (vec!["PATH", "SHELL"], Some(0o022)),
            (names.iter().map(|it| it.as_str()).collect(), taken.umask)
        );
        assert!(!format!("{taken:?}").contains("/mine"));
    }

    fn a_boundary(around: &CommandSetting) -> Boundary {
        let roots = [std::path::PathBuf::from("/w")];
        let ground = ground();
        Boundary::of_run(&ground, &WidenedLimits::default(), &roots, around).unwrap()
    }

    #[test]
    fn what_leads_out_is_not_in_the_environment_of_a_boundary() {
        let given = [
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("LANG", "C"),
            ("http_proxy", "h"),
        ];
        let setting = setting(&given, "/w");
        let inside = setting.within(a_boundary(&setting));
        let has = |it: &str| inside.variables.contains_key(it);
        assert!(has("LANG") && has("PATH") && !has("SSH_AUTH_SOCK") && !has("http_proxy"));
    }

    #[test]
    fn consent_is_bound_to_text_shell_directory_and_environment() {
        let plain = setting(&[("LANG", "C")], "/w");
        let base = plain.digest("ls");
        assert_eq!(base, setting(&[("LANG", "C")], "/w").digest("ls"));
        let mut masked = plain.clone();
        masked.given.umask = Some(0);
        for other in [
            plain.digest("ls "),
            setting(&[("LANG", "C")], "/").digest("ls"),
            setting(&[("LANG", "D")], "/w").digest("ls"),
            setting(&[("LANG", "C"), ("PATH", "/evil")], "/w").digest("ls"),
            setting(&[("LANG", "C"), ("SHELL", "/bin/bash")], "/w").digest("ls"),
            masked.digest("ls"),
            plain.within(a_boundary(&plain)).digest("ls"),
        ] {
            assert_ne!(base, other);
        }
    }
}
