//! What was written to get out, as real programs: each must fail by the kernel, for root as for anybody else and within a
//! container, and what is around must be as it was.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use aishd_process::contained::Containment;
use aishd_process::spec::ChildExit;

use crate::Test;
use crate::network::has_python;
use crate::place::{Place, USERS, User};

pub(crate) const TESTS: &[Test] = &[
    ("nothing_gets_out_as_root_or_whoever_we_are", ours),
    ("nothing_gets_out_as_an_ordinary_user", ordinary),
    ("nothing_gets_out_in_a_container", in_container),
    ("each_escape_is_one_outside", outside),
];

const ESCAPES: &str = include_str!("escapes.txt");
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
open("here", "w").close()
"#;

#[derive(Clone, Copy)]
struct Escape {
    expected: &'static str,
    script: &'static str,
    by: &'static str,
}

fn escapes() -> Vec<Escape> {
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

impl Escape {
    fn shell(&self) -> Option<String> {
        match self.by {
            "sh" => Some(self.script.to_owned()),
            "py" if Path::new("/usr/bin/python3").exists() => Some(python(self.script)),
            "x86" if cfg!(target_arch = "x86_64") && Path::new("/usr/bin/python3").exists() => {
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

    /// Whether a script's last words are those of an error that is expected.
    fn is_expected(&self, output: &str) -> bool {
        self.expected.split(',').any(|it| {
            let words: &[&str] = match it {
                "hidden" => &[""],
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
}

fn python(script: &str) -> String {
    format!("/usr/bin/python3 - <<'END'\n{BEFORE}\n{script}\nEND")
}

/// Everything that could be reached, and ears for whoever reaches it.
struct Scene {
    place: Place,
    /// Of this scene alone: others may be there at the same time.
    secret: String,
    victim: Child,
    streams: Vec<UnixListener>,
    notify: UnixDatagram,
    tcp: Vec<TcpListener>,
    udp: UdpSocket,
    /// What is not below the place.
    beside: Vec<PathBuf>,
    before: BTreeMap<PathBuf, String>,
}

impl Scene {
    fn new(user: User) -> Self {
        let place = Place::new(user);
        let name = place.path("").file_name().unwrap().to_owned();
        let name = name.to_str().unwrap();
        let secret = format!("sekret-{name}");
        for (file, text) in [
            ("outside/file", "as it was"),
            ("outside/full/file", "as it was"),
            ("home/file", "as it was"),
            ("home/.bashrc", "as it was"),
            ("home/.ssh/id_ed25519", &secret),
            ("home/.netrc", &secret),
            ("home/.config/gh/hosts", &secret),
            ("home/a-secret", &secret),
        ] {
            place.write(file, text);
        }
        symlink("a-secret", place.path("home/link-to-secret")).unwrap();
        let mut victim = Command::new("sleep");
        let victim = victim.arg("100000").env("KEY", &secret).spawn().unwrap();
        let mut scene = Self {
            secret,
            victim,
            streams: vec![],
            notify: UnixDatagram::bind(place.path("outside/notify")).unwrap(),
            tcp: vec![],
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            beside: vec![],
            before: BTreeMap::new(),
            place,
        };
        scene.listen(name);
        scene.name();
        scene.place.give();
        scene.before = scene.around();
        scene
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
        let within = ["outside/bus", "home/agent"].map(|it| self.place.path(it));
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
        self.place
            .env
            .insert("ABSTRACT".to_owned(), name.to_owned());
    }

    /// Scripts know by these names where all of it is.
    fn name(&mut self) {
        let port = |it: Option<&TcpListener>| {
            it.map_or(1, |it| it.local_addr().unwrap().port())
                .to_string()
        };
        let show = |it: &Path| it.display().to_string();
        let named = [
            ("BUS", show(&self.place.path("outside/bus"))),
            ("AGENT", show(&self.place.path("home/agent"))),
            ("NOTIFY", show(&self.place.path("outside/notify"))),
            ("DOCKER", show(&self.beside[0])),
            ("TMPSOCK", show(&self.beside[1])),
            ("SHM", show(&self.beside[2])),
            ("TMPFILE", show(&self.beside[3])),
            ("VICTIM", self.victim.id().to_string()),
            ("TCP", port(self.tcp.first())),
            ("TCP6", port(self.tcp.get(1))),
            ("UDP", self.udp.local_addr().unwrap().port().to_string()),
        ];
        let named = named.map(|(name, value)| (name.to_owned(), value));
        self.place.env.extend(named);
    }

    fn around(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        for it in ["outside", "home"] {
            look(&self.place.path(it), &mut seen);
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

    fn contained(&self) -> Containment {
        let home = [".ssh", ".netrc", ".config/gh", "link-to-secret"];
        Containment {
            layers: vec![self.place.layer("home", "home")],
            write: vec![self.place.path("work")],
            masks: home.map(|it| self.place.path("home").join(it)).to_vec(),
            ..Containment::default()
        }
    }

    /// Who has heard something.
    fn heard(&self) -> Vec<&'static str> {
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
}

impl Drop for Scene {
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

fn nothing_gets_out(user: User) {
    let python = has_python();
    let scene = Scene::new(user);
    let mut wrong = vec![];
    let mut tried = 0;
    for escape in escapes() {
        let Some(script) = escape.shell() else {
            println!("SKIPPED: {}", escape.script);
            continue;
        };
        tried += 1;
        let ran = scene.place.run(&script, scene.contained());
        let last = ran.output.trim().lines().last().unwrap_or_default();
        println!("{user:?} {}: {:?} {last}", escape.script, ran.exit);
        let is_hidden = escape.expected == "hidden";
        let mut done = vec![];
        if !is_hidden && (ran.exit == ChildExit::Code(0) || !escape.is_expected(&ran.output)) {
            done.push(format!(
                "not {}: {:?} {}",
                escape.expected, ran.exit, ran.output
            ));
        }
        if ran.output.contains(&scene.secret) {
            done.push("the secret was shown".to_owned());
        }
        let after = scene.around();
        let all = scene.before.keys().chain(after.keys());
        for it in all.filter(|it| scene.before.get(*it) != after.get(*it)) {
            done.push(format!("{} was changed", it.display()));
        }
        done.extend(
            scene
                .heard()
                .into_iter()
                .map(|it| format!("{it} was reached")),
        );
        if !done.is_empty() {
            wrong.push(format!("{}: {}", escape.script, done.join("; ")));
        }
    }
    println!("{user:?}: {tried} tried");
    assert!(tried > if python { 150 } else { 40 }, "{tried}");
    assert!(wrong.is_empty(), "{user:?}\n{}", wrong.join("\n"));
}

fn ours() {
    nothing_gets_out(USERS[0]);
}

fn ordinary() {
    nothing_gets_out(USERS[1]);
}

fn in_container() {
    nothing_gets_out(USERS[2]);
}

/// What the table relies on: without a containment, these reach what they are for.
fn outside() {
    if !has_python() {
        return;
    }
    let scene = Scene::new(User::Ordinary);
    let reach = |script: &str| {
        let ran = scene.place.try_run(&scene.place.sh(script, None)).unwrap();
        assert_eq!(ChildExit::Code(0), ran.exit, "{script}: {}", ran.output);
        ran.output
    };
    for it in ["BUS", "AGENT", "TMPSOCK", "DOCKER"] {
        reach(&python(&format!("unix(os.environ[{it:?}])")));
        assert_eq!(vec!["a socket with a path"], scene.heard(), "{it}");
    }
    reach(&python("unix(\"\\0\" + os.environ[\"ABSTRACT\"])"));
    reach(&python("socket.create_connection((\"127.0.0.1\", TCP))"));
    assert_eq!(vec!["a socket with a path", "TCP"], scene.heard());
    reach(&python("os.listdir(f\"/proc/{VICTIM}\")"));
    assert!(reach("cat ~/.netrc ~/link-to-secret \"$TMPFILE\"").contains(&scene.secret));
    reach("touch \"$OUT/new\" /var/tmp/aish-escape && rm \"$OUT/new\" /var/tmp/aish-escape");
}
