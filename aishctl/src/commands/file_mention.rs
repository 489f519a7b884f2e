//! `@path` in a question: that file goes along, or the names in that directory. The word stays in the question as
//! it was typed.
//!
//! A word that names no file is a word: `@name`, `a@host`, `@org/package`; so is that of a directory without a `/`. Only what nobody writes by chance (`@./x`,
//! `@../x`, `@~/x` and quoted ones) has to be there. Code between fences is read by nobody here.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use aish_proto::limits::{INPUT_BYTES, PDF_BYTES};
use rustix::fs::{Mode, OFlags, open};

use crate::commands::binary_file;
use crate::commands::directory_listing::{DirectoryLister, DirectoryListing};
use crate::commands::picture_file::{self, PictureFile};
use crate::commands::resource_mention;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;

const FEWER: &str = "ask with fewer files, or let a tool read them";
/// More than anybody names in one question.
const MOST: usize = 16;
/// Signs that end a sentence and not a name.
const ENDS: [char; 10] = ['.', ',', ';', ':', '!', '?', ')', ']', '"', '\''];

/// Where a person is, so that a path means something.
#[derive(Clone, Debug, Default)]
pub struct PersonLocation {
    pub directory: PathBuf,
    pub home: Option<PathBuf>,
    /// What lists a directory, if this program can.
    pub list: Option<DirectoryLister>,
}

/// A file that goes along, or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedFile {
    /// As it was typed.
    pub name: String,
    pub text: String,
    pub kind: AttachedKind,
}

/// What the text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachedKind {
    /// All of a file.
    File {
        /// Some of its bytes are no text and were replaced.
        lossy: bool,
    },
    /// The names in a directory.
    Names {
        names: usize,
        /// There is more in it.
        cut: bool,
    },
    /// None: it is a picture or a PDF.
    Picture(PictureFile),
}

/// What a word names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedTarget<'a> {
    name: &'a str,
    place: PathBuf,
    is_folder: bool,
}

/// A word that may name a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileWord<'a> {
    text: &'a str,
    quoted: bool,
}

impl PersonLocation {
    pub fn of(around: &ClientEnvironment, list: Option<DirectoryLister>) -> Self {
        Self {
            directory: around.cwd.clone(),
            home: around.variable("HOME").map(PathBuf::from),
            list,
        }
    }

    /// The place that a path means.
    pub fn place(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(below), Some(home)) => home.join(below),
            (Some(_) | None, _) => self.directory.join(path),
        }
    }
}

/// The files that a question names, each once. Blocks on files.
pub fn read(question: &str, here: &PersonLocation) -> Result<Vec<AttachedFile>, Failure> {
    let mut read: Vec<AttachedFile> = vec![];
    let mut bytes = question.len();
    let mut picture_bytes = 0;
    for word in find(question) {
        let Some(found) = named_target(word, here)? else {
            continue;
        };
        let name = found.name;
        if read.iter().any(|it| same(&it.name, name)) {
            continue;
        }
        if read.len() == MOST {
            return Err(usage(format!("a question takes {MOST} files at most")).hint(FEWER));
        }
        let attached = match (found.is_folder, here.list) {
            (false, _) => content_of(name, &found.place)?,
            (true, Some(list)) => names_in(name, &found.place, list)?,
            (true, None) => {
                return Err(usage(format!("{name} is a directory, and @ takes a file")));
            }
        };
        bytes += attached.text.len();
        if let AttachedKind::Picture(picture) = &attached.kind {
            picture_bytes += picture.bytes;
            if picture_bytes > PDF_BYTES as u64 {
                return Err(picture_file::too_many(name));
            }
        }
        if bytes > INPUT_BYTES {
            let limit = INPUT_BYTES >> 10;
            return Err(usage(format!(
                "{name}: with the question and the files before it that is over {limit} KiB"
            ))
            .hint(FEWER));
        }
        read.push(attached);
    }
    Ok(read)
}

/// What such a file is called on the screen.
pub fn note(attached: &AttachedFile) -> String {
    let AttachedFile { name, text, kind } = attached;
    let bytes = text.len();
    match kind {
        AttachedKind::Picture(picture) => picture.note(),
        AttachedKind::File { lossy: false } => format!("attached {name} ({bytes} bytes)"),
        AttachedKind::File { lossy: true } => {
            format!("attached {name} ({bytes} bytes; the bytes that are no text were replaced)")
        }
        AttachedKind::Names { names, cut: false } => {
            format!("attached {name} (names in it: {names})")
        }
        AttachedKind::Names { names, cut: true } => {
            format!("attached {name} (names in it: {names}; there are more)")
        }
    }
}

/// Whether a question names a directory that is there.
pub fn names_folder(question: &str, here: &PersonLocation) -> bool {
    let is_folder = |word| matches!(named_target(word, here), Ok(Some(it)) if it.is_folder);
    find(question).into_iter().any(is_folder)
}

/// Words behind an `@` that stands at the beginning of one.
fn find(question: &str) -> Vec<FileWord<'_>> {
    let mut found = vec![];
    let mut fenced = false;
    for line in question.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let mut rest = line;
        let mut before = ' ';
        while let Some(at) = rest.find('@') {
            before = rest[..at].chars().next_back().unwrap_or(before);
            let begins = before.is_whitespace() || before == '(';
            rest = &rest[at + 1..];
            before = '@';
            if let Some(word) = file_word(rest).filter(|_| begins) {
                found.push(word);
                rest = &rest[word.text.len()..];
                before = word.text.chars().next_back().unwrap_or(before);
            }
        }
    }
    found
}

fn file_word(rest: &str) -> Option<FileWord<'_>> {
    let quote = rest.chars().next().filter(|it| matches!(it, '"' | '\''));
    let (text, quoted) = match quote {
        Some(quote) => (rest[1..].split_once(quote)?.0, true),
        None => (rest.split(char::is_whitespace).next()?, false),
    };
    (!text.is_empty()).then_some(FileWord { text, quoted })
}

/// The file or directory that a word names; `None`: it is a word.
fn named_target<'a>(
    word: FileWord<'a>,
    here: &PersonLocation,
) -> Result<Option<NamedTarget<'a>>, Failure> {
    if !word.quoted && resource_mention::is_resource(word.text) {
        return Ok(None);
    }
    let meant = word.quoted
        || ["./", "../", "~/"]
            .iter()
            .any(|it| word.text.starts_with(it));
    let mut name = word.text;
    loop {
        let place = here.place(name);
        match place.metadata() {
            Ok(about) if about.is_dir() && !meant && (name == "/" || !name.contains('/')) => {
                return Ok(None);
            }
            Ok(about) => {
                return Ok(Some(NamedTarget {
                    name,
                    place,
                    is_folder: about.is_dir(),
                }));
            }
            Err(error) if !is_absent(&error) => {
                return Err(usage(format!("cannot read {name}: {error}")));
            }
            Err(_) => {}
        }
        match name
            .strip_suffix(ENDS)
            .filter(|it| !word.quoted && !it.is_empty())
        {
            Some(shorter) => name = shorter,
            None if meant => {
                let name = word.text;
                return Err(usage(format!("there is no file {name}"))
                    .hint("a path is meant from where you are; \\@ is an @ that names nothing"));
            }
            None => return Ok(None),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    // A name that is too long is no file's either.
    let too_long = error.raw_os_error() == Some(rustix::io::Errno::NAMETOOLONG.raw_os_error());
    let kind = error.kind();
    too_long || matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A directory is the same with a slash at its end.
fn same(a: &str, b: &str) -> bool {
    a.strip_suffix('/').unwrap_or(a) == b.strip_suffix('/').unwrap_or(b)
}

/// The names in a directory.
fn names_in(name: &str, place: &Path, list: DirectoryLister) -> Result<AttachedFile, Failure> {
    let failed = |error: io::Error| usage(format!("cannot list {name}: {error}"));
    let DirectoryListing { text, names, cut } = list(place).map_err(failed)?;
    let end = if name.ends_with('/') { "" } else { "/" };
    Ok(AttachedFile {
        name: format!("{name}{end}"),
        text,
        kind: AttachedKind::Names { names, cut },
    })
}

/// The whole of a file of text, or a picture. Nothing waits for whoever holds the other end of a pipe.
fn content_of(name: &str, place: &Path) -> Result<AttachedFile, Failure> {
    let failed = |error: io::Error| usage(format!("cannot read {name}: {error}"));
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = open(place, flags, Mode::empty()).map_err(|it| failed(it.into()))?;
    let mut file = File::from(file);
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(usage(format!("{name} is no ordinary file")));
    }
    let mut bytes = vec![];
    let head = picture_file::LOOKED_AT_BYTES as u64;
    let heading = (&mut file).take(head).read_to_end(&mut bytes);
    heading.map_err(failed)?;
    if let Some(kind) = picture_file::kind_of(name, &bytes)? {
        let picture = picture_file::read(name, kind, bytes, &mut file)?;
        return Ok(AttachedFile {
            name: name.to_owned(),
            text: String::new(),
            kind: AttachedKind::Picture(picture),
        });
    }
    let most = INPUT_BYTES as u64;
    file.take(most + 1 - head)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    binary_file::refuse(name, &bytes)?;
    if bytes.len() as u64 > most {
        let (size, most) = (about.len() >> 10, most >> 10);
        return Err(usage(format!(
            "{name} has {size} KiB, and a question takes {most} KiB"
        ))
        .hint("aishctl ask -f FILE sends its beginning and its end"));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(AttachedFile {
        name: name.to_owned(),
        kind: AttachedKind::File {
            lossy: matches!(text, std::borrow::Cow::Owned(_)),
        },
        text: text.into_owned(),
    })
}

fn usage(message: String) -> Failure {
    Failure::new(Exit::USAGE, message)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn place() -> (tempfile::TempDir, PersonLocation) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("work/a.rs", "fn a() {}"),
            ("work/Makefile", "all:"),
            ("work/src/two words.md", "# two"),
            ("work/no.", "dot"),
            ("notes.md", "note"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(folder.path().join("work/image"), b"\x89PNG\0\0").unwrap();
        fs::write(folder.path().join("work/latin"), b"caf\xe9").unwrap();
        fs::write(folder.path().join("work/huge"), vec![b'x'; INPUT_BYTES + 1]).unwrap();
        let here = PersonLocation {
            directory: folder.path().join("work"),
            home: Some(folder.path().to_path_buf()),
            list: Some(crate::commands::directory_listing::of),
        };
        (folder, here)
    }

    /// The files that go along, or the beginning of what is said instead.
    #[track_caller]
    fn check(question: &str, expected: Result<&[&str], &str>) {
        let (_folder, here) = place();
        let read = read(question, &here).map_err(|it| it.message);
        match (expected, read) {
            (Ok(expected), Ok(read)) => {
                let names: Vec<&str> = read.iter().map(|it| it.name.as_str()).collect();
                assert_eq!(expected, names, "{question}");
            }
            (Err(expected), Err(why)) => assert!(why.contains(expected), "{question}: {why}"),
            (_, read) => panic!("{question}: {read:?}"),
        }
    }

    #[test]
    fn a_path_behind_the_sign_goes_along() {
        check("what of @a.rs?", Ok(&["a.rs"]));
        check(
            "(@a.rs), @Makefile: and @a.rs again",
            Ok(&["a.rs", "Makefile"]),
        );
        check(
            "@\"src/two words.md\" and @'src/two words.md'.",
            Ok(&["src/two words.md"]),
        );
        check(
            "@~/notes.md @../notes.md\n@./a.rs",
            Ok(&["~/notes.md", "../notes.md", "./a.rs"]),
        );
        check("the dot belongs to @no.", Ok(&["no."]));
        check(
            "what is in @src/, @./src, @./src/ and @~/?",
            Ok(&["src/", "./src/", "~/"]),
        );
    }

    #[test]
    fn what_names_no_file_is_a_word() {
        for question in [
            "mail me@a.rs or a.rs@host",
            "@alice, see @types/node and @app.route('/x') @",
            "install @src and @missing.rs in @/",
            "\\@./a.rs",
            "@n:note://1 and @@a.rs",
            "```\n@a.rs\n@./none\n```",
            "@\"open",
        ] {
            check(question, Ok(&[]));
        }
    }

    #[test]
    fn what_is_meant_and_cannot_go_along_says_why() {
        check("@./none.rs", Err("there is no file ./none.rs"));
        check("@\"no such\"", Err("there is no file no such"));
        check("@image", Err("image holds no text"));
        check(
            "@huge",
            Err("huge has 1024 KiB, and a question takes 1024 KiB"),
        );
        check("@/dev/null", Err("/dev/null is no ordinary file"));
    }

    #[test]
    fn the_screen_says_what_goes_along() {
        let (_folder, here) = place();
        let read = read("@latin @a.rs @src/", &here).unwrap();
        let notes: Vec<String> = read.iter().map(note).collect();
        let lossy = "attached latin (6 bytes; the bytes that are no text were replaced)";
        let names = "attached src/ (names in it: 1)";
        assert_eq!([lossy, "attached a.rs (9 bytes)", names], *notes);
        assert_eq!("two words.md", read[2].text);
    }

    #[test]
    fn a_program_that_lists_nothing_knows_what_it_would_have_to() {
        let (_folder, here) = place();
        let here = PersonLocation { list: None, ..here };
        assert!(names_folder("see @a.rs and @src/", &here));
        assert!(!names_folder("see @a.rs, @src and @./none/", &here));
        let refused = read("@src/", &here).unwrap_err();
        assert_eq!("src/ is a directory, and @ takes a file", refused.message);
    }
}
