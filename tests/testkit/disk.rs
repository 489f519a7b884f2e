//! A small file system of its own, so that a disk can be full or read-only for one test.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::wait;

/// The file that takes up what is free.
const FILLER: &str = "filler";

/// Where nothing has layers: the kernel makes none over a directory with a mount below it, and other tests want some.
const APART: [&str; 2] = ["/srv", "/opt"];

/// A mounted `tmpfs`; it goes with the value.
#[derive(Debug)]
pub struct Small {
    place: PathBuf,
    /// Where it is mounted, if `place` is a link there.
    apart: Option<TempDir>,
}

impl Small {
    /// Mounts one and has it at `place`, an empty directory; `None`, with the reason printed, where this user may not mount.
    #[expect(clippy::print_stdout, reason = "a test that does not run says why")]
    pub fn mount(place: &Path, bytes: u64) -> Option<Self> {
        let options = format!("size={bytes},mode=0700");
        let mut builder = tempfile::Builder::new();
        let mut apart = APART.iter();
        let apart = apart.find_map(|it| builder.prefix("aish-small-").tempdir_in(it).ok());
        let mount = apart.as_ref().map_or(place, |it| it.path());
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "aish-test"])
            .arg(mount)
            .output();
        match mounted {
            Ok(output) if output.status.success() => {
                if apart.is_some() {
                    fs::remove_dir(place).expect("there is an empty directory");
                    std::os::unix::fs::symlink(mount, place).expect("nothing is there");
                }
                Some(Self {
                    place: mount.to_path_buf(),
                    apart,
                })
            }
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                println!("skipped: no tmpfs can be mounted here: {}", why.trim());
                None
            }
            Err(error) => {
                println!("skipped: no tmpfs can be mounted here: {error}");
                None
            }
        }
    }

    /// Mounts another one in a new directory of it, which goes with the whole.
    #[track_caller]
    pub fn mount_below(&self, name: &str) {
        let below = self.place.join(name);
        fs::create_dir(&below).expect("the disk takes a name");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "aish-test"])
            .arg(&below)
            .status();
        assert!(mounted.is_ok_and(|it| it.success()), "one was mounted");
    }

    /// Leaves not one byte free.
    #[track_caller]
    pub fn fill(&self) {
        let mut filler = fs::File::create(self.place.join(FILLER)).expect("the disk takes a name");
        let block = vec![0_u8; 64 << 10];
        let mut bytes = block.len();
        while bytes > 0 {
            if filler.write_all(&block[..bytes]).is_err() {
                bytes /= 2;
            }
        }
    }

    /// Gives the room back.
    #[track_caller]
    pub fn free(&self) {
        fs::remove_file(self.place.join(FILLER)).expect("it was filled before");
    }

    #[track_caller]
    pub fn read_only(&self) {
        // A program that a daemon was just starting holds its descriptors for a moment longer than the daemon.
        wait::until_true("the disk is read-only", || {
            let remounted = Command::new("mount")
                .args(["-o", "remount,ro"])
                .arg(&self.place)
                .output();
            remounted.is_ok_and(|it| it.status.success())
        });
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: the daemon of the test may still have files open.
        let _best_effort = Command::new("umount").arg("-l").arg(&self.place).status();
        drop(self.apart.take());
    }
}
