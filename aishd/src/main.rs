//! `aishd`: see the library.

use std::process::ExitCode;

use aishd::args::Args;
use clap::Parser as _;

fn main() -> ExitCode {
    aishd::daemon::main(&Args::parse())
}
