//! `aish`: the window on a conversation, and by the name of `aishctl` every command.

fn main() -> std::process::ExitCode {
    aishctl::main()
}
