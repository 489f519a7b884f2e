//! The rules' names of tools: one, or all of a provider. No rule is a pattern beyond `alias__*`, so that none says more than
//! it shows.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::tool_name::{Alias, ToolName};

/// One tool, or all of a provider: `fs__read_file`, `fs__*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Pattern {
    Tool(ToolName),
    Provider(Alias),
}

/// A set of rules that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Patterns(BTreeSet<Pattern>);

impl Patterns {
    pub fn new(patterns: impl IntoIterator<Item = Pattern>) -> Self {
        Self(patterns.into_iter().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Pattern> {
        self.0.iter()
    }

    /// The rule that covers a tool; the exact one first.
    pub fn covering(&self, tool: &ToolName) -> Option<&Pattern> {
        let [exact, provider] = Pattern::covering(tool);
        self.0.get(&exact).or_else(|| self.0.get(&provider))
    }
}

impl Pattern {
    /// Whose tools it speaks of.
    pub fn provider(&self) -> &Alias {
        match self {
            Self::Tool(name) => name.alias(),
            Self::Provider(alias) => alias,
        }
    }

    /// The two rules that could speak of a tool.
    pub fn covering(tool: &ToolName) -> [Self; 2] {
        [
            Self::Tool(tool.clone()),
            Self::Provider(tool.alias().clone()),
        ]
    }
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no tool and no whole provider")]
pub struct NoPattern(pub String);

impl FromStr for Pattern {
    type Err = NoPattern;

    fn from_str(text: &str) -> Result<Self, NoPattern> {
        let none = || NoPattern(text.to_owned());
        if let Some(alias) = text.strip_suffix("__*") {
            return alias.parse().map(Self::Provider).map_err(|_| none());
        }
        let name: ToolName = text.parse().map_err(|_| none())?;
        // A star that is no whole provider would be read as one by people.
        if name.tool().contains('*') {
            return Err(none());
        }
        Ok(Self::Tool(name))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(name) => name.fmt(f),
            Self::Provider(alias) => write!(f, "{alias}__*"),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = NoPattern;

    fn try_from(text: String) -> Result<Self, NoPattern> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.to_string()
    }
}
