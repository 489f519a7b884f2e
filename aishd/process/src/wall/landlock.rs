//! The part that Landlock holds: files, TCP, and who may be signalled.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope, make_bitflags,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, access, fstat, openat2};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::geteuid;

use super::Wall;

/// Files, TCP, abstract sockets and signals. With less there would be a way out, so with less there is no wall.
const WANTED: ABI = ABI::V6;
/// Devices that every program takes for granted and that lead nowhere.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];
/// Where only the system, or who administers it, puts links, also where we are root.
const SYSTEM: [&str; 12] = [
    "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix", "/snap", "/var",
    "/run",
];
/// What of it anybody may write in.
const EVERYBODYS: [&str; 3] = ["/var/tmp", "/run/user", "/run/lock"];
/// The kernel's own limit of links on one way.
const MAX_LINKS: usize = 40;

/// A place as it was found, and what may be done in it.
pub(super) struct OpenedPlace {
    place: OwnedFd,
    access: BitFlags<AccessFs>,
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(WANTED)
}

/// No devices: root could make that of a whole disk. And no sockets, which there are none of.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_all(WANTED)
        & !make_bitflags!(AccessFs::{MakeChar | MakeBlock | MakeSock | IoctlDev})
}

/// Finds every place. What is known by its path is opened once, so that nobody can put another in its stead.
pub(super) fn open(wall: &Wall) -> io::Result<Vec<OpenedPlace>> {
    let mut look = PathLook {
        apart: ForbiddenPlaces::of(wall),
        writable: wall.roots.clone(),
        opened: vec![],
    };
    for path in &wall.roots {
        look.root(path)?;
    }
    look.add(straight(&wall.scratch)?, writing())?;
    for path in &wall.write {
        look.allow_path(path, writing())?;
    }
    for path in &wall.read {
        look.allow_path(path, reading())?;
    }
    for path in &wall.known {
        look.allow_known(path)?;
    }
    for (directory, but) in &wall.but {
        look.all_but(directory, but)?;
    }
    let of_device = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev});
    for path in DEVICES {
        if let Ok(place) = straight(Path::new(path)) {
            look.opened.push(OpenedPlace {
                place,
                access: of_device,
            });
        }
    }
    Ok(look.opened)
}

/// Holds the calling thread, and what it starts from now on, to what was opened.
pub(super) fn hold(opened: Vec<OpenedPlace>) -> io::Result<()> {
    restrict(opened).map_err(|error| {
        let number = std::error::Error::source(&error)
            .and_then(|it| it.downcast_ref::<io::Error>())
            .and_then(io::Error::raw_os_error);
        io::Error::from_raw_os_error(number.unwrap_or(Errno::NOSYS.raw_os_error()))
    })
}

fn restrict(opened: Vec<OpenedPlace>) -> Result<(), RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(WANTED))?
        .handle_access(AccessNet::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?;
    let rules = opened
        .into_iter()
        .map(|it| Ok::<_, RulesetError>(PathBeneath::new(it.place, it.access)));
    ruleset.add_rules(rules)?.restrict_self()?;
    Ok(())
}

/// What no place may hold, as it really is.
struct ForbiddenPlaces {
    homes: Vec<PathBuf>,
    own: Vec<PathBuf>,
}

impl ForbiddenPlaces {
    fn of(wall: &Wall) -> Self {
        let real = |all: &[PathBuf]| {
            let real = |it: &PathBuf| fs::canonicalize(it).unwrap_or_else(|_| it.clone());
            all.iter().map(real).collect()
        };
        Self {
            homes: real(&wall.homes),
            own: real(&wall.own),
        }
    }

    /// Whether one of them may be met by what is in a directory.
    fn is_near(&self, directory: &Path) -> bool {
        let all = self.homes.iter().chain(&self.own);
        let mut all = all.filter(|it| it.starts_with(directory) || directory.starts_with(it));
        all.next().is_some()
    }

    fn is_met_by(&self, real: &Path) -> bool {
        self.homes.iter().any(|it| it.starts_with(real))
            || self
                .own
                .iter()
                .any(|it| it.starts_with(real) || real.starts_with(it))
    }
}

/// Where a path leads.
struct PathTarget {
    real: PathBuf,
    place: OwnedFd,
    /// By a link that stands where a command of some run may once have been at work.
    is_doubtful: bool,
}

struct PathLook {
    apart: ForbiddenPlaces,
    /// Where commands may write, as it really is: a link that stands there may be theirs.
    writable: Vec<PathBuf>,
    opened: Vec<OpenedPlace>,
}

impl PathLook {
    fn root(&mut self, path: &Path) -> io::Result<()> {
        if self.apart.is_met_by(path) || goes_up(path) {
            return Err(Errno::PERM.into());
        }
        self.add(straight(path)?, writing())
    }

    /// Somebody named it in the configuration: it is within reach, or nothing runs.
    fn allow_path(&mut self, path: &Path, access: BitFlags<AccessFs>) -> io::Result<()> {
        let Some(found) = self.find(path) else {
            return Ok(());
        };
        let writes = access.contains(AccessFs::WriteFile);
        let is_doubtful = found.is_doubtful && (writes || !is_systems(&found.real));
        if is_doubtful || self.apart.is_met_by(&found.real) {
            return Err(Errno::PERM.into());
        }
        if writes {
            self.writable.push(found.real);
        }
        self.add(found.place, access)
    }

    fn allow_known(&mut self, path: &Path) -> io::Result<()> {
        match self.find(path) {
            Some(found) if self.may_be_read(&found) => self.add(found.place, reading()),
            Some(_) | None => Ok(()),
        }
    }

    fn may_be_read(&self, found: &PathTarget) -> bool {
        !self.apart.is_met_by(&found.real) && (!found.is_doubtful || is_systems(&found.real))
    }

    fn all_but(&mut self, directory: &Path, but: &[String]) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(directory) else {
            return Ok(());
        };
        // There are some two hundred, each time: what is the same for all of them is looked at once.
        let opened = straight(directory).ok();
        let near = self.apart.is_near(directory);
        for entry in entries.flatten() {
            let name = entry.file_name();
            if but.iter().any(|it| **it == *name) {
                continue;
            }
            let place = opened.as_ref().map(|it| straight_in(it, &name));
            let (place, is_apart) = match place {
                Some(Ok(place)) => (place, near && self.apart.is_met_by(&directory.join(&name))),
                Some(Err(error)) if Errno::from_io_error(&error) != Some(Errno::LOOP) => continue,
                Some(Err(_)) | None => {
                    let Some(found) = self.find(&entry.path()) else {
                        continue;
                    };
                    let is_apart = !self.may_be_read(&found);
                    (found.place, is_apart)
                }
            };
            // What not everybody may read is some program's secret, also where we are root.
            let about = fstat(&place)?;
            let everybodys = Mode::from_raw_mode(about.st_mode).contains(Mode::ROTH);
            if everybodys && !is_apart {
                self.add_found(place, &about, reading());
            }
        }
        Ok(())
    }

    /// Where a path really leads, opened; nothing, if it leads nowhere, or by a link that a command of this run may have made.
    fn find(&self, path: &Path) -> Option<PathTarget> {
        match straight(path) {
            Ok(_) if goes_up(path) => {}
            Ok(place) => {
                return Some(PathTarget {
                    real: path.to_owned(),
                    place,
                    is_doubtful: false,
                });
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {}
            Err(_not_there) => return None,
        }
        let (real, is_doubtful) = self.follow(path)?;
        let place = straight(&real).ok()?;
        Some(PathTarget {
            real,
            place,
            is_doubtful,
        })
    }

    /// Goes a way link by link; and whether one of them may be of a command of any run.
    fn follow(&self, path: &Path) -> Option<(PathBuf, bool)> {
        let mut ahead: VecDeque<OsString> = parts(path).collect();
        let mut at = PathBuf::from("/");
        let (mut links, mut is_doubtful) = (0, false);
        while let Some(part) = ahead.pop_front() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(part);
            let Ok(target) = fs::read_link(&next) else {
                at = next;
                continue;
            };
            links += 1;
            if links > MAX_LINKS || self.writable.iter().any(|it| next.starts_with(it)) {
                return None;
            }
            is_doubtful |= !is_systems(&at);
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                ahead.push_front(part);
            }
        }
        Some((at, is_doubtful))
    }

    fn add(&mut self, place: OwnedFd, access: BitFlags<AccessFs>) -> io::Result<()> {
        let about = fstat(&place)?;
        self.add_found(place, &about, access);
        Ok(())
    }

    fn add_found(&mut self, place: OwnedFd, about: &Stat, access: BitFlags<AccessFs>) {
        let is_directory = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
        let access = if is_directory {
            access
        } else {
            access & AccessFs::from_file(WANTED)
        };
        self.opened.push(OpenedPlace { place, access });
    }
}

/// Whether a directory is one in which no command of ours can ever have put a link.
fn is_systems(directory: &Path) -> bool {
    let within = |all: &[&str]| all.iter().any(|it| directory.starts_with(it));
    if directory == Path::new("/") || (within(&SYSTEM) && !within(&EVERYBODYS)) {
        return true;
    }
    !geteuid().is_root() && access(directory, rustix::fs::Access::WRITE_OK).is_err()
}

fn goes_up(path: &Path) -> bool {
    path.components().any(|it| it == Component::ParentDir)
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|it| match it {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}

/// Opens what stands at exactly this path: a link on the way is an error.
fn straight(path: &Path) -> io::Result<OwnedFd> {
    straight_in(CWD, path)
}

fn straight_in(directory: impl AsFd, path: impl Arg) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(openat2(directory, path, flags, Mode::empty(), resolve)?)
}
