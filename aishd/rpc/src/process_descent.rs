//! Whether a process was started by this daemon: then it is a tool, and no person sits at it.

use std::fs::File;
use std::io::Read as _;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, test_kill_process, waitid};

/// Longer lines of parents are no sane machine's.
const MAX_GENERATIONS: usize = 256;

/// The processes from this one up to our own child, if it was started by us, by whatever stands between. A process that
/// cannot be looked at might be anybody's, so it counts as ours, with nobody above it.
pub(super) fn from_us(pid: u32) -> Option<Vec<u32>> {
    // The order matters: who is there after we had no child was there before, and was none. What our children leave
    // behind becomes our child.
    if have_no_children() && is_there(pid) {
        return None;
    }
    line_up_to(pid, std::process::id())
}

fn have_no_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}

fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|it| test_kill_process(it).is_ok())
}

/// The process and its parents below `ancestor`; `None` when it is no ancestor. Where the line cannot be followed it is
/// empty, so that nothing is granted by half of it.
fn line_up_to(pid: u32, ancestor: u32) -> Option<Vec<u32>> {
    let mut line = vec![];
    let mut at = pid;
    while line.len() < MAX_GENERATIONS {
        if at == ancestor {
            return Some(line);
        }
        line.push(at);
        match parent(at) {
            Some(0 | 1) => return None,
            Some(parent) => at = parent,
            None => return Some(vec![]),
        }
    }
    Some(vec![])
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
        assert_eq!(Some(vec![child.id()]), from_us(child.id()));
        assert_eq!(None, from_us(above));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(None, from_us(above));
        assert_eq!(
            Some(vec![]),
            from_us(child.id()),
            "it was there, and is gone"
        );
    }

    #[test]
    fn a_child_descends_and_a_parent_does_not() {
        let own = std::process::id();
        let above = parent(own).unwrap();
        assert_eq!(Some(vec![]), line_up_to(own, own));
        assert_eq!(Some(vec![own]), line_up_to(own, above));
        assert_eq!(None, line_up_to(above, own));
        assert_eq!(None, line_up_to(1, own));
        assert_eq!(
            Some(vec![]),
            line_up_to(u32::MAX, own),
            "who cannot be looked at is not trusted"
        );
    }
}
