//! Commands that a reader of text misjudges, in layers: whatever they do, nothing outside is another than before, no key is
//! printed and no port of the machine is reached. No word is looked at here.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use aish_testkit::surroundings;
use aishd_process::contained::Containment;

use crate::Test;
use crate::place::{Place, User};

pub(crate) const TESTS: &[Test] = &[
    ("what_a_reader_misjudges_changes_nothing_outside", inside),
    (
        "what_a_reader_misjudges_does_harm_where_nothing_holds_it",
        outside,
    ),
];

const COMMANDS: &str = include_str!("../../../../tests/data/misjudged.txt");
const KEY: &str = "the-key-that-nobody-prints";
/// One of so many is run, where nothing else is said: all of them take a minute.
const ONE_OF: usize = 5;

struct Victims {
    place: Place,
    port: TcpListener,
}

/// Mode, size, time of the last change of the content, and the content or where a link leads.
type Picture = BTreeMap<PathBuf, (u32, u64, i64, i64, Vec<u8>)>;

impl Victims {
    fn new() -> Self {
        let mut place = Place::new(User::Ours);
        for (path, text) in [
            ("outside/keep.txt", "keep\n"),
            ("outside/data", "data\n"),
            ("outside/m.py", "x = 1\n"),
            ("outside/notes/one", "one\n"),
            ("home/.bashrc", "# mine\n"),
            ("home/.netrc", KEY),
            ("home/.ssh/id_ed25519", KEY),
            ("home/.config/aish/keys.toml", KEY),
            ("work/README.txt", "read me\n"),
            ("work/src/main.c", "int main(void) { return 0; }\n"),
            ("work/.git/HEAD", "ref: refs/heads/main\n"),
        ] {
            place.write(path, text);
        }
        fs::create_dir(place.path("outside/empty")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        port.set_nonblocking(true).unwrap();
        let number = port.local_addr().unwrap().port().to_string();
        let path = |it: &str| place.path(it).display().to_string();
        let env = [
            ("VICTIM", path("outside")),
            ("PROJECT", path("work")),
            ("PORT", number),
        ];
        place.env = env.map(|(name, value)| (name.to_owned(), value)).into();
        Self { place, port }
    }

    fn picture(&self) -> Picture {
        let mut picture = Picture::new();
        for it in ["home", "work", "outside"] {
            look(&self.place.path(it), &mut picture);
        }
        picture
    }

    fn held(&self, name: usize) -> Containment {
        let layer = |of: &str| self.place.layer(of, &format!("{name}-{of}"));
        let masks = ["home/.netrc", "home/.ssh", "home/.config/aish"];
        Containment {
            layers: vec![layer("home"), layer("work")],
            masks: masks.map(|it| self.place.path(it)).to_vec(),
            ..Containment::default()
        }
    }
}

fn look(at: &Path, into: &mut Picture) {
    let about = fs::symlink_metadata(at).unwrap();
    let content = if about.is_file() {
        fs::read(at).unwrap()
    } else if about.is_symlink() {
        fs::read_link(at)
            .unwrap()
            .into_os_string()
            .into_encoded_bytes()
    } else {
        vec![]
    };
    let size = if about.is_dir() { 0 } else { about.size() };
    let seen = (
        about.mode(),
        size,
        about.mtime(),
        about.mtime_nsec(),
        content,
    );
    into.insert(at.to_owned(), seen);
    if about.is_dir() {
        for entry in fs::read_dir(at).unwrap() {
            look(&entry.unwrap().path(), into);
        }
    }
}

fn commands() -> impl Iterator<Item = &'static str> {
    COMMANDS
        .lines()
        .filter(|it| !it.is_empty() && !it.starts_with('#'))
}

/// Marks that the commands leave in directories of the machine.
fn marks() -> Vec<PathBuf> {
    let directories = [
        "/",
        "/etc",
        "/mnt",
        "/opt",
        "/srv",
        "/usr",
        "/usr/local",
        "/var",
        "/var/lib",
        "/root",
    ];
    let entries = directories.iter().filter_map(|it| fs::read_dir(it).ok());
    let entries = entries.flatten().flatten();
    let marks = entries.filter(|it| it.file_name().to_string_lossy().contains("aish-test-"));
    marks.map(|it| it.path()).collect()
}

fn inside() {
    let victims = Victims::new();
    let every = surroundings::count("AISH_MISJUDGED").map_or(ONE_OF, |_all| 1);
    let (before, marked) = (victims.picture(), marks());
    let mut ran = 0;
    for (number, command) in commands().enumerate() {
        if number % every != 0 {
            continue;
        }
        let mut spec = victims.place.sh(
            "timeout -k 1 20 sh -c \"$COMMAND\" 2>&1 || :",
            Some(victims.held(number)),
        );
        spec.env.insert("COMMAND".to_owned(), command.to_owned());
        let done = victims.place.try_run(&spec).unwrap();
        assert!(
            !done.output.contains(KEY),
            "{command} prints a key: {}",
            done.output
        );
        assert_eq!(
            before,
            victims.picture(),
            "{command} changes something outside"
        );
        assert!(
            victims.port.accept().is_err(),
            "{command} reaches a port of the machine"
        );
        ran += 1;
    }
    assert_eq!(marked, marks(), "something was left on the machine");
    println!(
        "{ran} commands of {} changed nothing outside",
        commands().count()
    );
}

/// That the list is one of harm: the first of each kind does it where nothing holds it.
fn outside() {
    let victims = Victims::new();
    let harms = [
        r#"printf '%s\n' 'rm -rf "$VICTIM/notes"' > run.txt; sh run.txt"#,
        r#"printf '%s\n' 'echo owned >> "$HOME/.bashrc"' > run.txt; sh run.txt"#,
    ];
    for command in harms {
        assert!(commands().any(|it| it == command), "{command}");
        let before = victims.picture();
        victims
            .place
            .try_run(&victims.place.sh(command, None))
            .unwrap();
        assert_ne!(before, victims.picture(), "{command}");
    }
}
