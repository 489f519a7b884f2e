//! What was written to get out of a containment, as data, and a place with everything that it is after: files, keys, sockets,
//! ports and another process, with ears for whoever reaches one. Who starts the programs, and within what, is the suite's.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

const ESCAPES: &str = include_str!("../data/escapes.txt");
const PYTHON: &str = "/usr/bin/python3";
const BEFORE: &str = r#"
import os, socket, sys, stat, fcntl, pty, mmap, resource, ctypes
OUT, HOME, VICTIM = os.environ["OUT"], os.environ["HOME"], int(os.environ["VICTIM"])
TCP, TCP6, UDP = (int(os.environ[it]) for it in ("TCP", "TCP6", "UDP"))
c = ctypes.CDLL(None, use_errno=True)
def libc(name, *arguments):
    if getattr(c, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def syscall(*arguments):
    child = c.syscall(*(ctypes.c_long(it) for it in arguments))
    if child < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def unix(path):
    socket.socket(socket.AF_UNIX).connect(path)
"#;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Escape {
    /// How it must fail, and how under profiles that hold it otherwise.
    expected: &'static str,
    by: &'static str,
    pub script: &'static str,
}

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeEnd {
    Well,
    Badly,
}

/// All of them.
pub fn all() -> Vec<Escape> {
    let lines = ESCAPES.lines();
    let lines = lines.filter(|it| !it.is_empty() && !it.starts_with('#'));
    let parsed = lines.map(|line| {
        let mut parts = line.splitn(3, " | ");
        let mut next = || parts.next().expect(line);
        Escape {
            expected: next(),
            by: next(),
            script: next(),
        }
    });
    parsed.collect()
}

/// Whether those can be tried that are written in Python.
pub fn has_python() -> bool {
    Path::new(PYTHON).exists()
}

/// As a script of the shell.
pub fn python(script: &str) -> String {
    format!("{PYTHON} - <<'END'\n{BEFORE}\n{script}\nEND")
}

impl Escape {
    /// As a script of the shell. `None`: not on this machine.
    pub fn shell(&self) -> Option<String> {
        match self.by {
            "sh" => Some(self.script.to_owned()),
            "py" if has_python() => Some(python(self.script)),
            "x86" if cfg!(target_arch = "x86_64") && has_python() => {
                let mut parts = self.script.split(' ');
                let number = parts.next().unwrap_or_default();
                let argument = parts.nth(1).unwrap_or("0");
                Some(python(&format!(
                    "syscall({number}, {argument}, 0, 0, 0, 0, 0)"
                )))
            }
            _not_here => None,
        }
    }

    /// How it must end under this profile, `hidden` and `seen` among it.
    fn expected(&self, profile: &str) -> &'static str {
        let mut words = self.expected.split(' ');
        let usual = words.next().unwrap_or_default();
        let of_profile = words.find_map(|it| it.strip_prefix(profile)?.strip_prefix(':'));
        of_profile.unwrap_or(usual)
    }
}

/// Whether a script's last words are those of an error that is expected.
fn is_expected(expected: &str, output: &str) -> bool {
    expected.split(',').any(|it| {
        let words: &[&str] = match it {
            "EROFS" => &["Read-only file system"],
            "EACCES" => &["Permission denied"],
            "EPERM" => &["Operation not permitted", "not allowed to raise"],
            "ENOENT" => &["No such file or directory", "nonexistent"],
            "ESRCH" => &["No such process"],
            "EXDEV" => &["Invalid cross-device link"],
            "EBUSY" => &["Device or resource busy"],
            "ENOTTY" => &["Inappropriate ioctl for device"],
            "EINVAL" => &["Invalid argument"],
            "EBADF" => &["Bad file descriptor"],
            "ENOSYS" => &["Function not implemented"],
            "ECONNREFUSED" => &["Connection refused"],
            "ENETUNREACH" => &["Network is unreachable"],
            "EADDRNOTAVAIL" => &["Cannot assign requested address"],
            "EAI" => &[
                "Temporary failure in name resolution",
                "Name or service not known",
            ],
            other => panic!("{other}"),
        };
        words.iter().any(|it| output.contains(it))
    })
}

/// Everything that could be reached. It has `home`, `work` and `outside` below its directory.
#[derive(Debug)]
pub struct EscapeScene {
    directory: PathBuf,
    /// Of this scene alone: others may be there at the same time.
    pub secret: String,
    /// Where scripts find all of it.
    pub env: BTreeMap<String, String>,
    victim: Child,
    streams: Vec<UnixListener>,
    notify: UnixDatagram,
    tcp: Vec<TcpListener>,
    udp: UdpSocket,
    /// What is not below the directory.
    beside: Vec<PathBuf>,
    before: BTreeMap<PathBuf, String>,
}

impl EscapeScene {
    /// In an empty directory whose name nobody else has.
    pub fn new(directory: &Path) -> Self {
        let name = directory.file_name().unwrap().to_str().unwrap();
        let secret = format!("sekret-{name}");
        for it in ["home", "work", "outside"] {
            fs::create_dir_all(directory.join(it)).unwrap();
        }
        for (file, text) in [
            ("work/here", ""),
            ("outside/file", "as it was"),
            ("outside/full/file", "as it was"),
            ("home/file", "as it was"),
            ("home/.bashrc", "as it was"),
            ("home/.ssh/id_ed25519", &secret),
            ("home/.netrc", &secret),
            ("home/.config/gh/hosts", &secret),
            ("home/a-secret", &secret),
        ] {
            let file = directory.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        symlink("a-secret", directory.join("home/.pgpass")).unwrap();
        let mut victim = Command::new("sleep");
        let victim = victim.arg("100000").env("KEY", &secret).spawn().unwrap();
        let mut scene = Self {
            directory: directory.to_owned(),
            secret,
            env: BTreeMap::new(),
            victim,
            streams: vec![],
            notify: UnixDatagram::bind(directory.join("outside/notify")).unwrap(),
            tcp: vec![],
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            beside: vec![],
            before: BTreeMap::new(),
        };
        scene.listen(name);
        scene.name(name);
        scene
    }

    /// All is in place, and belongs to who it is to belong to: what is otherwise later was changed by an escape.
    pub fn begin(&mut self) {
        self.before = self.around();
    }

    /// Places below the home that hold keys, and are to be masked.
    pub fn keys(&self) -> Vec<PathBuf> {
        let home = self.directory.join("home");
        let keys = [".ssh", ".netrc", ".config/gh", ".pgpass"];
        keys.map(|it| home.join(it)).to_vec()
    }

    fn listen(&mut self, name: &str) {
        let run = if rustix::process::geteuid().is_root() {
            "/run"
        } else {
            "/tmp"
        };
        let beside = [
            format!("{run}/{name}.docker.sock"),
            format!("/tmp/{name}.sock"),
            format!("/dev/shm/{name}"),
            format!("/tmp/{name}.txt"),
        ];
        self.beside = beside.map(PathBuf::from).to_vec();
        let within = ["outside/bus", "home/agent"].map(|it| self.directory.join(it));
        for it in within.iter().chain(&self.beside[..2]) {
            self.streams.push(UnixListener::bind(it).unwrap());
        }
        let address = SocketAddr::from_abstract_name(name).unwrap();
        self.streams
            .push(UnixListener::bind_addr(&address).unwrap());
        for it in &self.beside[2..] {
            fs::write(it, &self.secret).unwrap();
        }
        for it in &self.beside {
            fs::set_permissions(it, fs::Permissions::from_mode(0o666)).unwrap();
        }
        let tcp = ["127.0.0.1:0", "[::1]:0"].map(|it| TcpListener::bind(it).ok());
        self.tcp = tcp.into_iter().flatten().collect();
        for it in &self.streams {
            it.set_nonblocking(true).unwrap();
        }
        for it in &self.tcp {
            it.set_nonblocking(true).unwrap();
        }
        self.notify.set_nonblocking(true).unwrap();
        self.udp.set_nonblocking(true).unwrap();
    }

    fn name(&mut self, name: &str) {
        let port = |it: Option<&TcpListener>| {
            it.map_or(1, |it| it.local_addr().unwrap().port())
                .to_string()
        };
        let show = |it: &Path| it.display().to_string();
        let below = |it: &str| show(&self.directory.join(it));
        let named = [
            ("W", below("")),
            ("HOME", below("home")),
            ("OUT", below("outside")),
            ("BUS", below("outside/bus")),
            ("AGENT", below("home/agent")),
            ("NOTIFY", below("outside/notify")),
            ("DOCKER", show(&self.beside[0])),
            ("TMPSOCK", show(&self.beside[1])),
            ("SHM", show(&self.beside[2])),
            ("TMPFILE", show(&self.beside[3])),
            ("ABSTRACT", name.to_owned()),
            ("VICTIM", self.victim.id().to_string()),
            ("TCP", port(self.tcp.first())),
            ("TCP6", port(self.tcp.get(1))),
            ("UDP", self.udp.local_addr().unwrap().port().to_string()),
        ];
        self.env = named
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect();
    }

    fn around(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        for it in ["outside", "home"] {
            look(&self.directory.join(it), &mut seen);
        }
        let victim = fs::read_to_string(format!("/proc/{}/stat", self.victim.id())).unwrap();
        let state = victim
            .rsplit(") ")
            .next()
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        let state = match state {
            "R" | "S" | "D" => "lives",
            other => other,
        };
        seen.insert("victim".into(), state.to_owned());
        seen
    }

    /// Who has heard something.
    pub fn heard(&self) -> Vec<&'static str> {
        let mut heard = vec![];
        if self.streams.iter().any(|it| it.accept().is_ok()) {
            heard.push("a socket with a path");
        }
        if self.tcp.iter().any(|it| it.accept().is_ok()) {
            heard.push("TCP");
        }
        let mut bytes = [0; 8];
        if self.notify.recv(&mut bytes).is_ok() {
            heard.push("a datagram");
        }
        if self.udp.recv(&mut bytes).is_ok() {
            heard.push("UDP");
        }
        heard
    }

    /// What an escape did that it must not. `profile` is what held it; none: a containment as such.
    pub fn done_by(
        &self,
        escape: &Escape,
        profile: &str,
        (ended, output): (EscapeEnd, &str),
    ) -> Option<String> {
        let expected = escape.expected(profile);
        let mut done = vec![];
        match expected {
            // It may end as it likes, and only must show and change nothing.
            "hidden" => {}
            // It may: what it does stays in a layer, or it reads what its profile lets it read.
            "seen" => {}
            _ if ended == EscapeEnd::Badly && is_expected(expected, output) => {}
            _ => done.push(format!("not {expected}: {ended:?} {output}")),
        }
        if expected != "seen" && output.contains(&self.secret) {
            done.push("the secret was shown".to_owned());
        }
        let after = self.around();
        let all = self.before.keys().chain(after.keys());
        for it in all.filter(|it| self.before.get(*it) != after.get(*it)) {
            done.push(format!("{} was changed", it.display()));
        }
        let heard = self.heard();
        done.extend(heard.into_iter().map(|it| format!("{it} was reached")));
        (!done.is_empty()).then(|| format!("{}: {}", escape.script, done.join("; ")))
    }
}

impl Drop for EscapeScene {
    fn drop(&mut self) {
        let _ended_already = self.victim.kill();
        let _reaped = self.victim.wait();
        for it in &self.beside {
            let _gone = fs::remove_file(it);
        }
    }
}

fn look(at: &Path, into: &mut BTreeMap<PathBuf, String>) {
    let about = fs::symlink_metadata(at).unwrap();
    let text = fs::read_to_string(at).unwrap_or_default();
    let time = about.modified().unwrap();
    let mode = about.permissions().mode();
    into.insert(at.to_owned(), format!("{mode:o} {time:?} {text}"));
    if about.is_dir() {
        for entry in fs::read_dir(at).unwrap() {
            look(&entry.unwrap().path(), into);
        }
    }
}
