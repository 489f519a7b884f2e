//! The two units: their texts, made for this installation, and whether those that lie there are ours.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::client::service::control::{SERVICE_UNIT, SOCKET_UNIT};
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;

const SERVICE: &str = include_str!("../../../../systemd/aishd.service");
const SOCKET: &str = include_str!("../../../../systemd/aishd.socket");
/// The line that is replaced by the path of the daemon that lies beside us.
const EXEC_START: &str = "ExecStart=%h/.cargo/bin/aishd --foreground";
/// How the first line of a unit begins that `install` wrote; the checksum of all other lines follows.
const MARK: &str =
    "# Written by aishctl service install. Changes belong into: systemctl --user edit ";

/// A unit as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedUnit {
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// What lies where a unit is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstalledUnit {
    Nothing,
    /// Exactly this unit.
    Same,
    /// One that we wrote, of another version or for another place.
    Ours,
    /// One that a person wrote or changed.
    Theirs,
}

/// Where the user's units lie.
pub(super) fn folder(around: &ClientEnvironment) -> Option<PathBuf> {
    Some(around.config_home()?.join("systemd/user"))
}

pub(super) fn are_there(around: &ClientEnvironment) -> bool {
    folder(around).is_some_and(|it| it.join(SOCKET_UNIT).exists() && it.join(SERVICE_UNIT).exists())
}

/// Both units for the daemon beside us.
pub(super) fn planned_units(around: &ClientEnvironment) -> Result<[PlannedUnit; 2], Failure> {
    let folder = folder(around).ok_or_else(|| {
        Failure::new(Exit::FAILED, "there is no home to install into").hint("set HOME")
    })?;
    let daemon = daemon(around)?;
    let start = format!("ExecStart={} --foreground", quoted(&daemon)?);
    let unit = |name: &'static str, text: &str| PlannedUnit {
        name,
        path: folder.join(name),
        text: marked(name, text),
    };
    Ok([
        unit(SOCKET_UNIT, SOCKET),
        unit(SERVICE_UNIT, &SERVICE.replace(EXEC_START, &start)),
    ])
}

/// Both units, for whatever daemon; to see what lies in their places.
pub(super) fn anywhere(around: &ClientEnvironment) -> Result<[PlannedUnit; 2], Failure> {
    let folder = folder(around).ok_or_else(|| {
        Failure::new(Exit::FAILED, "there is no home to look into").hint("set HOME")
    })?;
    Ok(
        [(SOCKET_UNIT, SOCKET), (SERVICE_UNIT, SERVICE)].map(|(name, text)| PlannedUnit {
            name,
            path: folder.join(name),
            text: marked(name, text),
        }),
    )
}

/// The aishd beside this aishctl, as a path that stays.
fn daemon(around: &ClientEnvironment) -> Result<PathBuf, Failure> {
    let beside = around
        .program
        .as_deref()
        .and_then(Path::parent)
        .map(|it| it.join("aishd"));
    beside.filter(|it| it.is_file()).ok_or_else(|| {
        Failure::new(Exit::FAILED, "there is no aishd beside this aishctl")
            .hint(".ci/dist of a checkout builds both; install both into one directory")
    })
}

/// A path as systemd reads it in `ExecStart`.
fn quoted(path: &Path) -> Result<String, Failure> {
    let text = path
        .to_str()
        .filter(|it| !it.chars().any(char::is_control))
        .ok_or_else(|| {
            let shown = path.display();
            Failure::new(
                Exit::FAILED,
                format!("systemd cannot start a program at {shown}"),
            )
            .hint("install aishd where the path is plain text")
        })?;
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    let escaped = escaped.replace('%', "%%").replace('$', "$$");
    let plain = |it: char| it.is_ascii_alphanumeric() || "/._-+@".contains(it);
    Ok(if text.chars().all(plain) {
        escaped
    } else {
        format!("\"{escaped}\"")
    })
}

fn marked(name: &str, text: &str) -> String {
    format!(
        "{MARK}{name} ({:08x})\n{text}",
        crc32c::crc32c(text.as_bytes())
    )
}

/// Whether a text is as we wrote it, once.
fn is_ours(text: &str) -> bool {
    let untouched = text.split_once('\n').is_some_and(|(first, rest)| {
        let sum = format!("({:08x})", crc32c::crc32c(rest.as_bytes()));
        first.starts_with(MARK) && first.ends_with(&sum)
    });
    // Copied by hand from the sources.
    untouched || text == SERVICE || text == SOCKET
}

impl PlannedUnit {
    pub(super) fn installed(&self) -> Result<InstalledUnit, Failure> {
        match fs::read(&self.path) {
            Ok(bytes) if bytes == self.text.as_bytes() => Ok(InstalledUnit::Same),
            Ok(bytes) if std::str::from_utf8(&bytes).is_ok_and(is_ours) => Ok(InstalledUnit::Ours),
            Ok(_) => Ok(InstalledUnit::Theirs),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(InstalledUnit::Nothing),
            Err(error) => Err(self.cannot("read", &error)),
        }
    }

    /// Writes it as a whole or not at all.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let draft = folder.join(format!(".{}.{}", self.name, std::process::id()));
        let written = fs::create_dir_all(folder)
            .and_then(|()| {
                fs::OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .mode(0o644)
                    .open(&draft)
            })
            .and_then(|mut file| {
                file.write_all(self.text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&draft, &self.path));
        written.map_err(|error| {
            drop(fs::remove_file(&draft));
            self.cannot("write", &error)
        })
    }

    pub(super) fn remove(&self) -> Result<(), Failure> {
        fs::remove_file(&self.path).map_err(|error| self.cannot("remove", &error))
    }

    fn cannot(&self, action: &str, error: &io::Error) -> Failure {
        let path = self.path.display();
        Failure::new(Exit::FAILED, format!("cannot {action} {path}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(program: &str) -> (tempfile::TempDir, ClientEnvironment) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(program);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("aishd"), "").unwrap();
        let mut around = ClientEnvironment {
            program: Some(folder.join("aishctl")),
            ..ClientEnvironment::default()
        };
        around.variables.insert("HOME".into(), home.path().into());
        (home, around)
    }

    #[track_caller]
    fn check(program: &str, expected: &str) {
        let (home, around) = world(program);
        let [_, service] = planned_units(&around).unwrap();
        let line = service.text.lines().find(|it| it.starts_with("ExecStart="));
        let home = home.path().to_str().unwrap();
        assert_eq!(expected.replace("HOME", home), line.unwrap());
    }

    #[test]
    fn the_service_starts_the_daemon_beside_us() {
        check("bin", "ExecStart=HOME/bin/aishd --foreground");
        check("my bin", "ExecStart=\"HOME/my bin/aishd\" --foreground");
        check(
            "50%/$x\"",
            "ExecStart=\"HOME/50%%/$$x\\\"/aishd\" --foreground",
        );
    }

    #[test]
    fn without_a_daemon_beside_us_nothing_can_be_installed() {
        let (_home, mut around) = world("bin");
        around.program = Some("/nowhere/aishctl".into());
        let failure = planned_units(&around).unwrap_err();
        assert!(failure.hint.unwrap().contains(".ci/dist"));
    }

    #[test]
    fn what_somebody_changed_is_theirs() {
        let (_home, around) = world("bin");
        let [socket, service] = planned_units(&around).unwrap();
        assert_eq!(InstalledUnit::Nothing, service.installed().unwrap());
        service.write().unwrap();
        assert_eq!(InstalledUnit::Same, service.installed().unwrap());
        let other = PlannedUnit {
            text: marked(SERVICE_UNIT, "[Service]\n"),
            ..service.clone()
        };
        assert_eq!(InstalledUnit::Ours, other.installed().unwrap());
        fs::write(&service.path, format!("{}#\n", service.text)).unwrap();
        assert_eq!(InstalledUnit::Theirs, service.installed().unwrap());
        fs::write(&service.path, SERVICE).unwrap();
        assert_eq!(InstalledUnit::Ours, service.installed().unwrap());
        service.remove().unwrap();
        assert_eq!(
            (InstalledUnit::Nothing, InstalledUnit::Nothing),
            (service.installed().unwrap(), socket.installed().unwrap())
        );
    }

    #[test]
    fn the_units_of_the_repository_have_the_line_that_is_replaced() {
        assert!(SERVICE.contains(EXEC_START));
    }
}
