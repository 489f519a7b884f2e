//! Which tools of a server there are here (`tools` and `without_tools` of its table). One that is left out is offered to
//! nobody, found by nobody and called by nobody.

use std::fmt;

use serde_json::Value;

use crate::bounded_text::one_line;
use crate::tool_naming::safe_name;

/// Of one server. More are left out all the same, and not told of.
const MOST_LEFT_OUT: usize = 1024;
const MAX_SHOWN_CHARS: usize = 64;

/// The two lists of a server's table. Their names are compared with what the server calls a tool, and with what it is called
/// here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerToolChoice {
    only: Option<Vec<String>>,
    without: Vec<String>,
}

/// The key of the configuration that leaves a tool out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceKey {
    Tools,
    WithoutTools,
}

/// A tool that a server has, and that there is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutTool {
    /// As it would be called, behind its server's alias.
    pub called: String,
    pub key: ChoiceKey,
}

/// A list of tools without those that are left out.
#[derive(Debug)]
pub struct SiftedTools {
    pub entries: Vec<Value>,
    pub left_out: Vec<LeftOutTool>,
    /// What the keys name and the server does not have.
    pub unmet: Vec<String>,
}

impl fmt::Display for ChoiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tools => "tools",
            Self::WithoutTools => "without_tools",
        })
    }
}

impl ServerToolChoice {
    /// `only`: `None` is all of them.
    pub fn new(only: Option<Vec<String>>, without: Vec<String>) -> Self {
        Self { only, without }
    }

    /// `None`: all of them.
    pub fn only(&self) -> Option<&[String]> {
        self.only.as_deref()
    }

    pub fn without(&self) -> &[String] {
        &self.without
    }

    pub fn is_all(&self) -> bool {
        self.only.is_none() && self.without.is_empty()
    }

    /// The key that leaves a tool out, which has these names; `None`: it is there.
    pub fn leaves_out(&self, names: &[&str]) -> Option<ChoiceKey> {
        let has = |list: &[String]| list.iter().any(|it| fits_any(it, names));
        if self.only.as_deref().is_some_and(|only| !has(only)) {
            Some(ChoiceKey::Tools)
        } else {
            has(&self.without).then_some(ChoiceKey::WithoutTools)
        }
    }

    /// Takes those out of a server's list that are left out, before anything is read of them.
    pub fn sift(&self, entries: Vec<Value>) -> SiftedTools {
        let mut sifted = SiftedTools {
            entries: vec![],
            left_out: vec![],
            unmet: vec![],
        };
        if self.is_all() {
            return SiftedTools { entries, ..sifted };
        }
        let mut known: Vec<(String, String)> = vec![];
        for entry in entries {
            let name = entry.get("name").and_then(Value::as_str);
            let called = name.and_then(|it| safe_name(it).ok());
            let (Some(name), Some(called)) = (name, called) else {
                // It is no tool, and whoever reads it says so.
                sifted.entries.push(entry);
                continue;
            };
            let key = self.leaves_out(&[name, &called]);
            known.push((name.to_owned(), called.clone()));
            match key {
                Some(key) if sifted.left_out.len() < MOST_LEFT_OUT => {
                    sifted.left_out.push(LeftOutTool { called, key });
                }
                Some(_) => {}
                None => sifted.entries.push(entry),
            }
        }
        let is_met = |pattern: &str| known.iter().any(|(a, b)| fits_any(pattern, &[a, b]));
        let only = self.only.iter().flatten().map(|it| (ChoiceKey::Tools, it));
        let without = self.without.iter().map(|it| (ChoiceKey::WithoutTools, it));
        let unmet = only.chain(without).filter(|(_, it)| !is_met(it));
        sifted.unmet = unmet.map(|(key, it)| unmet_remark(key, it)).collect();
        sifted
    }
}

fn unmet_remark(key: ChoiceKey, pattern: &str) -> String {
    let shown = one_line(pattern, MAX_SHOWN_CHARS);
    if pattern.contains('*') {
        format!("`{key}` has {shown:?}, and no tool of the server is called so")
    } else {
        format!("`{key}` names {shown:?}, and the server has no such tool")
    }
}

fn fits_any(pattern: &str, names: &[&str]) -> bool {
    names.iter().any(|it| fits(pattern, it))
}

/// Whether a name is as the pattern says, in which `*` is any text. It goes back to the last star only, so that no pattern
/// takes long.
pub fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(head) else {
        return false;
    };
    while let Some((part, next)) = rest.split_once('*') {
        let Some(at) = left.find(part) else {
            return false;
        };
        left = &left[at + part.len()..];
        rest = next;
    }
    left.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_fit() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("read_*", "read_file", true),
            ("read_*", "unread_file", false),
            ("*_file", "read_file", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("*a*b", "xaxxb", true),
            ("a*a", "a", false),
            ("ab", "abc", false),
        ] {
            assert_eq!(expected, fits(pattern, name), "{pattern} {name}");
        }
        // A pattern of many stars is quick too.
        assert!(!fits(&format!("{}b", "a*".repeat(500)), &"a".repeat(5000)));
    }

    #[track_caller]
    fn check(only: Option<&[&str]>, without: &[&str], there: &[&str], remarks: &[&str]) {
        let list = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
        let chosen = ServerToolChoice::new(only.map(list), list(without));
        let names = ["read_a", "read_b", "write", "two words"];
        let sifted = chosen.sift(names.iter().map(|it| json!({"name": it})).collect());
        let seen: Vec<_> = sifted
            .entries
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        assert_eq!(there, seen, "{only:?} {without:?}");
        assert_eq!(names.len() - there.len(), sifted.left_out.len());
        assert_eq!(remarks, sifted.unmet, "{only:?} {without:?}");
    }

    #[test]
    fn what_is_not_named_is_not_there() {
        check(None, &[], &["read_a", "read_b", "write", "two words"], &[]);
        check(Some(&["read_*"]), &["read_b"], &["read_a"], &[]);
        check(Some(&[]), &[], &[], &[]);
        // By either of its names.
        check(Some(&["two words"]), &[], &["two words"], &[]);
        check(Some(&["two_words-a03f1d61"]), &[], &["two words"], &[]);
        check(
            Some(&["write", "gone", "no_*"]),
            &["never"],
            &["write"],
            &[
                "`tools` names \"gone\", and the server has no such tool",
                "`tools` has \"no_*\", and no tool of the server is called so",
                "`without_tools` names \"never\", and the server has no such tool",
            ],
        );
    }

    #[test]
    fn it_is_told_which_key_leaves_a_tool_out() {
        let chosen = ServerToolChoice::new(Some(vec!["a*".to_owned()]), vec!["ab".to_owned()]);
        assert_eq!(None, chosen.leaves_out(&["aa"]));
        assert_eq!(Some(ChoiceKey::WithoutTools), chosen.leaves_out(&["ab"]));
        assert_eq!(Some(ChoiceKey::Tools), chosen.leaves_out(&["b"]));
    }
}
