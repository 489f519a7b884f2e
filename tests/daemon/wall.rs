//! The wall around a command of a run, without a daemon: the boundary that a run gets, put up by the trampoline around real
//! programs. What a day's work needs goes on inside as it does outside.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use aish_testkit::World;
use aishd_log::environment::ClientVariables;
use aishd_model::norris_settings::WidenedLimits;
use aishd_process::Children;
use aishd_process::child::OutputExtent;
use aishd_process::spec::{ChildExit, ChildSpec, StandardStream};
use aishd_rules::boundary::{Boundary, BoundaryGround};
use aishd_rules::command_setting::{CommandHold, CommandSetting};
use aishd_tools::contained_command::{remove, wall};

/// Nobody's files but those that a test gives it.
pub(crate) const ORDINARY: u32 = 65_534;

/// Who a program runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Who runs the tests.
    Ours,
    /// Somebody without privileges; the same as ours where we have none.
    Ordinary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Inside,
    Outside,
}

/// A conversation's directory with everything around it that a command could want.
pub(crate) struct Place {
    pub(crate) world: World,
    pub(crate) user: User,
    pub(crate) more: BTreeMap<String, String>,
    pub(crate) widened: WidenedLimits,
}

pub(crate) struct Ran {
    pub(crate) output: String,
    pub(crate) exit: ChildExit,
}

impl Place {
    pub(crate) fn new(user: User) -> Self {
        let world = World::new();
        for folder in ["outside", "state/aish/scratch", "run/aish"] {
            fs::create_dir_all(world.path(folder)).unwrap();
        }
        Self {
            world,
            user,
            more: BTreeMap::new(),
            widened: WidenedLimits::default(),
        }
    }

    /// Nothing is in the conversation's directory any more.
    pub(crate) fn empty(&self) {
        let work = self.world.work();
        fs::remove_dir_all(&work).unwrap();
        fs::create_dir(&work).unwrap();
        if self.is_another() {
            hand(&work);
        }
    }

    fn is_another(&self) -> bool {
        self.user == User::Ordinary && rustix::process::geteuid().is_root()
    }

    /// Whoever runs the programs owns all of it from now on.
    pub(crate) fn give(&self) {
        if self.is_another() {
            hand(&self.world.path(""));
        }
    }

    fn children(&self) -> Children {
        let text = |it: OsString| it.into_string().unwrap();
        let base = self.world.env();
        let mut base: BTreeMap<String, String> =
            base.into_iter().map(|(a, b)| (text(a), text(b))).collect();
        base.extend(self.more.clone());
        let aishd = PathBuf::from(env!("CARGO_BIN_EXE_aishd"));
        if !self.is_another() {
            return Children::behind(aishd, base);
        }
        let keeper = self.world.path("keeper");
        let script = format!(
            "#!/bin/sh\nexec setpriv --reuid={ORDINARY} --regid={ORDINARY} --clear-groups {} \"$@\"\n",
            aishd.display()
        );
        if !keeper.exists() {
            fs::write(&keeper, script).unwrap();
            fs::set_permissions(&keeper, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Children::behind(keeper, base)
    }

    pub(crate) fn ground(&self) -> BoundaryGround {
        let own = ["config/aish", "state/aish", "run/aish"];
        BoundaryGround {
            missing: None,
            own: own.map(|it| self.world.path(it)).to_vec(),
            home: Some(self.world.path("home")),
            scratch: self.world.path("state/aish/scratch"),
        }
    }

    fn spec(&self, children: &Children, script: &str, within: Where) -> ChildSpec {
        let work = self.world.work();
        let setting = CommandSetting::new(
            ClientVariables::default(),
            children.base(),
            &work.display().to_string(),
            |it| Path::new(it).exists(),
        );
        let mut spec = ChildSpec::new("/bin/sh", &work);
        spec.args = vec!["-c".to_owned(), script.to_owned()];
        spec.umask = 0o022;
        spec.stderr = StandardStream::Joined;
        let scratch = self.world.path("state/aish/scratch");
        let setting = match within {
            Where::Inside => {
                let roots = [work];
                let boundary = Boundary::of_run(&self.ground(), &self.widened, &roots, &setting);
                let boundary = boundary.unwrap();
                spec.wall = Some(Box::new(wall(&boundary, &scratch)));
                setting.held(CommandHold::Wall(Arc::new(boundary)))
            }
            Where::Outside => setting,
        };
        spec.env = setting.variables;
        spec.env
            .insert("TMPDIR".to_owned(), scratch.display().to_string());
        spec
    }

    /// Why no script is started within the boundary as it is now, if none is.
    pub(crate) fn refusal(&self) -> Option<String> {
        runtime().block_on(async {
            let children = self.children();
            let spec = self.spec(&children, "true", Where::Inside);
            let started = children.spawn(&spec).await;
            started.err().map(|it| it.to_string())
        })
    }

    /// Runs a script in the conversation's directory to its end.
    pub(crate) fn run(&self, script: &str, within: Where) -> Ran {
        let (output, exit) = runtime().block_on(async {
            // A base that has what the wall cuts would put it back.
            let children = self.children();
            let spec = self.spec(&children, script, within);
            let children = Children::clone(&children);
            let child = children.spawn(&spec).await.unwrap();
            let output = child.output(256 << 10).await.unwrap();
            assert_ne!(OutputExtent::Cut, output.extent, "{script}");
            (output.bytes, output.exit)
        });
        Ran {
            output: String::from_utf8_lossy(&output).into_owned(),
            exit,
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn hand(path: &Path) {
    chown(path, Some(ORDINARY), Some(ORDINARY)).unwrap();
    let about = fs::symlink_metadata(path).unwrap();
    if about.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap().path();
            if !entry.is_symlink() {
                hand(&entry);
            }
        }
    }
}

/// Work of a day, and what has to stand in its output. Each runs after those before it.
const DAY: [(&str, &str); 24] = [
    (
        "git init -q . && git config user.name N && git config user.email e@x && echo ok",
        "ok",
    ),
    (
        "echo one > a.txt; git add a.txt; git commit -qm first; git log --oneline | wc -l",
        "1",
    ),
    ("echo two >> a.txt; git status --short", " M a.txt"),
    ("git diff | grep '^+two'", "+two"),
    (
        "git stash -q && cat a.txt && git stash pop -q && cat a.txt",
        "one\none\ntwo",
    ),
    (
        "git checkout -qb side && git commit -qam more && git checkout -q - && git merge -q side && git log --oneline | wc -l",
        "2",
    ),
    (
        "python3 -c 'import json,os,tempfile; f=tempfile.NamedTemporaryFile(); f.write(b\"x\"); print(json.dumps({\"a\": os.getcwd() != \"\"}))'",
        "{\"a\": true}",
    ),
    (
        "printf 'import pathlib\\npathlib.Path(\"made.txt\").write_text(\"made\")\\nprint(pathlib.Path(\"made.txt\").read_text())\\n' > s.py; python3 s.py",
        "made",
    ),
    (
        "python3 -c 'import sqlite3; c=sqlite3.connect(\"d.sqlite\"); c.execute(\"create table t(a)\"); c.execute(\"insert into t values (7)\"); c.commit(); print(c.execute(\"select a from t\").fetchone()[0])'",
        "7",
    ),
    (
        "python3 -c 'import subprocess; print(subprocess.run([\"echo\",\"below\"],capture_output=True,text=True).stdout)'",
        "below",
    ),
    ("grep -rn two . --include=*.txt | head -1", "two"),
    ("seq 200000 | sort -S 100k -r | head -1", "99999"),
    ("cat <<'X' | tr a-z A-Z\nhere\nX", "HERE"),
    (
        "mkdir -p d/e && cp -a a.txt d/e/ && mv d/e/a.txt d/b.txt && ln -s b.txt d/l && ln d/b.txt d/h && cat d/l d/h | wc -l",
        "4",
    ),
    (
        "tar -cf d.tar d && rm -rf d && tar -xf d.tar && diff -r d d && ls d | wc -l",
        "4",
    ),
    (
        "printf 'all: out\\nout: a.txt\\n\\tcp a.txt out\\n' > Makefile; make -s && cat out | head -1",
        "one",
    ),
    (
        "printf '#include <stdio.h>\\nint main(){puts(\"built\");}\\n' > m.c; cc m.c -o m && ./m",
        "built",
    ),
    (
        "printf '#!/bin/sh\\necho $1 | sed s/x/y/\\n' > t.sh; chmod +x t.sh; ./t.sh axb",
        "ayb",
    ),
    (
        "find . -name '*.txt' -newer Makefile -o -name a.txt | xargs -n1 basename | sort | head -1",
        "a.txt",
    ),
    (
        "awk 'BEGIN { while (\"echo via awk\" | getline l) print l }'",
        "via awk",
    ),
    ("mktemp | sed 's/.*tmp/tmp/' | cut -c1-4", "tmp."),
    (
        "(sleep 0.05 & wait; kill -0 $$ && sh -c 'kill -TERM $$' ; echo waited)",
        "waited",
    ),
    ("mkfifo f; (echo through > f &) ; cat f; rm f", "through"),
    (
        "nproc >/dev/null && date +%Y >/dev/null && id -un >/dev/null; ps >/dev/null; echo odds",
        "odds",
    ),
];

/// The same where these programs are.
const DAY_OF_OTHERS: [(&str, &str, &str); 4] = [
    ("jq", "echo '{\"a\":[1,2]}' | jq -c .a", "[1,2]"),
    (
        "node",
        "node -e 'const c=require(\"child_process\"); console.log(c.execSync(\"echo of node\").toString())'",
        "of node",
    ),
    (
        "npm",
        "printf '{\"name\":\"p\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"node -e 1 && echo passed\"}}' > package.json; npm test --silent",
        "passed",
    ),
    (
        "sqlite3",
        "sqlite3 e.sqlite 'create table t(a); insert into t values (3); select a from t'",
        "3",
    ),
];

/// The keeper sets it from outside: nobody within limits another process.
#[test]
fn a_limit_of_memory_holds_within_too() {
    let place = Place::new(User::Ours);
    let (output, exit) = runtime().block_on(async {
        let children = place.children();
        let script = "until [ \"$(ulimit -v)\" != unlimited ]; do :; done; ulimit -v";
        let mut spec = place.spec(&children, script, Where::Inside);
        spec.limits.memory_bytes = Some(512 << 20);
        let child = children.spawn(&spec).await.unwrap();
        let output = child.output(1 << 10).await.unwrap();
        (output.bytes, output.exit)
    });
    assert_eq!(
        ("524288\n", ChildExit::Code(0)),
        (std::str::from_utf8(&output).unwrap(), exit)
    );
}

#[test]
fn a_day_of_work_goes_on_inside_as_it_does_outside() {
    for user in [User::Ours, User::Ordinary] {
        let [inside, outside] = [(); 2].map(|()| Place::new(user));
        for place in [&inside, &outside] {
            place
                .world
                .write("home/.gitconfig", "[init]\ndefaultBranch = main\n");
            place.give();
        }
        let check = |script: &str, expected: &str| {
            let [ran, ran_outside] = [(&inside, Where::Inside), (&outside, Where::Outside)]
                .map(|(place, within)| place.run(script, within));
            let said = format!("{user:?} {script}: {:?} {}", ran.exit, ran.output);
            assert!(ran.output.contains(expected), "{said}");
            assert_eq!(ran_outside.exit, ran.exit, "{said}");
        };
        for (script, expected) in DAY {
            check(script, expected);
        }
        for (program, script, expected) in DAY_OF_OTHERS {
            let is_there = ["/usr/bin", "/usr/local/bin", "/bin"];
            if is_there
                .iter()
                .any(|it| Path::new(it).join(program).exists())
            {
                check(script, expected);
            }
        }
    }
}

/// The one tool chain that is certainly there is below a home that is not the conversation's.
#[test]
fn cargo_builds_a_crate_inside() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = String::from_utf8(sysroot.unwrap().stdout).unwrap();
    let mut place = Place::new(User::Ours);
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", sysroot.trim());
    place.more.insert("PATH".to_owned(), path);
    let script =
        "cargo init -q --vcs none --name tiny . && cargo build -q --offline && ./target/debug/tiny";
    let ran = place.run(script, Where::Inside);
    assert_eq!(
        (ChildExit::Code(0), true),
        (ran.exit, ran.output.contains("Hello")),
        "{}",
        ran.output
    );
}

/// A cache of modules is locked, and a tree may be deeper than a process has descriptors.
#[test]
fn what_commands_leave_in_their_temporary_directory_is_removed_however_deep_and_locked() {
    for user in [User::Ours, User::Ordinary] {
        let place = Place::new(user);
        place.world.write("outside/file", "as it was\n");
        place.give();
        let locked = "mkdir -p $TMPDIR/m/n; echo x > $TMPDIR/m/n/f; ln -s ../../../outside $TMPDIR/m/l; chmod 555 $TMPDIR/m; chmod 0 $TMPDIR/m/n";
        let deep = "python3 -c 'import os\nos.chdir(os.environ[\"TMPDIR\"])\nfor _ in range(3000): os.mkdir(\"d\"); os.chdir(\"d\")'";
        for script in [locked, deep] {
            let ran = place.run(script, Where::Inside);
            assert_eq!(ChildExit::Code(0), ran.exit, "{}", ran.output);
        }
        let scratch = place.world.path("state/aish/scratch");
        let left: Vec<PathBuf> = ["m", "d"].map(|it| scratch.join(it)).to_vec();
        assert!(left.iter().all(|it| it.exists()));
        let runtime = runtime();
        runtime.block_on(async { remove(&place.children(), &scratch, &left).await });
        assert_eq!(0, fs::read_dir(&scratch).unwrap().count());
        assert!(place.world.path("outside/file").exists());
    }
}

#[test]
fn what_the_configuration_names_is_within_reach_and_no_more() {
    let mut place = Place::new(User::Ours);
    place.world.write("outside/read/a", "to be read\n");
    place.world.write("outside/write/a", "old\n");
    place.world.write("outside/other", "nobody's\n");
    let [read, write] = ["read", "write"].map(|it| place.world.path("outside").join(it));
    let script = "cat ../outside/read/a; echo new > ../outside/write/a; cat ../outside/write/a; echo x > ../outside/read/a; cat ../outside/other; :";
    let before = place.run(script, Where::Inside).output;
    assert!(
        !before.contains("to be read") && !before.contains("new"),
        "{before}"
    );
    place.widened = WidenedLimits {
        read: vec![read],
        write: vec![write],
    };
    let after = place.run(script, Where::Inside).output;
    assert!(
        after.contains("to be read\nnew\n") && !after.contains("nobody's"),
        "{after}"
    );
    let kept = fs::read_to_string(place.world.path("outside/read/a")).unwrap();
    assert_eq!("to be read\n", kept);
}
