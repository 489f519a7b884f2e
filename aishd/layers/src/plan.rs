//! What keeping a layer, whole or in part, comes to: steps in their order, and the conflicts. Made from the list of what the
//! layer holds and from fingerprints; nothing is changed by it.

use std::collections::{BTreeMap, HashMap};

use crate::change_kind::ChangeKind;
use crate::fingerprint::Fingerprint;
use crate::node::{NodeKind, NodeMeta};
use crate::rel_path::RelPath;
use crate::seal::SealedPath;
use crate::step::{Attributes, ConflictReason, KeepStep, Source, StepAct};
use crate::xattr::Xattrs;

/// Which paths of a set are kept: layers and paths in them.
#[derive(Clone, Debug)]
pub enum KeepChoice {
    All,
    /// A directory stands for all that is in it.
    Paths(Vec<(usize, RelPath)>),
    /// The first ones with all that is in them, the others for themselves: of a directory its mode, and that it is there.
    Listed {
        whole: Vec<(usize, RelPath)>,
        alone: Vec<(usize, RelPath)>,
    },
}

/// A path that somebody else changed, with both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub layer: usize,
    pub path: RelPath,
    pub why: ConflictReason,
    /// What the layer would put there; `None` where it removes.
    pub ours: Option<NodeMeta>,
    /// What is there now.
    pub theirs: Option<NodeMeta>,
}

/// One path of a layer as the plan is given it: parents first and sorted.
#[derive(Clone, Debug)]
pub(crate) struct PlanInput {
    pub(crate) layer: usize,
    pub(crate) path: RelPath,
    pub(crate) kind: ChangeKind,
    pub(crate) upper: NodeMeta,
    pub(crate) sealed: Option<SealedPath>,
    pub(crate) now: Option<Fingerprint>,
    /// Of both sides, where a directory's attributes change; of the layer's, where a directory is new.
    pub(crate) xattrs: Option<Xattrs>,
    pub(crate) xattrs_now: Option<Xattrs>,
    /// It can be renamed into place: on the same mount, and without attributes that only a copy leaves behind.
    pub(crate) can_rename: bool,
    pub(crate) has_overlay_xattrs: bool,
    /// The real directory that it is in, where we own it and may not write in it.
    pub(crate) locked_parent: Option<NodeMeta>,
}

/// Something that is made before the first step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Directory {
        xattrs: Xattrs,
    },
    /// With this mode.
    Copy {
        mode: u32,
    },
    /// Another name of what this step makes.
    LinkTo(usize),
    /// It stays where it is in the layer, without what overlayfs left on it, and with this mode.
    Strip {
        mode: u32,
    },
}

/// What a keep will do.
#[derive(Clone, Debug, Default)]
pub struct KeepPlan {
    pub(crate) steps: Vec<KeepStep>,
    /// By number of the step.
    pub(crate) make: BTreeMap<usize, Make>,
    /// What somebody else changed. These are never overwritten.
    pub conflicts: Vec<Conflict>,
    /// Sockets and devices, which are left behind.
    pub not_kept: Vec<(usize, RelPath)>,
    /// Bytes of the disk that being able to undo it costs.
    pub undo_bytes: u64,
}

impl KeepPlan {
    /// Whether anything changes at this path or below it.
    pub fn changes(&self, layer: usize, path: &RelPath) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|it| it.layer == layer && it.path.is_at_or_below(path))
            || self
                .conflicts
                .iter()
                .any(|it| it.layer == layer && it.path.is_at_or_below(path))
    }

    /// Paths that change, each once.
    pub fn paths(&self) -> usize {
        let mut paths: Vec<_> = self
            .steps
            .iter()
            .map(|step| (step.layer, &step.path))
            .collect();
        paths.sort();
        paths.dedup();
        paths.len()
    }
}

pub(crate) fn plan(inputs: Vec<PlanInput>) -> KeepPlan {
    let mut planner = Planner::default();
    for input in &inputs {
        if input.upper.is(NodeKind::File) && input.upper.links > 1 {
            *planner
                .shared
                .entry((input.layer, input.upper.ino))
                .or_default() += 1;
        }
    }
    for input in inputs {
        planner.add(&input);
    }
    let Planner { mut plan, last, .. } = planner;
    plan.steps.extend(last.into_iter().rev());
    plan
}

#[derive(Default)]
struct Planner {
    plan: KeepPlan,
    /// Attributes are set when all else is done, what is inside first: only then nothing is made there any more.
    last: Vec<KeepStep>,
    /// How many of the inputs are the same file of a layer, by layer and inode.
    shared: HashMap<(usize, u64), u64>,
    /// Copies that other names of the same file are linked to.
    copies: HashMap<(usize, u64), usize>,
    /// The last directory that is new as a whole: nothing real is below it.
    fresh: Option<(usize, RelPath)>,
    /// The last directory that is in conflict: so is all that is in it.
    blocked: Option<(usize, RelPath)>,
}

impl Planner {
    fn add(&mut self, input: &PlanInput) {
        let is_in = |above: &Option<(usize, RelPath)>| {
            above.as_ref().is_some_and(|(layer, path)| {
                *layer == input.layer && input.path.is_at_or_below(path)
            })
        };
        if is_in(&self.blocked) {
            return;
        }
        if input.kind == ChangeKind::NotKept {
            self.plan.not_kept.push((input.layer, input.path.clone()));
            return;
        }
        let is_fresh = is_in(&self.fresh);
        let is_merge = !is_fresh && Self::is_merge(input);
        if is_merge {
            return;
        }
        if !is_fresh && let Some(why) = conflict(input) {
            self.plan.conflicts.push(Conflict {
                layer: input.layer,
                path: input.path.clone(),
                why,
                ours: (input.kind != ChangeKind::Removed).then_some(input.upper),
                theirs: input.now.as_ref().map(|now| now.meta),
            });
            self.blocked = Some((input.layer, input.path.clone()));
            return;
        }
        if let Some(parent) = input.locked_parent.filter(|_| !is_fresh) {
            self.unlock(input, &parent);
        }
        self.step(input, is_fresh);
    }

    /// The command could write there, as the owner who may give himself the right: so do we, for as long as it takes.
    fn unlock(&mut self, input: &PlanInput, meta: &NodeMeta) {
        let Some((path, _)) = input.path.split() else {
            return;
        };
        let is_parent = |step: &KeepStep| step.layer == input.layer && step.path == path;
        if self
            .plan
            .steps
            .iter()
            .any(|step| is_parent(step) && matches!(step.act, StepAct::Set { .. }))
        {
            return;
        }
        let locked = Attributes::of(meta);
        let mut open = locked.clone();
        open.mode |= 0o700;
        let wanted = self.last.iter_mut().find(|step| is_parent(step));
        if let Some(StepAct::Set { before, .. }) = wanted.map(|step| &mut step.act) {
            before.mode = open.mode;
        } else {
            self.last.push(KeepStep {
                layer: input.layer,
                path: path.clone(),
                act: StepAct::Set {
                    before: open.clone(),
                    after: locked.clone(),
                },
            });
        }
        self.plan.steps.push(KeepStep {
            layer: input.layer,
            path,
            act: StepAct::Set {
                before: locked,
                after: open,
            },
        });
    }

    /// Somebody made the same directory meanwhile: what is in both is compared path by path.
    fn is_merge(input: &PlanInput) -> bool {
        let is_dir = |meta: &NodeMeta| meta.is(NodeKind::Directory);
        input.sealed.is_none()
            && is_dir(&input.upper)
            && input.now.as_ref().is_some_and(|now| is_dir(&now.meta))
    }

    fn step(&mut self, input: &PlanInput, is_fresh: bool) {
        let now = if is_fresh { None } else { input.now.clone() };
        match (input.kind, now) {
            // Below a directory that is new, nothing has to be removed.
            (ChangeKind::Removed, None) | (ChangeKind::NotKept, _) => {}
            (ChangeKind::Removed, Some(old)) => {
                self.plan.undo_bytes = self.plan.undo_bytes.saturating_add(old.stored());
                self.push(input, StepAct::Take { old });
            }
            (ChangeKind::Attributes | ChangeKind::Touched, Some(old)) => self.set(input, &old.meta),
            (_, old) => self.place(input, old),
        }
    }

    fn place(&mut self, input: &PlanInput, old: Option<Fingerprint>) {
        let from = self.make(input);
        // A directory is made by us, and looked at once it is there.
        let new = (from == Source::Layer).then_some(input.upper);
        let act = match old {
            Some(old) => {
                self.plan.undo_bytes = self.plan.undo_bytes.saturating_add(old.stored());
                StepAct::Exchange { from, new, old }
            }
            None => StepAct::Put { from, new },
        };
        self.push(input, act);
        if input.upper.is(NodeKind::Directory) {
            self.fresh = match self.fresh.take() {
                Some((layer, above))
                    if layer == input.layer && input.path.is_at_or_below(&above) =>
                {
                    Some((layer, above))
                }
                _ => Some((input.layer, input.path.clone())),
            };
            let mut before = Attributes::of(&input.upper);
            before.mode = 0o700;
            let mut after = Attributes::of(&input.upper);
            after.modified = Some(input.upper.modified);
            self.last.push(KeepStep {
                layer: input.layer,
                path: input.path.clone(),
                act: StepAct::Set { before, after },
            });
        }
    }

    fn make(&mut self, input: &PlanInput) -> Source {
        let number = self.plan.steps.len();
        if input.upper.is(NodeKind::Directory) {
            let xattrs = input.xattrs.clone().unwrap_or_default();
            self.plan.make.insert(number, Make::Directory { xattrs });
            return Source::Workshop;
        }
        let group = (input.layer, input.upper.ino);
        let is_file = input.upper.is(NodeKind::File);
        // A file that the layer goes on to name must not be the real one as well: the next command would write into it.
        let is_whole = !is_file
            || input.upper.links <= 1
            || self.shared.get(&group) == Some(&input.upper.links);
        if input.can_rename && is_whole {
            if input.has_overlay_xattrs {
                self.plan.make.insert(
                    number,
                    Make::Strip {
                        mode: input.upper.mode,
                    },
                );
            }
            return Source::Layer;
        }
        let make = match self.copies.get(&group) {
            Some(first) if is_file && input.upper.links > 1 => Make::LinkTo(*first),
            _ => Make::Copy {
                mode: input.upper.mode,
            },
        };
        self.copies.entry(group).or_insert(number);
        self.plan.make.insert(number, make);
        Source::Workshop
    }

    fn set(&mut self, input: &PlanInput, old: &NodeMeta) {
        let (mut before, mut after) = (Attributes::of(old), Attributes::of(&input.upper));
        if input.path.is_root() {
            (after.uid, after.gid) = (before.uid, before.gid);
        }
        if input.upper.is(NodeKind::Directory) {
            (before.xattrs, after.xattrs) = (input.xattrs_now.clone(), input.xattrs.clone());
        } else {
            (before.modified, after.modified) = (Some(old.modified), Some(input.upper.modified));
        }
        self.last.push(KeepStep {
            layer: input.layer,
            path: input.path.clone(),
            act: StepAct::Set { before, after },
        });
    }

    fn push(&mut self, input: &PlanInput, act: StepAct) {
        self.plan.steps.push(KeepStep {
            layer: input.layer,
            path: input.path.clone(),
            act,
        });
    }
}

fn conflict(input: &PlanInput) -> Option<ConflictReason> {
    match (&input.sealed, &input.now) {
        (None, None) => None,
        (None, Some(_)) => Some(ConflictReason::Appeared),
        (Some(_), None) => Some(ConflictReason::Vanished),
        (Some(sealed), _) if sealed.changed_meanwhile => Some(ConflictReason::ChangedMeanwhile),
        (Some(sealed), Some(now)) => {
            (!sealed.print.is_unchanged(now)).then_some(ConflictReason::ChangedSince)
        }
    }
}
