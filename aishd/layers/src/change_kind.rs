//! The ways in which a path can differ from what lies below it.

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    Created,
    /// Other content, another target, other extended attributes of a file.
    Modified,
    /// Another mode or owner, or other extended attributes of a directory.
    Attributes,
    /// Only the time.
    Touched,
    /// The same content, now also under another name of the layer.
    Linked,
    Removed,
    /// Something of another kind stands there, or another directory than before.
    Replaced,
    /// A socket or a device: named, and never kept.
    NotKept,
}
