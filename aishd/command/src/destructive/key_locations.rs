//! Where keys and passwords are kept, by the text of paths alone: what a run, which nobody watches, may not show to a model
//! without a question. In the project it goes by names; outside of it everything hidden counts, and what holds such places.

use std::path::{Path, PathBuf};

/// Names that keep keys, wherever they are.
const NAMES: &str = ".ssh .gnupg .aws .password-store .netrc .pgpass .my.cnf .git-credentials .npmrc \
    .pypirc .htpasswd .env .envrc .vault-token id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk shadow gshadow sudoers \
    credentials credentials.json credentials.toml secrets.json secrets.yml secrets.yaml secrets.toml service-account.json keyrings";

const ENDINGS: &str = "pem p12 pfx kdbx keystore jks key ppk ovpn";

/// What is hidden in homes: `*` is any name, `.*` any hidden one.
const HOMES: &[&[&str]] = &[
    &["home", "*", ".*"],
    &["root", ".*"],
    &["Users", "*", ".*"],
    &["Users", "*", "Library", "Keychains"],
];

/// Other places outside of every project; `#` is a process.
const PLACES: &str = "/Library/Keychains /etc/shadow /etc/shadow- \
    /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssh /etc/ssl/private /etc/pki/tls/private /etc/letsencrypt \
    /etc/NetworkManager /etc/wireguard /etc/openvpn /etc/ppp /etc/krb5.keytab /etc/security /run/secrets /run/user \
    /var/run/secrets /var/backups /proc/kcore /proc/#/environ /proc/#/mem /proc/#/root /proc/#/cwd /proc/#/fd /proc/#/task \
    /proc/#/map_files /proc/#/auxv /dev/mem /dev/kmem /dev/port";

/// Hidden in a home, and of tools that keep keys there: no project is in one of these or around it.
const KEPT: &str = ".ssh .gnupg .aws .kube .docker .azure .password-store .mozilla .cargo/credentials.toml .config/gh .config/glab-cli \
    .config/gcloud .config/aish .config/op .config/hub .config/rclone .config/google-chrome .config/chromium .local/share/keyrings \
    .local/share/aish .local/state/aish";

/// Hidden in a home, and nothing but sources and programs of others.
const SOURCES: &str = ".cargo/registry .cargo/git .rustup/toolchains .m2/repository .gradle/caches .nvm/versions .pyenv/versions \
    .rbenv/versions .local/lib";

/// A path that is read, absolute and without `.` and `..`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) path: &'a str,
    /// Whether wildcards in it are such.
    pub(super) wild: bool,
}

/// What is known of where keys are.
#[derive(Clone, Debug)]
pub(super) struct KeyLocations {
    home: Option<String>,
    projects: Vec<String>,
}

impl KeyLocations {
    /// A directory that holds keys, as a home does, is no project, whatever may be written in it.
    pub(super) fn new(home: Option<&str>, roots: &[PathBuf]) -> Self {
        let mut keys = Self {
            home: home.map(str::to_owned),
            projects: vec![],
        };
        let roots = roots.iter().map(|it| it.to_string_lossy().into_owned());
        keys.projects = roots.filter(|it| keys.is_project(it)).collect();
        keys
    }

    pub(super) fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    fn is_project(&self, root: &str) -> bool {
        let root = parts(root);
        let around_or_in = |place: &Vec<&str>| {
            let hidden = place.contains(&".*");
            meets(&root, place, false) && (root.len() < place.len() || !hidden)
        };
        let kept = self.home().is_some_and(|home| {
            let home = parts(home);
            let below = root.strip_prefix(&*home);
            let kept = |it: &str| below.is_some_and(|below| meets(below, &parts(it), false));
            KEPT.split_whitespace().any(kept)
        });
        !kept && !self.places().iter().any(around_or_in) && !names_key(&root, false, true)
    }

    fn places(&self) -> Vec<Vec<&str>> {
        let mut places: Vec<Vec<&str>> = PLACES.split_whitespace().map(parts).collect();
        places.extend(HOMES.iter().map(|it| it.to_vec()));
        if let Some(home) = self.home() {
            let mut hidden = parts(home);
            hidden.push(".*");
            places.push(hidden);
        }
        places
    }

    /// Whether what is read there may be a place of keys, in one, or around one.
    pub(super) fn met_by(&self, place: Place<'_>) -> bool {
        let Place { path, wild } = place;
        let path = parts(path);
        let within = |it: &String| path.strip_prefix(&*parts(it)).map(<[&str]>::len);
        let below = self.projects.iter().filter_map(within).min();
        if let Some(count) = below {
            return names_key(&path[path.len() - count..], wild, true);
        }
        let sources = self.home().is_some_and(|home| {
            let below = path.strip_prefix(&*parts(home)).unwrap_or_default();
            let one = |it: &str| below.starts_with(&parts(it));
            SOURCES.split_whitespace().any(one)
        });
        if names_key(&path, wild, false) {
            return true;
        }
        !sources
            && (path.iter().any(|it| it.starts_with('.'))
                || self.places().iter().any(|it| meets(&path, it, wild)))
    }
}

/// Whether a name, which may have wildcards, may be one of a key.
pub(super) fn may_be_named(name: &str) -> bool {
    names_key(&[&*name.to_lowercase()], true, true)
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|it| !it.is_empty()).collect()
}

/// Whether one path may be, hold, or be within the other.
fn meets(path: &[&str], place: &[&str], wild: bool) -> bool {
    path.iter().zip(place).all(|(part, name)| match *name {
        "*" => true,
        ".*" => part.starts_with('.'),
        "#" => {
            let number = part.bytes().all(|it| it.is_ascii_digit());
            number || part.ends_with("self") || (wild && is_wild(part))
        }
        name if wild => could_be(part, name),
        name => *part == name,
    })
}

/// Whether a part of a path is called like what keeps keys. In a project `*` is what lies there for everybody to see.
fn names_key(path: &[&str], wild: bool, in_project: bool) -> bool {
    path.iter().enumerate().any(|(at, part)| {
        let is_last = at + 1 == path.len();
        let is_wild = wild && is_wild(part);
        if is_wild && part.chars().all(|it| matches!(it, '*' | '?')) {
            return is_last && !in_project;
        }
        // It may find what is hidden, and the directory above.
        let hidden = part.starts_with('.')
            || part
                .strip_prefix('[')
                .is_some_and(|it| it.split(']').next().is_some_and(|it| it.contains('.')));
        let is = |name: &str| {
            let same = if is_wild {
                could_be(part, name)
            } else {
                *part == name
            };
            // Directories of sources may be called like any file that is not hidden.
            same && (is_last || name.starts_with('.'))
        };
        (is_wild && hidden)
            || NAMES.split_whitespace().any(is)
            || (is_last && ENDINGS.split_whitespace().any(|it| ends(part, it, is_wild)))
    })
}

fn is_wild(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

/// Whether a name may end in a dot and this. A star at its end says nothing of that, but for what is before it.
fn ends(part: &str, ending: &str, wild: bool) -> bool {
    let last = part.rsplit_once('.').map(|it| it.1);
    if !wild {
        return last == Some(ending);
    }
    let says = |it: &str| it.contains(|it: char| it.is_ascii_alphanumeric());
    if part.ends_with('*') {
        return last.is_some_and(|it| says(it) && could_be(it, ending));
    }
    could_be(part, &format!("k.{ending}")) || last.is_some_and(|it| could_be(it, ending)) || {
        let tail = part.rsplit('*').next().unwrap_or(part);
        let mut rests = (0..ending.len()).filter_map(|at| ending.get(at..));
        part.contains('*') && rests.any(|it| could_be(tail, it))
    }
}

/// Whether a pattern may stand for a name; a set of signs is taken for any one sign. As long as both together.
fn could_be(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    // How much of the name what was read of the pattern may stand for.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    let mut signs = pattern.chars();
    while let Some(sign) = signs.next() {
        if sign == '*' {
            let first = reached.iter().position(|it| *it);
            let first = first.unwrap_or(reached.len());
            reached.iter_mut().skip(first).for_each(|it| *it = true);
            continue;
        }
        let set = (sign == '[').then(|| signs.as_str().split_once(']'));
        let is_any = sign == '?' || set.flatten().is_some();
        if let Some((_, behind)) = set.flatten() {
            signs = behind.chars();
        }
        let mut next = vec![false; name.len() + 1];
        for (at, other) in name.iter().enumerate() {
            next[at + 1] = reached[at] && (is_any || sign == *other);
        }
        reached = next;
    }
    reached.last().copied().unwrap_or_default()
}

/// The path that this is from there; what leads above the top is the top.
pub(super) fn absolute(from: &Path, path: &str) -> String {
    super::places::lexical(from, path)
        .unwrap_or_else(|| PathBuf::from("/"))
        .to_string_lossy()
        .into_owned()
}

/// The paths that the braces of a pattern make, with a range as any sign; None if nobody wants to know.
pub(super) fn alternatives(pattern: &str) -> Option<Vec<String>> {
    super::places::braced(pattern, |inside| {
        if inside.contains("..") {
            vec!["*"]
        } else {
            inside.split(',').collect()
        }
    })
}
