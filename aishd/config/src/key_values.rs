//! From a key to the value that it means.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fault::Fault;
use crate::table_reader::KeyLeaf;
use crate::value::{TimeSpan, WholeNumber};

pub(super) fn value_of<T: Clone>(leaf: &KeyLeaf<T>) -> Option<T> {
    leaf.as_ref().map(|it| it.value.clone())
}

/// The lowest layer says it; a test sees to that.
pub(super) fn whole_number<const LEAST: u64, const MOST: u64>(
    leaf: &KeyLeaf<WholeNumber<LEAST, MOST>>,
) -> usize {
    let number = leaf.as_ref().map_or(LEAST, |it| it.value.0);
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub(super) fn time(leaf: &KeyLeaf<TimeSpan>) -> Duration {
    leaf.as_ref().map_or(Duration::ZERO, |it| it.value.value)
}

/// Paths that stand for themselves wherever the daemon was started.
pub(super) fn places(
    key: &str,
    places: &KeyLeaf<Vec<String>>,
    faults: &mut Vec<Fault>,
) -> Vec<PathBuf> {
    let Some(places) = places else { return vec![] };
    let all: Vec<PathBuf> = places.value.iter().map(|it| home(Path::new(it))).collect();
    for _relative in all.iter().filter(|it| !it.is_absolute()) {
        let message = format!("`{key}`: expected absolute paths, or some that begin with ~/");
        faults.push(Fault::error(&places.place, message));
    }
    all
}

/// A path that begins with `~/`, in the home directory.
pub(super) fn home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), directories::BaseDirs::new()) {
        (Ok(rest), Some(dirs)) => dirs.home_dir().join(rest),
        (Ok(_) | Err(_), _) => path.to_path_buf(),
    }
}

/// Whether a variable of the environment is set.
pub(crate) type IsSet<'a> = &'a dyn Fn(&str) -> bool;
