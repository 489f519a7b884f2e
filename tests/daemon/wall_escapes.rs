//! What was written to get out of a run's boundary, as real programs. Each of them does what it is for when nothing holds
//! it, and nothing when the kernel does, for root as for anybody else.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use aishd_model::norris_settings::WidenedLimits;

use crate::wall::{Place, User, Where};

const SECRET: &str = "sekret-of-a-person";

/// Whether a script can be let loose to see that it works. What would reach the machine itself is only run inside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Outside,
    /// It needs what is not everywhere, or would do real harm: inside it must fail.
    Inside,
}

/// What is tried, a line each.
const ESCAPES: &str = include_str!("../data/wall/escapes.txt");

struct Escape {
    name: &'static str,
    shown: Shown,
    script: &'static str,
}

fn escapes() -> Vec<Escape> {
    let lines = ESCAPES
        .lines()
        .filter(|it| !it.is_empty() && !it.starts_with('#'));
    let read = lines.map(|line| {
        let (how, rest) = line.split_at(2);
        assert!(["+ ", "- "].contains(&how), "{line}");
        let (name, script) = rest.split_once(": ").expect("a name and a script");
        let shown = if how == "+ " {
            Shown::Outside
        } else {
            Shown::Inside
        };
        Escape {
            name,
            shown,
            script,
        }
    });
    read.collect()
}

/// A place with everything that could be reached, and ears for whoever reaches it.
struct Scene {
    place: Place,
    victim: Child,
    bus: UnixListener,
    ours: UnixListener,
    abstracted: UnixListener,
    notify: UnixDatagram,
    tcp: [Option<TcpListener>; 2],
    udp: UdpSocket,
    before: BTreeMap<String, String>,
}

impl Scene {
    fn new(user: User) -> Self {
        let mut place = Place::new(user);
        let world = &place.world;
        for (file, text) in [
            ("outside/file", "as it was\n"),
            ("outside/full/file", "as it was\n"),
            ("others-tmp/file", "as it was\n"),
            ("home/.bashrc", "as it was\n"),
            ("home/.ssh/id_ed25519", SECRET),
            ("home/.netrc", SECRET),
            ("home/.git-credentials", SECRET),
            ("home/.cargo/credentials.toml", SECRET),
            ("home/.cargo/bin/tool", "as it was\n"),
            ("config/aish/env", SECRET),
            ("state/aish/store/journal", SECRET),
        ] {
            world.write(file, text);
        }
        let sockets = ["run/bus", "run/aish/aishd.sock", "run/notify"].map(|it| world.path(it));
        let [bus, ours] = [&sockets[0], &sockets[1]].map(|it| UnixListener::bind(it).unwrap());
        let notify = UnixDatagram::bind(&sockets[2]).unwrap();
        let name = world.path("abstract").display().to_string();
        let abstracted = SocketAddr::from_abstract_name(&name).unwrap();
        let abstracted = UnixListener::bind_addr(&abstracted).unwrap();
        let tcp = ["127.0.0.1:0", "[::1]:0"].map(|it| TcpListener::bind(it).ok());
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        for it in [&bus, &ours, &abstracted] {
            it.set_nonblocking(true).unwrap();
        }
        notify.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        let port = |it: &Option<TcpListener>| {
            it.as_ref().map_or_else(String::new, |it| {
                it.set_nonblocking(true).unwrap();
                it.local_addr().unwrap().port().to_string()
            })
        };
        let ports = [port(&tcp[0]), port(&tcp[1])];
        place.give();
        let victim = victim(&place);
        let path = |it: &str| place.world.path(it).display().to_string();
        place.more = [
            ("OUT", path("outside")),
            ("OTHERTMP", path("others-tmp")),
            ("CONF", path("config/aish")),
            ("STATE", path("state/aish")),
            ("BUS", path("run/bus")),
            ("OURS", path("run/aish/aishd.sock")),
            ("NOTIFY", path("run/notify")),
            ("SSH_AUTH_SOCK", path("run/bus")),
            (
                "DBUS_SESSION_BUS_ADDRESS",
                format!("unix:path={}", path("run/bus")),
            ),
            ("DISPLAY", ":0".to_owned()),
            ("ABSTRACT", name),
            ("TCP", ports[0].clone()),
            ("TCP6", ports[1].clone()),
            ("UDP", udp.local_addr().unwrap().port().to_string()),
            ("VICTIM", victim.id().to_string()),
            ("KEY", SECRET.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let mut scene = Self {
            place,
            victim,
            bus,
            ours,
            abstracted,
            notify,
            tcp,
            udp,
            before: BTreeMap::new(),
        };
        scene.before = scene.around();
        scene
    }

    /// Everything that is not the conversation's directory, as it is.
    fn around(&self) -> BTreeMap<String, String> {
        let mut seen = BTreeMap::new();
        for folder in ["outside", "others-tmp", "home", "config", "state"] {
            look(&self.place.world.path(folder), &mut seen);
        }
        seen.retain(|path, _| !path.contains("/aish/scratch"));
        let about = |file: &str| {
            let path = format!("/proc/{}/{file}", self.victim.id());
            fs::read_to_string(path).unwrap_or_default()
        };
        let limits = about("limits");
        let limits = limits.lines().filter(|it| it.contains("open files"));
        seen.insert("limits".to_owned(), limits.collect());
        let status = about("stat");
        let mut fields = status.rsplit(") ").next().unwrap_or_default().split(' ');
        let state = match fields.next() {
            Some("S" | "R" | "D") => "lives",
            Some("T" | "t") => "is stopped",
            _ended => "is gone",
        };
        seen.insert("victim".to_owned(), state.to_owned());
        // Its priority, and by what order it runs: the 18th and 19th of all fields, and the 41st.
        let rest: Vec<&str> = fields.collect();
        let order = [14, 15, 37].map(|at| rest.get(at).copied().unwrap_or_default());
        seen.insert("order".to_owned(), order.join(" "));
        seen
    }

    /// What a script did that it must not do.
    fn done_by(&self, script: &str, within: Where) -> Vec<String> {
        let ran = self.place.run(script, within);
        let mut done = vec![];
        let after = self.around();
        for (what, before) in &self.before {
            if after.get(what) != Some(before) {
                done.push(format!("{what} was {before} and is {:?}", after.get(what)));
            }
        }
        let new = after.keys().filter(|it| !self.before.contains_key(*it));
        done.extend(new.map(|it| format!("{it} is new")));
        if ran.output.contains(SECRET) || ran.output.contains("id_ed25519\n") {
            done.push("the key was shown".to_owned());
        }
        let mut taken = BTreeMap::new();
        look(&self.place.world.work(), &mut taken);
        if taken.values().any(|it| it.contains(SECRET)) {
            done.push("the key was taken".to_owned());
        }
        let mut heard = |name: &str, came: std::io::Result<()>| match came {
            Ok(()) => done.push(format!("{name} was reached")),
            Err(error) => assert_eq!(ErrorKind::WouldBlock, error.kind(), "{name}"),
        };
        heard("the bus", self.bus.accept().map(|_| ()));
        heard("our socket", self.ours.accept().map(|_| ()));
        heard("the abstract socket", self.abstracted.accept().map(|_| ()));
        heard(
            "the notify socket",
            self.notify.recv(&mut [0; 8]).map(|_| ()),
        );
        heard("UDP", self.udp.recv(&mut [0; 8]).map(|_| ()));
        for tcp in self.tcp.iter().flatten() {
            heard("TCP", tcp.accept().map(|_| ()));
        }
        done
    }

    fn has_no_ipv6(&self) -> bool {
        self.tcp[1].is_none()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ended_already = self.victim.kill();
        let _reaped = self.victim.wait();
    }
}

/// A process outside, of the same user, with a secret in its environment, an open key, and the home as its directory.
fn victim(place: &Place) -> Child {
    let home = place.world.path("home");
    let script = format!("exec 9<{}/.ssh/id_ed25519; exec sleep 7777", home.display());
    let mut command = Command::new("/bin/sh");
    if place.user == User::Ordinary && rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "/bin/sh",
        ]);
    }
    command
        .args(["-c", &script])
        .env("A_KEY", SECRET)
        .current_dir(home)
        .process_group(0)
        .stdin(Stdio::null());
    let child = command.spawn().unwrap();
    let name = format!("/proc/{}/comm", child.id());
    aish_testkit::wait::until_true("the other process", || {
        fs::read_to_string(&name).is_ok_and(|it| it == "sleep\n")
    });
    child
}

/// Names, kinds, modes and contents below a path.
fn look(path: &Path, seen: &mut BTreeMap<String, String>) {
    let Ok(about) = fs::symlink_metadata(path) else {
        return;
    };
    let mut text = format!("{:o} {}", about.permissions().mode(), about.uid());
    if about.is_file() {
        let bytes = fs::read(path).unwrap_or_default();
        text.push_str(&format!(
            " {} {}",
            about.nlink(),
            String::from_utf8_lossy(&bytes)
        ));
    }
    seen.insert(path.display().to_string(), text);
    if about.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            look(&entry.path(), seen);
        }
    }
}

fn is_there(script: &str) -> bool {
    let folders = ["/usr/bin", "/usr/local/bin", "/bin"];
    let has = |name: &str| folders.iter().any(|it| Path::new(it).join(name).exists());
    let names = |name: &str| script.split([' ', ';', '|']).any(|word| word == name);
    let optional = ["npm", "bash", "cc", "setfacl"];
    optional.into_iter().all(|it| has(it) || !names(it))
}

/// What did something, though it was tried inside. One place serves for all, for nothing changes it.
#[track_caller]
fn check_inside(user: User) {
    let mut wrong = vec![];
    let mut scene = Scene::new(user);
    for Escape { name, script, .. } in escapes().iter().filter(|it| is_there(it.script)) {
        let done = scene.done_by(script, Where::Inside);
        if !done.is_empty() {
            wrong.push(format!("{name}: {done:?}"));
            scene = Scene::new(user);
        }
        scene.place.empty();
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_written_to_get_out_of_a_boundary_does_nothing_outside() {
    check_inside(User::Ours);
}

#[test]
fn what_an_ordinary_user_runs_gets_no_further() {
    check_inside(User::Ordinary);
}

/// A test of an escape that is none would show nothing.
#[test]
fn without_a_boundary_each_of_them_does_what_it_is_for() {
    let tried = escapes();
    let shown = tried.iter().filter(|it| it.shown == Shown::Outside);
    let nothing = shown.filter(|it| is_there(it.script)).filter(|it| {
        let scene = Scene::new(User::Ours);
        let can = !(it.name.contains("IPv6") && scene.has_no_ipv6());
        can && scene.done_by(it.script, Where::Outside).is_empty()
    });
    let nothing: Vec<&str> = nothing.map(|it| it.name).collect();
    assert_eq!(Vec::<&str>::new(), nothing);
}

/// Between two commands of a run there is what the first one made: a link in the place of a directory leads nowhere.
#[test]
fn a_link_that_a_command_made_widens_nothing() {
    let mut place = Place::new(User::Ours);
    place.world.write("home/.ssh/id_ed25519", SECRET);
    // What was in the PATH as a directory of the project, by a way over a link.
    std::os::unix::fs::symlink(place.world.work(), place.world.path("home/project")).unwrap();
    let path = place.world.path("home/project/bin");
    place.more.insert(
        "PATH".to_owned(),
        format!("{}:/usr/bin:/bin", path.display()),
    );
    let made = place.run("ln -s $HOME/.ssh bin && ls bin/", Where::Inside);
    assert!(!made.output.contains("id_ed25519"), "{}", made.output);
    let after = place.run(
        "cat bin/id_ed25519; cat $HOME/.ssh/id_ed25519",
        Where::Inside,
    );
    assert!(!after.output.contains(SECRET), "{}", after.output);
}

/// What the configuration names is not within reach by a link that a command of another run can have put there, in whatever
/// order the places are named.
#[test]
fn a_link_that_another_run_made_widens_nothing() {
    let mut place = Place::new(User::Ours);
    place.world.write("home/.ssh/id_ed25519", SECRET);
    let link = |at: &str| {
        let at = place.world.path(at);
        std::os::unix::fs::symlink(place.world.path("home/.ssh"), &at).unwrap();
        at
    };
    // A directory of a project, put in the place of one that the programs of all runs come from.
    let (programs, shared) = (link("outside/bin"), link("outside/shared"));
    place.more.insert(
        "PATH".to_owned(),
        format!("{}:/usr/bin:/bin", programs.display()),
    );
    let tried = place.run(
        &format!(
            "cat {}/id_ed25519 $HOME/.ssh/id_ed25519",
            programs.display()
        ),
        Where::Inside,
    );
    assert!(!tried.output.contains(SECRET), "{}", tried.output);
    // One that runs may read or write: nothing runs, and why is said.
    let above = place.world.path("outside");
    for widened in [
        WidenedLimits {
            read: vec![],
            write: vec![shared.clone()],
        },
        WidenedLimits {
            read: vec![shared.clone()],
            write: vec![],
        },
        WidenedLimits {
            read: vec![],
            write: vec![shared, above],
        },
    ] {
        place.widened = widened;
        let refusal = place.refusal().expect("nothing runs");
        assert!(refusal.contains("within its boundary"), "{refusal}");
    }
}
