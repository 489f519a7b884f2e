//! A lock file that one daemon holds. The lock goes with the process, but not at once: a killed daemon is a while about its
//! end, and a child that it was starting holds a copy of every descriptor until it runs its program.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};

/// How long a holder that is going is waited for.
const GOING: Duration = Duration::from_secs(5);
/// And one that lives: a kill may not have reached it yet.
const ALIVE: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(5);
/// The bit of SIGKILL in the sets of `/proc/PID/status`.
const KILL_PENDING: u64 = 1 << 8;
/// `PF_EXITING` among the flags of `/proc/PID/stat`.
const EXITING: u64 = 0x4;

#[derive(Debug)]
pub enum LockError {
    /// By a process that lives, as far as that is known.
    Held(Option<u32>),
    Io(io::Error),
}

/// Locks the file, or says who has it. Blocks for as long as a holder takes to end.
pub fn take(file: &mut File) -> Result<(), LockError> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let holder = holder(file);
        let patience = if holder.is_some_and(lives) {
            ALIVE
        } else {
            GOING
        };
        if began.elapsed() >= patience {
            return Err(LockError::Held(holder));
        }
        thread::sleep(PAUSE);
    }
}

/// Writes down who holds it; for people, and for who waits for our end.
pub fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> Option<u32> {
    let mut pid = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut pid).ok()?;
    pid.trim().parse().ok()
}

/// Whether the process is there and not about its end.
fn lives(pid: u32) -> bool {
    let read = |what: &str| fs::read(format!("/proc/{pid}/{what}"));
    let (Ok(stat), Ok(status)) = (read("stat"), read("status")) else {
        return false;
    };
    !is_ending(
        &String::from_utf8_lossy(&stat),
        &String::from_utf8_lossy(&status),
    )
}

/// By `/proc/PID/stat` and `/proc/PID/status`.
fn is_ending(stat: &str, status: &str) -> bool {
    // The name may hold anything, brackets too.
    let mut fields = stat
        .rsplit_once(") ")
        .map(|(_, rest)| rest.split(' '))
        .into_iter()
        .flatten();
    if matches!(fields.next(), None | Some("Z" | "X")) {
        return true;
    }
    // The ninth of all fields; the state was the third.
    let flags: u64 = fields.nth(5).and_then(|it| it.parse().ok()).unwrap_or(0);
    let is_killed = |line: &str| {
        let pending = line
            .strip_prefix("SigPnd:")
            .or_else(|| line.strip_prefix("ShdPnd:"));
        let pending = pending.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
        pending.is_some_and(|it| it & KILL_PENDING != 0)
    };
    flags & EXITING != 0 || status.lines().any(is_killed)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_is_about_its_end_is_known() {
        let stat = |state: &str, flags: u64| format!("7 (a ) b) {state} 1 7 7 0 -1 {flags} 0 0");
        let quiet = "Name:\ta\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n";
        let killed = "Name:\ta\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n";
        assert!(!is_ending(&stat("S", 0x0040_0000), quiet));
        assert!(is_ending(&stat("S", 0x0040_0000), killed));
        assert!(is_ending(&stat("R", 0x0040_0004), quiet));
        assert!(is_ending(&stat("Z", 0), quiet));
        assert!(is_ending("", quiet));
        assert!(lives(std::process::id()));
    }

    /// A file that a program holds locked, with the pid that it says.
    fn held_by(pid: u32) -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut file = File::create_new(&path).unwrap();
        writeln!(file, "{pid}").unwrap();
        drop(file);
        let file = File::options().read(true).write(true).open(path).unwrap();
        (dir, file)
    }

    #[test]
    fn a_lock_that_a_child_of_a_dead_holder_keeps_for_a_moment_is_waited_for() {
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let (dir, mut file) = held_by(dead.id());
        let other = File::open(dir.path().join("lock")).unwrap();
        other.lock().unwrap();
        // The child has the lock for as long as it lives, as one has that was just forked.
        let child = Command::new("sleep")
            .arg("0.3")
            .stdin(Stdio::from(other))
            .spawn()
            .unwrap();
        assert!(file.try_lock().is_err());
        take(&mut file).unwrap();
        drop(child.wait_with_output());
    }

    #[test]
    fn a_lock_of_one_that_lives_is_said_at_once() {
        let (dir, mut file) = held_by(std::process::id());
        let other = File::open(dir.path().join("lock")).unwrap();
        other.lock().unwrap();
        let refused = take(&mut file);
        assert!(matches!(refused, Err(LockError::Held(Some(pid))) if pid == std::process::id()));
    }
}
