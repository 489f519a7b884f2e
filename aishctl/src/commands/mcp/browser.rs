//! Opening a page in the browser of whoever sits here.

use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

use crate::environment::ClientEnvironment;

/// What opens an address on the usual machines, in the order in which it is tried.
const OPENERS: [&str; 3] = ["xdg-open", "wslview", "open"];

/// Whether something was started. `BROWSER` names another program, or several with colons between.
pub(super) fn open(around: &ClientEnvironment, url: &str) -> bool {
    // A server names it, and a browser opens more kinds of address than these.
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return false;
    }
    let named = around.variables.get(OsStr::new("BROWSER"));
    let named = named.map(|it| it.to_string_lossy().into_owned());
    let named: Vec<String> = named
        .iter()
        .flat_map(|it| it.split(':'))
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect();
    let usual = OPENERS.iter().map(|it| (*it).to_owned());
    let programs: Vec<String> = if named.is_empty() {
        usual.collect()
    } else {
        named
    };
    programs.iter().any(|it| started(around, it, url))
}

/// It lives as long as it likes: some are the browser itself.
fn started(around: &ClientEnvironment, program: &str, url: &str) -> bool {
    let mut words = shlex::split(program).unwrap_or_default().into_iter();
    let Some(first) = words.next() else {
        return false;
    };
    let mut arguments: Vec<OsString> = words.map(OsString::from).collect();
    match arguments.iter_mut().find(|it| *it == "%s") {
        Some(place) => *place = url.into(),
        None => arguments.push(url.into()),
    }
    let child = Command::new(first)
        .args(arguments)
        .env_clear()
        .envs(&around.variables)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.is_ok()
}
