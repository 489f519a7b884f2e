//! Paths below the root of a layer, as bytes: names of a hostile command need not be text.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Names joined by `/`; none of them is empty, `.` or `..`, so the path never leaves its root. Empty: the root itself.
///
/// Sorted name by name: what is below a directory follows it at once.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// `None` for an absolute path and for one with `..` in it.
    pub fn new(path: &Path) -> Option<Self> {
        let mut joined = Self::default();
        for component in path.components() {
            match component {
                Component::Normal(name) => joined = joined.join(name.as_bytes()),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
            }
        }
        Some(joined)
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// One of the two is the other, or is above it.
    pub fn is_at_or_below(&self, above: &Self) -> bool {
        above.is_root()
            || self
                .0
                .strip_prefix(&above.0[..])
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    pub(crate) fn join(&self, name: &[u8]) -> Self {
        let mut bytes = self.0.clone();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self(bytes)
    }

    /// `None` for the root.
    pub(crate) fn split(&self) -> Option<(Self, &[u8])> {
        if self.is_root() {
            return None;
        }
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(at) => Some((Self(self.0[..at].to_vec()), &self.0[at + 1..])),
            None => Some((Self::default(), &self.0)),
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.names().count()
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
    }
}

impl Ord for RelPath {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.names().cmp(other.names())
    }
}

impl PartialOrd for RelPath {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&escape(&self.0), formatter)
    }
}

/// Bytes as text that can be read back: all but visible ASCII as `%XX`.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_graphic() && *byte != b'%' {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// What [`escape`] wrote.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(bytes)
}

/// Bytes that are stored as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Escaped(pub(crate) Vec<u8>);

impl Serialize for Escaped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&escape(&self.0))
    }
}

impl<'de> Deserialize<'de> for Escaped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        unescape(&text)
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("bytes with a wrong escape"))
    }
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&escape(&self.0))
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Escaped(bytes) = Escaped::deserialize(deserializer)?;
        Self::new(Path::new(OsStr::from_bytes(&bytes)))
            .ok_or_else(|| serde::de::Error::custom("a path that leaves its root"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::new(Path::new(text)).unwrap()
    }

    #[test]
    fn a_path_never_leaves_its_root() {
        for text in ["..", "a/../b", "/a", "../a"] {
            assert_eq!(RelPath::new(Path::new(text)), None, "{text}");
        }
        assert_eq!(path("./a//b/."), path("a/b"));
        assert!(serde_json::from_str::<RelPath>("\"a/../b\"").is_err());
    }

    #[test]
    fn what_is_below_a_directory_follows_it_at_once() {
        let mut paths = ["a-b", "a/b", "a", "a/b/c"].map(path);
        paths.sort();
        assert_eq!(paths, ["a", "a/b", "a/b/c", "a-b"].map(path));
        assert!(path("a/b").is_at_or_below(&path("a")));
        assert!(!path("a-b").is_at_or_below(&path("a")));
    }

    #[test]
    fn any_name_is_stored_and_read_back() {
        let name = RelPath::default().join(b"a\n%\xff b");
        let text = serde_json::to_string(&name).unwrap();
        assert_eq!(text, "\"a%0A%25%FF%20b\"");
        assert_eq!(serde_json::from_str::<RelPath>(&text).unwrap(), name);
    }
}
