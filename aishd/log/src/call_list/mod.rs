//! A list of calls that depend on each other: as it is written, and as it is stored. What is wrong with it is
//! found before anything of it runs. How it runs is the turn's concern (`turn/course`).

mod parse;
mod reference;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

pub use parse::parse;
pub use reference::{ResultReference, fitting};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Calls of one list.
pub const MAX_CALLS: usize = 128;
/// The list as JSON. It holds no results, so it need not be long.
pub const MAX_LIST_BYTES: usize = 512 << 10;
/// The arguments of one call, with the results in them.
pub const MAX_ARGUMENT_BYTES: usize = 256 << 10;
/// Reads a resource; what `resources/read` of a list is a call of.
pub const READ_RESOURCE: &str = "aish__read_resource";
/// Tools that the words for a list name.
const NAMED: usize = 8;

/// A list that can run: its ids are there, once each, and nothing waits for itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallList {
    calls: Vec<ListedCall>,
}

/// One call of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedCall {
    pub id: String,
    /// `alias__tool`.
    pub name: String,
    /// As written: results stand in it as references.
    pub arguments: Map<String, Value>,
    /// Calls that come first though their results are not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Nothing in the arguments is a reference, whatever it looks like.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
}

/// A call among the others.
#[derive(Clone, Debug)]
pub struct Linked {
    /// Positions of the calls that come first, each once.
    pub needs: Vec<usize>,
    /// Where results go, each with the position of its call.
    pub uses: Vec<(ResultReference, usize)>,
}

/// What is wrong with a list. Nothing of it has run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("the list has no calls")]
    Empty,
    #[error("the list has {0} calls; at most {MAX_CALLS} are taken")]
    TooMany(usize),
    #[error("the list is {0} bytes long; at most {MAX_LIST_BYTES} are taken")]
    TooLong(usize),
    #[error("{at}: {what}")]
    Call { at: Which, what: String },
    #[error("{at}: the id is that of call {first} already")]
    Twice { at: Which, first: usize },
    #[error("{at}: no call of the list has the id {id:?}")]
    UnknownId { at: Which, id: String },
    #[error("these calls wait for each other: {}", .0.join(" → "))]
    Cycle(Vec<String>),
}

/// A call as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// From 1.
    pub number: usize,
    pub id: Option<String>,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}", self.number)?;
        match &self.id {
            Some(id) => write!(f, " ({id:?})"),
            None => Ok(()),
        }
    }
}

impl CallList {
    /// The list, if it can run.
    pub fn new(calls: Vec<ListedCall>) -> Result<Self, ListError> {
        if calls.is_empty() {
            return Err(ListError::Empty);
        }
        if calls.len() > MAX_CALLS {
            return Err(ListError::TooMany(calls.len()));
        }
        let list = Self { calls };
        list.linked()?;
        Ok(list)
    }

    pub fn calls(&self) -> &[ListedCall] {
        &self.calls
    }

    /// About what it takes in memory and on the wire.
    pub fn bytes(&self) -> usize {
        serde_json::to_string(self).map_or(0, |it| it.len())
    }

    /// What stands in the conversation as the question.
    pub fn describe(&self) -> String {
        let count = self.calls.len();
        let names = self.calls.iter().take(NAMED).map(|it| it.name.as_str());
        let mut text = format!(
            "run {count} call{}: {}",
            if count == 1 { "" } else { "s" },
            names.collect::<Vec<_>>().join(", ")
        );
        if count > NAMED {
            text.push_str(&format!(" and {} more", count - NAMED));
        }
        text
    }

    /// Who needs whom, in the order of the calls.
    pub fn linked(&self) -> Result<Vec<Linked>, ListError> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (at, call) in self.calls.iter().enumerate() {
            if let Some(first) = places.insert(&call.id, at) {
                let (at, first) = (which(at, call), first + 1);
                return Err(ListError::Twice { at, first });
            }
        }
        let mut all = Vec::with_capacity(self.calls.len());
        for (at, call) in self.calls.iter().enumerate() {
            let place = |id: &str| {
                let known = places.get(id).copied();
                known.ok_or_else(|| ListError::UnknownId {
                    at: which(at, call),
                    id: id.to_owned(),
                })
            };
            let found = if call.literal {
                vec![]
            } else {
                reference::all(&call.arguments).map_err(|error| ListError::Call {
                    at: which(at, call),
                    what: error.to_string(),
                })?
            };
            let mut uses = Vec::with_capacity(found.len());
            for it in found {
                let from = place(&it.id)?;
                uses.push((it, from));
            }
            let mut needs: Vec<usize> = uses.iter().map(|(_, from)| *from).collect();
            for id in &call.after {
                needs.push(place(id)?);
            }
            needs.sort_unstable();
            needs.dedup();
            all.push(Linked { needs, uses });
        }
        match self.cycle(&all) {
            Some(ids) => Err(ListError::Cycle(ids)),
            None => Ok(all),
        }
    }

    /// Calls that wait for each other, the first of them again at the end.
    fn cycle(&self, linked: &[Linked]) -> Option<Vec<String>> {
        let mut left: Vec<usize> = (0..linked.len()).collect();
        loop {
            let before = left.len();
            let open = left.clone();
            left.retain(|at| linked[*at].needs.iter().any(|it| open.contains(it)));
            if left.len() == before {
                break;
            }
        }
        // Each of those that are left needs another one of them, so the way ends where it has been.
        let mut way = vec![*left.first()?];
        loop {
            let last = *way.last()?;
            let next = *linked[last].needs.iter().find(|it| left.contains(it))?;
            let been = way.iter().position(|it| *it == next);
            way.push(next);
            if let Some(from) = been {
                let ids = way[from..].iter().map(|at| self.calls[*at].id.clone());
                return Some(ids.collect());
            }
        }
    }
}

fn which(at: usize, call: &ListedCall) -> Which {
    Which {
        number: at + 1,
        id: Some(call.id.clone()),
    }
}
