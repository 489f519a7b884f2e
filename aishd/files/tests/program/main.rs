//! The program as the daemon starts it: one request, one reply, and files that are right or untouched.
//!
//! This program is itself what the tests start.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of it is a test, though it has a main of its own"
)]

mod edited;
mod found;
mod hostile;
mod kills;
mod random_edits;
mod shown;
mod workspace;

use std::process::ExitCode;

use aishd_platform::failpoint;
use libtest_mimic::{Arguments, Trial};

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

fn main() -> ExitCode {
    if aishd_files::is_asked_for(std::env::args_os()) {
        return aishd_files::main();
    }
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(workspace::KILLED) {
        failpoint::arm(&format!("files.step=kill@{}", args.next().unwrap()));
        return aishd_files::main();
    }
    let tests = [
        shown::TESTS,
        found::TESTS,
        edited::TESTS,
        hostile::TESTS,
        kills::TESTS,
        random_edits::TESTS,
    ];
    let trials = tests.into_iter().flatten().map(|(name, test)| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
