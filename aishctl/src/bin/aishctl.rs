//! `aishctl`: every command, for scripts and people.

fn main() -> std::process::ExitCode {
    aishctl::main(aishctl::Door::Ctl)
}
