//! Which directories have layers. The kernel makes no overlay over one that has another mount below it, and what is right in
//! such a directory can be read only; but those in it that have no mount below them can have layers of their own.

use std::path::{Path, PathBuf};

/// Where programs put what they need for a moment, and what others leave for them.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// Each is an overlay that is made before the command begins.
const MOST: usize = 512;

/// The directories that have layers, for those that are wanted and for what is temporary, where these are mounted. A `/tmp` that
/// has a mount below it has none; the command has an empty one of its own then.
pub(super) fn layer_places(
    wanted: impl Iterator<Item = PathBuf>,
    mounts: &[PathBuf],
) -> Vec<PathBuf> {
    let temporary = TEMPORARY.iter().map(|it| real(Path::new(it)));
    let temporary = temporary.filter(|it| it != Path::new("/tmp") || !has_mounts(it, mounts));
    let wanted = wanted.chain(temporary).filter(|it| it.is_dir());
    let divided = wanted.filter(|it| !is_all(it)).flat_map(|it| {
        let mut found = vec![];
        divide(it, mounts, &mut found);
        found
    });
    outermost(divided.collect())
}

/// Whether something else is mounted in it.
fn has_mounts(directory: &Path, mounts: &[PathBuf]) -> bool {
    let mut mounts = mounts.iter();
    mounts.any(|it| it != directory && it.starts_with(directory))
}

fn divide(directory: PathBuf, mounts: &[PathBuf], found: &mut Vec<PathBuf>) {
    if found.len() >= MOST {
        return;
    }
    if !has_mounts(&directory, mounts) {
        found.push(directory);
        return;
    }
    let entries = std::fs::read_dir(&directory).into_iter().flatten();
    // A link is no directory here: it would lead out of what is divided.
    let directories = entries.flatten().filter(|it| {
        let kind = it.file_type();
        kind.is_ok_and(|it| it.is_dir())
    });
    let mut within: Vec<PathBuf> = directories.map(|it| it.path()).collect();
    // Where we cannot look, what we start cannot write either.
    within.retain(|it| !mounts.contains(it) && std::fs::read_dir(it).is_ok());
    within.sort();
    for it in within {
        divide(it, mounts, found);
    }
}

/// No overlay is over everything, and no mask hides it.
fn is_all(directory: &Path) -> bool {
    directory == Path::new("/")
}

/// Without what is within another one, or is the same.
pub(super) fn outermost(mut all: Vec<PathBuf>) -> Vec<PathBuf> {
    all.retain(|it| !is_all(it));
    all.sort();
    all.dedup();
    let others = all.clone();
    let is_within = |it: &PathBuf| {
        let mut others = others.iter();
        others.any(|other| other != it && it.starts_with(other))
    };
    all.retain(|it| !is_within(it));
    all
}

pub(super) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::create_dir_all;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn one_layer_is_over_what_holds_another() {
        let all = ["/tmp", "/srv/u", "/srv/u/src", "/tmp", "/", "/srv/user"];
        let outer = outermost(all.map(PathBuf::from).to_vec());
        let expected = ["/srv/u", "/srv/user", "/tmp"];
        assert_eq!(expected.map(PathBuf::from).to_vec(), outer);
    }

    #[test]
    fn a_directory_with_a_mount_below_it_is_divided_around_that() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        for it in ["src/app", "far/remote/deep", "far/near", "notes"] {
            create_dir_all(home.join(it)).unwrap();
        }
        std::fs::write(home.join("file"), "").unwrap();
        symlink("/usr", home.join("link")).unwrap();
        let mounts = [home.join("far/remote")];
        let places = |wanted: &[&str]| {
            let wanted = wanted.iter().map(|it| real(&home.join(it)));
            let mut places = layer_places(wanted, &mounts);
            places.retain(|it| !it.starts_with("/var/tmp") && it != Path::new("/tmp"));
            let below = places.iter().map(|it| it.strip_prefix(home).unwrap());
            below
                .map(|it| it.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(["far/near", "notes", "src"], *places(&["", "src/app"]));
        // What is mounted has one where the command runs in it.
        assert_eq!(
            ["far/near", "far/remote/deep", "notes", "src"],
            *places(&["", "far/remote/deep"])
        );
        assert_eq!(["far/remote"], *places(&["far/remote"]));
    }

    #[test]
    fn a_temporary_directory_with_a_mount_below_it_is_the_commands_own() {
        let places = |mounts: &[&str]| {
            let mounts: Vec<PathBuf> = mounts.iter().map(PathBuf::from).collect();
            layer_places([PathBuf::from("/")].into_iter(), &mounts)
        };
        let tmp = PathBuf::from("/tmp");
        assert!(places(&["/", "/proc", "/tmp"]).contains(&tmp));
        assert!(!places(&["/", "/tmp/.X11-unix"]).contains(&tmp));
    }
}
