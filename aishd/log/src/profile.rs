//! What the kernel holds a program to, as a word that people write down.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::access::Access;

/// A boundary with a name. What exactly it means for one program is said where it is made for that.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Profile {
    /// It reads all but what is masked and writes a temporary directory of its own. It has no network.
    Read,
    /// The same, and it writes its roots and what is named besides.
    Workspace,
    /// Whatever its user can do.
    #[default]
    Open,
}

impl Profile {
    pub const ALL: [Self; 3] = [Self::Read, Self::Workspace, Self::Open];

    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Workspace => "workspace",
            Self::Open => "open",
        }
    }

    /// What the kernel holds its programs to, for people, where they reach these hosts.
    pub fn held_to(self, hosts: &[String]) -> Option<String> {
        const SHOWN: usize = 3;
        let files = match self {
            Self::Read => "held to reading",
            Self::Workspace => "held to the conversation's directories",
            Self::Open => return None,
        };
        let named = hosts.iter().take(SHOWN).cloned().collect::<Vec<_>>();
        Some(match hosts.len().saturating_sub(SHOWN) {
            0 if hosts.is_empty() => format!("{files}, without a network"),
            0 => format!("{files}, reaches {}", named.join(", ")),
            more => format!("{files}, reaches {} and {more} more", named.join(", ")),
        })
    }

    /// What a tool has whose manifest says nothing, by the level that its calls need.
    pub fn of_level(level: Access) -> Self {
        match level {
            Access::Read => Self::Read,
            Access::Write => Self::Workspace,
            Access::Execute => Self::Open,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A profile as it is configured for one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChosenProfile {
    pub profile: Profile,
    /// What it may write besides its roots, in a workspace.
    pub write: Vec<PathBuf>,
    /// Hosts that it may reach by their names, where it is held to anything.
    pub hosts: Vec<String>,
}

impl ChosenProfile {
    /// As [`Profile::held_to`].
    pub fn held_to(&self) -> Option<String> {
        self.profile.held_to(&self.hosts)
    }
}

/// It is none of the words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is read, workspace or open")]
pub struct NoProfile;

impl FromStr for Profile {
    type Err = NoProfile;

    fn from_str(text: &str) -> Result<Self, NoProfile> {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.word() == text).ok_or(NoProfile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_what_holds_it_and_what_it_reaches() {
        let hosts =
            |names: &[&str]| -> Vec<String> { names.iter().map(|it| (*it).to_owned()).collect() };
        let held = |it: Profile, names: &[&str]| it.held_to(&hosts(names)).unwrap();
        assert_eq!(
            "held to reading, without a network",
            held(Profile::Read, &[])
        );
        assert_eq!(
            "held to the conversation's directories, reaches a.example, b.example",
            held(Profile::Workspace, &["a.example", "b.example"])
        );
        assert_eq!(
            "held to reading, reaches a, b, c and 2 more",
            held(Profile::Read, &["a", "b", "c", "d", "e"])
        );
        assert_eq!(None, Profile::Open.held_to(&hosts(&["a"])));
    }

    #[test]
    fn each_has_one_word_everywhere() {
        for it in Profile::ALL {
            assert_eq!(Ok(it), it.word().parse());
            assert_eq!(format!("\"{it}\""), serde_json::to_string(&it).unwrap());
        }
        assert_eq!(Err(NoProfile), "Open".parse::<Profile>());
    }
}
