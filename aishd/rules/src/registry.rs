//! Tools that a person wrote down in manifests, each a provider with its capabilities. Whatever decides what
//! would run is in the identity that consent is bound to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aishd_log::access::Access;
use aishd_log::canonical::canonical;
use aishd_log::profile::Profile;
use aishd_log::resource::ResourceName;
use aishd_log::tool::{ClaimSource, ContentDigest, NetworkUse, Tool, ToolReach};
use aishd_log::tool_name::{Alias, ToolName};
use aishd_mcp_messages::confidential;
use serde_json::{Value, json};

/// One manifest, with everything found that it names.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    pub name: Alias,
    pub version: String,
    pub description: String,
    /// Where it was written down.
    pub file: PathBuf,
    pub program: ManifestProgram,
    pub cwd: CallDirectory,
    /// What the kernel holds every call to; `None`: by the level that the call needs.
    pub contain: Option<Profile>,
    /// What a call may write besides, in a workspace.
    pub write: Vec<PathBuf>,
    /// Hosts that a call may reach, where anything holds it.
    pub hosts: Vec<String>,
    /// As it was written, without the values of variables.
    pub env: BTreeMap<String, String>,
    pub limits: ManifestLimits,
    /// Resources of the conversation that its calls are given.
    pub reads: Vec<ResourceName>,
    pub capabilities: Vec<Capability>,
}

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestProgram {
    pub runtime: ScriptRuntime,
    /// As it was found.
    pub path: PathBuf,
    /// The same without links.
    pub real: PathBuf,
    pub args: Vec<String>,
    pub script: Option<ManifestScript>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptRuntime {
    Process,
    /// With what the script's own block asks for (PEP 723).
    UvScript(ScriptNeeds),
    Binary,
}

/// What a script says that it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptNeeds {
    pub dependencies: Vec<String>,
    pub python: Option<String>,
    /// What it says to uv itself, as JSON: it may say where packages come from.
    pub settings: Option<String>,
}

/// A script as it was read; what runs is a copy of this text.
#[derive(Clone, PartialEq, Eq)]
pub struct ManifestScript {
    pub file: PathBuf,
    pub text: Arc<str>,
    pub digest: ContentDigest,
}

/// The working directory of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CallDirectory {
    /// Empty, and its own.
    #[default]
    Private,
    Conversation,
    At(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestLimits {
    pub timeout: Duration,
    pub output_bytes: usize,
    /// Of address space, for each process.
    pub memory_bytes: Option<u64>,
    /// Of the user, as the kernel counts.
    pub processes: Option<u64>,
}

/// One thing that a provider can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Capability {
    pub name: String,
    pub description: String,
    pub level: Access,
    pub annotations: Value,
    pub input: Value,
    pub output: Option<Value>,
}

impl Default for ManifestLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            output_bytes: 1 << 20,
            memory_bytes: None,
            processes: None,
        }
    }
}

/// Values of variables may be secrets.
impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ManifestScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManifestScript")
            .field("file", &self.file)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

impl ScriptNeeds {
    /// What a person has to know of what is fetched; nothing where nothing is.
    pub fn packages(&self) -> Vec<String> {
        let mut packages = self.dependencies.clone();
        if !packages.is_empty() {
            let settings = self.settings.iter();
            packages.extend(settings.map(|it| format!("as [tool.uv] says: {it}")));
        }
        packages
    }
}

impl ScriptRuntime {
    pub fn is_uv(&self) -> bool {
        matches!(self, Self::UvScript(_))
    }

    /// As manifests have it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::UvScript(_) => "python-uv-script",
            Self::Binary => "binary",
        }
    }
}

impl ManifestProgram {
    pub fn has_packages(&self) -> bool {
        match &self.runtime {
            ScriptRuntime::UvScript(needs) => !needs.dependencies.is_empty(),
            ScriptRuntime::Process | ScriptRuntime::Binary => false,
        }
    }
}

impl Manifest {
    /// What the kernel holds a call of this capability to.
    pub fn profile(&self, capability: &Capability) -> Profile {
        match self.contain {
            Some(profile) => profile,
            // uv keeps them in the home, and fetches them.
            None if self.program.has_packages() => Profile::Open,
            None => Profile::of_level(capability.level),
        }
    }

    pub fn capability(&self, name: &str) -> Option<&Capability> {
        self.capabilities.iter().find(|it| it.name == name)
    }

    /// What consent to a call of it is bound to besides the definition.
    pub fn identity(&self) -> String {
        let ManifestProgram {
            runtime,
            path,
            real,
            args,
            script,
        } = &self.program;
        let ManifestLimits {
            timeout,
            output_bytes,
            memory_bytes,
            processes,
        } = &self.limits;
        let needs = match runtime {
            ScriptRuntime::UvScript(needs) => json!([needs.packages(), needs.python]),
            ScriptRuntime::Process | ScriptRuntime::Binary => Value::Null,
        };
        let cwd = match &self.cwd {
            CallDirectory::Private => json!("private"),
            CallDirectory::Conversation => json!("conversation"),
            CallDirectory::At(path) => json!([path]),
        };
        let mut identity = json!({
            "runtime": runtime.word(),
            "command": path,
            "program": real,
            "args": args,
            "script": script.as_ref().map(|it| it.digest.to_string()),
            "needs": needs,
            "cwd": cwd,
            "env": ContentDigest::of_value(&json!(self.env)).to_string(),
            "reads": self.reads,
            "limits": [
                u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
                output_bytes,
                memory_bytes,
                processes,
            ],
        });
        // What the level says by itself was there before, and is narrower now.
        if let Some(profile) = self.contain {
            identity["contain"] = json!(profile);
        }
        if !self.write.is_empty() {
            identity["write"] = json!(self.write);
        }
        if !self.hosts.is_empty() {
            identity["hosts"] = json!(self.hosts);
        }
        canonical(&identity)
    }

    /// What would run, for people: no secrets, and every package that a script would fetch.
    pub fn place(&self) -> String {
        let ManifestProgram {
            runtime,
            path,
            real: _,
            args,
            script,
        } = &self.program;
        let mut words = vec![path.display().to_string()];
        words.extend(script.iter().map(|it| it.file.display().to_string()));
        words.extend(confidential::covered(args));
        let mut text = words.join(" ");
        if let ScriptRuntime::UvScript(needs) = runtime
            && !needs.dependencies.is_empty()
        {
            text.push_str(" with the packages ");
            text.push_str(&needs.packages().join(", "));
        }
        if !self.env.is_empty() {
            let names: Vec<&str> = self.env.keys().map(String::as_str).collect();
            text.push_str(" with the variables ");
            text.push_str(&names.join(", "));
        }
        if !self.write.is_empty() {
            let places: Vec<String> = self
                .write
                .iter()
                .map(|it| it.display().to_string())
                .collect();
            text.push_str(", which may write ");
            text.push_str(&places.join(", "));
        }
        if !self.reads.is_empty() {
            let names: Vec<&str> = self.reads.iter().map(ResourceName::as_str).collect();
            text.push_str(", given ");
            text.push_str(&names.join(", "));
        }
        text
    }

    /// Nothing for what cannot be called by a name.
    fn tools(&self) -> impl Iterator<Item = Tool> {
        let server: Arc<str> = self.identity().into();
        let place: Arc<str> = self.place().into();
        let directory: Option<Arc<str>> = match &self.cwd {
            CallDirectory::Conversation => None,
            CallDirectory::Private => Some("a new one of its own".into()),
            CallDirectory::At(path) => Some(path.display().to_string().into()),
        };
        let packages: Arc<[String]> = match &self.program.runtime {
            ScriptRuntime::UvScript(needs) => needs.packages().into(),
            ScriptRuntime::Process | ScriptRuntime::Binary => Arc::default(),
        };
        self.capabilities.iter().filter_map(move |it| {
            let profile = self.profile(it);
            Some(Tool {
                name: ToolName::new(self.name.clone(), &it.name).ok()?,
                description: it.description.clone(),
                schema: it.input.clone(),
                annotations: it.annotations.clone(),
                server: server.clone(),
                place: match profile.held_to(&self.hosts) {
                    Some(held) => format!("{place}, {held}").into(),
                    None => place.clone(),
                },
                needs: it.level,
                needs_by: ClaimSource::Ours,
                reads_only: it.level == Access::Read,
                reach: ToolReach::World,
                network: match profile {
                    Profile::Read | Profile::Workspace => NetworkUse::Stays,
                    Profile::Open => NetworkUse::MayLeave,
                },
                packages: packages.clone(),
                directory: directory.clone(),
            })
        })
    }

    /// Whether a call of it runs in the same way.
    fn runs_like(&self, other: &Self) -> bool {
        let Self {
            name: _,
            version: _,
            description: _,
            file: _,
            program,
            cwd,
            contain,
            write,
            hosts,
            env,
            limits,
            reads,
            capabilities: _,
        } = self;
        *program == other.program
            && *cwd == other.cwd
            && *contain == other.contain
            && *write == other.write
            && *hosts == other.hosts
            && *env == other.env
            && *limits == other.limits
            && *reads == other.reads
    }

    /// One line about what became of a provider; nothing when nothing did that anybody could notice.
    pub fn change_text(before: Option<&Self>, now: Option<&Self>) -> Option<String> {
        let names = |it: &Self| -> BTreeSet<String> {
            it.capabilities.iter().map(|it| it.name.clone()).collect()
        };
        let list = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
        match (before, now) {
            (None, None) => None,
            (None, Some(now)) => Some(format!(
                "{} {} (+ {})",
                now.name,
                now.version,
                list(names(now))
            )),
            (Some(before), None) => Some(format!("{} {} is gone", before.name, before.version)),
            (Some(before), Some(now)) if before == now => None,
            (Some(before), Some(now)) => {
                let version = if before.version == now.version {
                    now.version.clone()
                } else {
                    format!("{} → {}", before.version, now.version)
                };
                let (old, new) = (names(before), names(now));
                let mut parts: Vec<String> = vec![];
                parts.extend(new.difference(&old).map(|it| format!("+ {it}")));
                parts.extend(old.difference(&new).map(|it| format!("- {it}")));
                let changed = now.capabilities.iter().filter(|it| {
                    let was = before.capability(&it.name);
                    was.is_some_and(|was| was != *it)
                });
                parts.extend(changed.map(|it| format!("~ {}", it.name)));
                if parts.is_empty() && !before.runs_like(now) {
                    parts.push("what runs has changed".to_owned());
                }
                // Its file was moved, or what it says of the whole of itself is worded otherwise.
                if parts.is_empty() && before.version == now.version {
                    return None;
                }
                let parts = match parts.join(", ") {
                    none if none.is_empty() => none,
                    parts => format!(" ({parts})"),
                };
                Some(format!("{} {version}{parts}", now.name))
            }
        }
    }
}

/// All manifests that count, as one value that is replaced as a whole.
#[derive(Clone, Debug, Default)]
pub struct ManifestRegistry {
    /// Grows whenever something came, went or changed.
    pub number: u64,
    pub providers: BTreeMap<Alias, Arc<Manifest>>,
    /// What is wrong with manifests, each with its place.
    pub faults: Vec<String>,
    tools: BTreeMap<Alias, Vec<Arc<Tool>>>,
}

impl ManifestRegistry {
    /// The same, with other faults.
    pub fn with_faults(self, faults: Vec<String>) -> Self {
        Self { faults, ..self }
    }

    /// Faults that were not there before.
    pub fn faults_since(&self, before: &Self) -> Vec<String> {
        let new = self.faults.iter().filter(|it| !before.faults.contains(it));
        new.cloned().collect()
    }

    /// The next one. Tools of a manifest that is still the same value are not made again.
    pub fn followed_by(&self, manifests: impl IntoIterator<Item = Arc<Manifest>>) -> Self {
        let all = manifests.into_iter().map(|it| (it.name.clone(), it));
        let providers: BTreeMap<Alias, Arc<Manifest>> = all.collect();
        let tools = |(name, now): (&Alias, &Arc<Manifest>)| {
            let before = self.providers.get(name);
            let same = before.filter(|it| Arc::ptr_eq(it, now));
            let known = same.and_then(|_| self.tools.get(name)).cloned();
            let tools = known.unwrap_or_else(|| now.tools().map(Arc::new).collect());
            (name.clone(), tools)
        };
        Self {
            number: self.number + 1,
            tools: providers.iter().map(tools).collect(),
            faults: self.faults.clone(),
            providers,
        }
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values().flatten()
    }

    /// What offers a tool of this name, if any of these does. Whether it is still the same tool is for who let it through.
    pub fn find(&self, tool: &Tool) -> Option<(&Arc<Manifest>, &Capability)> {
        let provider = self.providers.get(tool.name.alias())?;
        let capability = provider.capability(tool.name.tool())?;
        Some((provider, capability))
    }

    /// Whether any manifest is another one, be it in what nobody is told of.
    pub fn differs_from(&self, before: &Self) -> bool {
        let is_other = |(name, now): (&Alias, &Arc<Manifest>)| {
            let was = before.providers.get(name);
            was.is_none_or(|was| !Arc::ptr_eq(was, now) && was != now)
        };
        self.providers.len() != before.providers.len() || self.providers.iter().any(is_other)
    }

    /// A line for each provider that came, went or changed.
    pub fn changes_from(&self, before: &Self) -> Vec<String> {
        let old = before.providers.keys();
        let names: BTreeSet<&Alias> = old.chain(self.providers.keys()).collect();
        let one = |it| {
            let (before, now) = (before.providers.get(it), self.providers.get(it));
            if let (Some(before), Some(now)) = (before, now)
                && Arc::ptr_eq(before, now)
            {
                return None;
            }
            Manifest::change_text(before.map(|it| &**it), now.map(|it| &**it))
        };
        names.into_iter().filter_map(one).collect()
    }
}

/// The path in the folder of a manifest.
pub fn resolve_path(manifest: &Path, path: &Path) -> PathBuf {
    manifest.parent().unwrap_or(Path::new("/")).join(path)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn manifest(capabilities: &[&str]) -> Manifest {
        let capability = |name: &&str| Capability {
            name: (*name).to_owned(),
            description: "Does it.".to_owned(),
            level: Access::Read,
            annotations: json!({}),
            input: json!({"type": "object"}),
            output: None,
        };
        Manifest {
            name: "data-tool".parse().unwrap(),
            version: "1.0.0".to_owned(),
            description: String::new(),
            file: "/tools/data.toml".into(),
            program: ManifestProgram {
                runtime: ScriptRuntime::Process,
                path: "/bin/sh".into(),
                real: "/bin/dash".into(),
                args: vec![],
                script: None,
            },
            cwd: CallDirectory::Private,
            contain: None,
            write: vec![],
            hosts: vec![],
            env: BTreeMap::new(),
            limits: ManifestLimits::default(),
            reads: vec![],
            capabilities: capabilities.iter().map(capability).collect(),
        }
    }

    #[test]
    fn a_level_says_to_what_the_kernel_holds_a_call_unless_the_manifest_does() {
        let mut manifest = manifest(&["go"]);
        let mut profile = |level, contain| {
            manifest.capabilities[0].level = level;
            manifest.contain = contain;
            let tool = manifest.tools().next().unwrap();
            let profile = manifest.profile(&manifest.capabilities[0]);
            assert_eq!(
                profile == Profile::Open,
                tool.network == NetworkUse::MayLeave
            );
            profile
        };
        assert_eq!(Profile::Read, profile(Access::Read, None));
        assert_eq!(Profile::Workspace, profile(Access::Write, None));
        assert_eq!(Profile::Open, profile(Access::Execute, None));
        assert_eq!(Profile::Read, profile(Access::Execute, Some(Profile::Read)));
        assert_eq!(Profile::Open, profile(Access::Read, Some(Profile::Open)));
        let needs = ScriptNeeds {
            dependencies: vec!["requests".to_owned()],
            ..ScriptNeeds::default()
        };
        manifest.program.runtime = ScriptRuntime::UvScript(needs);
        manifest.contain = None;
        assert_eq!(Profile::Open, manifest.profile(&manifest.capabilities[0]));
    }

    #[test]
    fn what_became_of_a_provider_is_one_line() {
        let old = manifest(&["read", "list"]);
        let mut new = manifest(&["read", "list", "delete"]);
        new.version = "1.1.0".to_owned();
        new.capabilities[0].description.push('!');
        let mut moved = old.clone();
        moved.program.args.push("-x".to_owned());
        let mut later = old.clone();
        later.version = "1.0.1".to_owned();
        let mut elsewhere = old.clone();
        elsewhere.file = "/tools/other.toml".into();
        for (before, now, expected) in [
            (None, Some(&old), Some("data-tool 1.0.0 (+ list, read)")),
            (
                Some(&old),
                Some(&new),
                Some("data-tool 1.0.0 → 1.1.0 (+ delete, ~ read)"),
            ),
            (
                Some(&new),
                Some(&old),
                Some("data-tool 1.1.0 → 1.0.0 (- delete, ~ read)"),
            ),
            (Some(&old), None, Some("data-tool 1.0.0 is gone")),
            (Some(&old), Some(&old), None),
            (
                Some(&old),
                Some(&moved),
                Some("data-tool 1.0.0 (what runs has changed)"),
            ),
            (Some(&old), Some(&later), Some("data-tool 1.0.0 → 1.0.1")),
            (Some(&old), Some(&elsewhere), None),
        ] {
            assert_eq!(expected, Manifest::change_text(before, now).as_deref());
        }
    }

    #[test]
    fn only_tools_of_a_manifest_that_changed_are_made_again() {
        let kept = Arc::new(manifest(&["read"]));
        let mut other = manifest(&["go"]);
        other.name = "other".parse().unwrap();
        let first =
            ManifestRegistry::default().followed_by([kept.clone(), Arc::new(other.clone())]);
        other.program.args.push("-x".to_owned());
        let second = first.followed_by([kept.clone(), Arc::new(other)]);
        let same = first.tools().zip(second.tools());
        let same: Vec<bool> = same.map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!((vec![true, false], 2), (same, second.number));
        let changes = second.changes_from(&first);
        assert_eq!(vec!["other 1.0.0 (what runs has changed)"], changes);
        assert_eq!(1, second.followed_by([kept]).tools().count());
    }

    /// Consent to a tool ends with the script that it was given to.
    #[test]
    fn another_script_is_another_tool() {
        let digest = |it: &Manifest| it.tools().next().unwrap().definition_digest();
        let plain = manifest(&["read"]);
        let script = |text: &str| ManifestScript {
            file: "/tools/data.sh".into(),
            text: text.into(),
            digest: ContentDigest::of(text.as_bytes()),
        };
        let with = |change: &dyn Fn(&mut Manifest)| {
            let mut changed = plain.clone();
            change(&mut changed);
            digest(&changed)
        };
        let all = [
            digest(&plain),
            with(&|it| it.program.script = Some(script("a"))),
            with(&|it| it.program.script = Some(script("b"))),
            with(&|it| it.program.real = "/bin/bash".into()),
            with(&|it| it.program.args.push("-x".to_owned())),
            with(&|it| it.cwd = CallDirectory::Conversation),
            with(&|it| it.limits.output_bytes += 1),
            with(&|it| it.limits.processes = Some(7)),
            with(&|it| {
                it.program.runtime = ScriptRuntime::UvScript(ScriptNeeds {
                    dependencies: vec!["rich".to_owned()],
                    python: None,
                    settings: None,
                });
            }),
        ];
        assert_eq!(all.len(), BTreeSet::from(all).len());
        assert_eq!(digest(&plain), with(&|it| it.version = "2".to_owned()));
    }
}
