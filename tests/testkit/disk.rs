//! A small file system of its own, so that a disk can be full or read-only for one test.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::wait;

/// The file that takes up what is free.
const FILLER: &str = "filler";

/// A mounted `tmpfs`; it goes with the value.
#[derive(Debug)]
pub struct Small {
    place: PathBuf,
}

impl Small {
    /// Mounts one at `place`; `None`, with the reason printed, where this user may not mount.
    #[expect(clippy::print_stdout, reason = "a test that does not run says why")]
    pub fn mount(place: &Path, bytes: u64) -> Option<Self> {
        let options = format!("size={bytes},mode=0700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "aish-test"])
            .arg(place)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self {
                place: place.to_path_buf(),
            }),
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
    }
}
