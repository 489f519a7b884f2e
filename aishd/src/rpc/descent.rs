//! Whether a process was started by this daemon: then it is a tool, and no person sits at it (R7).

use std::fs::File;
use std::io::Read as _;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, test_kill_process, waitid};

/// Longer lines of parents are no sane machine's.
const MAX_GENERATIONS: usize = 256;

/// Whether it was started by us, by whatever stands between. A process that cannot be looked at might be anybody's, so
/// it counts as ours.
pub(super) fn is_ours(pid: u32) -> bool {
    // The order matters: who is there after we had no child was there before, and was none. What our children leave
    // behind becomes our child.
    if have_no_children() && is_there(pid) {
        return false;
    }
    descends(pid, std::process::id())
}

fn have_no_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}

fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|it| test_kill_process(it).is_ok())
}

/// Follows the parents of a process up to `ancestor` or the first of all.
fn descends(pid: u32, ancestor: u32) -> bool {
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
    // The line stands near the beginning.
    let mut page = [0; 1024];
    let mut status = File::open(format!("/proc/{pid}/status")).ok()?;
    let read = status.read(&mut page).ok()?;
    let status = String::from_utf8_lossy(page.get(..read)?);
    let line = status.lines().find_map(|it| it.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_children_nobody_is_ours_who_is_there() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let above = parent(std::process::id()).unwrap();
        assert!(is_ours(child.id()));
        assert!(!is_ours(above));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_ours(above));
        assert!(is_ours(child.id()), "it was there, and is gone");
    }

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
