//! `edit`: exact text of a file that was read is replaced, in one place or several, all or none.

use std::ops::Range;

use crate::call::{EditCall, TextEdit, which};
use crate::change_target::{ChangeTarget, MOST_BYTES, too_large};
use crate::failure::{FailureKind, FileFailure};
use crate::fingerprint::{FileFingerprint, SeenFile};
use crate::matching::{FoundSpans, ReplacedText};
use crate::nearest::hint;
use crate::place::NamedPlace;
use crate::replace::replace;
use crate::reply::FileReply;
use crate::request::FileRequest;
use crate::shown::{counted, line_of, path_text, snippet};

/// Lines shown before and after what was changed.
const LINES_AROUND: usize = 3;
/// Places that are shown, and lines of each.
const SHOWN_PLACES: usize = 8;
const SHOWN_LINES: usize = 40;
const SHOWN_BYTES: usize = 8 * 1024;
/// Places that are named where there are too many.
const NAMED_LINES: usize = 10;

pub(crate) fn edit(request: &FileRequest, call: &EditCall) -> Result<FileReply, FileFailure> {
    let place = NamedPlace::of(request, &call.file_path)?;
    let target = ChangeTarget::open(request, &place)?;
    let decoded = target.text()?;
    let mut edited = EditedText {
        text: decoded.text.clone().into_owned(),
        places: vec![],
        count: 0,
    };
    let shown = &target.place.shown;
    for (number, edit) in call.edits.iter().enumerate() {
        let which = which(number, call.edits.len());
        edited.make(edit).map_err(|(kind, why)| {
            let nothing = match call.edits.len() {
                1 => "",
                _ => " Nothing was changed.",
            };
            FileFailure::new(
                kind,
                format!("{which}`old_string` {} {shown}{why}{nothing}", is_in(kind)),
            )
        })?;
        if edited.text.len() as u64 > MOST_BYTES {
            return Err(too_large(&target.place, edited.text.len() as u64));
        }
    }
    if edited.text == decoded.text {
        return Err(FileFailure::new(
            FailureKind::NoChange,
            format!("{shown} would be the same as before: nothing was changed"),
        ));
    }
    let content = decoded.encoding.bytes(&edited.text).unwrap_or_default();
    replace(&target, &content)?;
    Ok(FileReply {
        seen: Some(SeenFile {
            path: path_text(&target.real),
            fingerprint: FileFingerprint::of(&content),
        }),
        ..FileReply::of(format!(
            "{shown}: {} replaced\n{}",
            counted(edited.count, "place"),
            edited.shown()
        ))
    })
}

fn is_in(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::NoMatch => "is not in",
        _ => "is more than once in",
    }
}

struct EditedText {
    text: String,
    /// What was put in, where it is now; the first of each edit.
    places: Vec<Range<usize>>,
    count: usize,
}

impl EditedText {
    fn make(&mut self, edit: &TextEdit) -> Result<(), (FailureKind, String)> {
        let found = FoundSpans::of(&self.text, &edit.old_string);
        let spans = &found.spans;
        if spans.is_empty() {
            let why = hint(&self.text, &edit.old_string);
            return Err((FailureKind::NoMatch, format!(": {why}")));
        }
        if !edit.replace_all && (spans.len() > 1 || found.overlaps) {
            return Err((FailureKind::ManyMatches, self.where_it_is(&found)));
        }
        // Whoever named line ends that are not there did not mean to bring them in.
        let is_as_named = !edit.old_string.contains("\r\n")
            || spans
                .iter()
                .any(|it| self.text[it.clone()].contains("\r\n"));
        let new = match is_as_named {
            true => edit.new_string.clone(),
            false => edit.new_string.replace("\r\n", "\n"),
        };
        let replaced = ReplacedText::of(&self.text, spans, &new);
        replaced.moved(spans, &mut self.places);
        self.places
            .extend(replaced.spans.iter().take(SHOWN_PLACES).cloned());
        self.count += spans.len();
        self.text = replaced.text;
        Ok(())
    }

    fn where_it_is(&self, found: &FoundSpans) -> String {
        let count = found.spans.len();
        let lines = found.spans.iter().take(NAMED_LINES);
        let lines: Vec<String> = lines
            .map(|it| line_of(&self.text, it.start).to_string())
            .collect();
        let more = if count > NAMED_LINES { " …" } else { "" };
        let places = match count {
            1 => format!("it overlaps itself at line {}", lines.join("")),
            count => format!("{count} times, at lines {}{more}", lines.join(", ")),
        };
        format!(": {places}. Add lines around it until it is there once, or set `replace_all`.")
    }

    /// The changed lines with some around them.
    fn shown(&self) -> String {
        let mut ranges: Vec<Range<usize>> = self
            .places
            .iter()
            .map(|it| {
                let first = line_of(&self.text, it.start).saturating_sub(LINES_AROUND);
                // A newline at the end begins no line of its own.
                let last = it.end.saturating_sub(1).max(it.start);
                let last = line_of(&self.text, self.text.floor_char_boundary(last));
                first.max(1)..last + LINES_AROUND + 1
            })
            .collect();
        ranges.sort_by_key(|it| it.start);
        let mut joined: Vec<Range<usize>> = vec![];
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        let mut shown = String::new();
        let mut left = joined.len();
        for range in joined.iter().take(SHOWN_PLACES) {
            let part = snippet(&self.text, range.start, range.len().min(SHOWN_LINES));
            if shown.len() + part.len() > SHOWN_BYTES {
                break;
            }
            if !shown.is_empty() {
                shown.push_str("--\n");
            }
            shown.push_str(&part);
            if range.len() > SHOWN_LINES {
                shown.push_str("[…]\n");
            }
            left -= 1;
        }
        if left > 0 || self.count > self.places.len() {
            shown.push_str("[the other places are not shown]\n");
        }
        shown
    }
}
