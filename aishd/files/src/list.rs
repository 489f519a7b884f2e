//! `list`: what is in a directory, as a tree or as names that fit a pattern.

use std::cmp::Reverse;
use std::fs::{self, FileType};
use std::ops::ControlFlow;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::call::{ListCall, ListOrder};
use crate::failure::{FailureKind, FileFailure};
use crate::file_filter::FileFilter;
use crate::place::NamedPlace;
use crate::reply::FileReply;
use crate::request::FileRequest;
use crate::shown::{REPLY_BYTES, name_text, path_text, size};
use crate::walk::{MOST_DEPTH, WalkEnd, WalkEntry, WalkOptions, walk};

/// Entries that are listed unless it is said, and at most.
const USUAL_ENTRIES: u64 = 300;
const MOST_LISTED: u64 = 2000;
const WALK_TIME: Duration = Duration::from_secs(10);

pub(crate) fn list(request: &FileRequest, call: &ListCall) -> Result<FileReply, FileFailure> {
    let place = NamedPlace::of(request, call.path.as_deref().unwrap_or("."))?;
    let real = place.real()?;
    if !real.is_dir() {
        return Err(FileFailure::new(
            FailureKind::WrongKind,
            format!("{} is no directory: `read` shows a file", place.shown),
        ));
    }
    fs::read_dir(&real)
        .map_err(|error| FileFailure::system(&format!("list {}", place.shown), &error))?;
    let filter = FileFilter::of(call.glob.as_deref(), None)?;
    let depth = match (call.depth, &call.glob) {
        (Some(depth), _) => usize::try_from(depth).unwrap_or(MOST_DEPTH).max(1),
        (None, Some(_)) => MOST_DEPTH,
        (None, None) => 1,
    };
    let limit = call.limit.unwrap_or(USUAL_ENTRIES).clamp(1, MOST_LISTED);
    let mut listing = DirectoryListing {
        order: call.sort,
        is_flat: call.glob.is_some() || call.sort == ListOrder::Newest,
        limit: usize::try_from(limit).unwrap_or(1),
        entries: vec![],
        total: 0,
    };
    let options = WalkOptions {
        depth,
        all: call.all,
        until: Instant::now() + WALK_TIME,
    };
    let end = walk(&real, options, &mut |entry| {
        // A pattern is of files; directories are how one gets there.
        let is_wanted = call.glob.is_none() || !entry.kind.is_dir() && filter.takes(entry.path);
        if is_wanted {
            listing.add(entry);
        }
        ControlFlow::Continue(())
    });
    Ok(FileReply::of(listing.shown(call, &end)))
}

/// What was found so far.
struct DirectoryListing {
    order: ListOrder,
    /// Whole paths, one below the other.
    is_flat: bool,
    limit: usize,
    entries: Vec<ListedEntry>,
    total: usize,
}

struct ListedEntry {
    path: PathBuf,
    full: PathBuf,
    kind: FileType,
    depth: usize,
    changed: SystemTime,
}

impl DirectoryListing {
    fn add(&mut self, entry: WalkEntry<'_>) {
        self.total += 1;
        let changed = match self.order {
            ListOrder::Name if self.entries.len() >= self.limit => return,
            ListOrder::Name => UNIX_EPOCH,
            ListOrder::Newest => {
                let meta = fs::symlink_metadata(entry.full);
                meta.and_then(|it| it.modified()).unwrap_or(UNIX_EPOCH)
            }
        };
        self.entries.push(ListedEntry {
            path: entry.path.to_owned(),
            full: entry.full.to_owned(),
            kind: entry.kind,
            depth: entry.depth,
            changed,
        });
    }

    fn shown(mut self, call: &ListCall, end: &WalkEnd) -> String {
        if self.order == ListOrder::Newest {
            // Those of one time stay in the order of names.
            self.entries.sort_by_key(|it| Reverse(it.changed));
            self.entries.truncate(self.limit);
        }
        let mut text = String::new();
        let mut shown = 0;
        for entry in &self.entries {
            let row = entry.row(self.is_flat);
            if text.len() + row.len() > REPLY_BYTES {
                break;
            }
            text.push_str(&row);
            shown += 1;
        }
        let mut notes = vec![];
        if self.total == 0 {
            notes.push(match call.glob {
                Some(_) => "no file there fits the glob".to_owned(),
                None => "the directory is empty".to_owned(),
            });
        }
        if shown < self.total {
            let least = if end.is_cut() { "at least " } else { "" };
            notes.push(format!(
                "{shown} of {least}{}: a `glob`, another `path` or a higher `limit` shows others",
                self.total
            ));
        }
        if end.left_out > 0 {
            notes.push(format!(
                "{} left out, because ignore files name {}; `all` lists what is left out",
                match end.left_out {
                    1 => "1 entry is".to_owned(),
                    entries => format!("{entries} entries are"),
                },
                if end.left_out == 1 { "it" } else { "them" }
            ));
        }
        notes.extend(end.notes());
        for note in notes {
            text.push_str(&format!("[{note}]\n"));
        }
        text
    }
}

impl ListedEntry {
    fn row(&self, is_flat: bool) -> String {
        use std::os::unix::ffi::OsStrExt as _;
        let name = match self.path.file_name() {
            Some(name) if !is_flat => name_text(name.as_bytes()),
            _ => path_text(&self.path),
        };
        let indent = match is_flat {
            true => String::new(),
            false => "  ".repeat(self.depth - 1),
        };
        format!("{indent}{name}{}\n", mark(&self.full, self.kind))
    }
}

/// What an entry is, behind its name.
fn mark(full: &Path, kind: FileType) -> String {
    if kind.is_dir() {
        "/".to_owned()
    } else if kind.is_symlink() {
        let target = fs::read_link(full).unwrap_or_default();
        format!(" -> {}", path_text(&target))
    } else if kind.is_file() {
        let bytes = fs::symlink_metadata(full).map_or(0, |it| it.len());
        format!("  {}", size(bytes))
    } else if kind.is_fifo() {
        "  (a pipe)".to_owned()
    } else if kind.is_socket() {
        "  (a socket)".to_owned()
    } else {
        "  (a device)".to_owned()
    }
}
