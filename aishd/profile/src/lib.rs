//! Programs under a profile: what one of them may reach on this machine, said to the kernel, and whether it can be held to
//! that here. Where it cannot, nothing is started; nobody is given less than was asked for.
//!
//! Not here: who has which profile, and how the kernel holds it.

mod network;
mod places;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use aishd_egress::{
    EgressGround, HostAnswer, HostPattern, HostPort, HostQuestion, HostRules, HostScheme,
    NameLookup, OpenQuestion, PatternError, QuestionSettings, Upstream,
};
use aishd_log::network::NetworkUse;
use aishd_log::profile::Profile;
use aishd_log::tool_name::Alias;
use aishd_platform::failpoint;
use aishd_process::child::Child;
use aishd_process::contained::{Containment, ContainmentProbe, LandlockHold, Mechanism};
use aishd_process::spec::{ChildPrivileges, ChildSpec};
use aishd_process::{Children, SpawnError};
use aishd_rules::boundary::is_cut;
use aishd_rules::secrets;
use tokio::sync::OnceCell;

use self::network::Traffic;
pub use self::network::{
    ChildNetwork, NetworkWish, host_patterns, listener_address, with_listener,
};
pub use self::places::OWN_TREES;
use self::places::{HeldPlaces, find_program, real};

/// What the kernel has to have, for people who lack it.
pub const WHAT_IT_TAKES: &str = "it takes a kernel where everybody may make user namespaces (sysctl user.max_user_namespaces; on Ubuntu \
     kernel.apparmor_restrict_unprivileged_userns, or a profile of AppArmor for aishd)";

/// Where a contained program has room for what it needs only while it runs. It is its own there.
pub const OWN_TEMPORARY: &str = "/tmp";

/// Who is told of contained children.
type TellHeld = dyn Fn(HeldNews) + Send + Sync;

/// What of this machine profiles are made with; cheap to clone.
#[derive(Clone)]
pub struct ProfileGround(Arc<Ground>);

struct Ground {
    children: Children,
    /// Where it is tried whether layers can be made.
    directory: PathBuf,
    home: Option<PathBuf>,
    /// aish's own files, which no contained program sees.
    own: Vec<PathBuf>,
    /// What a real child has found out, for the first who asks.
    probe: OnceCell<ContainmentProbe>,
    egress: EgressGround,
    traffic: Traffic,
    tell: Box<TellHeld>,
}

/// A program, as its configuration has it.
#[derive(Clone, Copy, Debug)]
pub struct ProfileWish<'a> {
    pub profile: Profile,
    /// The directories that it works in. It writes there if the profile says so, and else reads.
    pub roots: &'a [PathBuf],
    /// Files and directories that it may write besides, if the profile says so.
    pub write: &'a [PathBuf],
    /// Files and directories that it is told to read, wherever they are.
    pub programs: &'a [PathBuf],
    /// Files and directories that it is not shown besides.
    pub hidden: &'a [PathBuf],
    /// Hosts that it may reach, as rules name them. `None`: it has no way to any.
    pub hosts: Option<&'a [String]>,
    /// Whose program it is, for the audit.
    pub provider: Option<&'a Alias>,
}

impl ProfileWish<'_> {
    /// Nothing holds it.
    pub const OPEN: Self = Self {
        profile: Profile::Open,
        roots: &[],
        write: &[],
        programs: &[],
        hidden: &[],
        hosts: None,
        provider: None,
    };
}

/// A child as its profile has it.
#[derive(Debug)]
pub struct HeldChild {
    pub child: Child,
    /// Its way to hosts, which ends with this.
    pub network: Option<ChildNetwork>,
}

/// What is told of contained children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldNews {
    Started(HeldStart),
    /// One has ended that had wanted to reach hosts.
    Reached {
        provider: Alias,
        network: NetworkUse,
    },
}

/// A contained child that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldStart {
    pub provider: Option<Alias>,
    pub profile: Profile,
    /// The second line, besides namespaces and a filter of system calls.
    pub landlock: bool,
}

/// A child of a profile was not started.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The kernel does not hold any child here.
    #[error("the profile `{profile}` cannot be held here: {why}")]
    Missing { profile: Profile, why: String },
    #[error("{} is not there, and `write` names it", .0.display())]
    NotThere(PathBuf),
    #[error("{} cannot be written under a profile, and `write` names it", .0.display())]
    NotWritable(PathBuf),
    #[error("read `hosts`")]
    Hosts(#[from] PatternError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

impl fmt::Debug for ProfileGround {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileGround").finish_non_exhaustive()
    }
}

impl ProfileError {
    /// What a person can do about it, where the configuration of a profile is why.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing { .. } => Some(
                "`contain = \"open\"` lets it do whatever you can; aishctl doctor says what is missing",
            ),
            Self::NotThere(_) => Some("make it, or take it out of `write`"),
            Self::NotWritable(_) => Some("take it out of `write`"),
            Self::Hosts(_) => {
                Some("a host is written example.org, *.example.org or example.org:8443")
            }
            Self::Spawn(_) => None,
        }
    }
}

impl ProfileGround {
    /// `directory` is one of ours, on the file system of layers. `own` is what is aish's.
    pub fn new(
        children: Children,
        directory: PathBuf,
        home: Option<PathBuf>,
        own: Vec<PathBuf>,
        egress: EgressGround,
        tell: Box<TellHeld>,
    ) -> Self {
        Self(Arc::new(Ground {
            children,
            directory,
            home,
            own,
            probe: OnceCell::new(),
            egress,
            traffic: Traffic::default(),
            tell,
        }))
    }

    /// On a machine of which nothing is known, with nobody who is told.
    pub fn plain(children: Children) -> Self {
        let directory = std::env::temp_dir();
        let (egress, tell) = (EgressGround::default(), Box::new(|_news| {}));
        Self::new(children, directory, None, vec![], egress, tell)
    }

    pub fn children(&self) -> &Children {
        &self.0.children
    }

    /// What this kernel has, as far as somebody has asked.
    pub fn known(&self) -> Option<&ContainmentProbe> {
        self.0.probe.get()
    }

    /// What this kernel has. A real child finds it out once.
    pub async fn probe(&self) -> &ContainmentProbe {
        let Ground {
            children,
            directory,
            probe,
            ..
        } = &*self.0;
        let find_out = children.probe_containment(directory);
        probe.get_or_init(|| find_out).await
    }

    /// Whether children can be held here, as far as that is known.
    pub fn may_hold(&self) -> bool {
        self.known_missing().is_none()
    }

    /// Why no child can be held here.
    pub async fn missing(&self) -> Option<String> {
        self.probe().await;
        self.known_missing()
    }

    /// The same as far as somebody has asked.
    fn known_missing(&self) -> Option<String> {
        if failpoint::misses("profile") {
            return Some("it is switched off".to_owned());
        }
        let probe = self.known()?;
        let needed = [&probe.user_namespaces, &probe.seccomp];
        needed.into_iter().find_map(Mechanism::missing)
    }

    pub fn home(&self) -> Option<&Path> {
        self.0.home.as_deref()
    }

    /// What nobody sees who is not approved by its text: where keys are for these homes and projects, and what is aish's.
    /// `variables` are those of who is started.
    pub fn masks(
        &self,
        homes: &[PathBuf],
        variables: &BTreeMap<String, String>,
        projects: &[PathBuf],
    ) -> Vec<PathBuf> {
        let configured = variables.get("XDG_CONFIG_HOME");
        let configured = configured.filter(|it| it.starts_with('/'));
        let configurations: Vec<PathBuf> = configured
            .map(|it| real(Path::new(it)))
            .into_iter()
            .collect();
        let mut masks = secrets::places(homes, &configurations, projects);
        masks.extend(self.0.own.iter().cloned());
        masks
    }

    /// Starts a child as its profile has it.
    ///
    /// # Errors
    /// Where it cannot be held to that; nothing runs then.
    pub async fn spawn(
        &self,
        spec: ChildSpec,
        wish: ProfileWish<'_>,
    ) -> Result<HeldChild, ProfileError> {
        let children = &self.0.children;
        if wish.profile == Profile::Open {
            return Ok(HeldChild {
                child: children.spawn(&spec).await?,
                network: None,
            });
        }
        let rules = match wish.hosts {
            Some(hosts) => Some(HostRules {
                allow: host_patterns(hosts)?,
                ..HostRules::default()
            }),
            None => None,
        };
        let reach = rules.map(|rules| NetworkWish {
            rules,
            questions: None,
        });
        self.start(spec, wish, reach).await
    }

    /// The same of one about whose hosts somebody is asked; what its wish says of them does not count.
    ///
    /// # Errors
    /// Where it cannot be held to its profile; nothing runs then.
    pub async fn spawn_reaching(
        &self,
        spec: ChildSpec,
        wish: ProfileWish<'_>,
        reach: NetworkWish,
    ) -> Result<HeldChild, ProfileError> {
        let hosts = Some(&[][..]);
        self.start(spec, ProfileWish { hosts, ..wish }, Some(reach))
            .await
    }

    async fn start(
        &self,
        spec: ChildSpec,
        wish: ProfileWish<'_>,
        reach: Option<NetworkWish>,
    ) -> Result<HeldChild, ProfileError> {
        if let Some(why) = self.missing().await {
            let profile = wish.profile;
            return Err(ProfileError::Missing { profile, why });
        }
        let spec = self.held(spec, wish)?;
        let mut child = self.0.children.spawn(&spec).await?;
        let landlock = child.held().map(|it| it.landlock);
        (self.0.tell)(HeldNews::Started(HeldStart {
            provider: wish.provider.cloned(),
            profile: wish.profile,
            landlock: matches!(landlock, Some(LandlockHold::Scoped { .. })),
        }));
        let network = reach.and_then(|it| self.serve_network(&mut child, it, wish.provider));
        Ok(HeldChild { child, network })
    }

    fn held(&self, mut spec: ChildSpec, wish: ProfileWish<'_>) -> Result<ChildSpec, ProfileError> {
        let mut env = self.0.children.base().clone();
        env.retain(|name, _| !is_cut(name));
        env.insert("TMPDIR".to_owned(), OWN_TEMPORARY.to_owned());
        // What the configuration names is meant for it.
        env.extend(std::mem::take(&mut spec.env));
        spec.env = env;
        let given = spec.env.get("HOME").filter(|it| it.starts_with('/'));
        let homes = self.0.home.iter().cloned();
        let mut homes: Vec<PathBuf> = homes.chain(given.map(|it| real(Path::new(it)))).collect();
        homes.sort();
        homes.dedup();
        let cwd = [spec.cwd.clone()];
        // Keys of a project are for what works on it.
        let projects = match wish.profile {
            Profile::Read => places::and_above(wish.roots.iter().chain(&cwd)),
            Profile::Workspace | Profile::Open => vec![],
        };
        let mut masks = self.masks(&homes, &spec.env, &projects);
        masks.extend(wish.hidden.iter().cloned());
        let seen: Vec<PathBuf> = homes
            .into_iter()
            .chain(cwd.iter().map(|it| real(it)))
            .collect();
        let mut places = HeldPlaces::of(wish, &seen, masks, &self.0.own)?;
        if let Some(program) = find_program(&spec.program, &spec.env) {
            let there = real(&program);
            if places.hides(&there) {
                // No link that is hidden as well leads there.
                spec.program = there.display().to_string();
                places.show(there);
            }
        }
        spec.privileges = ChildPrivileges::NoNew;
        spec.contained = Some(Box::new(Containment {
            write: places.write,
            read: places.read,
            programs: places.programs,
            masks: places.masks,
            ..Containment::default()
        }));
        if wish.hosts.is_some() {
            with_listener(&mut spec);
        }
        Ok(spec)
    }
}
