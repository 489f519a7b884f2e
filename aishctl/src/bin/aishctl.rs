//! `aishctl`: every command, for scripts and people. What is not a plain question it hands to `aish`.

fn main() -> std::process::ExitCode {
    aishctl::fast_path_main()
}
