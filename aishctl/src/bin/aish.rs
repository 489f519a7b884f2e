//! `aish`: the window on a conversation.

fn main() -> std::process::ExitCode {
    aishctl::main(aishctl::Door::Line)
}
