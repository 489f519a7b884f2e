//! What a layer changed, as a list for people: sorted, bounded, and with what was only touched told apart.

use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::change_kind::ChangeKind;
use crate::chosen::Chosen;
use crate::diff::{self, TextChange};
use crate::fingerprint;
use crate::layer_set::LayerSet;
use crate::node::{self, NodeKind, NodeMeta};
use crate::plan::KeepChoice;
use crate::rel_path::RelPath;
use crate::tree::Tree;
use crate::upper::{self, UpperEntry};
use crate::xattr;

/// Above this, files of one size and one time are taken as the same, and others as modified, without a look inside.
const COMPARED_BYTES: u64 = 64 * 1024 * 1024;

/// One changed path. Nothing here is fit for a terminal as it is: names come from the command.
#[derive(Clone, Debug)]
pub struct Change {
    pub layer: usize,
    pub path: RelPath,
    pub kind: ChangeKind,
    /// What lies below now.
    pub before: Option<NodeMeta>,
    /// What the layer has; `None` for what is removed.
    pub after: Option<NodeMeta>,
    /// Of a link.
    pub target: Option<Vec<u8>>,
    /// Of a file with other content.
    pub text: Option<TextChange>,
}

/// How much of a layer is listed and read.
#[derive(Clone, Copy, Debug)]
pub struct ReadBounds {
    pub listed: usize,
    /// Of one file, on either side.
    pub text_bytes: u64,
    /// Of all files together.
    pub all_text_bytes: u64,
}

impl Default for ReadBounds {
    fn default() -> Self {
        Self {
            listed: 1_000,
            text_bytes: 512 * 1024,
            all_text_bytes: 8 * 1024 * 1024,
        }
    }
}

/// How many paths there are of each kind, listed or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    pub created: u64,
    pub modified: u64,
    pub attributes: u64,
    pub touched: u64,
    pub linked: u64,
    pub removed: u64,
    pub replaced: u64,
    pub not_kept: u64,
    /// Copied up by the overlay, and as they were.
    pub untouched: u64,
    /// Directories too deep to be read: what is in them is not known and not kept.
    pub too_deep: u64,
}

/// What all layers of a set changed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// By layer, then by path; the first ones if there are more than the bound.
    pub listed: Vec<Change>,
    /// Changes beyond those listed.
    pub unlisted: u64,
    pub counts: ChangeCounts,
    /// Bytes of the disk of all that was written.
    pub stored_bytes: u64,
}

impl LayerSet {
    /// How many names a real directory has, and the first of them; those of directories end with a slash. `None`: there is no
    /// directory.
    pub fn names_in(
        &self,
        layer: usize,
        path: &RelPath,
        most: usize,
    ) -> io::Result<Option<(usize, Vec<PathBuf>)>> {
        let lower = Tree::open(&self.lower(layer))?;
        let is_directory = lower
            .meta(path)?
            .is_some_and(|it| it.is(NodeKind::Directory));
        if !is_directory {
            return Ok(None);
        }
        let (dir, name) = (lower.dir(path)?, OsStr::from_bytes);
        let opened = node::open_dir(&*dir, b".")?;
        let names = node::names(&opened)?;
        let first = names.iter().take(most).map(|it| {
            let meta = node::meta_at(&opened, it).ok().flatten();
            let mut shown = name(it).to_owned();
            if meta.is_some_and(|it| it.is(NodeKind::Directory)) {
                shown.push("/");
            }
            PathBuf::from(shown)
        });
        Ok(Some((names.len(), first.collect())))
    }

    /// Reads the layers, and of the real directories only what lies below a changed path. No overlay may be mounted
    /// on them any more.
    pub fn changes(&self, bounds: &ReadBounds) -> io::Result<Changes> {
        let mut changes = Changes::default();
        let mut text_left = bounds.all_text_bytes;
        for layer in 0..self.layers() {
            let walked = upper::walk(self, layer, &mut |found| {
                changes.stored_bytes = changes.stored_bytes.saturating_add(found.meta.stored);
                let Some(kind) = classify(found)? else {
                    if !found.meta.is(NodeKind::Directory) && !found.meta.is_whiteout() {
                        changes.counts.untouched += 1;
                    }
                    return Ok(());
                };
                changes.counts.add(kind);
                if changes.listed.len() >= bounds.listed {
                    changes.unlisted += 1;
                    return Ok(());
                }
                let text = diff::text_change(found, kind, bounds.text_bytes.min(text_left))?;
                text_left = text_left.saturating_sub(text.map_or(0, |text| text.read_bytes(found)));
                changes.listed.push(Change {
                    layer,
                    path: found.path.clone(),
                    kind,
                    before: found.lower,
                    after: (kind != ChangeKind::Removed).then_some(found.meta),
                    target: match found.meta.kind {
                        NodeKind::Symlink => Some(node::link_target(found.upper_dir, found.name)?),
                        _ => None,
                    },
                    text,
                });
                Ok(())
            })?;
            changes.counts.too_deep += walked.too_deep;
        }
        Ok(changes)
    }
}

impl Changes {
    /// Of these paths alone. What was not listed is not known then, and is not counted.
    pub fn within(mut self, choice: &KeepChoice) -> Self {
        if let KeepChoice::All = choice {
            return self;
        }
        let chosen = Chosen::new(choice);
        self.listed.retain(|it| chosen.has(it.layer, &it.path));
        self.unlisted = 0;
        self.counts = ChangeCounts::default();
        for it in &self.listed {
            self.counts.add(it.kind);
        }
        self
    }
}

impl ChangeCounts {
    /// All changes, without what is untouched.
    pub fn total(&self) -> u64 {
        let contents = self.created + self.modified + self.removed + self.replaced + self.linked;
        contents + self.attributes + self.touched + self.not_kept
    }

    fn add(&mut self, kind: ChangeKind) {
        *match kind {
            ChangeKind::Created => &mut self.created,
            ChangeKind::Modified => &mut self.modified,
            ChangeKind::Attributes => &mut self.attributes,
            ChangeKind::Touched => &mut self.touched,
            ChangeKind::Linked => &mut self.linked,
            ChangeKind::Removed => &mut self.removed,
            ChangeKind::Replaced => &mut self.replaced,
            ChangeKind::NotKept => &mut self.not_kept,
        } += 1;
    }
}

/// `None`: it only lies in the layer, or says nothing.
pub(crate) fn classify(found: &UpperEntry<'_>) -> io::Result<Option<ChangeKind>> {
    let (meta, lower) = (&found.meta, found.lower.as_ref());
    if found.path.is_root() {
        // Made by us, with the mode of the real one.
        let as_made = lower.is_none_or(|lower| lower.mode | 0o700 == meta.mode);
        return Ok((!as_made).then_some(ChangeKind::Attributes));
    }
    if meta.is_whiteout() {
        return Ok(lower.map(|_there| ChangeKind::Removed));
    }
    if matches!(meta.kind, NodeKind::Socket | NodeKind::Device) {
        return Ok(Some(ChangeKind::NotKept));
    }
    let Some((lower, lower_dir)) = lower.zip(found.lower_dir) else {
        return Ok(Some(ChangeKind::Created));
    };
    if lower.kind != meta.kind || found.opaque {
        return Ok(Some(ChangeKind::Replaced));
    }
    let kind = match meta.kind {
        NodeKind::File if !is_same_file(found, lower, lower_dir)? => ChangeKind::Modified,
        NodeKind::File if meta.links > 1 => ChangeKind::Linked,
        NodeKind::Symlink if !is_same_link(found, lower_dir)? => ChangeKind::Modified,
        NodeKind::Directory if !is_same_xattrs(found, lower_dir)? => ChangeKind::Attributes,
        _ if !meta.same_access(lower) => ChangeKind::Attributes,
        // The time of a directory changes with what is in it.
        NodeKind::Directory => return Ok(None),
        _ if meta.modified != lower.modified => ChangeKind::Touched,
        _ => return Ok(None),
    };
    Ok(Some(kind))
}

fn is_same_file(
    found: &UpperEntry<'_>,
    lower: &NodeMeta,
    lower_dir: BorrowedFd<'_>,
) -> io::Result<bool> {
    if found.meta.size != lower.size || !is_same_xattrs(found, lower_dir)? {
        return Ok(false);
    }
    if found.meta.size > COMPARED_BYTES {
        return Ok(found.meta.modified == lower.modified);
    }
    let upper = node::open_file(found.upper_dir, found.name)?;
    match node::open_file(lower_dir, found.name) {
        Ok(lower) => fingerprint::same_content(upper, lower),
        // Nobody can say: it is shown and kept as modified unless even the time is the same.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(found.meta.modified == lower.modified)
        }
        Err(error) => Err(error),
    }
}

fn is_same_link(found: &UpperEntry<'_>, lower_dir: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(
        node::link_target(found.upper_dir, found.name)?
            == node::link_target(lower_dir, found.name)?,
    )
}

fn is_same_xattrs(found: &UpperEntry<'_>, lower_dir: BorrowedFd<'_>) -> io::Result<bool> {
    let upper = xattr::kept_at(found.upper_dir, found.name)?;
    match xattr::kept_at(lower_dir, found.name) {
        Ok(lower) => Ok(upper == lower),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(true),
        Err(error) => Err(error),
    }
}
