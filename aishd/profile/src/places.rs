//! Which places of this machine a contained program is shown, which of them it writes, and which are hidden.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use aishd_log::profile::Profile;

use super::{ProfileError, ProfileWish};

/// Directories of the program's own, in which nothing is seen of what is outside.
pub const OWN_TREES: [&str; 3] = ["/tmp", "/run", "/dev"];
/// What no program is given as a whole.
const NEVER_WHOLE: [&str; 4] = ["/", "/dev", "/proc", "/run"];

/// All without links, as the kernel is told of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HeldPlaces {
    pub(super) write: Vec<PathBuf>,
    pub(super) read: Vec<PathBuf>,
    pub(super) programs: Vec<PathBuf>,
    pub(super) masks: Vec<PathBuf>,
}

impl HeldPlaces {
    /// `seen` are directories that are read wherever they are.
    pub(super) fn of(
        wish: ProfileWish<'_>,
        seen: &[PathBuf],
        mut masks: Vec<PathBuf>,
        own: &[PathBuf],
    ) -> Result<Self, ProfileError> {
        let roots: Vec<PathBuf> = wish.roots.iter().map(|it| real(it)).collect();
        let mut write = vec![];
        if wish.profile == Profile::Workspace {
            for path in wish.write {
                let place = path.canonicalize();
                let place = place.map_err(|_| ProfileError::NotThere(path.clone()))?;
                // What is named is not hidden, but for what is aish's.
                masks.retain(|it| real(it) != place || own.contains(it));
                let is_masked = masks.iter().any(|it| place.starts_with(real(it)));
                if is_masked || is_never_whole(&place) {
                    return Err(ProfileError::NotWritable(path.clone()));
                }
                write.push(place);
            }
            write.extend(roots.iter().filter(|it| it.is_dir()).cloned());
            write.retain(|it| !is_never_whole(it));
        }
        write.sort();
        write.dedup();
        let mut read: Vec<PathBuf> = seen.iter().chain(&roots).cloned().collect();
        read.retain(|it| in_own_tree(it) && it.exists());
        read.retain(|it| !write.iter().any(|writable| it.starts_with(writable)));
        read.sort();
        read.dedup();
        let mut places = Self {
            write,
            read,
            programs: vec![],
            masks,
        };
        for it in wish.programs {
            let there = real(it);
            if places.hides(&there) {
                places.show(there);
            }
        }
        Ok(places)
    }

    /// Whether something that is there would not be seen.
    pub(super) fn hides(&self, path: &Path) -> bool {
        let within = |list: &[PathBuf]| list.iter().any(|it| path.starts_with(it));
        let covered = in_own_tree(path) && !within(&self.write) && !within(&self.read);
        covered || self.masks.iter().any(|it| path.starts_with(real(it)))
    }

    pub(super) fn show(&mut self, path: PathBuf) {
        let within = self.programs.iter().any(|it| path.starts_with(it));
        if !within {
            self.programs.push(path);
        }
    }
}

fn is_never_whole(path: &Path) -> bool {
    NEVER_WHOLE.iter().any(|it| path == Path::new(it))
}

/// Below one of them; itself it is the program's own.
fn in_own_tree(path: &Path) -> bool {
    let mut trees = OWN_TREES.iter().map(Path::new);
    trees.any(|it| path != it && path.starts_with(it))
}

/// These directories, and those that they are in.
pub(super) fn and_above<'a>(directories: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    let all = directories.map(|it| real(it));
    let mut all: Vec<PathBuf> = all
        .flat_map(|it| it.ancestors().map(Path::to_owned).collect::<Vec<_>>())
        .collect();
    all.sort();
    all.dedup();
    all
}

/// The file that a name of a program means in this environment.
pub(super) fn find_program(name: &str, variables: &BTreeMap<String, String>) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    let search = variables.get("PATH")?;
    let mut places = std::env::split_paths(search).filter(|it| it.is_absolute());
    places.find_map(|it| {
        let program = it.join(name);
        let about = program.metadata().ok()?;
        let runs = about.is_file() && about.permissions().mode() & 0o111 != 0;
        runs.then_some(program)
    })
}

pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish<'a>(profile: Profile, roots: &'a [PathBuf], write: &'a [PathBuf]) -> ProfileWish<'a> {
        ProfileWish {
            profile,
            roots,
            write,
            programs: &[],
            hidden: &[],
            provider: None,
            hosts: None,
        }
    }

    fn places(wish: ProfileWish<'_>, home: &Path) -> Result<HeldPlaces, ProfileError> {
        let masks = vec![home.join(".aws"), home.join(".config/aish")];
        HeldPlaces::of(
            wish,
            &[home.to_owned()],
            masks,
            &[home.join(".config/aish")],
        )
    }

    #[test]
    fn roots_are_written_in_a_workspace_and_read_else() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let root = home.join("src");
        std::fs::create_dir_all(home.join(".config/aish")).unwrap();
        for it in [&root, &home.join(".aws")] {
            std::fs::create_dir(it).unwrap();
        }
        let roots = [root.clone(), PathBuf::from("/"), PathBuf::from("/gone")];
        let read = places(wish(Profile::Read, &roots, &[]), &home).unwrap();
        assert!(read.write.is_empty());
        let workspace = places(wish(Profile::Workspace, &roots, &[]), &home).unwrap();
        assert_eq!(vec![root.clone()], workspace.write);
        assert!(!workspace.hides(&root.join("x")));
        assert!(workspace.hides(&home.join(".aws/credentials")));
        assert!(workspace.hides(Path::new("/run/x")));

        let named = [home.join(".aws")];
        let named = places(wish(Profile::Workspace, &roots, &named), &home).unwrap();
        assert!(!named.hides(&home.join(".aws/credentials")));
        let refused = |path: &str| {
            let write = [home.join(path)];
            let refused = places(wish(Profile::Workspace, &[], &write), &home);
            refused.unwrap_err().to_string()
        };
        assert!(refused("gone").contains("is not there"));
        for it in [".config/aish", "/", "/run"] {
            assert!(refused(it).contains("cannot be written"), "{it}");
        }
    }
}
