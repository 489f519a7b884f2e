//! Named places where a test can make the daemon die or stand still.
//!
//! Compiled into debug builds only. Armed by `AISH_FAILPOINT=name=kill`, `name=stop`, `name=hang` (the thread alone) or
//! `name=miss` (it is as if that were not there), with `@n` after the action for the nth time the place is passed:
//! `turn.before_commit=kill@3`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};

static ARMED: OnceLock<ArmedFailpoint> = OnceLock::new();

#[derive(Debug)]
struct ArmedFailpoint {
    name: String,
    action: FailpointAction,
    passes_left: AtomicU32,
}

#[derive(Clone, Copy, Debug)]
enum FailpointAction {
    /// The whole process gets it.
    Signal(Signal),
    /// The thread that passes never comes back.
    Hang,
    /// What stands there is not there.
    Miss,
}

/// Arms one failpoint for the life of the process; called once, at start. Text that does not parse arms none.
pub fn arm(text: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some((name, action)) = text.split_once('=') else {
        return;
    };
    let (action, nth) = action.split_once('@').unwrap_or((action, "1"));
    let action = match action {
        "kill" => FailpointAction::Signal(Signal::KILL),
        "stop" => FailpointAction::Signal(Signal::STOP),
        "hang" => FailpointAction::Hang,
        "miss" => FailpointAction::Miss,
        _ => return,
    };
    let armed = ArmedFailpoint {
        name: name.to_owned(),
        action,
        passes_left: AtomicU32::new(nth.parse().unwrap_or(1)),
    };
    let _armed_before = ARMED.set(armed);
}

/// The daemon passes the place called `name`.
pub fn pass(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(armed) = ARMED.get().filter(|it| it.name == name) else {
        return;
    };
    if armed.passes_left.fetch_sub(1, Ordering::SeqCst) != 1 {
        return;
    }
    match armed.action {
        FailpointAction::Signal(signal) => {
            let _gone = kill_process(getpid(), signal);
        }
        FailpointAction::Hang => loop {
            std::thread::park();
        },
        FailpointAction::Miss => {}
    }
}

/// Whether what is called `name` is to be taken as missing.
pub fn misses(name: &str) -> bool {
    let is_it = |it: &ArmedFailpoint| it.name == name && matches!(it.action, FailpointAction::Miss);
    cfg!(debug_assertions) && ARMED.get().is_some_and(is_it)
}
