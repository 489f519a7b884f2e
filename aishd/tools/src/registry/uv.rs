//! Running a Python script with `uv`. What a script fetches is locked once, when a person has allowed the first call
//! of it; from then on exactly that runs. A lock is made beside its place and put there whole: half of one would stay for ever.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use aishd_rules::registry::{ManifestScript, ScriptNeeds};

/// Where scripts lie while they run: uv keeps an environment for each path.
#[derive(Clone, Debug)]
pub(super) struct ScriptStore(PathBuf);

/// A script that can be run.
#[derive(Debug)]
pub(super) struct PlacedScript {
    pub(super) path: PathBuf,
    /// The interpreter, once it is settled.
    pub(super) python: Option<String>,
    /// It has to be locked first.
    pub(super) unlocked: Option<UnlockedScript>,
}

/// A copy of a script, to be locked; dropped, it is removed.
#[derive(Debug)]
pub(super) struct UnlockedScript {
    pub(super) copy: PathBuf,
    script: PathBuf,
}

impl ScriptStore {
    pub(super) fn new(below: &Path) -> Self {
        Self(below.join("scripts"))
    }

    /// Puts the text that was approved there.
    pub(super) fn place(
        &self,
        script: &ManifestScript,
        needs: &ScriptNeeds,
    ) -> io::Result<PlacedScript> {
        let folder = self.0.join(script.digest.to_string());
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true).create(&folder)?;
        let path = folder.join("script.py");
        let new = folder.join(format!("{}.new", aishd_platform::clock::ulid()));
        fs::write(&new, script.text.as_bytes())?;
        fs::rename(&new, &path)?;
        let python = fs::read_to_string(interpreter(&path)).ok();
        // One that was taken away since is looked for again.
        let python = python.filter(|it| Path::new(it).is_file());
        if needs.dependencies.is_empty() || lock(&path).exists() {
            let unlocked = None;
            return Ok(PlacedScript {
                path,
                python,
                unlocked,
            });
        }
        let unlocked = UnlockedScript {
            copy: folder.join(format!("{}.py", aishd_platform::clock::ulid())),
            script: path.clone(),
        };
        fs::write(&unlocked.copy, script.text.as_bytes())?;
        let unlocked = Some(unlocked);
        Ok(PlacedScript {
            path,
            python,
            unlocked,
        })
    }
}

impl PlacedScript {
    /// From now on this interpreter runs it.
    pub(super) fn settle(&self, python: &str) -> io::Result<()> {
        let path = interpreter(&self.path);
        let new = path.with_file_name(format!("{}.new", aishd_platform::clock::ulid()));
        fs::write(&new, python)?;
        fs::rename(&new, &path)
    }
}

impl UnlockedScript {
    /// What was locked counts, unless another call was faster.
    pub(super) fn settle(&self) -> io::Result<()> {
        match fs::hard_link(lock(&self.copy), lock(&self.script)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        }
    }
}

impl Drop for UnlockedScript {
    fn drop(&mut self) {
        for file in [lock(&self.copy), self.copy.clone()] {
            let _may_not_be_there = fs::remove_file(file);
        }
    }
}

/// Where it stands which interpreter runs a script.
fn interpreter(script: &Path) -> PathBuf {
    script.with_file_name("python")
}

/// Where uv keeps the lock of a script.
fn lock(script: &Path) -> PathBuf {
    script.with_extension("py.lock")
}

/// The arguments that say which interpreter of this machine is right for it. Left to itself, uv takes that of a `.venv` in the
/// directory that a call runs in, or above it: a program that nobody was shown.
pub(super) fn to_find(needs: &ScriptNeeds) -> Vec<String> {
    let words = [
        "python",
        "find",
        "--quiet",
        "--system",
        "--no-project",
        "--no-config",
        "--no-python-downloads",
    ];
    let words = words.map(str::to_owned).into_iter();
    words.chain(needs.python.clone()).collect()
}

/// The arguments that lock it.
pub(super) fn to_lock(script: &Path, python: &str) -> Vec<String> {
    [
        "lock",
        "--quiet",
        "--no-config",
        "--no-python-downloads",
        "--python",
        python,
        "--script",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([script.display().to_string()])
    .collect()
}

/// The arguments that run it, and those of its own.
pub(super) fn to_run(
    script: &Path,
    python: &str,
    needs: &ScriptNeeds,
    args: &[String],
) -> Vec<String> {
    let how: &[&str] = if needs.dependencies.is_empty() {
        &["--no-project", "--offline"]
    } else {
        &["--frozen"]
    };
    let words = ["run", "--quiet", "--no-config", "--no-python-downloads"].into_iter();
    let words = words
        .chain(how.iter().copied())
        .chain(["--python", python, "--script"]);
    let mut words: Vec<String> = words.map(str::to_owned).collect();
    words.push(script.display().to_string());
    words.extend(args.iter().cloned());
    words
}
