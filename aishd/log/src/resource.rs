//! The shared context of a conversation: JSON under names, for every tool and person in it.
//!
//! A resource is a fold of the log like all else: a change is an event with everything that the next state of the
//! resource needs, so that an index of them is built from events alone, in any grouping. The serde attributes spell the
//! stored form out, as in [`crate::event`].

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use aish_proto::id::Seq;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::Access;
use crate::answering_person::AnsweringPerson;
use crate::event::Record;
use crate::time::Timestamp;
use crate::tool_name::Alias;

/// Resources in one conversation.
pub const MOST: u32 = 10_000;
/// Of one resource's data, as JSON without blanks.
pub const MAX_BYTES: usize = 1 << 20;
/// So many changes can one call bring.
pub const MOST_CHANGES: usize = 64;
const MAX_NAME_BYTES: usize = 128;
/// Whoever reads it goes down so far, within a message that has some depth of its own.
const MAX_DEPTH: usize = 100;
/// Of what a client says of itself, in what is kept of each resource.
const MAX_PERSON_BYTES: usize = 200;

/// What a resource is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceName(String);

/// JSON without blanks, at most [`MAX_BYTES`] of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceData(String);

/// Who made a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeAuthor {
    Provider(Alias),
    Person(AnsweringPerson),
}

/// What became of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceOutcome {
    Created,
    Updated,
    Deleted,
}

/// One change of one resource, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceChanged {
    pub name: ResourceName,
    pub change: ResourceOutcome,
    /// The first is 1. It goes on after a deletion, so that nobody takes a new resource for the old one.
    pub revision: u64,
    pub by: ChangeAuthor,
    /// `None`: it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ResourceData>,
    /// When and by whom it was created, if that was not now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<(Timestamp, ChangeAuthor)>,
}

/// What is kept of a resource beside its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceHead {
    /// Where its last change stands in the log.
    pub seq: Seq,
    pub revision: u64,
    /// Of its data.
    pub bytes: u64,
    pub created_at: Timestamp,
    pub created_by: ChangeAuthor,
    pub updated_at: Timestamp,
    pub updated_by: ChangeAuthor,
}

/// A change that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceChange {
    pub name: ResourceName,
    pub action: ResourceAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceAction {
    Create(ResourceData),
    /// Only if it is this revision, where one is said.
    Update(ResourceData, Option<u64>),
    /// One or the other, as is due; only if it is this revision, where one is said. 0: only if there is none.
    Put(ResourceData, Option<u64>),
    Delete(Option<u64>),
}

/// What there is under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceStatus {
    There(ResourceHead),
    /// Nothing; its last revision, 0 if there never was any.
    Gone(u64),
}

/// Why a change is not made. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceChangeError {
    #[error("there is a resource {name:?} already, at revision {revision}")]
    Exists { name: String, revision: u64 },
    #[error("there is no resource {0:?} in this conversation")]
    Missing(String),
    #[error("resource {name:?} is at revision {is}, not {expected}")]
    Stale {
        name: String,
        expected: u64,
        is: u64,
    },
    #[error("{MOST} resources are in this conversation already")]
    Full,
    #[error("{0} changes by one call are more than {MOST_CHANGES}")]
    TooMany(usize),
    #[error("writing to the shared context needs level 2 of {0}")]
    Level(Alias),
    #[error("this conversation only reads")]
    ReadOnly,
    /// The store could not say what there is.
    #[error("{0}")]
    Unread(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a resource's name has 1 to {MAX_NAME_BYTES} letters, digits and . _ - /, and does not begin with -"
)]
pub struct BadName;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadData {
    #[error("{0} bytes of JSON are more than the {MAX_BYTES} that a resource may have")]
    TooLarge(usize),
    #[error("a resource's data is nested more than {MAX_DEPTH} deep")]
    TooDeep,
}

impl ResourceName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ResourceName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let fits = (1..=MAX_NAME_BYTES).contains(&text.len()) && !text.starts_with('-');
        let mut bytes = text.bytes();
        if fits && bytes.all(|it| it.is_ascii_alphanumeric() || b"._-/".contains(&it)) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName)
        }
    }
}

impl TryFrom<String> for ResourceName {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<ResourceName> for String {
    fn from(name: ResourceName) -> Self {
        name.0
    }
}

impl ResourceData {
    /// A value as it is kept.
    pub fn of(value: &Value) -> Result<Self, BadData> {
        if is_deeper(value, MAX_DEPTH) {
            return Err(BadData::TooDeep);
        }
        let text = value.to_string();
        if text.len() > MAX_BYTES {
            return Err(BadData::TooLarge(text.len()));
        }
        Ok(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Never empty.
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Whether there are lists and objects within each other to more than this depth.
fn is_deeper(value: &Value, than: usize) -> bool {
    match (value, than.checked_sub(1)) {
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => false,
        (_, None) => true,
        (Value::Array(items), Some(left)) => items.iter().any(|it| is_deeper(it, left)),
        (Value::Object(fields), Some(left)) => fields.values().any(|it| is_deeper(it, left)),
    }
}

impl ChangeAuthor {
    /// A person, with at most so much of what the client says of itself that a list of resources stays small.
    pub fn person(person: &AnsweringPerson) -> Self {
        let cut = |text: &str| {
            let end = text.floor_char_boundary(MAX_PERSON_BYTES.min(text.len()));
            text.get(..end).unwrap_or_default().to_owned()
        };
        Self::Person(AnsweringPerson {
            name: cut(&person.name),
            tty: person.tty.as_deref().map(cut),
            ..person.clone()
        })
    }

    pub fn provider(&self) -> Option<&Alias> {
        match self {
            Self::Provider(alias) => Some(alias),
            Self::Person(_) => None,
        }
    }
}

impl ResourceOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }
}

impl ResourceChanged {
    /// Of its data; 0 when it is gone.
    pub fn bytes(&self) -> u64 {
        self.data.as_ref().map_or(0, ResourceData::bytes)
    }

    /// The resource after this change, which stands in `record`; `None`: it is gone.
    pub fn head(&self, record: &Record) -> Option<ResourceHead> {
        let data = self.data.as_ref()?;
        let (created_at, created_by) = self
            .created
            .clone()
            .unwrap_or_else(|| (record.at, self.by.clone()));
        Some(ResourceHead {
            seq: record.seq,
            revision: self.revision,
            bytes: data.bytes(),
            created_at,
            created_by,
            updated_at: record.at,
            updated_by: self.by.clone(),
        })
    }
}

/// Whether a call may write to the shared context: its provider has level 2 in the conversation, or the gate let
/// a call through that needs it.
pub fn may_write(needs: Access, has: Access) -> bool {
    needs.max(has) >= Access::Write
}

/// Checks changes that become true together, each after the ones before it.
#[derive(Debug)]
pub struct ChangeCheck<'a> {
    by: &'a ChangeAuthor,
    now: Timestamp,
    /// Resources there are.
    count: u32,
    /// What the changes before made of a name.
    standing: HashMap<ResourceName, ResourceStatus>,
}

impl<'a> ChangeCheck<'a> {
    pub fn new(by: &'a ChangeAuthor, now: Timestamp, count: u32) -> Self {
        Self {
            by,
            now,
            count,
            standing: HashMap::new(),
        }
    }

    /// The event of a change. `stored` says what there was before all of them.
    pub fn check(
        &mut self,
        wanted: ResourceChange,
        stored: impl FnOnce(&ResourceName) -> Result<ResourceStatus, ResourceChangeError>,
    ) -> Result<ResourceChanged, ResourceChangeError> {
        let ResourceChange { name, action } = wanted;
        let standing = match self.standing.remove(&name) {
            Some(standing) => standing,
            None => stored(&name)?,
        };
        let changed = self.changed(name, action, standing)?;
        let after = match (&changed.data, &changed.created) {
            (None, _) => ResourceStatus::Gone(changed.revision),
            (Some(data), created) => {
                let (created_at, created_by) =
                    created.clone().unwrap_or((self.now, self.by.clone()));
                ResourceStatus::There(ResourceHead {
                    seq: Seq(0),
                    revision: changed.revision,
                    bytes: data.bytes(),
                    created_at,
                    created_by,
                    updated_at: self.now,
                    updated_by: self.by.clone(),
                })
            }
        };
        self.standing.insert(changed.name.clone(), after);
        Ok(changed)
    }

    fn changed(
        &mut self,
        name: ResourceName,
        action: ResourceAction,
        standing: ResourceStatus,
    ) -> Result<ResourceChanged, ResourceChangeError> {
        let by = self.by.clone();
        let made = |name, change, revision, data, created| ResourceChanged {
            name,
            change,
            revision,
            by,
            data,
            created,
        };
        match (action, standing) {
            (ResourceAction::Put(_, Some(1..)), ResourceStatus::Gone(_)) => {
                Err(ResourceChangeError::Missing(name.0))
            }
            (
                ResourceAction::Create(data) | ResourceAction::Put(data, None | Some(0)),
                ResourceStatus::Gone(last),
            ) => {
                if self.count >= MOST {
                    return Err(ResourceChangeError::Full);
                }
                self.count += 1;
                Ok(made(
                    name,
                    ResourceOutcome::Created,
                    last + 1,
                    Some(data),
                    None,
                ))
            }
            (ResourceAction::Create(_), ResourceStatus::There(head)) => {
                Err(ResourceChangeError::Exists {
                    name: name.0,
                    revision: head.revision,
                })
            }
            (ResourceAction::Update(..) | ResourceAction::Delete(_), ResourceStatus::Gone(_)) => {
                Err(ResourceChangeError::Missing(name.0))
            }
            (ResourceAction::Put(data, expected), standing @ ResourceStatus::There(_)) => {
                self.changed(name, ResourceAction::Update(data, expected), standing)
            }
            (ResourceAction::Update(data, expected), ResourceStatus::There(head)) => {
                head.is_still(&name, expected)?;
                let created = Some((head.created_at, head.created_by));
                let revision = head.revision + 1;
                Ok(made(
                    name,
                    ResourceOutcome::Updated,
                    revision,
                    Some(data),
                    created,
                ))
            }
            (ResourceAction::Delete(expected), ResourceStatus::There(head)) => {
                head.is_still(&name, expected)?;
                self.count = self.count.saturating_sub(1);
                let revision = head.revision + 1;
                Ok(made(name, ResourceOutcome::Deleted, revision, None, None))
            }
        }
    }
}

impl ResourceHead {
    fn is_still(
        &self,
        name: &ResourceName,
        expected: Option<u64>,
    ) -> Result<(), ResourceChangeError> {
        match expected {
            Some(expected) if expected != self.revision => Err(ResourceChangeError::Stale {
                name: name.0.clone(),
                expected,
                is: self.revision,
            }),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
