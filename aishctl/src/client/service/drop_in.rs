//! The drop-in of the service with the proxy and certificate variables of the shell that installs it: a service has no
//! shell that could give it them.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use aish_proto::network;

use crate::client::service::control::SERVICE_UNIT;
use crate::client::service::units::folder;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;

const NAME: &str = "aish-network.conf";

fn path(around: &ClientEnvironment) -> Option<PathBuf> {
    Some(folder(around)?.join(format!("{SERVICE_UNIT}.d")).join(NAME))
}

/// Writes it, or takes one out that says nothing any more; returns what is told of that.
pub(super) fn write(around: &ClientEnvironment) -> Result<String, Failure> {
    let Some(path) = path(around) else {
        return Ok(String::new());
    };
    let set: Vec<(&str, &str)> = network::VARIABLES
        .into_iter()
        .filter_map(|name| {
            let value = around.variables.get(OsStr::new(name))?.to_str()?;
            (!value.is_empty() && !value.contains(char::is_control)).then_some((name, value))
        })
        .collect();
    if set.is_empty() {
        return remove(around);
    }
    put(&path, &text(&set)).map_err(|error| cannot("write", &path, &error))?;
    let names: Vec<&str> = set.iter().map(|(name, _)| *name).collect();
    Ok(format!(
        "written    {}\n           with {} of this shell\n",
        path.display(),
        names.join(", ")
    ))
}

/// Takes it out, and the directory if nothing else is in it; returns what is told of that.
pub(super) fn remove(around: &ClientEnvironment) -> Result<String, Failure> {
    let Some(path) = path(around) else {
        return Ok(String::new());
    };
    match fs::remove_file(&path) {
        Ok(()) => {
            // It stays where a person has put something beside it.
            drop(path.parent().map(fs::remove_dir));
            Ok(format!("removed    {}\n", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(cannot("remove", &path, &error)),
    }
}

/// A proxy's URL may hold a password, so nobody else can read the file.
fn put(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let beside = path.with_extension("conf.new");
    drop(fs::remove_file(&beside));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

fn text(set: &[(&str, &str)]) -> String {
    let mut text =
        "# Written by aishctl service install, from the shell that it was run in.\n[Service]\n"
            .to_owned();
    for (name, value) in set {
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('%', "%%");
        text.push_str(&format!("Environment=\"{name}={value}\"\n"));
    }
    text
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Exit::FAILED,
        format!("cannot {what} {}: {error}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_the_shell_says_of_the_network_is_the_services_until_it_says_no_more() {
        let home = tempfile::tempdir().unwrap();
        let mut around = ClientEnvironment::default();
        let mut set = |name: &str, value: &str| {
            around.variables.insert(name.into(), value.into());
        };
        set("HOME", home.path().to_str().unwrap());
        set("HTTPS_PROXY", "http://me:a%2F\"b@proxy:3128");
        set("OPENAI_API_KEY", "sk-x");
        let told = write(&around).unwrap();
        assert!(
            told.contains("with HTTPS_PROXY of this shell") && !told.contains("a%2F"),
            "{told}"
        );
        let path = path(&around).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert!(
            written.ends_with(
                "[Service]\nEnvironment=\"HTTPS_PROXY=http://me:a%%2F\\\"b@proxy:3128\"\n"
            ),
            "{written}"
        );
        assert_eq!(
            0o600,
            fs::metadata(&path).unwrap().permissions().mode() & 0o777
        );
        around.variables.remove(OsStr::new("HTTPS_PROXY"));
        assert!(write(&around).unwrap().starts_with("removed "));
        assert!(!path.exists() && !path.parent().unwrap().exists());
        assert_eq!("", write(&around).unwrap());
    }
}
