//! Every key of a manifest; what a comment here says is what people read in docs/TOOLS.md.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use toml::Spanned;
use toml::de::DeValue;

use crate::table_reader::{
    KeyKind, KeyLeaf, KeyPart, TableEntry, TableReader, ValueMisread, join, tables,
};
use crate::value::{Contain, SecretText, TimeSpan, WholeNumber};

tables! {
    /// A tool that is a program, in TOML. An unknown key is an error.
    File {
        /// Its name, in front of the names of its capabilities.
        name: KeyLeaf<String>,
        /// Whatever its maker calls it.
        version: KeyLeaf<String>,
        /// What it is for.
        description: KeyLeaf<String>,
        /// "process", "python-uv-script" or "binary".
        runtime: KeyLeaf<String>,
        /// The program of a process; a name without a slash is looked for in PATH.
        command: KeyLeaf<String>,
        /// Its arguments.
        args: KeyLeaf<Vec<String>>,
        /// The file that is handed to the program before its arguments. What runs is a copy of what was read here.
        script: KeyLeaf<PathBuf>,
        /// The executable of a binary.
        path: KeyLeaf<PathBuf>,
        /// The working directory: "private" (an empty one, and the default), "conversation", or a path.
        cwd: KeyLeaf<PathBuf>,
        /// What the kernel holds its calls to: "read" (it reads all but keys, and writes in a /tmp of its own), "workspace" (and in
        /// the conversation's directories and what `write` names), both with the hosts of `hosts` and no other network, or "open". When it is not said:
        /// read for level 1, workspace for level 2, open for level 3 and for scripts with packages.
        contain: KeyLeaf<Contain>,
        /// Files and directories that it may write besides, in a workspace.
        write: KeyLeaf<Vec<String>>,
        /// Hosts that it may reach where it is held to anything: `example.org`, `*.example.org`, `example.org:8443`. It finds them
        /// by HTTP_PROXY and its like, and all others are refused.
        hosts: KeyLeaf<Vec<String>>,
        /// Its variables, besides PATH, HOME and the like. `${NAME}` and `${NAME:-default}` stand for variables of the
        /// daemon. Their values are never shown.
        env: BTreeMap<String, KeyLeaf<SecretText>>,
        /// Names of resources of the conversation that its calls are given.
        reads: KeyLeaf<Vec<String>>,
        /// What a call may take.
        limits: Limits,
        /// What it can do.
        capability: Vec<Capability>,
    }

    /// What a call may take.
    Limits {
        /// Its time; 60s when it is not said.
        timeout: KeyLeaf<TimeSpan>,
        /// Its output; 1 MiB when it is not said.
        output_bytes: KeyLeaf<WholeNumber<1, 16_777_216>>,
        /// Address space of each process.
        memory_bytes: KeyLeaf<WholeNumber<1_048_576, 1_099_511_627_776>>,
        /// Processes of the user, as the kernel counts.
        processes: KeyLeaf<WholeNumber<1, 100_000>>,
    }

    /// One thing that it can do.
    Capability {
        /// Its name, unlike the others of this tool.
        name: KeyLeaf<String>,
        /// What it does, for models.
        description: KeyLeaf<String>,
        /// The level that a call needs: 1 reads, 2 writes, 3 executes; 3 when it is not said.
        level: KeyLeaf<WholeNumber<1, 3>>,
        /// Hints of MCP, e.g. `title`.
        annotations: BTreeMap<String, KeyLeaf<JsonTree>>,
        /// Its arguments in the short form.
        input: ShortFields,
        /// Its arguments as a JSON schema: a table, or JSON in a text.
        input_schema: KeyLeaf<JsonTree>,
        /// Its result in the short form.
        output: ShortFields,
        /// Its result as a JSON schema.
        output_schema: KeyLeaf<JsonTree>,
    }
}

/// Any value, as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonTree(pub serde_json::Value);

impl KeyKind for JsonTree {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        tree(value).map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

fn tree(value: &DeValue<'_>) -> Result<serde_json::Value, ValueMisread> {
    Ok(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            number
                .map_err(|_| ValueMisread::new("the number is too large"))?
                .into()
        }
        DeValue::Float(number) => {
            let number: f64 = number.as_str().parse().unwrap_or(f64::NAN);
            let number = serde_json::Number::from_f64(number);
            number
                .ok_or_else(|| ValueMisread::new("the number is no number of JSON"))?
                .into()
        }
        DeValue::Datetime(value) => value.to_string().into(),
        DeValue::Array(items) => items
            .iter()
            .map(|it| tree(it.get_ref()))
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        DeValue::Table(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| Ok((name.get_ref().to_string(), tree(value.get_ref())?)));
            serde_json::Value::Object(fields.collect::<Result<_, _>>()?)
        }
    })
}

impl JsonSchema for JsonTree {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tree".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}

/// Fields in the short form; none is not the same as nothing said.
pub type ShortFields = Option<BTreeMap<String, KeyLeaf<JsonTree>>>;

impl KeyPart for ShortFields {
    fn read(&mut self, path: &str, value: &Spanned<DeValue<'_>>, reader: &mut TableReader) {
        self.get_or_insert_default().read(path, value, reader);
    }

    fn lay_over(&mut self, above: Self) {
        if above.is_some() {
            *self = above;
        }
    }

    fn list(&self, path: &str, entries: &mut Vec<TableEntry>) {
        if let Some(fields) = self {
            fields.list(path, entries);
        }
    }

    fn may_show(_names: &[&str]) -> bool {
        true
    }

    fn open_names(name: &'static str, names: &mut Vec<&'static str>) {
        names.push(name);
    }
}

/// Tables under one name, in their order.
impl KeyPart for Vec<Capability> {
    fn read(&mut self, path: &str, value: &Spanned<DeValue<'_>>, reader: &mut TableReader) {
        let Some(list) = value.get_ref().as_array() else {
            let misread = ValueMisread::kind("a list of tables", value.get_ref());
            let place = reader.place(value.span());
            let fault =
                crate::fault::Fault::error(&place, format!("`{path}`: {}", misread.message));
            reader.faults.push(fault);
            return;
        };
        for (at, item) in list.iter().enumerate() {
            let path = format!("{path}.{}", at + 1);
            reader.names.insert(path.clone(), reader.place(item.span()));
            let mut one = Capability::default();
            one.read(&path, item, reader);
            self.push(one);
        }
    }

    fn lay_over(&mut self, above: Self) {
        if !above.is_empty() {
            *self = above;
        }
    }

    fn list(&self, path: &str, entries: &mut Vec<TableEntry>) {
        for (at, one) in self.iter().enumerate() {
            one.list(&join(path, &(at + 1).to_string()), entries);
        }
    }

    fn may_show(names: &[&str]) -> bool {
        Capability::may_show(names)
    }

    fn open_names(_name: &'static str, names: &mut Vec<&'static str>) {
        Capability::open_names("", names);
    }
}
