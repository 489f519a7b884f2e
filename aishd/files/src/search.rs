//! `search`: lines that match a pattern, in a file or in all files of a directory, in the order of their names.

use std::fs;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use rustix::fs::OFlags;

use crate::call::{SearchCall, SearchOutput};
use crate::failure::{FailureKind, FileFailure};
use crate::file_filter::FileFilter;
use crate::found_lines::FoundLines;
use crate::open::OpenedFile;
use crate::place::NamedPlace;
use crate::reply::FileReply;
use crate::request::FileRequest;
use crate::shown::{REPLY_BYTES, counted, path_text};
use crate::walk::{MOST_DEPTH, WalkEnd, WalkOptions, walk};

/// Matching lines, or files, that are shown unless it is said, and at most.
const USUAL_FOUND: u64 = 100;
const MOST_FOUND: u64 = 2000;
const MOST_CONTEXT: u64 = 50;
const SEARCH_TIME: Duration = Duration::from_secs(10);
/// The longest line that is looked at.
const LONGEST_LINE: usize = 16 << 20;
/// What a compiled pattern may take.
const PATTERN_MEMORY: usize = 10 << 20;

pub(crate) fn search(request: &FileRequest, call: &SearchCall) -> Result<FileReply, FileFailure> {
    let place = NamedPlace::of(request, call.path.as_deref().unwrap_or("."))?;
    let matcher = matcher(call)?;
    let filter = FileFilter::of(call.glob.as_deref(), call.file_type.as_deref())?;
    let real = place.real()?;
    let mut searching = FileSearch {
        call,
        matcher,
        searcher: searcher(call),
        until: Instant::now() + SEARCH_TIME,
        skip: call.offset.unwrap_or(0),
        room: call.head_limit.unwrap_or(USUAL_FOUND).clamp(1, MOST_FOUND),
        found: SearchFindings::default(),
    };
    let mut end = WalkEnd::default();
    if real.is_dir() {
        fs::read_dir(&real)
            .map_err(|error| FileFailure::system(&format!("search {}", place.shown), &error))?;
        let options = WalkOptions {
            depth: MOST_DEPTH,
            all: call.all,
            until: searching.until,
        };
        end = walk(&real, options, &mut |entry| {
            let name = entry.path.file_name();
            let holds_keys = request.keys.iter().any(|it| name == Some(it.as_ref()));
            if entry.kind.is_file() && !holds_keys && filter.takes(entry.path) {
                return searching.walked(entry.full, entry.path);
            }
            ControlFlow::Continue(())
        });
    } else {
        let opened = OpenedFile::open(&place)?;
        let _ended = searching.file(opened.file, Path::new(&place.shown));
    }
    if searching.found.is_late {
        end.out_of_time();
    }
    Ok(FileReply::of(searching.shown(&end)))
}

fn matcher(call: &SearchCall) -> Result<RegexMatcher, FileFailure> {
    let built = RegexMatcherBuilder::new()
        .case_insensitive(call.ignore_case)
        .fixed_strings(call.literal)
        .multi_line(true)
        // Lines end with or without a carriage return, and no pattern goes beyond.
        .crlf(true)
        .size_limit(PATTERN_MEMORY)
        .dfa_size_limit(PATTERN_MEMORY)
        .build(&call.pattern);
    built.map_err(|error| {
        let error = error.to_string();
        let hint = if error.contains("literal") && error.contains("not allowed") {
            "a pattern matches within one line"
        } else if call.literal {
            "it is too large"
        } else {
            "put a backslash before what is meant as it is, or set `literal`"
        };
        FileFailure::new(
            FailureKind::BadRequest,
            format!("the pattern is no regular expression: {error}\n{hint}"),
        )
    })
}

fn searcher(call: &SearchCall) -> Searcher {
    let lines = |own: Option<u64>| {
        let wanted = match call.output_mode {
            SearchOutput::Content => own.or(call.context).unwrap_or(0).min(MOST_CONTEXT),
            SearchOutput::FilesWithMatches | SearchOutput::Count => 0,
        };
        usize::try_from(wanted).unwrap_or(0)
    };
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .binary_detection(BinaryDetection::quit(0))
        .memory_map(MmapChoice::never())
        .heap_limit(Some(LONGEST_LINE))
        .line_number(true)
        .before_context(lines(call.before))
        .after_context(lines(call.after))
        .build()
}

struct FileSearch<'a> {
    call: &'a SearchCall,
    matcher: RegexMatcher,
    searcher: Searcher,
    until: Instant,
    skip: u64,
    room: u64,
    found: SearchFindings,
}

#[derive(Default)]
struct SearchFindings {
    text: String,
    /// Files and lines that match; of those that are counted.
    files: u64,
    lines: u64,
    searched: u64,
    binary: u64,
    unreadable: u64,
    has_more: bool,
    has_cut: bool,
    is_late: bool,
    is_full: bool,
}

impl FileSearch<'_> {
    /// A file that the walk came upon. It may be another one by now: a link is not followed, and a pipe not waited for.
    fn walked(&mut self, full: &Path, path: &Path) -> ControlFlow<()> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = fs::File::options()
            .read(true)
            .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
            .open(full);
        let opened = opened.and_then(|it| Ok((it.metadata()?.is_file(), it)));
        match opened {
            Ok((true, file)) => {
                let shown = match &self.call.path {
                    Some(named) if named != "." => Path::new(named).join(path),
                    _ => PathBuf::from(path),
                };
                self.file(file, &shown)
            }
            Ok((false, _)) => ControlFlow::Continue(()),
            Err(_) => {
                self.found.unreadable += 1;
                ControlFlow::Continue(())
            }
        }
    }

    fn file(&mut self, file: fs::File, shown: &Path) -> ControlFlow<()> {
        self.found.searched += 1;
        let timed = TimedFile {
            file,
            until: self.until,
        };
        let output = self.call.output_mode;
        let before = (self.skip, self.room);
        let mut lines = FoundLines::of(&self.matcher, output, &mut self.skip, &mut self.room);
        let searched = self
            .searcher
            .search_reader(&self.matcher, timed, &mut lines);
        let FoundLines {
            text,
            count,
            has_more,
            is_binary,
            has_cut,
            ..
        } = lines;
        match searched {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => self.found.is_late = true,
            Err(_unreadable_or_a_line_too_long) => self.found.unreadable += 1,
        }
        if is_binary {
            // What matched before that was known is no text either.
            (self.skip, self.room) = before;
            self.found.binary += 1;
        } else {
            self.found.has_cut |= has_cut;
            self.found.has_more |= has_more;
            self.add(&text, count, shown);
        }
        match self.found.is_late || self.found.has_more || self.found.is_full {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn add(&mut self, text: &str, count: u64, shown: &Path) {
        if count == 0 {
            return;
        }
        let name = path_text(shown);
        let row = match self.call.output_mode {
            SearchOutput::Content => format!("{name}\n{text}"),
            SearchOutput::FilesWithMatches => format!("{name}\n"),
            SearchOutput::Count => format!("{name}: {count}\n"),
        };
        self.found.files += 1;
        self.found.lines += count;
        let is_list = self.call.output_mode != SearchOutput::Content;
        if is_list && self.skip > 0 {
            self.skip -= 1;
            return;
        }
        if is_list && self.room == 0 {
            self.found.has_more = self.call.output_mode == SearchOutput::FilesWithMatches;
            return;
        }
        if is_list {
            self.room -= 1;
        }
        let room = REPLY_BYTES.saturating_sub(self.found.text.len());
        if row.len() <= room {
            self.found.text.push_str(&row);
            return;
        }
        self.found.is_full = true;
        let mut end = room;
        while !row.is_char_boundary(end) {
            end -= 1;
        }
        let whole = row[..end].rfind('\n').map_or(0, |it| it + 1);
        self.found.text.push_str(&row[..whole]);
    }

    fn shown(self, end: &WalkEnd) -> String {
        let Self { call, found, .. } = self;
        let mut text = found.text;
        let mut notes = vec![];
        if found.files == 0 {
            let files = usize::try_from(found.searched).unwrap_or(usize::MAX);
            notes.push(format!("nothing found in {}", counted(files, "file")));
            if end.left_out > 0 {
                notes.push("what ignore files name was not searched; `all` searches it".to_owned());
            }
        }
        let limit = call.head_limit.unwrap_or(USUAL_FOUND).clamp(1, MOST_FOUND);
        if call.output_mode == SearchOutput::Count && found.files > 0 {
            let listed = found.files.saturating_sub(call.offset.unwrap_or(0));
            if listed > limit {
                notes.push(format!("{limit} of the files are listed"));
            }
            notes.push(format!(
                "{} in {}",
                match found.lines {
                    1 => "1 matching line".to_owned(),
                    lines => format!("{lines} matching lines"),
                },
                match found.files {
                    1 => "1 file".to_owned(),
                    files => format!("{files} files"),
                }
            ));
        }
        if found.is_full {
            notes.push(
                "there is no room for more: a narrower pattern, `path`, `glob` or less context shows the rest"
                    .to_owned(),
            );
        } else if found.has_more {
            notes.push(format!(
                "there is more: `offset`: {} reads on, or a narrower pattern, `path` or `glob`",
                call.offset.unwrap_or(0).saturating_add(limit)
            ));
        }
        if found.has_cut {
            notes.push("long lines are shown around the match".to_owned());
        }
        let numbered = |number: u64, one: &str, many: &str| match number {
            1 => format!("1 {one}"),
            number => format!("{number} {many}"),
        };
        if found.binary > 0 {
            let files = numbered(
                found.binary,
                "file that is no text was",
                "files that are no text were",
            );
            notes.push(format!("{files} left out"));
        }
        if found.unreadable > 0 {
            let files = numbered(found.unreadable, "file", "files");
            notes.push(format!("{files} could not be searched"));
        }
        notes.extend(end.notes());
        for note in notes {
            text.push_str(&format!("[{note}]\n"));
        }
        text
    }
}

/// A file that cannot be read any more when the time is over.
struct TimedFile {
    file: fs::File,
    until: Instant,
}

impl Read for TimedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() > self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}
