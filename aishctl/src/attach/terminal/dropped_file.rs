//! A picture that somebody drops on the terminal: it comes as a paste of its path, quoted or with backslashes, and becomes a
//! file that the question names, where the person sees it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use aish_proto::picture::PictureKind;
use percent_encoding::percent_decode_str;
use rustix::fs::{Mode, OFlags, open};

use crate::commands::picture_file::LOOKED_AT_BYTES;

/// No path is longer.
const MOST_BYTES: usize = 4096;

/// What stands in the line for a paste that is nothing but the path of a picture or a PDF; `None`: it is another text.
pub(super) fn mention(paste: &str) -> Option<String> {
    let path = path(paste)?;
    if !is_picture(&path) {
        return None;
    }
    let path = path.to_str()?;
    let quote = ['"', '\''].into_iter().find(|it| !path.contains(*it))?;
    Some(format!("@{quote}{path}{quote} "))
}

/// The one absolute path that a text is, as terminals write it.
fn path(paste: &str) -> Option<PathBuf> {
    let text = paste.trim();
    if text.is_empty() || text.len() > MOST_BYTES || text.contains('\n') {
        return None;
    }
    let unescaped = match text.strip_prefix("file://") {
        Some(address) => percent_decode_str(address).decode_utf8().ok()?.into_owned(),
        // Some write no quotes around a path with spaces.
        None if Path::new(text).is_file() => text.to_owned(),
        None => {
            let mut words = shlex::split(text)?.into_iter();
            words.next().filter(|_| words.next().is_none())?
        }
    };
    let path = PathBuf::from(unescaped);
    path.is_absolute().then_some(path)
}

/// Nothing waits for whoever holds the other end of a pipe.
fn is_picture(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let Ok(file) = open(path, flags, Mode::empty()) else {
        return false;
    };
    let file = File::from(file);
    if !file.metadata().is_ok_and(|it| it.is_file()) {
        return false;
    }
    let mut head = vec![];
    let read = file.take(LOOKED_AT_BYTES as u64).read_to_end(&mut head);
    read.is_ok() && PictureKind::of(&head).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_pasted_as_a_whole_names_its_picture() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (picture, text) = (at("my chart.png"), at("notes.txt"));
        std::fs::write(&picture, b"\x89PNG\r\n\x1a\n").unwrap();
        std::fs::write(&text, "notes").unwrap();
        let named = format!("@\"{picture}\" ");
        for paste in [
            picture.clone(),
            format!("{picture} "),
            format!("'{picture}'"),
            format!("\"{picture}\""),
            picture.replace(' ', "\\ "),
            format!("file://{}\n", picture.replace(' ', "%20")),
        ] {
            assert_eq!(Some(&named), mention(&paste).as_ref(), "{paste}");
        }
        for other in [
            "",
            "my chart.png",
            "chart.png",
            "/dev/zero",
            "/dev/tty",
            "it's",
            &text,
            &format!("{picture} and more"),
            &format!("see '{picture}'"),
            &format!("{picture}\n{picture}"),
            "file://%zz",
        ] {
            assert_eq!(None, mention(other), "{other}");
        }
    }
}
