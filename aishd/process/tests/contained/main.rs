//! Contained children, as real programs: what they can do, what they cannot, and that nothing is left of them.
//!
//! This program is also the trampoline of its children, and the daemon that a test kills.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of it is a test, though it has a main of its own"
)]

mod cost;
mod daily_work;
mod ends;
mod escapes;
mod layers;
mod masks;
mod misjudged;
mod missing;
mod network;
mod place;
mod surroundings;

use std::process::ExitCode;

use aishd_process::trampoline;
use libtest_mimic::{Arguments, Trial};

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

fn main() -> ExitCode {
    if trampoline::is_asked_for(std::env::args_os()) {
        return trampoline::main();
    }
    if std::env::args().nth(1).as_deref() == Some(ends::DAEMON) {
        return ends::daemon();
    }
    if let Some(lacks) = place::lacks() {
        println!("skipped: nothing can be contained here: {lacks}");
        return ExitCode::SUCCESS;
    }
    let tests = [
        surroundings::TESTS,
        layers::TESTS,
        masks::TESTS,
        network::TESTS,
        escapes::TESTS,
        misjudged::TESTS,
        daily_work::TESTS,
        ends::TESTS,
        missing::TESTS,
    ];
    let trial = |(name, test): &Test| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    };
    let mut trials: Vec<Trial> = tests.into_iter().flatten().map(trial).collect();
    trials.extend(
        cost::TESTS
            .iter()
            .map(|it| trial(it).with_ignored_flag(true)),
    );
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
