//! Where a command runs: the shell that reads it, its directory, and the environment of whoever asked. What a person
//! approves is bound to all of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use aishd_log::environment::ClientVariables;
use aishd_log::lasting_environment::{LastingEnvironment, LastingVariable};
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
    /// What earlier commands of the conversation have changed of these, as people are shown it.
    pub lasting: Vec<LastingVariable>,
    /// What the kernel keeps it within.
    pub held_by: CommandHold,
    /// It goes on by itself when it has begun.
    pub background: bool,
}

/// What the kernel keeps a command within that nobody has approved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CommandHold {
    /// Nothing, so that somebody has to approve what runs.
    #[default]
    Nothing,
    /// It changes some directories for real, and nothing else.
    Wall(Arc<Boundary>),
    /// What it changes goes into the layers of its run, over these directories of the conversation among others.
    Layers(Arc<[PathBuf]>),
    /// It changes nothing that stays. These directories it reads wherever they are.
    Reads(Arc<[PathBuf]>),
}

impl CommandHold {
    pub fn is_held(&self) -> bool {
        *self != Self::Nothing
    }

    pub fn layers(&self) -> Option<&[PathBuf]> {
        match self {
            Self::Layers(directories) => Some(directories),
            Self::Nothing | Self::Wall(_) | Self::Reads(_) => None,
        }
    }

    pub fn read(&self) -> Option<&[PathBuf]> {
        match self {
            Self::Reads(directories) => Some(directories),
            Self::Nothing | Self::Wall(_) | Self::Layers(_) => None,
        }
    }

    pub fn wall(&self) -> Option<&Boundary> {
        match self {
            Self::Wall(boundary) => Some(boundary),
            Self::Nothing | Self::Layers(_) | Self::Reads(_) => None,
        }
    }
}

impl fmt::Debug for CommandSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSetting")
            .field("shell", &self.shell)
            .field("cwd", &self.cwd)
            .field("variables", &self.variables.keys())
            .field("held", &self.held_by.is_held())
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
            lasting: vec![],
            held_by: CommandHold::Nothing,
            background: false,
        }
    }

    /// The same for a command that goes on by itself, where `background` says so.
    pub fn in_background(self: &Arc<Self>, background: bool) -> Arc<Self> {
        if background == self.background {
            return self.clone();
        }
        let mut other = Self::clone(self);
        other.background = background;
        Arc::new(other)
    }

    /// The same, with what earlier commands have exported. The shell stays what it is.
    pub fn after(mut self, lasting: &LastingEnvironment) -> Self {
        self.lasting = lasting.put_over(&mut self.variables);
        self
    }

    /// The same, held. What would lead out of that is not in the environment either.
    pub fn held(&self, by: CommandHold) -> Self {
        let mut inside = self.clone();
        inside.variables.retain(|name, _| !boundary::is_cut(name));
        inside.held_by = by;
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
        // Who lets one run to its end has not let it go on.
        if self.background {
            bound["background"] = json!(true);
        }
        // What runs inside is no consent to run outside.
        match &self.held_by {
            CommandHold::Nothing => {}
            CommandHold::Wall(boundary) => bound["boundary"] = json!(**boundary),
            CommandHold::Layers(directories) => bound["layers"] = json!(**directories),
            CommandHold::Reads(directories) => bound["reads"] = json!(**directories),
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
        let roots = [PathBuf::from("/w")];
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
        let inside = setting.held(CommandHold::Wall(Arc::new(a_boundary(&setting))));
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
            plain
                .held(CommandHold::Wall(Arc::new(a_boundary(&plain))))
                .digest("ls"),
            Arc::new(plain.clone()).in_background(true).digest("ls"),
        ] {
            assert_ne!(base, other);
        }
    }
}
