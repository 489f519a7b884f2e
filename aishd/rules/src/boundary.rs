//! What a command that nobody approved may reach, as a value: it is computed here, without looking anything up, is part of
//! what one consent is bound to, and is put in force by the kernel before the program starts (`process/wall`).

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use aishd_log::ending::BoundaryFailure;
use aishd_log::tool::ContentDigest;
use aishd_model::norris_settings::WidenedLimits;
use serde::Serialize;

use crate::command_setting::CommandSetting;

/// What programs are made of. Reading it tells nobody's secrets; what is not there is left out.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/proc",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
];
/// Directories of the machine's configuration, and what in them is never read: who is root could read it.
const CONFIGURATION: [(&str, &[&str]); 4] = [
    (
        "/etc",
        &[
            "NetworkManager",
            "credstore",
            "credstore.encrypted",
            "docker",
            "gshadow",
            "gshadow-",
            "ipsec.d",
            "ipsec.secrets",
            "krb5.keytab",
            "kubernetes",
            "letsencrypt",
            "mysql",
            "openvpn",
            "pki",
            "postfix",
            "ppp",
            "rancher",
            "shadow",
            "shadow-",
            "ssh",
            "ssl",
            "sudoers",
            "sudoers.d",
            "swanctl",
            "wireguard",
            "wpa_supplicant",
        ],
    ),
    ("/etc/ssl", &["private"]),
    ("/etc/pki/tls", &["private"]),
    ("/etc/pki/ca-trust", &[]),
];
/// Tool chains that people install for themselves, and the settings of git, below a home. Files with credentials are beside
/// some of them, so that none is a whole directory of settings.
const TOOL_CHAINS: [&str; 41] = [
    ".asdf",
    ".bun/bin",
    ".bun/install",
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
    ".deno/bin",
    ".fnm",
    ".ghcup",
    ".gitconfig",
    ".gitignore",
    ".goenv",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise/installs",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/rtx/installs",
    ".local/share/uv",
    ".m2/repository",
    ".nix-profile",
    ".nodenv",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rye",
    ".sdkman/candidates",
    ".volta",
    "go/bin",
    "go/pkg",
    "miniconda3",
];
/// Variables that name a directory of a tool chain.
const CHAIN_VARIABLES: [&str; 5] = [
    "GOROOT",
    "JAVA_HOME",
    "RUSTUP_HOME",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];
/// Ways to programs that do what they are told outside, and keys for the network, which there is none of.
const CUT_VARIABLES: [&str; 16] = [
    "ALL_PROXY",
    "AT_SPI_BUS_ADDRESS",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "FTP_PROXY",
    "GNOME_KEYRING_CONTROL",
    "GPG_AGENT_INFO",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NOTIFY_SOCKET",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
];

/// What boundaries are made of besides the conversation: it stays as it is while the daemon runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundaryGround {
    /// Why this machine's kernel cannot hold a boundary.
    pub missing: Option<String>,
    /// aish's own configuration, state and socket: no command that nobody approved has anything to do with them.
    pub own: Vec<PathBuf>,
    /// The daemon's home; that of who asks may be another.
    pub home: Option<PathBuf>,
    /// Where each command gets a directory for what it needs only for itself.
    pub scratch: PathBuf,
}

/// What may be read and written. Everything else is neither, and there is no network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Boundary {
    /// The directories of the conversation. No link leads to them, or nothing runs.
    pub roots: Vec<PathBuf>,
    pub widened_write: Vec<PathBuf>,
    pub widened_read: Vec<PathBuf>,
    /// The system and the tool chains, as far as they are there.
    pub known: Vec<PathBuf>,
    pub configuration: Vec<(PathBuf, Vec<String>)>,
    /// Whatever links there are, nothing that holds one of these as a whole is read or written.
    #[serde(skip)]
    pub homes: Vec<PathBuf>,
    /// And nothing at all of these.
    #[serde(skip)]
    pub own: Vec<PathBuf>,
    #[serde(skip)]
    pub scratch: PathBuf,
}

/// What failed inside, in one run: the same once more is a question to a person, who may let it run outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundaryFailures {
    running: Option<ContentDigest>,
    /// It failed, and nothing was done since.
    last: Option<ContentDigest>,
    /// The boundary seems to be why, so that nothing that is done inside mends it.
    stopped: BTreeSet<ContentDigest>,
}

impl BoundaryFailures {
    /// An action begins; of a command inside, with its digest.
    pub fn on_begin(&mut self, inside: Option<ContentDigest>) {
        self.last = None;
        self.running = inside;
    }

    pub fn ended(&mut self, within: BoundaryFailure) {
        let Some(digest) = self.running.take() else {
            return;
        };
        match within {
            BoundaryFailure::None => {
                self.stopped.remove(&digest);
            }
            BoundaryFailure::Failed => self.last = Some(digest),
            BoundaryFailure::Stopped => {
                self.stopped.insert(digest);
            }
        }
    }

    /// Whether a person is to be asked whether it may run outside.
    pub fn hold(&self, digest: ContentDigest) -> bool {
        self.last == Some(digest) || self.stopped.contains(&digest)
    }
}

/// Why there is no boundary around a command; then somebody has to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundaryError {
    /// The kernel has not what it takes.
    Kernel(String),
    /// The conversation is in no directory but that of everything.
    NoRoot,
    /// A root that has somebody's whole home in it would keep nothing from being read.
    HoldsHome(PathBuf),
    /// aish's own files are in a root, or a root is among them.
    HoldsOurs(PathBuf),
}

impl fmt::Display for BoundaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(why) => write!(f, "{why}"),
            Self::NoRoot => write!(f, "the conversation is in no project's directory"),
            Self::HoldsHome(root) => {
                write!(f, "{} has the whole home directory in it", root.display())
            }
            Self::HoldsOurs(root) => write!(f, "aish's own files are in {}", root.display()),
        }
    }
}

impl Boundary {
    /// Around a command in these directories.
    pub fn of_run(
        ground: &BoundaryGround,
        widened: &WidenedLimits,
        roots: &[PathBuf],
        setting: &CommandSetting,
    ) -> Result<Self, BoundaryError> {
        if let Some(why) = &ground.missing {
            return Err(BoundaryError::Kernel(why.clone()));
        }
        if roots.is_empty() {
            return Err(BoundaryError::NoRoot);
        }
        let homes: BTreeSet<PathBuf> = ground
            .home
            .iter()
            .cloned()
            .chain(setting.home().map(PathBuf::from))
            .filter(|it| it.as_path() != Path::new("/"))
            .collect();
        for root in roots {
            if homes.iter().any(|it| it.starts_with(root)) || root == Path::new("/") {
                return Err(BoundaryError::HoldsHome(root.clone()));
            }
            let meets = |it: &PathBuf| it.starts_with(root) || root.starts_with(it);
            if ground.own.iter().any(meets) {
                return Err(BoundaryError::HoldsOurs(root.clone()));
            }
        }
        let configuration = CONFIGURATION.iter().map(|(path, but)| {
            let but = but.iter().map(|it| (*it).to_owned()).collect();
            (PathBuf::from(path), but)
        });
        Ok(Self {
            roots: roots.to_vec(),
            widened_write: widened.write.clone(),
            widened_read: widened.read.clone(),
            known: known_places(&homes, roots, setting),
            configuration: configuration.collect(),
            homes: homes.into_iter().collect(),
            own: ground.own.clone(),
            scratch: ground.scratch.clone(),
        })
    }

    /// For the model and for people, behind the output of a command that failed inside.
    pub fn remark(&self, explains: bool) -> String {
        let roots: Vec<String> = self
            .roots
            .iter()
            .chain(&self.widened_write)
            .map(|it| it.display().to_string())
            .collect();
        let onward = if explains {
            "that seems to be why it failed"
        } else {
            "if that is why it failed"
        };
        format!(
            "[aish] this ran inside the boundary of the run: it can write only below {} and in $TMPDIR, read only there, in the system and in tool chains, and reach neither the network nor other programs; {onward}, propose the same line once more as the next step, and a person is asked whether it may run outside",
            roots.join(", ")
        )
    }
}

/// The same of a command that ran in the layers of a run.
pub const LAYERS_REMARK: &str = "[aish] this ran in a copy of the files: what it changes in the home, in its directory and in /tmp is seen by later commands of the run and by nobody else, everything else can only be read, keys are hidden, hosts are reached by HTTP_PROXY alone and where that is allowed, and other programs not at all; that seems to be why it failed. Propose the same line once more as the next step, and a person is asked whether it may run for real, on the files as they are";
/// And where nothing can be written.
pub const READS_REMARK: &str = "[aish] the run was launched to read: its commands can write nowhere but in an empty /tmp of their own, keys are hidden, and neither the network nor other programs can be reached; that seems to be why it failed. Propose the same line once more as the next step, and a person is asked whether it may run for real";

/// Whether what a program printed sounds as if the boundary were why it failed.
pub fn explains(output: &str) -> bool {
    const SIGNS: [&str; 14] = [
        "permission denied",
        "read-only file system",
        "erofs",
        "operation not permitted",
        "eacces",
        "eperm",
        "permissionerror",
        "could not resolve",
        "name resolution",
        "name or service not known",
        "network is unreachable",
        "getaddrinfo",
        "cannot create temp file",
        "failed to connect",
    ];
    let output = output.to_lowercase();
    SIGNS.iter().any(|it| output.contains(it))
}

/// Whether a variable is kept out of a boundary.
pub fn is_cut(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    CUT_VARIABLES.contains(&name.as_str())
}

/// The system, the tool chains of these homes, and where programs are found by name. What a root has in it is read as a
/// part of that: a command could put a link to anything in such a place.
fn known_places(
    homes: &BTreeSet<PathBuf>,
    roots: &[PathBuf],
    setting: &CommandSetting,
) -> Vec<PathBuf> {
    let search = setting.variables.get("PATH").map_or("", String::as_str);
    let search = search.split(':').map(PathBuf::from);
    let named = CHAIN_VARIABLES
        .iter()
        .filter_map(|it| setting.variables.get(*it))
        .map(PathBuf::from);
    let places: Vec<PathBuf> = search.chain(named).filter(|it| is_plain(it)).collect();
    // A shim in `~/.pyenv/shims` needs all of `~/.pyenv`, whoever's home that is.
    let further = places.iter().filter_map(|it| above_hidden(it));
    let mut all: BTreeSet<PathBuf> = homes
        .iter()
        .cloned()
        .chain(further)
        .flat_map(|home| TOOL_CHAINS.map(|it| home.join(it)))
        .collect();
    all.extend(SYSTEM.map(PathBuf::from));
    all.extend(places);
    let is_kept = |it: &PathBuf| {
        let holds_home = homes.iter().any(|home| home.starts_with(it));
        !holds_home && !roots.iter().any(|root| it.starts_with(root))
    };
    let mut kept: Vec<PathBuf> = vec![];
    for place in all.into_iter().filter(is_kept) {
        // In order, so that what a directory has in it comes right behind it.
        if kept.last().is_none_or(|it| !place.starts_with(it)) {
            kept.push(place);
        }
    }
    kept
}

fn is_plain(path: &Path) -> bool {
    let is_up = |it| matches!(it, Component::ParentDir | Component::CurDir);
    path.is_absolute() && path.parent().is_some() && !path.components().any(is_up)
}

/// `/home/u` for `/home/u/.cargo/bin`.
fn above_hidden(path: &Path) -> Option<PathBuf> {
    let mut above = PathBuf::new();
    for part in path.components() {
        if part.as_os_str().to_string_lossy().starts_with('.') {
            return above.parent().is_some().then_some(above);
        }
        above.push(part);
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::samples::setting;

    pub(crate) fn ground() -> BoundaryGround {
        BoundaryGround {
            missing: None,
            own: ["/home/u/.config/aish", "/home/u/.local/state/aish"]
                .map(PathBuf::from)
                .to_vec(),
            home: Some(PathBuf::from("/home/u")),
            scratch: PathBuf::from("/home/u/.local/state/aish/scratch"),
        }
    }

    fn of(roots: &[&str], path: &str) -> Result<Boundary, BoundaryError> {
        let roots: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
        let setting = setting(&[("PATH", path)], "/w");
        Boundary::of_run(&ground(), &WidenedLimits::default(), &roots, &setting)
    }

    #[test]
    fn a_root_that_would_keep_nothing_from_being_read_is_none() {
        let check = |root: &str, expected: &str| {
            let said = of(&["/w", root], "/bin").map_err(|it| it.to_string());
            assert_eq!(Err(expected.to_owned()), said.map(|_| ()), "{root}");
        };
        let home = |it: &str| format!("{it} has the whole home directory in it");
        for root in ["/", "/home", "/home/u"] {
            check(root, &home(root));
        }
        for root in [
            "/home/u/.config",
            "/home/u/.config/aish",
            "/home/u/.local/state/aish/store",
        ] {
            check(root, &format!("aish's own files are in {root}"));
        }
        assert_eq!(Err(BoundaryError::NoRoot), of(&[], "/bin").map(|_| ()));
        let mut old = ground();
        old.missing = Some("too old".to_owned());
        let roots = [PathBuf::from("/w")];
        let held = Boundary::of_run(&old, &WidenedLimits::default(), &roots, &setting(&[], "/w"));
        assert_eq!(
            Err(BoundaryError::Kernel("too old".to_owned())),
            held.map(|_| ())
        );
    }

    #[test]
    fn the_home_is_read_in_parts_that_are_known() {
        let path = "/bin:/w/bin:/home/u:/home:/home/u/.nvm/v/bin:relative:/home/u/x/../.ssh:/srv/.pyenv/shims:/home/u/tools";
        let boundary = of(&["/w"], path).unwrap();
        let has = |it: &str| boundary.known.contains(&PathBuf::from(it));
        for there in [
            "/usr",
            "/bin",
            "/home/u/.cargo/registry",
            "/home/u/.nvm",
            "/srv/.pyenv",
            "/home/u/tools",
            "/home/u/.gitconfig",
        ] {
            assert!(has(there), "{there}");
        }
        let never = |it: &&PathBuf| {
            Path::new("/home/u").starts_with(it)
                || it.starts_with("/w")
                || it.is_relative()
                || it.to_string_lossy().contains("ssh")
        };
        assert_eq!(None, boundary.known.iter().find(never));
        assert!(!has("/home/u/.nvm/v/bin") && !has("/home/u/.cargo"));
    }

    #[test]
    fn what_failed_inside_is_asked_about_when_it_comes_again() {
        let [a, b] = [ContentDigest([1; 32]), ContentDigest([2; 32])];
        let mut failures = BoundaryFailures::default();
        failures.on_begin(Some(a));
        failures.ended(BoundaryFailure::Failed);
        assert!(failures.hold(a) && !failures.hold(b));
        failures.on_begin(Some(b));
        failures.ended(BoundaryFailure::Stopped);
        assert!(failures.hold(b), "what would it mend to wait?");
        assert!(!failures.hold(a), "something was done since");
        failures.on_begin(None);
        failures.ended(BoundaryFailure::None);
        assert!(failures.hold(b));
        failures.on_begin(Some(b));
        failures.ended(BoundaryFailure::None);
        assert!(!failures.hold(b));
    }

    #[test]
    fn what_sounds_like_the_boundary_is_told_so() {
        for output in [
            "touch: cannot touch '/x': Permission denied\n",
            "PermissionError: [Errno 1] Operation not permitted",
            "curl: (6) Could not resolve host: example.org",
        ] {
            assert!(explains(output), "{output}");
        }
        assert!(!explains("2 tests failed"));
    }
}
