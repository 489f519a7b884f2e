//! `read`: lines of a file with their numbers, a picture, or the cells of a notebook; never more than a reply has room for, and
//! always with the words for how to go on.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::call::ReadCall;
use crate::content_kind::{ContentKind, HEAD_BYTES};
use crate::failure::{FailureKind, FileFailure};
use crate::fingerprint::{FileFingerprint, SeenFile};
use crate::notebook;
use crate::open::{OpenedFile, open};
use crate::place::NamedPlace;
use crate::reply::{FileReply, ReadPicture};
use crate::request::FileRequest;
use crate::shown::{
    LINE_CHARS, REPLY_BYTES, counted, lines, numbered, path_text, size, without_end,
};
use crate::text::{DecodedText, LineEnds, TextEncoding, shown_bytes};

/// Lines that one call shows.
pub(crate) const MOST_LINES: u64 = 2000;
/// A file up to this size is read as a whole. Of a larger one only lines are shown, and nobody can edit it by its fingerprint.
pub(crate) const WHOLE_BYTES: u64 = 64 << 20;
/// What services take as a picture: 5 MB in base64.
const PICTURE_BYTES: u64 = 3_750_000;
/// How long lines are looked for in a file that is not read as a whole.
const SEEK_TIME: Duration = Duration::from_secs(10);

pub(crate) fn read(request: &FileRequest, call: &ReadCall) -> Result<FileReply, FileFailure> {
    let place = NamedPlace::of(request, &call.file_path)?;
    let opened = OpenedFile::open(&place)?;
    if opened.meta.len() > WHOLE_BYTES {
        return read_large(&place, &opened, call);
    }
    let content = opened.read(&place, WHOLE_BYTES)?;
    let bytes = content.bytes.as_slice();
    let seen = content.is_whole.then(|| SeenFile {
        path: real_text(&place),
        fingerprint: FileFingerprint::of(bytes),
    });
    match ContentKind::of(bytes) {
        ContentKind::Picture(media_type) => picture(&place, media_type, bytes),
        ContentKind::Binary(name) => Err(binary(&place, name, bytes.len() as u64)),
        ContentKind::Text => {
            let decoded = DecodedText::of(bytes);
            let cells = notebook::cells(&place, &decoded.text);
            let text = match cells {
                Some(cells) => notebook::shown(&place, &cells, call)?,
                None => text(&place, &decoded, call, content.is_whole)?,
            };
            Ok(FileReply {
                seen,
                ..FileReply::of(text)
            })
        }
    }
}

/// Where a file really is, as it is kept in [`SeenFile`].
pub(crate) fn real_text(place: &NamedPlace) -> String {
    let real = fs::canonicalize(&place.path);
    path_text(real.as_deref().unwrap_or(&place.path))
}

fn picture(place: &NamedPlace, media_type: &str, bytes: &[u8]) -> Result<FileReply, FileFailure> {
    let shown = &place.shown;
    let is = size(bytes.len() as u64);
    if bytes.len() as u64 > PICTURE_BYTES {
        return Err(FileFailure::new(
            FailureKind::TooLarge,
            format!(
                "{shown} is a picture ({media_type}) of {is}, and {} are the most that can be shown: make a smaller copy with a command",
                size(PICTURE_BYTES)
            ),
        ));
    }
    Ok(FileReply {
        picture: Some(ReadPicture {
            media_type: media_type.to_owned(),
            base64: STANDARD.encode(bytes),
        }),
        ..FileReply::of(format!("[{shown}: a picture, {media_type}, {is}]\n"))
    })
}

fn binary(place: &NamedPlace, name: &str, bytes: u64) -> FileFailure {
    FileFailure::new(
        FailureKind::NotText,
        format!(
            "{} is {name}, {}: it cannot be read as text; a command such as `file` or `strings` says more",
            place.shown,
            size(bytes)
        ),
    )
}

/// Lines with their numbers, and what else there is to know of the file.
fn text(
    place: &NamedPlace,
    decoded: &DecodedText<'_>,
    call: &ReadCall,
    is_whole: bool,
) -> Result<String, FileFailure> {
    let text = &*decoded.text;
    let total = lines(text).count();
    let first = usize::try_from(call.offset.unwrap_or(1)).unwrap_or(usize::MAX);
    if total == 0 {
        return Ok("[the file is empty]\n".to_owned());
    }
    if first > total {
        return Err(no_such_line(place, total, first));
    }
    let most = most_lines(call);
    let mut part = ShownPart::from(first);
    for line in lines(text).skip(first - 1).take(most) {
        if !part.add(line, line.chars().nth(LINE_CHARS).is_some()) {
            break;
        }
    }
    let last = part.next - 1;
    let mut notes = vec![];
    if last < total {
        notes.push(format!(
            "lines {first} to {last} of {total}; `offset`: {} reads on",
            part.next
        ));
    } else if first > 1 {
        notes.push(format!("lines {first} to {last} of {total}"));
    }
    notes.extend(part.cut_note(place));
    if last == total && !text.ends_with('\n') {
        notes.push("the last line has no newline at its end".to_owned());
    }
    notes.extend(about(decoded));
    if !is_whole {
        notes.push(format!(
            "only the first {} were read: the file gives more than its size says, and cannot be edited here",
            size(WHOLE_BYTES)
        ));
    }
    Ok(part.with_notes(&notes))
}

fn no_such_line(place: &NamedPlace, total: usize, first: usize) -> FileFailure {
    FileFailure::new(
        FailureKind::BadRequest,
        format!(
            "{} has {}: there is no line {first}",
            place.shown,
            counted(total, "line")
        ),
    )
}

fn most_lines(call: &ReadCall) -> usize {
    let most = call.limit.unwrap_or(MOST_LINES).min(MOST_LINES);
    usize::try_from(most).unwrap_or(1)
}

/// What whoever edits the file should know.
fn about(decoded: &DecodedText<'_>) -> Vec<String> {
    if decoded.encoding.is_utf16() {
        return vec!["it is UTF-16: it can be read here, not edited".to_owned()];
    }
    if decoded.invalid > 0 {
        let bytes = match decoded.invalid {
            1 => "1 byte is".to_owned(),
            invalid => format!("{invalid} bytes are"),
        };
        return vec![format!(
            "{bytes} no UTF-8, shown as \\xNN: it can be read here, not edited"
        )];
    }
    let mut notes = vec![];
    match decoded.line_ends() {
        LineEnds::Plain => {}
        LineEnds::Windows => notes.push("its lines end with CR LF, which `edit` keeps".to_owned()),
        LineEnds::Mixed { plain, windows } => {
            let lines = match windows {
                1 => "1 line ends".to_owned(),
                windows => format!("{windows} lines end"),
            };
            notes.push(format!(
                "{lines} with CR LF and {plain} with LF; `edit` keeps each"
            ));
        }
    }
    if decoded.encoding == TextEncoding::Utf8Marked {
        notes.push("it begins with a byte order mark, which `edit` keeps".to_owned());
    }
    notes
}

/// Numbered lines, as many as fit.
struct ShownPart {
    text: String,
    /// The number of the line that comes next.
    next: usize,
    /// The first line of which the end is not shown.
    first_cut: Option<usize>,
}

impl ShownPart {
    fn from(first: usize) -> Self {
        Self {
            text: String::new(),
            next: first,
            first_cut: None,
        }
    }

    /// `false`: there is no room for it.
    fn add(&mut self, line: &str, is_cut: bool) -> bool {
        let row = numbered(self.next, line);
        if self.text.len() + row.len() > REPLY_BYTES {
            return false;
        }
        self.text.push_str(&row);
        if is_cut {
            self.first_cut.get_or_insert(self.next);
        }
        self.next += 1;
        true
    }

    fn cut_note(&self, place: &NamedPlace) -> Option<String> {
        let line = self.first_cut?;
        let (from, to) = (LINE_CHARS + 1, LINE_CHARS * 2);
        let shown = &place.shown;
        Some(format!(
            "the rest of a long line is read by a command: sed -n {line}p '{shown}' | cut -c {from}-{to}"
        ))
    }

    fn with_notes(mut self, notes: &[String]) -> String {
        for note in notes {
            self.text.push_str(&format!("[{note}]\n"));
        }
        self.text
    }
}

/// Lines of a file that is not held in memory.
fn read_large(
    place: &NamedPlace,
    opened: &OpenedFile,
    call: &ReadCall,
) -> Result<FileReply, FileFailure> {
    let is = size(opened.meta.len());
    let failed = |error| FileFailure::system(&format!("read {}", place.shown), &error);
    let mut head = vec![];
    let again = open(&place.path).map_err(failed)?;
    again
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head)
        .map_err(failed)?;
    match ContentKind::of(&head) {
        ContentKind::Text if !DecodedText::of(&head).encoding.is_utf16() => {}
        ContentKind::Text => return Err(binary(place, "UTF-16 text", opened.meta.len())),
        ContentKind::Picture(media_type) => {
            return Err(FileFailure::new(
                FailureKind::TooLarge,
                format!(
                    "{} is a picture ({media_type}) of {is}: that is too large to be shown",
                    place.shown
                ),
            ));
        }
        ContentKind::Binary(name) => return Err(binary(place, name, opened.meta.len())),
    }
    let first = usize::try_from(call.offset.unwrap_or(1)).unwrap_or(usize::MAX);
    let mut lines = LargeLines {
        reader: BufReader::with_capacity(256 * 1024, &opened.file),
        until: Instant::now() + SEEK_TIME,
    };
    for before in 1..first {
        match lines.skip().map_err(failed)? {
            LargeStep::Line => {}
            LargeStep::End => return Err(no_such_line(place, before - 1, first)),
            LargeStep::TooLate => {
                return Err(FileFailure::new(
                    FailureKind::TooLarge,
                    format!(
                        "{} has {is}, and line {first} is too far inside; read it with a command: sed -n '{first},+100p'",
                        place.shown
                    ),
                ));
            }
        }
    }
    let mut part = ShownPart::from(first);
    let mut is_end = false;
    for _ in 0..most_lines(call) {
        let Some((line, is_cut)) = lines.next().map_err(failed)? else {
            is_end = true;
            break;
        };
        if !part.add(&line, is_cut) {
            break;
        }
    }
    let mut notes = vec![match is_end {
        true => format!("lines {first} to {}, the end", part.next - 1),
        false => format!(
            "lines {first} to {}; `offset`: {} reads on",
            part.next - 1,
            part.next
        ),
    }];
    notes.extend(part.cut_note(place));
    notes.push(format!(
        "the file has {is}: it can be read here, not edited"
    ));
    Ok(FileReply::of(part.with_notes(&notes)))
}

struct LargeLines<'a> {
    reader: BufReader<&'a File>,
    until: Instant,
}

enum LargeStep {
    Line,
    End,
    TooLate,
}

impl LargeLines<'_> {
    /// Passes over one line.
    fn skip(&mut self) -> std::io::Result<LargeStep> {
        let mut is_begun = false;
        loop {
            if Instant::now() > self.until {
                return Ok(LargeStep::TooLate);
            }
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(if is_begun {
                    LargeStep::Line
                } else {
                    LargeStep::End
                });
            }
            is_begun = true;
            let end = memchr::memchr(b'\n', buffer);
            let used = end.map_or(buffer.len(), |it| it + 1);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(LargeStep::Line);
            }
        }
    }

    /// The beginning of a line, and whether there is more of it.
    fn next(&mut self) -> std::io::Result<Option<(String, bool)>> {
        // A character has four bytes at most, and one too many tells that there is more.
        let most = (LINE_CHARS + 1) * 4;
        let mut line = vec![];
        (&mut self.reader)
            .take(most as u64)
            .read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let is_cut = line.len() == most && !line.ends_with(b"\n");
        if is_cut {
            let _rest = self.skip()?;
        }
        let (text, _invalid) = shown_bytes(&line);
        let line = without_end(&text).to_owned();
        let is_cut = is_cut || line.chars().nth(LINE_CHARS).is_some();
        Ok(Some((line, is_cut)))
    }
}
