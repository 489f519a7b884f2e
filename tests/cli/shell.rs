//! Lines of a shell in which the programs under test are on the `PATH`.

use std::path::Path;

use aish_testkit::pty::OnTerminal;
use aish_testkit::{Run, Screen, World, built};

const SH: &str = "/bin/sh";
/// Makes a session with a terminal of its own.
pub(crate) const SETSID: &str = "/usr/bin/setsid";

/// The same for a shell that something else starts.
pub(crate) fn in_shell(text: &str) -> String {
    let (_daemon, client) = (built("aishd"), built("aishctl"));
    let folder = client.parent().unwrap().display();
    format!("PATH={folder}:$PATH; export PATH; {text}")
}

/// A script without a terminal; its stdin is `/dev/null` when nothing else is said.
pub(crate) fn shell(world: &World, text: &str) -> Run {
    world.program(Path::new(SH), &["-c", &in_shell(text)])
}

/// A script on a terminal.
pub(crate) fn shell_on_terminal(world: &World, text: &str) -> OnTerminal {
    OnTerminal::spawn(world, Path::new(SH), &["-c", &in_shell(text)])
}

/// A script in a session whose terminal is a screen. Wants [`SETSID`].
pub(crate) fn session_on_screen(world: &World, text: &str) -> Screen {
    let line = in_shell(text);
    let args = ["-c", "-w", SH, "-c", &line];
    Screen::spawn(world, Path::new(SETSID), &args, 80, 24)
}
