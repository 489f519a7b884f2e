//! Signals as they are at a prompt. A script that runs the tests in the background (`nohup cargo test &`) has them ignore
//! SIGINT, and what is ignored stays so in every child: programs under test would never see a Ctrl-C.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
use signal_hook::flag::register_conditional_default;

/// Gives the children of this process the usual signals. What is caught here is at its default in a child, and does here
/// what the default would.
pub(crate) fn as_at_a_prompt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for signal in [SIGHUP, SIGINT, SIGQUIT] {
            if ignores(&status, signal) {
                register_conditional_default(signal, Arc::new(AtomicBool::new(false)))
                    .expect("the signal can be caught");
            }
        }
    });
}

/// Whether a process with this `/proc/PID/status` ignores the signal.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status
        .lines()
        .find_map(|it| it.strip_prefix("SigIgn:"))
        .and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    mask.is_some_and(|it| it >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::world::World;

    #[test]
    fn what_is_ignored_is_read_from_the_mask() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001006\n";
        let ignored = [SIGHUP, SIGINT, SIGQUIT].map(|it| ignores(status, it));
        assert_eq!([false, true, true], ignored);
    }

    /// Also where this process was told to ignore it: `trap '' INT; cargo test` is how to see that.
    #[test]
    fn a_program_of_a_test_can_be_interrupted() {
        let world = World::new();
        let finished = world
            .program(Path::new("/bin/sh"), &["-c", "kill -INT $$; sleep 60"])
            .run();
        let _interrupted = finished.code(130);
    }
}
