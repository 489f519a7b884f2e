//! `aishd`: see the library.

use std::process::ExitCode;

use aishd::args::Args;
use aishd::child::trampoline;
use clap::Parser as _;

fn main() -> ExitCode {
    if trampoline::is_asked_for(std::env::args_os()) {
        return trampoline::main();
    }
    aishd::daemon::main(&Args::parse())
}
