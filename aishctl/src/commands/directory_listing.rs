//! The names in a directory, as a question takes them along: level by level as far as there is room, without what
//! is hidden and what `.gitignore` names. Nothing is opened but directories and those files, and no link is followed.

use std::io;
use std::path::Path;

use ignore::WalkBuilder;

use crate::safe;

/// Room for names: some five thousand tokens.
const MOST_BYTES: usize = 16 << 10;
/// Entries that are looked at on one level's account.
const MOST_ENTRIES: usize = 20_000;
/// Levels that are tried, the last first to be given up.
const DEPTHS: [usize; 5] = [1, 2, 3, 5, 8];

/// Lists a directory; blocks on files. A program that lists none need not hold what can.
pub type DirectoryLister = fn(&Path) -> io::Result<DirectoryListing>;

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryListing {
    /// A path a line, relative to the directory; those of directories end with `/`. What was left out is told last.
    pub text: String,
    /// How many there are of them.
    pub names: usize,
    /// There is more.
    pub cut: bool,
}

/// What one look found.
struct ListingLook {
    lines: Vec<String>,
    bytes: usize,
    /// A directory stands at the last level, so that more may be below.
    deeper: bool,
    /// It was too much to be looked at to the end.
    over: bool,
}

/// As much as fits: all names of a level, or none of it.
pub fn of(directory: &Path) -> io::Result<DirectoryListing> {
    // Says so if it cannot be read; the walk would leave it out.
    drop(std::fs::read_dir(directory)?);
    let mut shown: Option<(usize, ListingLook)> = None;
    for depth in DEPTHS {
        let look = look(directory, depth);
        let (over, deeper) = (look.over, look.deeper);
        if over && shown.is_some() {
            break;
        }
        shown = Some((depth, look));
        if over || !deeper {
            break;
        }
    }
    Ok(shown.map_or_else(|| listing(0, none()), |(depth, look)| listing(depth, look)))
}

fn none() -> ListingLook {
    ListingLook {
        lines: vec![],
        bytes: 0,
        deeper: false,
        over: false,
    }
}

fn look(directory: &Path, depth: usize) -> ListingLook {
    let of_repository = directory.ancestors().any(|it| it.join(".git").exists());
    let walk = WalkBuilder::new(directory)
        .max_depth(Some(depth))
        // Above a directory of no repository stand files that were meant for something else.
        .parents(of_repository)
        .require_git(false)
        .ignore(false)
        .git_global(false)
        .same_file_system(true)
        .sort_by_file_name(Ord::cmp)
        .build();
    let mut look = none();
    for entry in walk.flatten().skip(1).take(MOST_ENTRIES + 1) {
        let is_folder = entry.file_type().is_some_and(|it| it.is_dir());
        let path = entry.path().strip_prefix(directory).unwrap_or(entry.path());
        // Nobody could ask for it by another name.
        let Some(path) = path.to_str() else { continue };
        let line = safe::one_line(path) + if is_folder { "/" } else { "" };
        look.deeper |= is_folder && entry.depth() == depth;
        look.over = look.lines.len() == MOST_ENTRIES || look.bytes + line.len() >= MOST_BYTES;
        if look.over {
            break;
        }
        look.bytes += line.len() + 1;
        look.lines.push(line);
    }
    look
}

fn listing(depth: usize, look: ListingLook) -> DirectoryListing {
    let ListingLook {
        mut lines,
        bytes: _,
        deeper,
        over,
    } = look;
    let names = lines.len();
    if over {
        lines.push(format!(
            "[aish] cut: these are the first {names} names; name a directory in it"
        ));
    } else if deeper {
        let levels = if depth == 1 { "level" } else { "levels" };
        lines.push(format!(
            "[aish] cut: this is {depth} {levels} of it; name a directory in it"
        ));
    } else if names == 0 {
        lines.push("[aish] it holds nothing that is neither hidden nor ignored".to_owned());
    }
    DirectoryListing {
        text: lines.join("\n"),
        names,
        cut: over || deeper,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn place(files: &[&str]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for file in files {
            let path = place.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        place
    }

    #[track_caller]
    fn check(files: &[&str], ignored: &str, listed: &str, expected: &str) {
        let place = place(files);
        fs::write(place.path().join(".gitignore"), ignored).unwrap();
        let listing = of(&place.path().join(listed)).unwrap();
        assert_eq!(expected, listing.text, "{files:?}");
    }

    #[test]
    fn names_stand_in_their_order_below_their_directories() {
        check(
            &["b.rs", "a/c.rs", "a/b/d.rs", "z"],
            "",
            "",
            "a/\na/b/\na/b/d.rs\na/c.rs\nb.rs\nz",
        );
        check(&["a/b"], "", "a", "b");
        check(&["a\nb\u{1b}[2J"], "", "", "a b[2J");
    }

    #[test]
    fn what_is_hidden_or_ignored_is_left_out() {
        let files = [".git/config", "src/a.rs", "src/a.o", "target/big", ".env"];
        check(&files, "target/\n*.o\n", "", "src/\nsrc/a.rs");
        // What counts in the repository counts below.
        check(&files, "*.o\n", "src", "a.rs");
        let nothing = "[aish] it holds nothing that is neither hidden nor ignored";
        check(&[".git/config"], "", "", nothing);
        // Above a directory of no repository nothing counts.
        check(&["src/a.o"], "*.o\n", "src", "a.o");
    }

    #[test]
    fn what_is_too_much_is_cut_level_by_level_and_says_so() {
        let deep: Vec<String> = (0..950).map(|it| format!("a/b/c/file-{it:06}")).collect();
        let files: Vec<&str> = deep.iter().map(String::as_str).chain(["top"]).collect();
        check(
            &files,
            "",
            "",
            "a/\na/b/\na/b/c/\ntop\n[aish] cut: this is 3 levels of it; name a directory in it",
        );
        let wide = place(&files);
        let listing = of(&wide.path().join("a/b/c")).unwrap();
        assert_eq!((950, false), (listing.names, listing.cut));
        let many: Vec<String> = (0..2_000).map(|it| format!("file-{it:06}")).collect();
        let files: Vec<&str> = many.iter().map(String::as_str).collect();
        let listing = of(place(&files).path()).unwrap();
        assert!(listing.cut && listing.text.len() <= MOST_BYTES + 100);
        let last = listing.text.lines().last().unwrap();
        assert_eq!(
            "[aish] cut: these are the first 1365 names; name a directory in it",
            last
        );
    }

    #[test]
    fn links_are_names_and_what_is_no_directory_is_none() {
        let place = place(&["a/b"]);
        std::os::unix::fs::symlink(place.path(), place.path().join("a/up")).unwrap();
        assert_eq!("a/\na/b\na/up", of(place.path()).unwrap().text);
        assert!(of(&place.path().join("a/b")).is_err());
        assert!(of(&place.path().join("gone")).is_err());
    }
}
