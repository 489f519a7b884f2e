//! One manifest: a tool that a person wrote down. All that is wrong is reported at once, each with its place.

mod block;
pub mod keys;
mod short_schema;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aishd_log::access::Access;
use aishd_log::invisible_characters::{any_hides, hides};
use aishd_log::profile::Profile;
use aishd_log::resource::ResourceName;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::{Alias, ToolName};
use aishd_mcp_messages::schema::Schema;
use aishd_rules::registry::{
    CallDirectory, Capability, Manifest, ManifestLimits, ManifestProgram, ManifestScript,
    ScriptRuntime, resolve_path,
};
use serde_json::{Map, Value};
use toml::de::DeTable;

use self::keys::{File, JsonTree, ShortFields};
use super::fault::Fault;
use super::file::{self, FileNeed};
use super::held_programs;
use super::source::{ConfigOrigin, SourcePlace, SourceText};
use super::table_reader::{KeyLeaf, TableReader, nearest};
use crate::key_values::{home, value_of};

const MOST_CAPABILITIES: usize = 256;
const MOST_READS: usize = 64;
const MOST_DESCRIPTION_BYTES: usize = 4 << 10;
const RUNTIMES: [&str; 3] = ["process", "python-uv-script", "binary"];
const UV: &str = "uv";
const NO_UV: &str =
    "install it: curl -LsSf https://astral.sh/uv/install.sh | sh, or pip install uv";

/// Finds a program by its name, as a child's own PATH has it.
pub type FindProgram<'a> = &'a (dyn Fn(&str) -> Option<PathBuf> + Sync);

/// What reading came to.
#[derive(Debug)]
pub struct ManifestRead {
    /// Absent when there is an error among the faults.
    pub manifest: Option<Manifest>,
    /// Where the name stands.
    pub name: Option<SourcePlace>,
    pub faults: Vec<Fault>,
}

/// Gives a manifest's text its meaning. Files that it names are looked for beside `file`.
pub fn read(source: &Arc<SourceText>, file: &Path, find: FindProgram<'_>) -> ManifestRead {
    let (tree, errors) = DeTable::parse_recoverable(source.text());
    let mut reader = TableReader::new(source.clone());
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let message = error.message().replace('\n', ", ");
        let fault = Fault::error(&reader.place(span), message);
        reader.faults.push(fault);
    }
    let mut said = File::default();
    if errors.is_empty() {
        said.read_table("", tree.get_ref(), &mut reader);
    }
    let mut check = ManifestCheck {
        source,
        file,
        find,
        faults: std::mem::take(&mut reader.faults),
        reader,
    };
    // What is missing may be what could not be read.
    let manifest = if check.faults.is_empty() {
        check.manifest(&said)
    } else {
        None
    };
    let ManifestCheck { mut faults, .. } = check;
    faults.sort_by_key(|it| it.span.as_ref().map(|it| it.start));
    ManifestRead {
        manifest: manifest.filter(|_| !faults.iter().any(Fault::is_error)),
        name: said.name.map(|it| it.place),
        faults,
    }
}

/// One manifest, while it is looked at.
struct ManifestCheck<'a> {
    source: &'a Arc<SourceText>,
    file: &'a Path,
    find: FindProgram<'a>,
    faults: Vec<Fault>,
    reader: TableReader,
}

impl ManifestCheck<'_> {
    fn wrong(&mut self, place: &SourcePlace, message: impl Into<String>) {
        self.faults.push(Fault::error(place, message));
    }

    fn missing(&mut self, message: &str) {
        self.faults.push(Fault::of(self.source, message));
    }

    fn manifest(&mut self, said_in: &File) -> Option<Manifest> {
        let name = self.name(said_in);
        let program = self.program(said_in);
        let cwd = self.cwd(said_in);
        self.utf8(program.as_ref(), &cwd);
        if said_in.capability.is_empty() {
            self.missing("it has no [[capability]]");
        }
        if said_in.capability.len() > MOST_CAPABILITIES {
            self.missing(&format!(
                "it has more than {MOST_CAPABILITIES} capabilities"
            ));
            return None;
        }
        if let Some(description) = &said_in.description
            && description.value.chars().any(hides)
        {
            let message = "the description hides characters from who reads it";
            self.wrong(&description.place, message);
        }
        let mut names = BTreeSet::new();
        let capabilities = (1..)
            .zip(&said_in.capability)
            .filter_map(|(at, it)| self.capability(at, it, name.as_ref(), &mut names))
            .collect();
        let reads = self.reads(said_in);
        let (contain, write, hosts) = self.contain(said_in, program.as_ref());
        let env = said_in.env.iter();
        let env =
            env.filter_map(|(name, leaf)| Some((name.clone(), leaf.as_ref()?.value.0.clone())));
        Some(Manifest {
            name: name?,
            version: value_of(&said_in.version).unwrap_or_default(),
            description: value_of(&said_in.description).unwrap_or_default(),
            file: self.file.to_path_buf(),
            program: program?,
            cwd,
            contain,
            write,
            hosts,
            env: env.collect(),
            limits: limits(&said_in.limits),
            reads,
            capabilities,
        })
    }

    /// What runs, and where, is shown to people and hashed: as it is, or not at all.
    fn utf8(&mut self, program: Option<&ManifestProgram>, cwd: &CallDirectory) {
        let script = program.and_then(|it| it.script.as_ref());
        let cwd = match cwd {
            CallDirectory::At(path) => Some(path.as_path()),
            CallDirectory::Private | CallDirectory::Conversation => None,
        };
        let paths = program.into_iter().flat_map(|it| [&*it.path, &*it.real]);
        let paths = paths.chain(script.map(|it| &*it.file)).chain(cwd);
        let wrong = paths.chain([self.file]).find(|it| it.to_str().is_none());
        if let Some(path) = wrong {
            self.missing(&format!("{} is no UTF-8", path.display()));
        }
    }

    fn name(&mut self, said_in: &File) -> Option<Alias> {
        let Some(name) = &said_in.name else {
            self.missing("it has no `name`");
            return None;
        };
        match name.value.parse() {
            Ok(alias) => Some(alias),
            Err(error) => {
                self.wrong(&name.place, format!("`name`: {error}"));
                None
            }
        }
    }

    fn program(&mut self, said_in: &File) -> Option<ManifestProgram> {
        let Some(runtime) = &said_in.runtime else {
            self.missing("it has no `runtime`: process, python-uv-script or binary");
            return None;
        };
        let (runtime, path, script) = match runtime.value.as_str() {
            "process" => {
                self.only("binary", "path", said_in.path.as_ref().map(|it| &it.place));
                let Some(command) = &said_in.command else {
                    self.missing("it has no `command`");
                    return None;
                };
                let path = self.found("command", &command.value, &command.place);
                let script = match &said_in.script {
                    Some(script) => Some(self.script(&script.value, &script.place)?),
                    None => None,
                };
                (ScriptRuntime::Process, path?, script)
            }
            "python-uv-script" => {
                self.only("binary", "path", said_in.path.as_ref().map(|it| &it.place));
                self.only(
                    "process",
                    "command",
                    said_in.command.as_ref().map(|it| &it.place),
                );
                let Some(script) = &said_in.script else {
                    self.missing("it has no `script`");
                    return None;
                };
                let uv = (self.find)(UV);
                if uv.is_none() {
                    let message = "uv is not installed, and runs scripts of this kind";
                    let fault = Fault::error(&runtime.place, message).help(NO_UV);
                    self.faults.push(fault);
                }
                let read = self.script(&script.value, &script.place)?;
                let needs = match block::read(&read.text) {
                    Ok(needs) => needs,
                    Err(why) => {
                        self.wrong(&script.place, format!("`script`: {why}"));
                        return None;
                    }
                };
                (ScriptRuntime::UvScript(needs), uv?, Some(read))
            }
            "binary" => {
                for (key, place) in [
                    ("command", said_in.command.as_ref().map(|it| &it.place)),
                    ("script", said_in.script.as_ref().map(|it| &it.place)),
                ] {
                    self.only("process", key, place);
                }
                let Some(path) = &said_in.path else {
                    self.missing("it has no `path`");
                    return None;
                };
                let text = resolve_path(self.file, &home(&path.value));
                let path = self.found("path", &text.to_string_lossy(), &path.place);
                (ScriptRuntime::Binary, path?, None)
            }
            other => {
                let message = format!("`runtime`: expected one of {}", RUNTIMES.join(", "));
                let mut fault = Fault::error(&runtime.place, message);
                fault.label = nearest(other, &RUNTIMES).map(|it| format!("did you mean `{it}`?"));
                self.faults.push(fault);
                return None;
            }
        };
        Some(ManifestProgram {
            runtime,
            real: path.canonicalize().unwrap_or_else(|_| path.clone()),
            path,
            args: value_of(&said_in.args).unwrap_or_default(),
            script,
        })
    }

    fn only(&mut self, runtime: &str, key: &str, place: Option<&SourcePlace>) {
        if let Some(place) = place {
            self.wrong(
                place,
                format!("`{key}` goes with the runtime {runtime:?} only"),
            );
        }
    }

    /// A path is beside the manifest; a bare name is looked for.
    fn found(&mut self, key: &str, text: &str, place: &SourcePlace) -> Option<PathBuf> {
        if !text.contains('/') {
            let found = (self.find)(text);
            if found.is_none() {
                self.wrong(
                    place,
                    format!("`{key}`: there is no program {text:?} in PATH"),
                );
            }
            return found;
        }
        let path = resolve_path(self.file, &home(Path::new(text)));
        let about = path.metadata();
        let shown = path.display();
        let why = match about {
            Ok(about) if !about.is_file() => "it is no file".to_owned(),
            Ok(about) if about.permissions().mode() & 0o111 == 0 => {
                "it is not executable".to_owned()
            }
            Ok(_) => return Some(path),
            Err(error) => error.to_string(),
        };
        self.wrong(place, format!("`{key}`: {shown}: {why}"));
        None
    }

    fn script(&mut self, path: &Path, place: &SourcePlace) -> Option<ManifestScript> {
        let path = resolve_path(self.file, &home(path));
        match file::read(ConfigOrigin::File(path.clone()), &path, FileNeed::Required) {
            Ok(Some(source)) => Some(ManifestScript {
                file: path,
                text: source.text().into(),
                digest: ContentDigest::of(source.text().as_bytes()),
            }),
            Ok(None) => None,
            Err(fault) => {
                self.wrong(place, format!("`script`: {}", fault.line()));
                None
            }
        }
    }

    fn reads(&mut self, said_in: &File) -> Vec<ResourceName> {
        let Some(said) = &said_in.reads else {
            return vec![];
        };
        let mut names = BTreeSet::new();
        for text in &said.value {
            match text.parse::<ResourceName>() {
                Ok(name) => drop(names.insert(name)),
                Err(error) => self.wrong(&said.place, format!("`reads`: {text:?}: {error}")),
            }
        }
        if names.len() > MOST_READS {
            self.wrong(&said.place, format!("`reads`: at most {MOST_READS} names"));
        }
        names.into_iter().collect()
    }

    fn contain(
        &mut self,
        said_in: &File,
        program: Option<&ManifestProgram>,
    ) -> (Option<Profile>, Vec<PathBuf>, Vec<String>) {
        let profile = said_in.contain.as_ref().map(|it| it.value.profile());
        let has_packages = program.is_some_and(ManifestProgram::has_packages);
        if let Some(contain) = &said_in.contain
            && has_packages
            && profile != Some(Profile::Open)
        {
            let message = "`contain`: a script with packages needs uv's cache and the network, so it can only be \"open\"";
            self.wrong(&contain.place, message);
        }
        let held = match profile {
            None if has_packages => Some(Profile::Open),
            None | Some(Profile::Workspace) => None,
            narrow @ Some(Profile::Read | Profile::Open) => narrow,
        };
        let write = held_programs::widened("write", &said_in.write, held, &mut self.faults);
        let hosts = held_programs::hosts("hosts", &said_in.hosts, held, &mut self.faults);
        (profile, write, hosts)
    }

    fn cwd(&mut self, said_in: &File) -> CallDirectory {
        match &said_in.cwd {
            None => CallDirectory::Private,
            Some(cwd) => match cwd.value.to_str() {
                Some("private") => CallDirectory::Private,
                Some("conversation") => CallDirectory::Conversation,
                Some(_) | None => CallDirectory::At(resolve_path(self.file, &home(&cwd.value))),
            },
        }
    }

    fn capability(
        &mut self,
        at: usize,
        said_in: &keys::Capability,
        provider: Option<&Alias>,
        names: &mut BTreeSet<String>,
    ) -> Option<Capability> {
        let path = format!("capability.{at}");
        let Some(name) = &said_in.name else {
            let message = "it has no `name`";
            match self.reader.names.get(&path).cloned() {
                Some(place) => self.wrong(&place, message),
                None => self.missing(message),
            }
            return None;
        };
        if let Some(provider) = provider
            && let Err(error) = ToolName::new(provider.clone(), &name.value)
        {
            self.wrong(&name.place, error.to_string());
        } else if !name.value.bytes().all(is_plain) {
            // It stands in rules, where `*` is all of them, and in paths.
            let message = format!(
                "{:?} is no name of a capability: letters and digits of ASCII, `_` and `-`",
                name.value
            );
            self.wrong(&name.place, message);
        }
        if !names.insert(name.value.clone()) {
            let message = format!("there are two capabilities {:?}", name.value);
            self.wrong(&name.place, message);
        }
        if let Some(description) = &said_in.description
            && description.value.len() > MOST_DESCRIPTION_BYTES
        {
            let message = format!("a description is at most {MOST_DESCRIPTION_BYTES} bytes long");
            self.wrong(&description.place, message);
        }
        let level = said_in.level.as_ref().map(|it| it.value.0);
        let level = level.and_then(|it| Access::from_number(u8::try_from(it).ok()?));
        let annotations = said_in.annotations.iter();
        let annotations: Map<String, Value> = annotations
            .filter_map(|(name, leaf)| Some((name.clone(), leaf.as_ref()?.value.0.clone())))
            .collect();
        let nothing =
            serde_json::json!({"type": "object", "properties": {}, "additionalProperties": false});
        let input = self.schema(&path, "input", &said_in.input, &said_in.input_schema);
        let capability = Capability {
            name: name.value.clone(),
            description: value_of(&said_in.description).unwrap_or_default(),
            level: level.unwrap_or(Access::Execute),
            annotations: Value::Object(annotations),
            input: input.unwrap_or(nothing),
            output: self.schema(&path, "output", &said_in.output, &said_in.output_schema),
        };
        if hides_something(&capability) {
            let message = format!(
                "capability {:?} hides characters from who reads it",
                name.value
            );
            self.wrong(&name.place, message);
        }
        Some(capability)
    }

    fn schema(
        &mut self,
        path: &str,
        key: &str,
        fields: &ShortFields,
        whole: &KeyLeaf<JsonTree>,
    ) -> Option<Value> {
        let long = format!("{key}_schema");
        match (fields, whole) {
            (Some(_), Some(whole)) => {
                let message = format!("`{key}` and `{long}` are two words for one thing");
                self.wrong(&whole.place, message);
                None
            }
            (Some(fields), None) => {
                let before = self.faults.len();
                let schema =
                    short_schema::schema(fields, &format!("{path}.{key}"), &mut self.faults);
                let first = fields.values().flatten().next();
                if let (Some(first), true) = (first, self.faults.len() == before)
                    && !short_schema::is_plain(fields)
                    && let Err(why) = Schema::new(&schema)
                {
                    self.wrong(&first.place, format!("`{path}.{key}`: {why}"));
                }
                Some(schema)
            }
            (None, Some(whole)) => {
                let schema = match &whole.value.0 {
                    Value::String(text) => match serde_json::from_str(text) {
                        Ok(schema) => schema,
                        Err(error) => {
                            self.wrong(&whole.place, format!("`{path}.{long}`: {error}"));
                            return None;
                        }
                    },
                    other @ (Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::Array(_)
                    | Value::Object(_)) => other.clone(),
                };
                if !schema.is_object() {
                    self.wrong(&whole.place, format!("`{path}.{long}`: expected an object"));
                } else if let Err(why) = Schema::new(&schema) {
                    self.wrong(&whole.place, format!("`{path}.{long}`: {why}"));
                }
                Some(schema)
            }
            (None, None) => None,
        }
    }
}

fn hides_something(it: &Capability) -> bool {
    it.description.chars().any(hides)
        || any_hides(&it.annotations)
        || any_hides(&it.input)
        || it.output.as_ref().is_some_and(any_hides)
}

fn is_plain(it: u8) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-')
}

fn limits(said_in: &keys::Limits) -> ManifestLimits {
    let usual = ManifestLimits::default();
    let timeout = said_in.timeout.as_ref().map(|it| it.value.value);
    let output = said_in.output_bytes.as_ref().map(|it| it.value.0);
    ManifestLimits {
        timeout: timeout.unwrap_or(usual.timeout),
        output_bytes: output.map_or(usual.output_bytes, |it| {
            usize::try_from(it).unwrap_or(usual.output_bytes)
        }),
        memory_bytes: said_in.memory_bytes.as_ref().map(|it| it.value.0),
        processes: said_in.processes.as_ref().map(|it| it.value.0),
    }
}

#[cfg(test)]
mod tests;
