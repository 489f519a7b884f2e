//! Whether a process was started by this daemon: then it is a tool, and no person sits at it (R7).

use std::fs;

/// Longer lines of parents are no sane machine's.
const MAX_GENERATIONS: usize = 256;

/// Follows the parents of a process up to `ancestor` or the first of all. A process that cannot be looked at might be
/// anybody's, so it counts as ours.
pub(super) fn descends(pid: u32, ancestor: u32) -> bool {
    let mut at = pid;
    for _ in 0..MAX_GENERATIONS {
        if at == ancestor {
            return true;
        }
        match parent(at) {
            Some(0 | 1) => return false,
            Some(parent) => at = parent,
            None => return true,
        }
    }
    true
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
    fn a_child_descends_and_a_parent_does_not() {
        let own = std::process::id();
        let above = parent(own).unwrap();
        assert!(descends(own, own));
        assert!(descends(own, above));
        assert!(!descends(above, own));
        assert!(!descends(1, own));
        assert!(
            descends(u32::MAX, own),
            "who cannot be looked at is not trusted"
        );
    }
}
