//! Variables that commands of a conversation have exported, and that its later ones begin with. Values may be secrets: they are in
//! no event, and nothing here shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// What is kept of a conversation altogether.
pub const MAX_LASTING_BYTES: usize = 64 << 10;
pub const MAX_LASTING_VARIABLES: usize = 256;

/// Of the shell itself, or set by us for each command.
const OF_EACH_COMMAND: [&str; 10] = [
    "_",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_0",
    "GIT_CONFIG_VALUE_0",
    "LINES",
    "COLUMNS",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "TERM",
];

/// Parts of names whose values are nobody's to read.
const SECRET_NAMES: [&str; 10] = [
    "AUTH",
    "COOKIE",
    "CREDENTIAL",
    "KEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "SECRET",
    "SESSION",
    "TOKEN",
];

/// Names that say which programs run, or what they do first.
const STEERING_NAMES: [&str; 27] = [
    "BASHOPTS",
    "BASH_ENV",
    "BROWSER",
    "CC",
    "CDPATH",
    "CLASSPATH",
    "CXX",
    "DISPLAY",
    "EDITOR",
    "ENV",
    "HOME",
    "IFS",
    "LESSOPEN",
    "MAKEFLAGS",
    "PAGER",
    "PATH",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PS4",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "SHELL",
    "SHELLOPTS",
    "VIRTUAL_ENV",
    "VISUAL",
];
const STEERING_BEGINNINGS: [&str; 6] = ["DYLD_", "GCONV_", "GIT_", "LD_", "NPM_CONFIG_", "SSH_"];
const STEERING_ENDINGS: [&str; 13] = [
    "_ASKPASS", "_COMMAND", "_EDITOR", "_FLAGS", "_HOME", "_OPTIONS", "_OPTS", "_PAGER", "_PROXY",
    "_WRAPPER", "FLAGS", "OPT", "PATH",
];

/// What one command left of its environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EnvironmentChange {
    pub set: BTreeMap<String, String>,
    pub removed: BTreeSet<String>,
}

impl fmt::Debug for EnvironmentChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvironmentChange")
            .field("set", &self.set.keys())
            .field("removed", &self.removed)
            .finish()
    }
}

impl EnvironmentChange {
    /// What is different at the end of a command that began with `before`.
    pub fn between(before: &BTreeMap<String, String>, after: BTreeMap<String, String>) -> Self {
        let removed = before.keys();
        let removed = removed.filter(|it| lasts(it) && !after.contains_key(*it));
        let removed = removed.cloned().collect();
        let set = after
            .into_iter()
            .filter(|(name, value)| lasts(name) && before.get(name) != Some(value))
            .collect();
        Self { set, removed }
    }

    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }
}

/// What later commands begin with, over what they would have.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastingEnvironment {
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    removed: BTreeSet<String>,
}

impl fmt::Debug for LastingEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastingEnvironment")
            .field("set", &self.set.keys())
            .field("removed", &self.removed)
            .finish()
    }
}

/// A variable that a command begins with because an earlier one has exported or removed it, as people are shown it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastingVariable {
    pub name: String,
    /// Only of those that say which programs run or what they do first, and never a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

impl LastingEnvironment {
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }

    /// With what a command left. `None`: that is more than is kept, and all stays as it was.
    pub fn followed_by(&self, change: EnvironmentChange) -> Option<Self> {
        let mut next = self.clone();
        for (name, value) in change.set {
            next.removed.remove(&name);
            next.set.insert(name, value);
        }
        for name in change.removed {
            next.set.remove(&name);
            next.removed.insert(name);
        }
        let set = next
            .set
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let bytes: usize = set.chain(next.removed.iter().map(String::len)).sum();
        let count = next.set.len() + next.removed.len();
        (bytes <= MAX_LASTING_BYTES && count <= MAX_LASTING_VARIABLES).then_some(next)
    }

    /// Puts it over these variables; says what differs then.
    pub fn put_over(&self, variables: &mut BTreeMap<String, String>) -> Vec<LastingVariable> {
        let mut differs = vec![];
        for name in self.removed.iter().filter(|it| lasts(it)) {
            if variables.remove(name).is_some() {
                differs.push(LastingVariable {
                    name: name.clone(),
                    value: None,
                    removed: true,
                });
            }
        }
        for (name, value) in self.set.iter().filter(|(name, _)| lasts(name)) {
            let before = variables.insert(name.clone(), value.clone());
            if before.as_ref() != Some(value) {
                let is_told = steers_programs(name) && !is_secret(name);
                differs.push(LastingVariable {
                    name: name.clone(),
                    value: is_told.then(|| value.clone()),
                    removed: false,
                });
            }
        }
        differs
    }
}

/// Whether a name of a variable says that its value is a secret.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // An address of an agent is none.
    name != "SSH_AUTH_SOCK" && SECRET_NAMES.iter().any(|it| name.contains(it))
}

fn steers_programs(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    STEERING_NAMES.contains(&name.as_str())
        || STEERING_BEGINNINGS.iter().any(|it| name.starts_with(it))
        || STEERING_ENDINGS.iter().any(|it| name.ends_with(it))
}

/// Functions that a shell exports have names of another form.
fn lasts(name: &str) -> bool {
    let mut chars = name.chars();
    let begins = chars
        .next()
        .is_some_and(|it| it.is_ascii_alphabetic() || it == '_');
    begins
        && chars.all(|it| it.is_ascii_alphanumeric() || it == '_')
        && !OF_EACH_COMMAND.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        let all = all.iter();
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn after(commands: &[EnvironmentChange]) -> LastingEnvironment {
        let lasting = LastingEnvironment::default();
        commands.iter().fold(lasting, |lasting, it| {
            lasting.followed_by(it.clone()).unwrap()
        })
    }

    #[test]
    fn what_a_command_exported_or_removed_is_what_the_next_one_begins_with() {
        let base = variables(&[("PATH", "/bin"), ("LANG", "C"), ("PWD", "/w")]);
        let first = EnvironmentChange::between(
            &base,
            variables(&[
                ("PATH", "/venv:/bin"),
                ("PWD", "/elsewhere"),
                ("X", "1"),
                ("BASH_FUNC_ls%%", "() { rm; }"),
            ]),
        );
        let mut second = variables(&[("PATH", "/bin"), ("LANG", "D")]);
        let shown = after(std::slice::from_ref(&first)).put_over(&mut second);
        assert_eq!(variables(&[("PATH", "/venv:/bin"), ("X", "1")]), second);
        let shown: Vec<_> = shown
            .iter()
            .map(|it| (it.name.as_str(), it.value.as_deref(), it.removed))
            .collect();
        assert_eq!(
            vec![
                ("LANG", None, true),
                ("PATH", Some("/venv:/bin"), false),
                ("X", None, false),
            ],
            shown
        );
        let back = EnvironmentChange::between(&second, base.clone());
        let mut third = base.clone();
        let shown = after(&[first, back]).put_over(&mut third);
        assert_eq!(base, third);
        assert_eq!(
            Vec::<LastingVariable>::new(),
            shown,
            "as it would be without"
        );
    }

    #[test]
    fn what_is_too_much_is_not_kept() {
        let lasting = after(&[EnvironmentChange {
            set: variables(&[("A", "1")]),
            ..EnvironmentChange::default()
        }]);
        let long = "x".repeat(MAX_LASTING_BYTES);
        for set in [
            variables(&[("B", &long)]),
            (0..300)
                .map(|it| (format!("B{it}"), String::new()))
                .collect(),
        ] {
            let change = EnvironmentChange {
                set,
                ..EnvironmentChange::default()
            };
            assert_eq!(None, lasting.followed_by(change));
        }
    }

    #[test]
    fn no_value_that_may_be_a_secret_is_shown() {
        for (name, shown) in [
            ("LD_PRELOAD", true),
            ("PROMPT_COMMAND", true),
            ("PYTHONPATH", true),
            ("http_proxy", true),
            ("NODE_OPTIONS", true),
            ("GIT_SSH_COMMAND", true),
            ("API_TOKEN", false),
            ("GIT_TOKEN_PATH", false),
            ("aws_secret_access_key", false),
            ("DATABASE_URL", false),
        ] {
            let lasting = after(&[EnvironmentChange {
                set: variables(&[(name, "s3cret")]),
                ..EnvironmentChange::default()
            }]);
            let rows = lasting.put_over(&mut BTreeMap::new());
            assert_eq!(shown, rows[0].value.is_some(), "{name}");
            assert!(!format!("{lasting:?}").contains("s3cret"));
        }
    }
}
