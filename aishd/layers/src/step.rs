//! One step of a keep, there and back. Each can be done again after a kill at any moment: which object stands where says
//! how far it came.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::rc::Rc;

use aishd_platform::failpoint;
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::copy::{set_modified, set_owner};
use crate::fingerprint::Fingerprint;
use crate::node::{self, NodeKind, NodeMeta, Stamp};
use crate::rel_path::RelPath;
use crate::tree::{self, Tree};
use crate::xattr::{self, Xattrs};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeepStep {
    pub(crate) layer: usize,
    pub(crate) path: RelPath,
    pub(crate) act: StepAct,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StepAct {
    /// Something new comes to a path where nothing is.
    Put { from: Source, new: Option<NodeMeta> },
    /// Something takes the place of something else, at once; what was there is stashed.
    Exchange {
        from: Source,
        new: Option<NodeMeta>,
        old: Fingerprint,
    },
    /// What is there is stashed.
    Take { old: Fingerprint },
    /// Only attributes change.
    Set {
        before: Attributes,
        after: Attributes,
    },
}

/// Where a new object waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Source {
    /// In the layer, at the path of the step.
    Layer,
    /// Made or copied for this: `new.N` in the workshop, where N is the number of the step.
    Workshop,
    /// Taken back by an undo: `back.N` in the workshop.
    TakenBack,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) modified: Option<Stamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) xattrs: Option<Xattrs>,
}

impl Attributes {
    pub(crate) fn of(meta: &NodeMeta) -> Self {
        Self {
            mode: meta.mode,
            uid: meta.uid,
            gid: meta.gid,
            modified: None,
            xattrs: None,
        }
    }

    /// Of a step that does nothing.
    pub(crate) fn nothing() -> Self {
        Self {
            mode: u32::MAX,
            uid: 0,
            gid: 0,
            modified: None,
            xattrs: None,
        }
    }

    fn has_access_of(&self, meta: &NodeMeta) -> bool {
        meta.is(NodeKind::Symlink) || self.mode == meta.mode
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Conflict(ConflictReason),
}

/// Why a path cannot be kept or taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictReason {
    /// Somebody changed it while the command ran.
    ChangedMeanwhile,
    /// Somebody changed it since.
    ChangedSince,
    /// Somebody removed it, or a directory on the way to it.
    Vanished,
    /// Somebody made something where nothing was.
    Appeared,
}

/// The directories that steps of one layer work on.
#[derive(Debug)]
pub(crate) struct StepSite {
    pub(crate) lower: Tree,
    /// `None` for an undo, which needs no layer.
    pub(crate) upper: Option<Tree>,
    /// On the same mount as `lower`: here a rename reaches.
    pub(crate) workshop: OwnedFd,
}

/// A held directory and a name in it.
struct Spot<'a> {
    dir: Rc<OwnedFd>,
    name: &'a [u8],
}

impl Spot<'_> {
    fn at(&self) -> (BorrowedFd<'_>, &[u8]) {
        (self.dir.as_fd(), self.name)
    }
}

pub(crate) fn stash_name(step: usize) -> String {
    format!("old.{step}")
}

pub(crate) fn source_name(from: &Source, step: usize) -> String {
    match from {
        Source::TakenBack => format!("back.{step}"),
        Source::Layer | Source::Workshop => format!("new.{step}"),
    }
}

impl StepSite {
    pub(crate) fn apply(&self, number: usize, step: &KeepStep) -> io::Result<Ended> {
        let Some(target) = self.target(&step.path)? else {
            return Ok(Ended::Conflict(ConflictReason::Vanished));
        };
        let target = target.at();
        let stash = stash_name(number);
        let stash = (self.workshop.as_fd(), stash.as_bytes());
        match &step.act {
            StepAct::Put { from, new } => self.with_source(number, step, from, |from| {
                put(from, target, known(new.as_ref())?)
            }),
            StepAct::Exchange { from, new, old } => self.with_source(number, step, from, |from| {
                exchange(from, target, stash, known(new.as_ref())?, old)
            }),
            StepAct::Take { old } => take(target, stash, old),
            StepAct::Set { before, after } => set(target, before, after),
        }
    }

    /// As it was before, unless somebody else changed it: then nothing is touched.
    pub(crate) fn unapply(&self, number: usize, step: &KeepStep) -> io::Result<Ended> {
        let Some(target) = self.target(&step.path)? else {
            // Nothing is to be taken back where nothing was done.
            let done = self.was_done(number, step)?;
            return Ok(if done {
                Ended::Conflict(ConflictReason::Vanished)
            } else {
                Ended::Done
            });
        };
        let target = target.at();
        let stash = stash_name(number);
        let stash = (self.workshop.as_fd(), stash.as_bytes());
        match &step.act {
            StepAct::Put { from, new } => self.with_source(number, step, from, |from| {
                take_back(target, from, known(new.as_ref())?)
            }),
            StepAct::Exchange { from, new, old } => self.with_source(number, step, from, |from| {
                exchange_back(from, target, stash, known(new.as_ref())?, old)
            }),
            StepAct::Take { old } => put_back(stash, target, old),
            StepAct::Set { before, after } => set(target, after, before),
        }
    }

    fn was_done(&self, number: usize, step: &KeepStep) -> io::Result<bool> {
        if node::meta_at(&self.workshop, stash_name(number).as_bytes())?.is_some() {
            return Ok(true);
        }
        match &step.act {
            StepAct::Put { from, new } | StepAct::Exchange { from, new, .. } => {
                let waits = self.with_source(number, step, from, |from| {
                    let waits = is_at(from, known(new.as_ref())?)?;
                    Ok(if waits {
                        Ended::Done
                    } else {
                        Ended::Conflict(ConflictReason::Vanished)
                    })
                })?;
                Ok(waits != Ended::Done)
            }
            StepAct::Take { .. } | StepAct::Set { .. } => Ok(false),
        }
    }

    fn target<'a>(&self, path: &'a RelPath) -> io::Result<Option<Spot<'a>>> {
        Ok(self
            .lower
            .place(path)?
            .map(|(dir, name)| Spot { dir, name }))
    }

    fn with_source(
        &self,
        number: usize,
        step: &KeepStep,
        from: &Source,
        work: impl FnOnce(At<'_>) -> io::Result<Ended>,
    ) -> io::Result<Ended> {
        match (from, &self.upper) {
            (Source::Layer, Some(upper)) => {
                let gone = || io::Error::new(io::ErrorKind::NotFound, "the layer is not as it was");
                let (dir, name) = upper.place(&step.path)?.ok_or_else(gone)?;
                work((dir.as_fd(), name))
            }
            (Source::Layer, None) => {
                Err(io::Error::new(io::ErrorKind::NotFound, "the layer is gone"))
            }
            (Source::Workshop | Source::TakenBack, _) => {
                let name = source_name(from, number);
                work((self.workshop.as_fd(), name.as_bytes()))
            }
        }
    }
}

type At<'a> = (BorrowedFd<'a>, &'a [u8]);

fn put(from: At<'_>, target: At<'_>, new: &NodeMeta) -> io::Result<Ended> {
    if !is_at(from, new)? {
        let done = is_at(target, new)?;
        return Ok(if done {
            Ended::Done
        } else {
            Ended::Conflict(ConflictReason::ChangedSince)
        });
    }
    passed();
    let ended = move_to(from, target, new)?;
    passed();
    Ok(ended)
}

/// How what is there differs from what was planned for.
fn differs(target: At<'_>, old: &Fingerprint) -> io::Result<Option<ConflictReason>> {
    Ok(match node::meta_at(target.0, target.1)? {
        None => Some(ConflictReason::Vanished),
        Some(now) if !old.is_moved(&now) => Some(ConflictReason::ChangedSince),
        Some(_as_expected) => None,
    })
}

fn exchange(
    from: At<'_>,
    target: At<'_>,
    stash: At<'_>,
    new: &NodeMeta,
    old: &Fingerprint,
) -> io::Result<Ended> {
    if node::meta_at(stash.0, stash.1)?.is_some() {
        return Ok(Ended::Done);
    }
    if is_at(from, new)? {
        if let Some(conflict) = differs(target, old)? {
            return Ok(Ended::Conflict(conflict));
        }
        passed();
        match swap(from, target, &old.meta) {
            Err(error) if tree::is_no_way(&error) => {
                return Ok(Ended::Conflict(ConflictReason::Vanished));
            }
            done => done?,
        }
        passed();
    }
    // What came out is looked at again: it may have been changed in the last moment.
    let came_out = node::meta_at(from.0, from.1)?.ok_or(io::ErrorKind::NotFound)?;
    if !old.is_moved(&came_out) {
        swap(from, target, &came_out)?;
        return Ok(Ended::Conflict(ConflictReason::ChangedSince));
    }
    move_over(from, stash)?;
    passed();
    Ok(Ended::Done)
}

fn exchange_back(
    from: At<'_>,
    target: At<'_>,
    stash: At<'_>,
    new: &NodeMeta,
    old: &Fingerprint,
) -> io::Result<Ended> {
    if is_at(from, new)? {
        return restore_mode(target, &old.meta);
    }
    if node::meta_at(stash.0, stash.1)?.is_some() {
        if !is_at(target, new)? {
            return Ok(Ended::Conflict(ConflictReason::ChangedSince));
        }
        passed();
        move_over(stash, from)?;
    }
    passed();
    let is_ours = node::meta_at(target.0, target.1)?.is_some_and(|now| is_as_made(new, &now));
    if is_ours {
        swap(from, target, new)?;
        passed();
        if is_untouched(from, new)? {
            return restore_mode(target, &old.meta);
        }
        swap(from, target, &old.meta)?;
    }
    move_over(from, stash)?;
    Ok(Ended::Conflict(ConflictReason::ChangedSince))
}

fn take(target: At<'_>, stash: At<'_>, old: &Fingerprint) -> io::Result<Ended> {
    if node::meta_at(stash.0, stash.1)?.is_some() {
        return Ok(Ended::Done);
    }
    if let Some(conflict) = differs(target, old)? {
        return Ok(Ended::Conflict(conflict));
    }
    passed();
    match move_to(target, stash, &old.meta) {
        Err(error) if tree::is_no_way(&error) => {
            return Ok(Ended::Conflict(ConflictReason::Vanished));
        }
        done => done?,
    };
    passed();
    let taken = node::meta_at(stash.0, stash.1)?.ok_or(io::ErrorKind::NotFound)?;
    if old.is_moved(&taken) {
        return Ok(Ended::Done);
    }
    // Should somebody have made another one there by now, this one stays in the stash.
    let _back = move_to(stash, target, &taken)?;
    Ok(Ended::Conflict(ConflictReason::ChangedSince))
}

/// Takes a new object from its path back to where it waited.
fn take_back(target: At<'_>, from: At<'_>, new: &NodeMeta) -> io::Result<Ended> {
    if is_at(from, new)? {
        return Ok(Ended::Done);
    }
    match node::meta_at(target.0, target.1)? {
        None => return Ok(Ended::Conflict(ConflictReason::Vanished)),
        Some(now) if !is_as_made(new, &now) => {
            return Ok(Ended::Conflict(ConflictReason::ChangedSince));
        }
        Some(_ours) if !is_untouched(target, new)? => {
            return Ok(Ended::Conflict(ConflictReason::ChangedSince));
        }
        Some(_ours) => {}
    }
    passed();
    if let Ended::Conflict(why) = move_to(target, from, new)? {
        return Ok(Ended::Conflict(why));
    }
    passed();
    if is_untouched(from, new)? {
        return Ok(Ended::Done);
    }
    let _back = move_to(from, target, new)?;
    Ok(Ended::Conflict(ConflictReason::ChangedSince))
}

fn put_back(stash: At<'_>, target: At<'_>, old: &Fingerprint) -> io::Result<Ended> {
    if node::meta_at(stash.0, stash.1)?.is_some() {
        passed();
        if let Ended::Conflict(why) = move_to(stash, target, &old.meta)? {
            return Ok(Ended::Conflict(why));
        }
        passed();
    } else if !is_at(target, &old.meta)? {
        // It was never taken, and somebody has changed it.
        return Ok(Ended::Done);
    }
    restore_mode(target, &old.meta)
}

fn set(target: At<'_>, before: &Attributes, after: &Attributes) -> io::Result<Ended> {
    let Some(now) = node::meta_at(target.0, target.1)? else {
        return Ok(Ended::Conflict(ConflictReason::Vanished));
    };
    let known_mode = before.has_access_of(&now) || after.has_access_of(&now);
    let known_time = match (before.modified, after.modified) {
        (Some(one), Some(other)) => now.modified == one || now.modified == other,
        // The time of a directory is set once all is in it.
        _ => true,
    };
    if !known_mode || !known_time {
        return Ok(Ended::Conflict(ConflictReason::ChangedSince));
    }
    passed();
    set_owner(target, after.uid, after.gid)?;
    if !now.is(NodeKind::Symlink) {
        if let Some(xattrs) = &after.xattrs {
            xattr::set_kept(target.0, target.1, xattrs)?;
        }
        // Also where it is the same: setting an owner or an access list changes it.
        node::set_mode(target.0, target.1, after.mode)?;
    }
    if let Some(modified) = after.modified {
        set_modified(target, modified)?;
    }
    passed();
    Ok(Ended::Done)
}

/// Renames where nothing is yet.
fn move_to(from: At<'_>, to: At<'_>, what: &NodeMeta) -> io::Result<Ended> {
    match rename(from, to, RenameFlags::NOREPLACE, what) {
        Ok(()) => Ok(Ended::Done),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(Ended::Conflict(ConflictReason::Appeared))
        }
        Err(error) => Err(error),
    }
}

/// Renames between two places of ours.
fn move_over(from: At<'_>, to: At<'_>) -> io::Result<()> {
    let what = node::meta_at(from.0, from.1)?.ok_or(io::ErrorKind::NotFound)?;
    rename(from, to, RenameFlags::NOREPLACE, &what)
}

fn swap(from: At<'_>, to: At<'_>, there: &NodeMeta) -> io::Result<()> {
    match rename(from, to, RenameFlags::EXCHANGE, there) {
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied && there.is(NodeKind::Directory) =>
        {
            node::set_mode(to.0, to.1, there.mode | 0o700)?;
            rename(from, to, RenameFlags::EXCHANGE, there)
        }
        done => done,
    }
}

fn rename(from: At<'_>, to: At<'_>, flags: RenameFlags, what: &NodeMeta) -> io::Result<()> {
    let (name, other) = (OsStr::from_bytes(from.1), OsStr::from_bytes(to.1));
    match rustix::fs::renameat_with(from.0, name, to.0, other, flags) {
        // A directory that changes its parent must be writable.
        Err(Errno::ACCESS) if what.is(NodeKind::Directory) && flags == RenameFlags::NOREPLACE => {
            node::set_mode(from.0, from.1, what.mode | 0o700)?;
            Ok(rustix::fs::renameat_with(from.0, name, to.0, other, flags)?)
        }
        done => Ok(done?),
    }
}

/// Directories may have been made writable to be moved.
fn restore_mode(target: At<'_>, old: &NodeMeta) -> io::Result<Ended> {
    let is = node::meta_at(target.0, target.1)?;
    if old.is(NodeKind::Directory) && is.is_some_and(|is| is.ino == old.ino && is.mode != old.mode)
    {
        node::set_mode(target.0, target.1, old.mode)?;
    }
    Ok(Ended::Done)
}

fn is_at(place: At<'_>, what: &NodeMeta) -> io::Result<bool> {
    Ok(node::meta_at(place.0, place.1)?
        .is_some_and(|now| (now.dev, now.ino) == (what.dev, what.ino)))
}

/// The object that was kept, and not written since.
fn is_as_made(new: &NodeMeta, now: &NodeMeta) -> bool {
    let print = Fingerprint {
        meta: *new,
        hash: None,
        inside: None,
    };
    print.is_moved(now) && (new.is(NodeKind::Directory) || new.mode == now.mode)
}

/// Also nothing was put into a directory that was new.
fn is_untouched(place: At<'_>, new: &NodeMeta) -> io::Result<bool> {
    let now = node::meta_at(place.0, place.1)?;
    if !now.is_some_and(|now| is_as_made(new, &now)) {
        return Ok(false);
    }
    Ok(!new.is(NodeKind::Directory) || node::names(node::open_dir(place.0, place.1)?)?.is_empty())
}

fn known(new: Option<&NodeMeta>) -> io::Result<&NodeMeta> {
    new.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "a step whose object was never made",
        )
    })
}

fn passed() {
    failpoint::pass("layers.step");
}
