//! Keys: read when a request needs one, held in a type that cannot be printed, cut out of every error.

use std::error::Error as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use aishd_mcp_messages::secret_name;
use aishd_model::preset::{KeySource, ModelEndpoint};
use aishd_model::reply::RequestFailure;
use aishd_process::Children;
use aishd_process::child::{ChildOutput, OutputExtent};
use aishd_process::spec::{ChildExit, ChildSpec};
use rustix::fs::{Mode, OFlags};

const MAX_KEY_BYTES: usize = 64 * 1024;
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// A file that cannot be read within this time is somewhere far away.
const LOOK_LIMIT: Duration = Duration::from_millis(500);
/// What a password manager needs besides what all children get, to find its store and its agent.
const COMMAND_ENVIRONMENT: [&str; 4] = [
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GNUPGHOME",
    "PASSWORD_STORE_DIR",
];
/// A shorter text is no secret, and cutting it out of messages would only make them unreadable.
const MIN_SECRET_BYTES: usize = 4;

/// Deliberately without Debug and Display.
#[derive(Clone)]
pub(super) struct ApiKey(String);

impl ApiKey {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

/// What must not appear in any text about this endpoint: its key and what its headers hold.
pub(super) struct EndpointSecrets(Vec<ApiKey>);

impl EndpointSecrets {
    pub(super) fn of(endpoint: &ModelEndpoint, key: Option<&ApiKey>) -> Self {
        let headers = endpoint.headers.iter();
        let headers = headers.filter(|(name, _)| secret_name::is_secret_name(name));
        let mut all: Vec<ApiKey> = key.cloned().into_iter().collect();
        all.extend(headers.map(|(_, value)| ApiKey::new(value.clone())));
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
pub(super) trait EnvironmentSource {
    /// As lent by a client, or the daemon's own.
    fn get(&self, name: &str) -> Option<String>;

    /// The daemon's own, whatever clients lent.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The preset's key; `None` when it needs none.
pub(super) async fn fetch(
    source: &KeySource,
    environment: &(impl EnvironmentSource + Sync),
    children: &Children,
) -> Result<Option<ApiKey>, RequestFailure> {
    let text = match source {
        KeySource::None => return Ok(None),
        KeySource::Env(name) => environment.get(name).ok_or_else(|| {
            RequestFailure::Key(format!("the environment variable {name} is not set"))
        })?,
        KeySource::Literal(key) => key.clone(),
        KeySource::File(path) => {
            let path = path.clone();
            tokio::task::spawn_blocking(move || from_file(&path))
                .await
                .map_err(|_stopped| RequestFailure::Key("the key file was not read".to_owned()))??
        }
        KeySource::Command(argv) => from_command(argv, environment, children).await?,
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(RequestFailure::Key("the key is empty".to_owned()));
    }
    Ok(Some(ApiKey::new(text.to_owned())))
}

/// Whether the key is there, as far as can be seen without running anything. What cannot be seen in time counts as there.
pub(super) async fn present(
    source: &KeySource,
    environment: &(impl EnvironmentSource + Sync),
) -> Option<bool> {
    match source {
        KeySource::None => None,
        KeySource::Env(name) => Some(environment.get(name).is_some_and(|key| !key.is_empty())),
        KeySource::File(path) => {
            let path = path.clone();
            let read = tokio::task::spawn_blocking(move || {
                from_file(&path).is_ok_and(|key| !key.trim().is_empty())
            });
            let read = tokio::time::timeout(LOOK_LIMIT, read).await;
            Some(!matches!(read, Ok(Ok(false))))
        }
        KeySource::Command(argv) => Some(!argv.is_empty()),
        KeySource::Literal(key) => Some(!key.trim().is_empty()),
    }
}

fn from_file(path: &Path) -> Result<String, RequestFailure> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        RequestFailure::Key(format!("cannot read the key file {shown}: {error}"))
    };
    // A pipe would make us wait for whoever holds its other end.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|error| unreadable(error.into()))?);
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err(RequestFailure::Key(format!(
            "the key file {shown} is no file"
        )));
    }
    if about.mode() & 0o077 != 0 {
        return Err(RequestFailure::Key(format!(
            "the key file {shown} is open to others: chmod 600 {shown}"
        )));
    }
    let mut text = String::new();
    file.take(MAX_KEY_BYTES as u64)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(text)
}

/// Runs the command without a shell. What it says on standard error may hold anything and is shown to nobody.
async fn from_command(
    argv: &[String],
    environment: &(impl EnvironmentSource + Sync),
    children: &Children,
) -> Result<String, RequestFailure> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(RequestFailure::Key("key_cmd is empty".to_owned()));
    };
    let mut spec = ChildSpec::new(program, "/");
    spec.args = arguments.to_vec();
    spec.env = COMMAND_ENVIRONMENT
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), environment.variable(name)?)))
        .collect();
    let run = async {
        let child = children.spawn(&spec).await.map_err(|error| {
            let cause = error.source().map(|it| format!(": {it}"));
            let cause = cause.unwrap_or_default();
            RequestFailure::Key(format!("cannot run key_cmd: {error}{cause}"))
        })?;
        let output = child.output(MAX_KEY_BYTES).await;
        output.map_err(|error| RequestFailure::Key(format!("key_cmd {program}: {error}")))
    };
    match tokio::time::timeout(COMMAND_LIMIT, run).await {
        Ok(output) => printed(program, output?),
        Err(_elapsed) => Err(RequestFailure::Key(format!(
            "key_cmd {program} took longer than {} s",
            COMMAND_LIMIT.as_secs()
        ))),
    }
}

fn printed(program: &str, output: ChildOutput) -> Result<String, RequestFailure> {
    let failure = |why: &str| RequestFailure::Key(format!("key_cmd {program}{why}"));
    match (output.extent, output.exit) {
        (OutputExtent::Cut, _) => Err(failure(" printed more than 64 KiB")),
        (OutputExtent::Whole | OutputExtent::Held, ChildExit::Code(0)) => {
            String::from_utf8(output.bytes).map_err(|_bytes| failure(" printed no text"))
        }
        (OutputExtent::Whole | OutputExtent::Held, exit) => Err(failure(&format!(": {exit}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use aishd_log::api_dialect::ApiDialect;
    use aishd_log::turn_error::FailureClass;
    use aishd_model::preset::{KeyHeader, Timeouts};

    use super::*;

    struct Fixed(&'static [(&'static str, &'static str)]);

    impl EnvironmentSource for Fixed {
        fn get(&self, name: &str) -> Option<String> {
            // Whatever is lent, a command must not see it.
            if name == "GNUPGHOME" {
                return Some("/lent".to_owned());
            }
            self.variable(name)
        }

        fn variable(&self, name: &str) -> Option<String> {
            let found = self.0.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        }
    }

    fn children() -> Children {
        let base = [
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("HOME".to_owned(), "/own".to_owned()),
        ];
        Children::behind(aish_testkit::built("aishd"), BTreeMap::from(base))
    }

    #[track_caller]
    fn check(source: &KeySource, expected: Result<Option<&str>, &str>) {
        let environment = Fixed(&[("A_KEY", " sk-env \n"), ("GNUPGHOME", "/gpg"), ("X", "y")]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let got = runtime.block_on(fetch(source, &environment, &children()));
        match (got, expected) {
            (Ok(key), Ok(expected)) => {
                assert_eq!(expected, key.as_ref().map(ApiKey::expose));
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
        let all = "echo x$A_KEY$X$HOME$GNUPGHOME";
        check(&command(all), Ok(Some("x/own/gpg")));
        check(
            &command("echo sk-cmd; echo sk-cmd >&2; exit 3"),
            Err("exit status: 3"),
        );
        check(&KeySource::Command(Vec::new()), Err("empty"));
        check(
            &KeySource::Command(vec!["/no/such".to_owned()]),
            Err("cannot run key_cmd: find /no/such: No such file"),
        );
    }

    /// It may leave something behind that holds the pipe, as an agent of a password manager does.
    #[test]
    fn a_key_command_may_leave_an_agent_and_may_not_pour() {
        check(&command("sleep 60 & echo sk-cmd"), Ok(Some("sk-cmd")));
        check(&command("exec cat /dev/zero"), Err("more than 64 KiB"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_command_that_hangs_is_given_up() {
        let hangs = command("exec sleep 60");
        let failure = fetch(&hangs, &Fixed(&[]), &children()).await.err();
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

    #[tokio::test]
    async fn a_look_for_a_key_file_waits_for_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let look = |path| async { present(&KeySource::File(path), &Fixed(&[])).await };
        assert_eq!(Some(false), look(pipe).await);
        assert_eq!(Some(false), look(folder.path().join("none")).await);
    }

    #[test]
    fn keys_are_cut_out_of_texts() {
        let endpoint = ModelEndpoint {
            url: String::new(),
            api: ApiDialect::Chat,
            auth: KeyHeader::Bearer,
            key: KeySource::None,
            headers: BTreeMap::from([("X-Api-Key".to_owned(), "sk-1234-more".to_owned())]),
            timeouts: Timeouts::LOOPBACK,
        };
        let secrets = EndpointSecrets::of(&endpoint, Some(&ApiKey::new("sk-1234".to_owned())));
        let text = secrets.redact("bad sk-1234-more, sk-1234sk-1234".to_owned());
        assert_eq!("bad [key], [key][key]", text);
    }
}
