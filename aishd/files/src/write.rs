//! `write`: a new file, with the directories that it needs, or all new content of one that was read.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::call::WriteCall;
use crate::change_target::{ChangeTarget, MOST_BYTES, too_large};
use crate::failure::{FailureKind, FileFailure};
use crate::fingerprint::{FileFingerprint, SeenFile};
use crate::place::NamedPlace;
use crate::replace::{create, replace};
use crate::reply::FileReply;
use crate::request::FileRequest;
use crate::shown::{counted, lines, path_text, size};
use crate::text::{LineEnds, TextEncoding, with_windows_ends};

/// Directories that one call makes.
const MOST_NEW_DIRECTORIES: usize = 32;

pub(crate) fn write(request: &FileRequest, call: &WriteCall) -> Result<FileReply, FileFailure> {
    let place = NamedPlace::of(request, &call.file_path)?;
    if call.content.len() as u64 > MOST_BYTES {
        return Err(too_large(&place, call.content.len() as u64));
    }
    match fs::symlink_metadata(&place.path) {
        Ok(_there) => write_over(request, &place, &call.content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => write_new(&place, &call.content),
        Err(error) => Err(place.unreachable(&error)),
    }
}

fn write_over(
    request: &FileRequest,
    place: &NamedPlace,
    content: &str,
) -> Result<FileReply, FileFailure> {
    let target = ChangeTarget::open(request, place)?;
    let shown = &target.place.shown;
    let before = target.text()?;
    // A model writes plain newlines; a file whose lines all end otherwise goes on so.
    let is_windows = before.line_ends() == LineEnds::Windows && !content.contains("\r\n");
    let content = match is_windows {
        true => with_windows_ends(content),
        false => content.to_owned(),
    };
    let encoding = match content.starts_with('\u{feff}') {
        true => TextEncoding::Utf8,
        false => before.encoding,
    };
    let bytes = encoding.bytes(&content).unwrap_or_default();
    if bytes == target.content {
        return Err(FileFailure::new(
            FailureKind::NoChange,
            format!("{shown} has exactly this content already: nothing was changed"),
        ));
    }
    let count = lines(&before.text).count();
    replace(&target, &bytes)?;
    let kept = if is_windows {
        "; its lines end with CR LF, as before"
    } else {
        ""
    };
    Ok(written(
        &target.real,
        &bytes,
        format!(
            "{shown}: replaced, {} before, {} now{kept}\n",
            counted(count, "line"),
            counted(lines(&content).count(), "line")
        ),
    ))
}

fn write_new(place: &NamedPlace, content: &str) -> Result<FileReply, FileFailure> {
    let (parent, name) = match (place.path.parent(), place.path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) if !place.shown.ends_with('/') => {
            (parent, name)
        }
        _ => {
            return Err(FileFailure::new(
                FailureKind::BadRequest,
                format!("{} names no file: say what it is called", place.shown),
            ));
        }
    };
    let made = make_directories(place, parent)?;
    let real = fs::canonicalize(parent).map_err(|error| place.unreachable(&error))?;
    place.check_stays(&real)?;
    let real = real.join(name);
    create(place, &real, content.as_bytes())?;
    let made = match made {
        0 => String::new(),
        made => format!(
            "; {} made for it",
            match made {
                1 => "1 directory was".to_owned(),
                made => format!("{made} directories were"),
            }
        ),
    };
    Ok(written(
        &real,
        content.as_bytes(),
        format!(
            "{}: made, {}, {}{made}\n",
            place.shown,
            counted(lines(content).count(), "line"),
            size(content.len() as u64)
        ),
    ))
}

fn written(real: &Path, content: &[u8], text: String) -> FileReply {
    FileReply {
        seen: Some(SeenFile {
            path: path_text(real),
            fingerprint: FileFingerprint::of(content),
        }),
        ..FileReply::of(text)
    }
}

/// Makes what is missing of a directory; returns how many.
fn make_directories(place: &NamedPlace, directory: &Path) -> Result<usize, FileFailure> {
    let mut missing: Vec<PathBuf> = vec![];
    let mut at = directory;
    while fs::symlink_metadata(at).is_err_and(|it| it.kind() == io::ErrorKind::NotFound) {
        if missing.len() == MOST_NEW_DIRECTORIES || at.ends_with("..") {
            return Err(FileFailure::new(
                FailureKind::BadRequest,
                format!(
                    "{} needs directories that are not made: make them with a command, or say another path",
                    place.shown
                ),
            ));
        }
        missing.push(at.to_owned());
        let Some(parent) = at.parent() else { break };
        at = parent;
    }
    let count = missing.len();
    for directory in missing.into_iter().rev() {
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                let doing = format!("make the directory {}", path_text(&directory));
                return Err(FileFailure::system(&doing, &error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(count)
}
