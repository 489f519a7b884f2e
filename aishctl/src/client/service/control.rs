//! Asking the user's service manager, through `systemctl --user`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;

use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;

pub(super) const SERVICE_UNIT: &str = "aishd.service";
pub(super) const SOCKET_UNIT: &str = "aishd.socket";
/// The socket first: nothing may start the service again while it is stopped.
pub(super) const UNITS: [&str; 2] = [SOCKET_UNIT, SERVICE_UNIT];

/// A question that only reads.
const ASK_WITHIN: Duration = Duration::from_secs(10);
/// A start may have a journal to read first, and a stop has 15 seconds.
const DO_WITHIN: Duration = Duration::from_secs(90);

/// A service manager that answers.
#[derive(Clone, Debug)]
pub(super) struct ServiceControl {
    runtime_directory: Option<OsString>,
}

impl ServiceControl {
    /// Fails with what to do instead where no service manager can be reached.
    pub(super) async fn reach(around: &ClientEnvironment) -> Result<Self, Failure> {
        let control = Self {
            runtime_directory: runtime_directory(around),
        };
        let asked = control
            .output(
                "systemctl",
                &["--user", "show", "--property=Version"],
                ASK_WITHIN,
            )
            .await;
        let why = match asked {
            Ok(output) if output.status.success() => return Ok(control),
            Ok(output) => first_line(&output.stderr),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "there is no systemctl on this machine".to_owned()
            }
            Err(error) => error.to_string(),
        };
        Err(Failure::new(
            Exit::NO_DAEMON,
            format!("no service manager of this user can be reached: {why}"),
        )
        .hint("nothing has to be installed: aishctl ask starts aishd by itself when none runs"))
    }

    /// Runs `systemctl --user` and fails with what it said.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<(), Failure> {
        let mut all = vec!["--user", "--quiet"];
        all.extend(arguments);
        let shown = format!("systemctl --user {}", arguments.join(" "));
        match self.output("systemctl", &all, DO_WITHIN).await {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(Failure::new(
                    Exit::FAILED,
                    format!("{shown} failed\n  {}", said.trim().replace('\n', "\n  ")),
                )
                .hint("aishctl service logs -n 20"))
            }
            Err(error) => Err(Failure::new(Exit::FAILED, format!("{shown}: {error}"))),
        }
    }

    /// Forgets that the units failed, so that they can be started again at once.
    pub(super) async fn reset(&self) {
        let mut all = vec!["--user", "--quiet", "reset-failed"];
        all.extend(UNITS);
        // Fails where there is nothing to forget.
        let _nothing = self.output("systemctl", &all, ASK_WITHIN).await;
    }

    /// Stops the units, also one whose file is gone. That nothing runs is no failure.
    pub(super) async fn stop(&self) {
        let mut all = vec!["--user", "--quiet", "stop"];
        all.extend(UNITS);
        let _nothing = self.output("systemctl", &all, DO_WITHIN).await;
    }

    /// Properties of a unit, by name; empty where the manager does not say.
    pub(super) async fn show(&self, unit: &str, properties: &str) -> BTreeMap<String, String> {
        let wanted = format!("--property={properties}");
        let arguments = ["--user", "show", unit, &wanted];
        let Ok(output) = self.output("systemctl", &arguments, ASK_WITHIN).await else {
            return BTreeMap::new();
        };
        read_properties(&String::from_utf8_lossy(&output.stdout))
    }

    /// A property of the manager itself.
    pub(super) async fn manager(&self, property: &str) -> String {
        let wanted = format!("--property={property}");
        let arguments = ["--user", "show", &wanted, "--value"];
        let output = self.output("systemctl", &arguments, ASK_WITHIN).await;
        output.map_or_else(
            |_| String::new(),
            |it| String::from_utf8_lossy(&it.stdout).trim().to_owned(),
        )
    }

    pub(super) async fn is_active(&self, unit: &str) -> bool {
        let state = self.show(unit, "ActiveState").await;
        state.get("ActiveState").is_some_and(|it| it == "active")
    }

    pub(super) async fn output(
        &self,
        program: &str,
        arguments: &[&str],
        within: Duration,
    ) -> io::Result<Output> {
        let running = self
            .command(program, arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        tokio::time::timeout(within, running)
            .await
            .unwrap_or_else(|_| {
                let message = format!("{program} does not answer within {} s", within.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, message))
            })
    }

    pub(super) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("LC_ALL", "C.UTF-8");
        if let Some(directory) = &self.runtime_directory {
            command.env("XDG_RUNTIME_DIR", directory);
        }
        command
    }
}

/// Where a job of cron or a `su` finds the service manager although nobody told it: the user's own directory.
fn runtime_directory(around: &ClientEnvironment) -> Option<OsString> {
    if around.variable("XDG_RUNTIME_DIR").is_some() {
        return None;
    }
    let directory = format!("/run/user/{}", around.uid);
    let own =
        std::fs::symlink_metadata(&directory).is_ok_and(|it| it.is_dir() && it.uid() == around.uid);
    own.then(|| directory.into())
}

fn read_properties(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|it| it.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().next().unwrap_or("it says nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_with_what_their_values_hold() {
        let read = read_properties("MainPID=7\nStatusText=a=b c\n\nodd\n");
        assert_eq!(Some("a=b c"), read.get("StatusText").map(String::as_str));
        assert_eq!(2, read.len());
    }

    #[tokio::test]
    async fn without_a_service_manager_it_says_what_works_instead() {
        let directory = tempfile::tempdir().unwrap();
        let mut around = ClientEnvironment::default();
        let path = directory.path().as_os_str().to_owned();
        around
            .variables
            .insert("XDG_RUNTIME_DIR".into(), path.clone());
        let mut control = ServiceControl::reach(&around).await;
        // A machine on which one of this very user answers has nothing to show here.
        if let Ok(found) = &mut control {
            found.runtime_directory = Some(path);
            return;
        }
        let failure = control.unwrap_err();
        assert_eq!(Exit::NO_DAEMON, failure.exit);
        assert!(
            failure.hint.unwrap().contains("aishctl ask"),
            "{}",
            failure.message
        );
    }
}
