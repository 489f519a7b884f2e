//! `aishd`: see the library.

use std::process::ExitCode;

use aishd::args::DaemonArgs;
use aishd_process::trampoline;
use clap::Parser as _;
use tikv_jemalloc_ctl::background_thread;
use tikv_jemallocator::Jemalloc;

/// A daemon lives for weeks: what one long answer took has to go back to the system, also out of the middle of the heap.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    if trampoline::is_asked_for(std::env::args_os()) {
        return trampoline::main();
    }
    if aishd_files::is_asked_for(std::env::args_os()) {
        return aishd_files::main();
    }
    if aishd_fetch::is_asked_for(std::env::args_os()) {
        return aishd_fetch::main();
    }
    let args = DaemonArgs::parse();
    // Otherwise nothing goes back while nothing is allocated. A system without threads for it does without.
    let _none = background_thread::write(true);
    aishd::daemon::main(&args)
}
