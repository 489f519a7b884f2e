//! The one rule for room on the disk of the store: what begins must leave room for its end.

use std::path::Path;
use std::{fs, io};

use aishd_log::event::{Event, Record};

use super::disk::{self, SPARE_BYTES};
use super::{CommitError, disk_reserve};

/// The index takes several times what the journal does.
const INDEX_FACTOR: u64 = 8;
/// An end may make the index wait for room: it is in the journal, which takes it once.
const END_FACTOR: u64 = 2;
/// A question as they usually are. With less room than for that the disk counts as full.
const USUAL_BYTES: u64 = 64 * 1024;

/// How much of the disk a write may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskClaim {
    /// Something begins: taken only where its end has room too.
    Begin,
    /// What has begun goes on: the reserve stays, or what it was given back for.
    GoOn,
    /// Something ends, or gives room back: for this the reserve is there.
    End,
}

impl DiskClaim {
    pub fn of(records: &[Record]) -> Self {
        let any = |is: fn(&Event) -> bool| records.iter().any(|it| is(&it.event));
        let ends_turn = any(|it| matches!(it, Event::TurnFinished { .. }));
        let starts = any(|it| {
            matches!(
                it,
                Event::TurnStarted { .. }
                    | Event::ToolStarted { .. }
                    | Event::ShellStarted { .. }
                    | Event::ConfirmRequested(_)
            )
        });
        if ends_turn {
            return Self::End;
        }
        if any(begins) {
            return Self::Begin;
        }
        if any(ends) && !starts {
            return Self::End;
        }
        Self::GoOn
    }
}

fn begins(event: &Event) -> bool {
    matches!(
        event,
        Event::Created { .. }
            | Event::UserMessage { .. }
            | Event::TurnQueued { .. }
            | Event::TurnStarted { .. }
            | Event::Imported(_)
    )
}

fn ends(event: &Event) -> bool {
    matches!(
        event,
        Event::ConfirmResolved(_)
            | Event::ToolResult { .. }
            | Event::ShellFinished { .. }
            | Event::JobEnded(_)
    )
}

/// The disk at a moment, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskRoom {
    pub(super) free: u64,
    /// In the reserve; it can be given back.
    pub(super) held: u64,
    /// What the reserve is on a disk of this size.
    pub(super) reserve: u64,
    /// What is left of what a person lets the store take; `None`: there is no such limit.
    pub(super) below_limit: Option<u64>,
}

impl DiskRoom {
    pub(super) fn on(dir: &Path, below_limit: Option<u64>) -> io::Result<Self> {
        let (disk, free) = disk::sizes(dir)?;
        let held = fs::metadata(dir.join(disk_reserve::NAME)).map_or(0, |it| it.len());
        Ok(Self {
            free,
            held,
            reserve: disk_reserve::bytes_on(disk),
            below_limit,
        })
    }

    /// What must be there, free or in the reserve, for a write of `bytes`.
    fn need(&self, claim: DiskClaim, bytes: u64) -> u64 {
        match claim {
            DiskClaim::Begin => SPARE_BYTES + self.reserve + INDEX_FACTOR * bytes,
            DiskClaim::GoOn => SPARE_BYTES + self.held.max(self.reserve / 2) + INDEX_FACTOR * bytes,
            DiskClaim::End => SPARE_BYTES / 2 + END_FACTOR * bytes,
        }
    }

    /// Why a write is not taken; `None`: it is. What has begun goes beyond a person's limit to its end.
    pub(super) fn refusal(&self, claim: DiskClaim, bytes: u64) -> Option<CommitError> {
        if claim == DiskClaim::Begin && self.below_limit.is_some_and(|it| it < bytes) {
            return Some(CommitError::Limit);
        }
        let has = self.free.saturating_add(self.held) >= self.need(claim, bytes);
        (!has).then_some(CommitError::Full)
    }

    /// Whether a write that is taken needs what the reserve holds.
    pub(super) fn needs_reserve(&self, bytes: u64) -> bool {
        self.held > 0 && self.free < self.need(DiskClaim::End, bytes)
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.free = self.free.saturating_sub(END_FACTOR * bytes);
        self.below_limit = self.below_limit.map(|it| it.saturating_sub(bytes));
    }

    /// Why nothing begins, in words; `None`: something can.
    pub(super) fn lack(&self) -> Option<String> {
        if self.below_limit.is_some_and(|it| it < USUAL_BYTES) {
            return Some(CommitError::Limit.to_string());
        }
        let need = self.need(DiskClaim::Begin, USUAL_BYTES);
        let there = self.free.saturating_add(self.held);
        (there < need).then(|| {
            let megabytes = |it: u64| it.div_ceil(1 << 20);
            format!(
                "no room on the disk of the store: nothing begins until {} MiB more are free",
                megabytes(need - there)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn room(free: u64, held: u64) -> DiskRoom {
        DiskRoom {
            free: free * MIB,
            held: held * MIB,
            reserve: 8 * MIB,
            below_limit: None,
        }
    }

    #[test]
    fn beyond_the_limit_of_a_person_what_has_begun_goes_to_its_end_and_nothing_begins() {
        let limited = |below_limit| DiskRoom {
            below_limit,
            ..room(100, 8)
        };
        let taken = |it: DiskRoom| {
            [DiskClaim::Begin, DiskClaim::GoOn, DiskClaim::End]
                .map(|claim| it.refusal(claim, 10_000).is_none())
        };
        assert_eq!([true, true, true], taken(limited(Some(10_000))));
        assert_eq!([false, true, true], taken(limited(Some(9_999))));
        let lack = limited(Some(9_999)).lack().unwrap();
        assert!(lack.contains("store.max_bytes"), "{lack}");
    }

    #[test]
    fn what_begins_leaves_room_for_what_ends() {
        let taken = |it: DiskRoom| {
            [DiskClaim::Begin, DiskClaim::GoOn, DiskClaim::End]
                .map(|claim| it.refusal(claim, 10_000).is_none())
        };
        assert_eq!([true, true, true], taken(room(100, 8)));
        assert_eq!([true, true, true], taken(room(3, 8)));
        assert_eq!([false, false, true], taken(room(0, 8)));
        assert_eq!([false, true, true], taken(room(8, 0)));
        assert_eq!([false, false, true], taken(room(5, 0)));
        assert_eq!([false, false, false], taken(room(1, 0)));
    }

    #[test]
    fn the_reserve_is_given_back_when_the_rest_is_too_small() {
        assert!(!room(3, 8).needs_reserve(10_000));
        assert!(room(3, 8).needs_reserve(2 * MIB));
        assert!(room(0, 8).needs_reserve(10));
        assert!(!room(0, 0).needs_reserve(10));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(None, room(100, 0).lack());
        let lack = room(6, 0).lack().unwrap();
        assert!(lack.ends_with("until 5 MiB more are free"), "{lack}");
    }
}
