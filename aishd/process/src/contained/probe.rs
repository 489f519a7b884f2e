//! What of a containment this kernel has, found out by real children.

use std::path::Path;

use super::{Containment, ContainmentPart, LandlockHold, WriteLayer};
use crate::spec::{ChildExit, ChildSpec, StandardStream};
use crate::{Children, SpawnError};

/// Each mechanism as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainmentProbe {
    /// These, and the other namespaces that are made within.
    pub user_namespaces: Mechanism,
    /// Over the directory that was asked about.
    pub overlay: Mechanism,
    /// The second line; a child is contained without it too.
    pub landlock: Mechanism,
    pub seccomp: Mechanism,
}

/// For people, as fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {
    Found(String),
    Missing(String),
}

impl Mechanism {
    pub fn is_found(&self) -> bool {
        matches!(self, Self::Found(_))
    }

    /// Why it is not there.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Missing(why) => Some(why.clone()),
            Self::Found(_) => None,
        }
    }
}

/// A child with any filter has a 2 there.
const LOOK: &str = "while read -r name value; do case $name in Seccomp:) [ \"$value\" = 2 ] || exit 3;; esac; done </proc/self/status; [ $$ != 1 ] || exit 4; exit 0";
const CHANGE: &str =
    "echo new >file && read -r line <file && echo \"$line\" >copy && echo new >below";

impl Children {
    /// What this kernel has. Layers are tried in a directory that is made below `directory` and removed again: layers
    /// are on its file system.
    pub async fn probe_containment(&self, directory: &Path) -> ContainmentProbe {
        let (user_namespaces, landlock, seccomp) = self.probe_namespaces().await;
        let overlay = if user_namespaces.is_found() {
            self.probe_overlay(directory).await
        } else {
            Mechanism::Missing("it needs user namespaces".to_owned())
        };
        ContainmentProbe {
            user_namespaces,
            overlay,
            landlock,
            seccomp,
        }
    }

    async fn probe_namespaces(&self) -> (Mechanism, Mechanism, Mechanism) {
        let spec = ChildSpec {
            args: ["-c", LOOK].map(str::to_owned).to_vec(),
            stdout: StandardStream::Null,
            contained: Some(Box::default()),
            ..ChildSpec::new("/bin/sh", "/")
        };
        let unknown = || Mechanism::Missing("not tried, because no child was contained".to_owned());
        let mut child = match self.spawn(&spec).await {
            Ok(child) => child,
            Err(SpawnError::Contained { part, source, .. }) => {
                let missing = Mechanism::Missing(format!("{part}: {source}"));
                return match part {
                    ContainmentPart::SystemCalls => {
                        let found = Mechanism::Found("with all others".to_owned());
                        (found, unknown(), missing)
                    }
                    _ => (missing, unknown(), unknown()),
                };
            }
            Err(error) => return (Mechanism::Missing(error.to_string()), unknown(), unknown()),
        };
        let landlock = match child.held().map(|it| it.landlock) {
            Some(LandlockHold::Scoped { abi }) => {
                Mechanism::Found(format!("version {abi} of its interface, with scopes"))
            }
            Some(LandlockHold::TooOld { abi }) => Mechanism::Missing(format!(
                "version {abi} of its interface has no scopes (Linux 6.12 has)"
            )),
            Some(LandlockHold::Off) => Mechanism::Missing("it is switched off".to_owned()),
            Some(LandlockHold::Missing) => Mechanism::Missing("not in this kernel".to_owned()),
            None => unknown(),
        };
        match child.wait().await {
            ChildExit::Code(0) => (
                Mechanism::Found("with all others".to_owned()),
                landlock,
                Mechanism::Found("a filter is in force".to_owned()),
            ),
            ChildExit::Code(3) => (
                Mechanism::Found("with all others".to_owned()),
                landlock,
                Mechanism::Missing("no filter is in force in a contained child".to_owned()),
            ),
            other => (
                Mechanism::Missing(format!("a contained program did not run well ({other})")),
                landlock,
                unknown(),
            ),
        }
    }

    async fn probe_overlay(&self, directory: &Path) -> Mechanism {
        match self.try_overlay(directory).await {
            Ok(()) => Mechanism::Found(format!("over {}", directory.display())),
            Err(reason) => Mechanism::Missing(reason),
        }
    }

    async fn try_overlay(&self, directory: &Path) -> Result<(), String> {
        let words = |it: std::io::Error| format!("{}: {it}", directory.display());
        let place = directory.join("probe-layer");
        let _of_an_earlier_one = remove(&place);
        let layer = WriteLayer {
            lower: place.join("lower"),
            upper: place.join("upper"),
            work: place.join("work"),
        };
        for it in [&layer.lower, &layer.upper, &layer.work] {
            std::fs::create_dir_all(it).map_err(words)?;
        }
        std::fs::write(layer.lower.join("below"), "old").map_err(words)?;
        let spec = ChildSpec {
            args: ["-c", CHANGE].map(str::to_owned).to_vec(),
            stdout: StandardStream::Null,
            contained: Some(Box::new(Containment {
                layers: vec![layer.clone()],
                ..Containment::default()
            })),
            ..ChildSpec::new("/bin/sh", &layer.lower)
        };
        let tried = match self.spawn(&spec).await {
            Ok(child) => child.end(std::time::Duration::from_secs(10)).await,
            Err(SpawnError::Contained { part, source, .. }) => {
                return Err(format!("{part}: {source}"));
            }
            Err(error) => return Err(error.to_string()),
        };
        let old = std::fs::read(layer.lower.join("below")).map_err(words)?;
        let below = old == b"old" && !layer.lower.join("file").exists();
        let above = ["file", "copy", "below"].map(|it| layer.upper.join(it).exists()) == [true; 3];
        remove(&place).map_err(words)?;
        match tried {
            ChildExit::Code(0) if below && above => Ok(()),
            other => Err(format!("a program did not write into its layer ({other})")),
        }
    }
}

/// The kernel leaves a directory in `work` that not even its owner may enter.
fn remove(place: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let closed = place.join("work/work");
    if closed.exists() {
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700))?;
    }
    std::fs::remove_dir_all(place)
}
