//! Whether this process was started by the daemon that it would serve: then the gateway would offer the daemon its own
//! tools, and each of them again under another name.

use std::fs;

/// Longer lines of parents are no sane machine's.
const MAX_GENERATIONS: usize = 256;

/// Follows our parents up to `ancestor`.
pub(super) fn descends_from(ancestor: u32) -> bool {
    let mut at = std::process::id();
    for _ in 0..MAX_GENERATIONS {
        match parent(at) {
            Some(parent) if parent == ancestor => return true,
            Some(0 | 1) | None => return false,
            Some(parent) => at = parent,
        }
    }
    false
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_an_ancestor_and_we_ourselves_are_not() {
        let parent = parent(std::process::id()).unwrap();
        assert!(descends_from(parent));
        assert!(!descends_from(std::process::id()));
    }
}
