//! What a process has started and what that has started, as `/proc` shows it, and signals to all of it.
//!
//! A walk through `/proc` is no snapshot: processes come and go meanwhile. Whoever ends a tree walks until nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, RawPid, Signal, kill_process, pidfd_open, pidfd_send_signal,
};

/// How often a tree is walked to stop all of it before it is killed. One that still grows then is killed in parts.
const WALKS: usize = 100;
/// How many processes a walk follows: one along a tree that forks as fast as we look would have no end.
const LONGEST_WALK: usize = 10_000;

/// One process as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenProcess {
    pub(super) pid: Pid,
    pub(super) parent: RawPid,
    /// In ticks since boot; tells it from a later process of the same number.
    pub(super) started: u64,
    pub(super) life: ProcessLife,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessLife {
    Alive,
    /// It has ended, and its parent has not looked yet.
    Zombie,
}

/// What came of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalOutcome {
    Yes,
    Gone,
    /// It has become somebody else's, as `sudo` does.
    NotOurs,
}

/// All processes, zombies too.
pub(super) fn all() -> Vec<SeenProcess> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return vec![];
    };
    entries
        .filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(look)
        .collect()
}

/// Everything below `root`, parents first: one that would start its child again must not see it die.
///
/// Costs what the tree has and not what the machine has: fifty trampolines that end at once look at no other's tree. A
/// kernel without lists of children (`CONFIG_PROC_CHILDREN`) makes us look at every process.
pub(super) fn below(root: Pid) -> Vec<SeenProcess> {
    if !Path::new("/proc/thread-self/children").exists() {
        return below_among(root, &all());
    }
    let mut found = children(root);
    let mut at = 0;
    while let Some(parent) = found.get(at)
        && at < LONGEST_WALK
    {
        found.extend(children(parent.pid));
        at += 1;
    }
    found
}

/// What the threads of one process have started and what has come to them, as far as it is still there.
pub(super) fn children(parent: Pid) -> Vec<SeenProcess> {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero())) else {
        return vec![];
    };
    threads
        .filter_map(|it| fs::read_to_string(it.ok()?.path().join("children")).ok())
        .flat_map(|it| {
            let pids = it.split_ascii_whitespace().map(str::parse);
            pids.flatten().filter_map(look).collect::<Vec<_>>()
        })
        .collect()
}

fn below_among(root: Pid, all: &[SeenProcess]) -> Vec<SeenProcess> {
    let mut children: BTreeMap<RawPid, Vec<SeenProcess>> = BTreeMap::new();
    for it in all {
        children.entry(it.parent).or_default().push(*it);
    }
    let mut found = children
        .remove(&root.as_raw_nonzero().get())
        .unwrap_or_default();
    let mut at = 0;
    while let Some(parent) = found.get(at) {
        let pid = parent.pid.as_raw_nonzero().get();
        found.extend(children.remove(&pid).unwrap_or_default());
        at += 1;
    }
    found
}

/// What [`kill`] came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KillOutcome {
    /// They are going to end, or had ended.
    pub(super) ours: usize,
    pub(super) not_ours: usize,
}

/// Kills everything that `find` finds. First it stops them all, walk after walk until nobody new is there: of a tree that
/// forks all the time, the killed would only make room for more.
pub(super) fn kill(find: impl Fn() -> Vec<SeenProcess>) -> KillOutcome {
    let mut stopped = BTreeSet::new();
    for _walk in 0..WALKS {
        let before = stopped.len();
        for it in find().iter().filter(|it| it.life == ProcessLife::Alive) {
            // Its parent may become another while we look.
            if stopped.insert((it.pid.as_raw_nonzero().get(), it.started)) {
                send(it, Signal::STOP);
            }
        }
        if stopped.len() == before {
            break;
        }
    }
    let mut killed = KillOutcome::default();
    for (pid, started) in stopped {
        let Some(pid) = Pid::from_raw(pid) else {
            continue;
        };
        match send_to(pid, started, Signal::KILL) {
            SignalOutcome::Yes | SignalOutcome::Gone => killed.ours += 1,
            SignalOutcome::NotOurs => killed.not_ours += 1,
        }
    }
    killed
}

/// Sends a signal to the process that was seen, and to no other that has its number now.
pub(super) fn send(to: &SeenProcess, signal: Signal) -> SignalOutcome {
    send_to(to.pid, to.started, signal)
}

fn send_to(pid: Pid, started: u64, signal: Signal) -> SignalOutcome {
    let sent = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => {
            let now = look(pid.as_raw_nonzero().get());
            if now.is_none_or(|it| it.started != started) {
                return SignalOutcome::Gone;
            }
            pidfd_send_signal(handle, signal)
        }
        // A kernel before 5.3, or no descriptor left.
        Err(Errno::NOSYS | Errno::MFILE | Errno::NFILE) => kill_process(pid, signal),
        Err(error) => Err(error),
    };
    match sent {
        Ok(()) => SignalOutcome::Yes,
        Err(Errno::PERM) => SignalOutcome::NotOurs,
        Err(_gone) => SignalOutcome::Gone,
    }
}

fn look(pid: RawPid) -> Option<SeenProcess> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(&String::from_utf8_lossy(&bytes))
}

/// `pid (name) state parent …`; the name may hold anything, brackets and line feeds too.
fn parse(stat: &str) -> Option<SeenProcess> {
    let (pid, rest) = stat.split_once(" (")?;
    let (_name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let life = match fields.next()? {
        "Z" | "X" => ProcessLife::Zombie,
        _alive => ProcessLife::Alive,
    };
    let parent = fields.next()?.parse().ok()?;
    // The 22nd of all fields; parent was the fourth.
    let started = fields.nth(17)?.parse().ok()?;
    Some(SeenProcess {
        pid: Pid::from_raw(pid.parse().ok()?)?,
        parent,
        started,
        life,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn seen(pid: RawPid, parent: RawPid) -> SeenProcess {
        let pid = Pid::from_raw(pid).unwrap();
        SeenProcess {
            pid,
            parent,
            started: 0,
            life: ProcessLife::Alive,
        }
    }

    #[test]
    fn a_name_with_brackets_does_not_mislead() {
        let stat = "42 (a) R 1 (b)\n) S 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99887 6 0\n";
        let expected = SeenProcess {
            started: 99887,
            ..seen(42, 7)
        };
        assert_eq!(Some(expected), parse(stat));
        let zombie = SeenProcess {
            life: ProcessLife::Zombie,
            ..expected
        };
        assert_eq!(Some(zombie), parse(&stat.replace(") S", ") Z")));
        assert_eq!(None, parse("42 (x) S"));
        assert_eq!(None, parse(""));
    }

    #[test]
    fn parents_come_first_and_strangers_not_at_all() {
        let all = [(5, 4), (2, 1), (4, 2), (3, 2), (9, 8), (8, 1)].map(|(a, b)| seen(a, b));
        let below = below_among(Pid::from_raw(2).unwrap(), &all);
        assert_eq!(vec![4, 3, 5], pids(&below));
    }

    fn pids(seen: &[SeenProcess]) -> Vec<RawPid> {
        seen.iter()
            .map(|it| it.pid.as_raw_nonzero().get())
            .collect()
    }

    #[test]
    fn a_real_tree_is_the_same_from_the_lists_of_children_and_from_a_look_at_all() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 99; :' & sh -c 'echo up; sleep 99; :'"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let root = Pid::from_child(&shell);
        let mut up = [0; 3];
        shell.stdout.take().unwrap().read_exact(&mut up).unwrap();
        let tree = loop {
            let tree = below(root);
            if tree.len() == 4 {
                break tree;
            }
            std::thread::yield_now();
        };
        let mut among = pids(&below_among(root, &all()));
        let mut listed = pids(&tree);
        let place = |pid| listed.iter().position(|it| *it == pid);
        for it in &tree {
            assert!(
                it.parent == root.as_raw_nonzero().get()
                    || place(it.parent) < place(pids(&[*it])[0])
            );
        }
        among.sort_unstable();
        listed.sort_unstable();
        assert_eq!(among, listed);
        tree.iter()
            .for_each(|it| assert_eq!(SignalOutcome::Yes, send(it, Signal::KILL)));
        shell.wait().unwrap();
    }

    #[test]
    fn a_number_that_belongs_to_another_now_gets_no_signal() {
        let me = look(rustix::process::getpid().as_raw_nonzero().get()).unwrap();
        let before = SeenProcess {
            started: me.started - 1,
            ..me
        };
        assert_eq!(SignalOutcome::Gone, send(&before, Signal::KILL));
        assert_eq!(SignalOutcome::Yes, send(&me, Signal::CONT));
    }
}
