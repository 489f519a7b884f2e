//! Power cuts: what a loaded store asked of the system is recorded, and the disk is rebuilt as a cut at any
//! moment could leave it. What was not synced may be gone, torn or reordered; a directory entry that was not
//! synced with its directory may be gone too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::driver::{Task, said, start, task};
use super::{Dice, crash, rounds};

const PRODUCERS: u64 = 4;
const CALLS: &str = "trace=openat,write,pwrite64,fsync,fdatasync,sync_file_range,rename,renameat2,unlink,unlinkat,ftruncate,mkdir,mkdirat";

type Inode = usize;

/// One thing asked of the system.
#[derive(Debug)]
enum Op {
    Open {
        path: PathBuf,
        create: bool,
        truncate: bool,
    },
    /// At an offset, or behind the last such write.
    Write {
        path: PathBuf,
        at: Option<u64>,
        bytes: Vec<u8>,
    },
    SetLength {
        path: PathBuf,
        length: u64,
    },
    SyncBegins {
        path: PathBuf,
        thread: u64,
    },
    SyncEnds {
        path: PathBuf,
        thread: u64,
    },
    MakeDir {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Exchange {
        one: PathBuf,
        other: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    Said {
        verb: String,
        number: u64,
        seq: u64,
    },
}

/// What a traced line says: the thread, the call, its arguments and, unless it is still going on, its result.
fn parse_line(
    line: &str,
    open: &mut BTreeMap<u64, (String, String)>,
) -> Vec<(u64, String, String, bool)> {
    let Some((thread, rest)) = line.split_once(char::is_whitespace) else {
        return vec![];
    };
    let (Ok(thread), rest) = (thread.parse(), rest.trim_start()) else {
        return vec![];
    };
    if rest.starts_with("<... ") {
        let ok = !rest.contains("= -1");
        let begun = open.remove(&thread);
        return begun
            .into_iter()
            .filter(|_| ok)
            .map(|(call, args)| (thread, call, args, true))
            .collect();
    }
    let Some((call, args)) = rest.split_once('(') else {
        return vec![];
    };
    if let Some(args) = args.strip_suffix("<unfinished ...>") {
        open.insert(thread, (call.to_owned(), args.to_owned()));
        return vec![(thread, call.to_owned(), args.to_owned(), false)];
    }
    let Some((args, result)) = args.rsplit_once(" = ") else {
        return vec![];
    };
    let args = args.trim_end().trim_end_matches(')');
    if result.starts_with('-') {
        return vec![];
    }
    let whole = |done| (thread, call.to_owned(), args.to_owned(), done);
    vec![whole(false), whole(true)]
}

/// The strings among the arguments, in order, unescaped: `"…"` and what stands in `<…>` behind a descriptor.
fn strings(args: &str) -> Vec<Vec<u8>> {
    let mut found = vec![];
    let mut rest = args;
    while let Some(start) = rest.find(['"', '<']) {
        let end = if rest[start..].starts_with('"') {
            '"'
        } else {
            '>'
        };
        let Some(length) = rest[start + 1..].find(end) else {
            break;
        };
        found.push(unescape(&rest[start + 1..start + 1 + length]));
        rest = &rest[start + 2 + length..];
    }
    found
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4);
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        if rest.starts_with(b"\\x") && rest.len() >= 4 {
            let digits = std::str::from_utf8(&rest[2..4]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &rest[4..];
        } else {
            bytes.push(*first);
            rest = others;
        }
    }
    bytes
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

fn number_at(args: &str, from_end: usize) -> Option<u64> {
    args.rsplit(',').nth(from_end)?.trim().parse().ok()
}

/// The operations on `root` and what was said, in their order.
fn parse(trace: &str, root: &Path) -> Vec<Op> {
    let mut ops = vec![];
    let mut open = BTreeMap::new();
    for line in trace.lines() {
        for (thread, call, args, done) in parse_line(line, &mut open) {
            let strings = strings(&args);
            // Descriptor of the working directory comes first in the *at calls.
            let paths: Vec<PathBuf> = strings.iter().map(|it| path_of(it)).collect();
            let inside: Vec<PathBuf> = paths
                .iter()
                .filter(|it| it.starts_with(root))
                .cloned()
                .collect();
            let Some(path) = inside.first().cloned() else {
                if call == "write" && !done {
                    for (verb, number, seq) in strings
                        .last()
                        .map(|it| said(&String::from_utf8_lossy(it)))
                        .unwrap_or_default()
                    {
                        ops.push(Op::Said { verb, number, seq });
                    }
                }
                continue;
            };
            let op = match (call.as_str(), done) {
                ("openat", true) => Op::Open {
                    path,
                    create: args.contains("O_CREAT"),
                    truncate: args.contains("O_TRUNC"),
                },
                ("write", false) => Op::Write {
                    path,
                    at: None,
                    bytes: strings[1].clone(),
                },
                ("pwrite64", false) => Op::Write {
                    path,
                    at: number_at(&args, 0),
                    bytes: strings[1].clone(),
                },
                ("ftruncate", true) => Op::SetLength {
                    path,
                    length: number_at(&args, 0).unwrap(),
                },
                ("fsync" | "fdatasync", false) => Op::SyncBegins { path, thread },
                ("fsync" | "fdatasync", true) => Op::SyncEnds { path, thread },
                ("mkdir" | "mkdirat", true) => Op::MakeDir { path },
                ("renameat2", true) if args.contains("RENAME_EXCHANGE") => Op::Exchange {
                    one: path,
                    other: inside[1].clone(),
                },
                ("rename" | "renameat2", true) => Op::Rename {
                    from: path,
                    to: inside[1].clone(),
                },
                // The name may be told beside its directory.
                ("unlinkat", true) => Op::Remove {
                    path: paths.iter().fold(PathBuf::new(), |at, it| at.join(it)),
                },
                ("unlink", true) => Op::Remove { path },
                _ => continue,
            };
            ops.push(op);
        }
    }
    ops
}

#[derive(Clone, Debug)]
enum Change {
    Bytes { at: u64, bytes: Vec<u8> },
    Length(u64),
}

#[derive(Clone, Debug)]
enum Entry {
    Put(PathBuf, Node),
    Take(PathBuf),
    Exchange(PathBuf, PathBuf),
}

/// Where a path is after two directories were exchanged.
fn exchanged(path: &Path, one: &Path, other: &Path) -> PathBuf {
    let moved = |from: &Path, to: &Path| path.strip_prefix(from).ok().map(|it| to.join(it));
    moved(one, other)
        .or_else(|| moved(other, one))
        .unwrap_or_else(|| path.to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Node {
    Dir,
    File(Inode),
}

#[derive(Debug, Default)]
struct File {
    synced: Vec<u8>,
    pending: Vec<Change>,
    written_to: u64,
}

/// A disk with what is on it for sure, and what is on its way.
#[derive(Debug, Default)]
struct Disk {
    files: Vec<File>,
    names: BTreeMap<PathBuf, Node>,
    synced_names: BTreeMap<PathBuf, Node>,
    pending_names: Vec<(PathBuf, Entry)>,
    syncs: BTreeMap<u64, (Option<Inode>, usize)>,
}

fn change(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => bytes.resize(usize::try_from(*length).unwrap(), 0),
        Change::Bytes { at, bytes: new } => {
            let at = usize::try_from(*at).unwrap();
            if bytes.len() < at + new.len() {
                bytes.resize(at + new.len(), 0);
            }
            bytes[at..at + new.len()].copy_from_slice(new);
        }
    }
}

fn enter(names: &mut BTreeMap<PathBuf, Node>, entry: &Entry) {
    match entry {
        Entry::Put(path, node) => {
            names.insert(path.clone(), *node);
        }
        Entry::Take(path) => {
            names.remove(path);
        }
        Entry::Exchange(one, other) => {
            let all = std::mem::take(names).into_iter();
            *names = all
                .map(|(path, node)| (exchanged(&path, one, other), node))
                .collect();
        }
    }
}

impl Disk {
    fn file(&mut self, path: &Path) -> Option<(Inode, &mut File)> {
        match self.names.get(path)? {
            Node::Dir => None,
            Node::File(inode) => Some((*inode, &mut self.files[*inode])),
        }
    }

    fn name(&mut self, path: &Path, entry: Entry) {
        enter(&mut self.names, &entry);
        let parent = path.parent().unwrap().to_owned();
        self.pending_names.push((parent, entry));
    }

    /// The entries of a directory, of the first `count` that were on their way.
    fn sync_names(&mut self, path: &Path, count: usize) {
        let count = count.min(self.pending_names.len());
        let later = self.pending_names.split_off(count);
        let mut kept: Vec<(PathBuf, Entry)> = vec![];
        for (dir, entry) in self.pending_names.drain(..) {
            if dir != *path {
                kept.push((dir, entry));
                continue;
            }
            if let Entry::Exchange(one, other) = &entry {
                for (dir, entry) in &mut kept {
                    *dir = exchanged(dir, one, other);
                    if let Entry::Put(path, _) | Entry::Take(path) = entry {
                        *path = exchanged(path, one, other);
                    }
                }
            }
            enter(&mut self.synced_names, &entry);
        }
        kept.extend(later);
        self.pending_names = kept;
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Open {
                path,
                create,
                truncate,
            } => {
                if *create && !self.names.contains_key(path) {
                    self.files.push(File::default());
                    let node = Node::File(self.files.len() - 1);
                    self.name(path, Entry::Put(path.clone(), node));
                }
                if let (true, Some((_, file))) = (*truncate, self.file(path)) {
                    file.pending.push(Change::Length(0));
                    file.written_to = 0;
                }
            }
            Op::Write { path, at, bytes } => {
                if let Some((_, file)) = self.file(path) {
                    let at = at.unwrap_or(file.written_to);
                    file.written_to = at + bytes.len() as u64;
                    file.pending.push(Change::Bytes {
                        at,
                        bytes: bytes.clone(),
                    });
                }
            }
            Op::SetLength { path, length } => {
                if let Some((_, file)) = self.file(path) {
                    file.pending.push(Change::Length(*length));
                    file.written_to = 0;
                }
            }
            Op::SyncBegins { path, thread } => {
                let pending = self
                    .file(path)
                    .map(|(inode, file)| (Some(inode), file.pending.len()));
                let pending = pending.unwrap_or((None, self.pending_names.len()));
                self.syncs.insert(*thread, pending);
            }
            Op::SyncEnds { path, thread } => match self.syncs.remove(thread).unwrap() {
                (Some(inode), count) => {
                    let file = &mut self.files[inode];
                    let count = count.min(file.pending.len());
                    for it in file.pending.drain(..count) {
                        change(&mut file.synced, &it);
                    }
                }
                (None, count) => self.sync_names(path, count),
            },
            Op::MakeDir { path } => self.name(path, Entry::Put(path.clone(), Node::Dir)),
            Op::Rename { from, to } => {
                if let Some(node) = self.names.get(from).copied() {
                    self.name(from, Entry::Take(from.clone()));
                    self.name(to, Entry::Put(to.clone(), node));
                }
            }
            Op::Exchange { one, other } => {
                self.name(one, Entry::Exchange(one.clone(), other.clone()));
            }
            Op::Remove { path } => self.name(path, Entry::Take(path.clone())),
            Op::Said { .. } => {}
        }
    }

    /// The disk after a cut now, made in `to`. `mode` 0: nothing that was not synced is there; 1: any of it, also torn; 2: all.
    fn cut(&self, root: &Path, to: &Path, mode: u64, dice: &mut Dice) {
        let mut names = self.synced_names.clone();
        // Entries reach the disk in their order, so some of the first ones are there.
        let entries = match mode {
            0 => 0,
            1 => dice.below(self.pending_names.len() as u64 + 1),
            _ => self.pending_names.len() as u64,
        };
        for (_, entry) in self
            .pending_names
            .iter()
            .take(usize::try_from(entries).unwrap())
        {
            enter(&mut names, entry);
        }
        fs::create_dir_all(to).unwrap();
        for (path, node) in names {
            let target = to.join(path.strip_prefix(root).unwrap());
            if !target.parent().unwrap().is_dir() {
                continue;
            }
            match node {
                Node::Dir => fs::create_dir_all(target).unwrap(),
                Node::File(inode) => fs::write(target, self.content(inode, mode, dice)).unwrap(),
            }
        }
    }

    fn content(&self, inode: Inode, mode: u64, dice: &mut Dice) -> Vec<u8> {
        let file = &self.files[inode];
        let mut bytes = file.synced.clone();
        for pending in &file.pending {
            let fate = if mode == 1 { dice.below(3) } else { mode };
            match (fate, pending) {
                (0, _) => {}
                (1, Change::Bytes { at, bytes: new }) => {
                    let keep =
                        usize::try_from(dice.below(new.len() as u64 / 512 + 1)).unwrap() * 512;
                    let new = new[..keep].to_vec();
                    change(
                        &mut bytes,
                        &Change::Bytes {
                            at: *at,
                            bytes: new,
                        },
                    );
                }
                (_, all) => change(&mut bytes, all),
            }
        }
        bytes
    }
}

/// Records a fresh store under load; `None` with a printed reason where that cannot be done.
fn record(root: &Path, log: &Path) -> Option<String> {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: no strace here");
        return None;
    }
    let log_path = log.display().to_string();
    let words = [
        "strace", "-f", "-y", "-xx", "-s", "2000000", "-e", CALLS, "-o", &log_path,
    ];
    let wrapper: Vec<String> = words.map(str::to_owned).to_vec();
    let task = Task {
        producers: PRODUCERS,
        turns: 60,
        churn: true,
        ..task(root)
    };
    let output = start(&wrapper, &task).wait_with_output().unwrap();
    if !output.status.success() {
        println!("skipped: strace may not trace here");
        return None;
    }
    fs::read_to_string(log).ok()
}

/// Whether this begins a segment that compaction has rewritten.
fn is_compacted(bytes: &[u8]) -> bool {
    let first = bytes.split(|it| *it == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(first).contains("\"compacted\":true")
}

#[test]
fn nothing_acknowledged_is_lost_by_power_cuts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let root = dir.join("store");
    fs::create_dir(&root).unwrap();
    let Some(trace) = record(&root, &dir.join("trace")) else {
        return;
    };
    let ops = parse(&trace, &root);
    let said = ops
        .iter()
        .filter(|it| matches!(it, Op::Said { verb, .. } if verb == "ack"))
        .count();
    let compacted = ops
        .iter()
        .filter(|it| matches!(it, Op::Write { bytes, .. } if is_compacted(bytes)))
        .count();
    let syncs = ops
        .iter()
        .filter(|it| matches!(it, Op::SyncEnds { .. }))
        .count();
    assert!(
        said as u64 == PRODUCERS * 60 && syncs > 20 && compacted > 0,
        "the recording is short: {said} acknowledgements, {syncs} syncs, {compacted} segments compacted"
    );
    let cuts = rounds("AISH_STORE_CUTS", 40);
    let mut moments: Vec<(usize, u64, Dice)> = (1..=cuts)
        .map(|seed| {
            let mut dice = Dice::new(seed);
            let moment = usize::try_from(dice.below(ops.len() as u64)).unwrap();
            (moment, seed, dice)
        })
        .collect();
    // One disk lives through all of them, so that it does not begin anew for each.
    moments.sort_by_key(|(moment, seed, _)| (*moment, *seed));
    let (mut disk, mut said, mut done) = (Disk::default(), vec![], 0);
    let mut checked = 0;
    for (moment, seed, mut dice) in moments {
        for op in &ops[done..moment] {
            disk.run(op);
            if let Op::Said { verb, number, seq } = op {
                said.push((verb.clone(), *number, *seq));
            }
        }
        done = moment;
        let after = dir.join(format!("cut-{seed}"));
        disk.cut(&root, &after, seed % 3, &mut dice);
        let what = format!(
            "seed {seed}, cut at operation {moment} of {}, mode {}",
            ops.len(),
            seed % 3
        );
        crash::check_churned(&after, &said, &what);
        checked += said.len();
        fs::remove_dir_all(&after).unwrap();
    }
    println!(
        "{cuts} cuts in {} operations, {compacted} segments compacted, {checked} acknowledgements looked for, none lost",
        ops.len()
    );
    assert!(checked > 0);
}

#[test]
fn the_model_of_the_disk_loses_what_was_not_synced() {
    let root = Path::new("/s");
    let file = root.join("f");
    let mut disk = Disk::default();
    let write = |bytes: &[u8]| Op::Write {
        path: file.clone(),
        at: None,
        bytes: bytes.to_vec(),
    };
    let sync = |path: &Path| {
        let path = path.to_owned();
        [
            Op::SyncBegins {
                path: path.clone(),
                thread: 1,
            },
            Op::SyncEnds { path, thread: 1 },
        ]
    };
    let opened = Op::Open {
        path: file.clone(),
        create: true,
        truncate: false,
    };
    let out = tempfile::tempdir().unwrap();
    let left = |disk: &Disk, name: &str| {
        let to = out.path().join(name);
        disk.cut(root, &to, 0, &mut Dice::new(1));
        fs::read(to.join("f")).ok()
    };
    disk.run(&opened);
    disk.run(&write(b"one"));
    sync(&file).iter().for_each(|it| disk.run(it));
    assert_eq!(None, left(&disk, "without its name"));
    sync(root).iter().for_each(|it| disk.run(it));
    disk.run(&write(b"two"));
    assert_eq!(
        Some(b"one".to_vec()),
        left(&disk, "without the second write")
    );
    sync(&file).iter().for_each(|it| disk.run(it));
    assert_eq!(Some(b"onetwo".to_vec()), left(&disk, "with all"));
}
