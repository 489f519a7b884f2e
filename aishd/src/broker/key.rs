//! Keys (BRK-6, R22): read when a request needs one, held in a type that cannot be printed, cut out of every error.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::core::preset::{Endpoint, KeySource};
use crate::core::reply::Failure;

const MAX_KEY_BYTES: u64 = 64 * 1024;
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// What a password manager needs to find its store and its agent; nothing else of our environment is its business.
const COMMAND_ENVIRONMENT: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GNUPGHOME",
    "PASSWORD_STORE_DIR",
];
/// A shorter text is no secret, and cutting it out of messages would only make them unreadable.
const MIN_SECRET_BYTES: usize = 4;

/// Deliberately without Debug and Display.
#[derive(Clone)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

/// What must not appear in any text about this endpoint: its key and what its headers hold.
pub(super) struct Secrets(Vec<Secret>);

impl Secrets {
    pub(super) fn of(endpoint: &Endpoint, key: Option<&Secret>) -> Self {
        let telling = ["key", "token", "auth", "secret", "cookie"];
        let headers = endpoint.headers.iter().filter(|(name, _)| {
            let name = name.to_lowercase();
            telling.iter().any(|word| name.contains(word))
        });
        let mut all: Vec<Secret> = key.cloned().into_iter().collect();
        all.extend(headers.map(|(_, value)| Secret::new(value.clone())));
        all.retain(|secret| secret.0.len() >= MIN_SECRET_BYTES);
        // The longest first, so that one which holds another goes as a whole.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.0.len()));
        Self(all)
    }

    pub(super) fn each(&self, tell: impl Fn(&str)) {
        self.0.iter().for_each(|secret| tell(&secret.0));
    }

    pub(super) fn redact(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(&secret.0) {
                text.replace(&secret.0, "[key]")
            } else {
                text
            }
        })
    }
}

/// Where values of environment variables come from.
pub(super) trait Environment {
    /// As lent by a client, or the daemon's own.
    fn get(&self, name: &str) -> Option<String>;

    /// The daemon's own, whatever clients lent.
    fn own(&self, name: &str) -> Option<String>;
}

/// The preset's key; `None` when it needs none.
pub(super) async fn fetch(
    source: &KeySource,
    environment: &(impl Environment + Sync),
) -> Result<Option<Secret>, Failure> {
    let text = match source {
        KeySource::None => return Ok(None),
        KeySource::Env(name) => environment
            .get(name)
            .ok_or_else(|| Failure::Key(format!("the environment variable {name} is not set")))?,
        KeySource::Literal(key) => key.clone(),
        KeySource::File(path) => {
            let path = path.clone();
            tokio::task::spawn_blocking(move || from_file(&path))
                .await
                .map_err(|_stopped| Failure::Key("the key file was not read".to_owned()))??
        }
        KeySource::Command(argv) => from_command(argv, environment).await?,
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(Failure::Key("the key is empty".to_owned()));
    }
    Ok(Some(Secret::new(text.to_owned())))
}

/// Whether the key is there, as far as can be seen without running anything.
pub(super) fn present(source: &KeySource, environment: &impl Environment) -> Option<bool> {
    match source {
        KeySource::None => None,
        KeySource::Env(name) => Some(environment.get(name).is_some_and(|key| !key.is_empty())),
        KeySource::File(path) => Some(from_file(path).is_ok_and(|key| !key.trim().is_empty())),
        KeySource::Command(argv) => Some(!argv.is_empty()),
        KeySource::Literal(key) => Some(!key.trim().is_empty()),
    }
}

fn from_file(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let unreadable =
        |error: std::io::Error| Failure::Key(format!("cannot read the key file {shown}: {error}"));
    // A pipe would make us wait for whoever holds its other end.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err(Failure::Key(format!("the key file {shown} is no file")));
    }
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.mode() & 0o077 != 0 {
        return Err(Failure::Key(format!(
            "the key file {shown} is open to others: chmod 600 {shown}"
        )));
    }
    let mut text = String::new();
    file.take(MAX_KEY_BYTES)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(text)
}

/// Runs the command without a shell. What it says on standard error may hold anything and is shown to nobody.
async fn from_command(
    argv: &[String],
    environment: &(impl Environment + Sync),
) -> Result<String, Failure> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Failure::Key("key_cmd is empty".to_owned()));
    };
    let passed: BTreeMap<&str, String> = COMMAND_ENVIRONMENT
        .into_iter()
        .filter_map(|name| Some((name, environment.own(name)?)))
        .collect();
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(passed)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Failure::Key(format!("cannot run key_cmd {program}: {error}")))?;
    let run = async {
        let mut text = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(MAX_KEY_BYTES).read_to_end(&mut text).await?;
        }
        Ok::<_, std::io::Error>((text, child.wait().await?))
    };
    match tokio::time::timeout(COMMAND_LIMIT, run).await {
        Ok(Ok((text, status))) if status.success() => String::from_utf8(text)
            .map_err(|_bytes| Failure::Key(format!("key_cmd {program} printed no text"))),
        Ok(Ok((_, status))) => Err(Failure::Key(format!("key_cmd {program}: {status}"))),
        Ok(Err(error)) => Err(Failure::Key(format!("key_cmd {program}: {error}"))),
        Err(_elapsed) => Err(Failure::Key(format!(
            "key_cmd {program} took longer than {} s",
            COMMAND_LIMIT.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::core::preset::Timeouts;
    use crate::core::reply::FailureClass;

    struct Fixed(&'static [(&'static str, &'static str)]);

    impl Environment for Fixed {
        fn get(&self, name: &str) -> Option<String> {
            // Whatever is lent, a command must not see it.
            if name == "HOME" {
                return Some("/lent".to_owned());
            }
            self.own(name)
        }

        fn own(&self, name: &str) -> Option<String> {
            let found = self.0.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        }
    }

    #[track_caller]
    fn check(source: &KeySource, expected: Result<Option<&str>, &str>) {
        let environment = Fixed(&[
            ("A_KEY", " sk-env \n"),
            ("PATH", "/usr/bin:/bin"),
            ("X", "y"),
        ]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let got = runtime.block_on(fetch(source, &environment));
        match (got, expected) {
            (Ok(key), Ok(expected)) => {
                assert_eq!(expected, key.as_ref().map(Secret::expose));
            }
            (Err(failure), Err(part)) => {
                assert_eq!(FailureClass::Unauthorized, failure.class());
                let text = failure.to_string();
                assert!(
                    text.starts_with("broker: ") && text.contains(part),
                    "{text}"
                );
            }
            (Ok(key), Err(part)) => panic!("{:?} instead of {part}", key.map(|key| key.0)),
            (Err(failure), Ok(_)) => panic!("{failure}"),
        }
    }

    fn command(script: &str) -> KeySource {
        KeySource::Command(["sh", "-c", script].map(str::to_owned).to_vec())
    }

    #[test]
    fn keys_come_from_where_the_preset_says() {
        check(&KeySource::None, Ok(None));
        check(&KeySource::Env("A_KEY".to_owned()), Ok(Some("sk-env")));
        check(&KeySource::Env("B_KEY".to_owned()), Err("B_KEY is not set"));
        check(&KeySource::Literal("sk-lit".to_owned()), Ok(Some("sk-lit")));
        check(&KeySource::Literal(" ".to_owned()), Err("empty"));
    }

    #[test]
    fn a_key_command_gets_a_clean_environment_and_its_noise_is_not_shown() {
        check(&command("echo sk-cmd"), Ok(Some("sk-cmd")));
        check(&command("echo x$A_KEY$X$HOME"), Ok(Some("x")));
        check(
            &command("echo sk-cmd; echo sk-cmd >&2; exit 3"),
            Err("exit status: 3"),
        );
        check(&KeySource::Command(Vec::new()), Err("empty"));
        check(
            &KeySource::Command(vec!["/no/such".to_owned()]),
            Err("cannot run"),
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_command_that_hangs_is_given_up() {
        let environment = Fixed(&[("PATH", "/usr/bin:/bin")]);
        let failure = fetch(&command("exec sleep 60"), &environment).await.err();
        assert_eq!(
            Some("broker: key_cmd sh took longer than 10 s".to_owned()),
            failure.map(|failure| failure.to_string())
        );
    }

    #[test]
    fn a_key_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "sk-file\n").unwrap();
        let mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o600);
        check(&KeySource::File(path.clone()), Ok(Some("sk-file")));
        mode(0o640);
        check(&KeySource::File(path.clone()), Err("chmod 600"));
        check(
            &KeySource::File(folder.path().join("none")),
            Err("cannot read"),
        );
        check(&KeySource::File(folder.path().to_owned()), Err("no file"));
    }

    #[test]
    fn keys_are_cut_out_of_texts() {
        let endpoint = Endpoint {
            url: String::new(),
            key: KeySource::None,
            headers: BTreeMap::from([("X-Api-Key".to_owned(), "sk-1234-more".to_owned())]),
            timeouts: Timeouts::LOOPBACK,
        };
        let secrets = Secrets::of(&endpoint, Some(&Secret::new("sk-1234".to_owned())));
        let text = secrets.redact("bad sk-1234-more, sk-1234sk-1234".to_owned());
        assert_eq!("bad [key], [key][key]", text);
    }
}
