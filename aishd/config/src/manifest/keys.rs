//! Every key of a manifest; what a comment here says is what people read in docs/TOOLS.md.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use toml::Spanned;
use toml::de::DeValue;

use crate::table::{Entry, Leaf, Misread, Part, Reader, Value, join, tables};
use crate::value::{Secret, Time, Whole};

tables! {
    /// A tool that is a program, in TOML. An unknown key is an error.
    File {
        /// Its name, in front of the names of its capabilities.
        name: Leaf<String>,
        /// Whatever its maker calls it.
        version: Leaf<String>,
        /// What it is for.
        description: Leaf<String>,
        /// "process", "python-uv-script" or "binary".
        runtime: Leaf<String>,
        /// The program of a process; a name without a slash is looked for in PATH.
        command: Leaf<String>,
        /// Its arguments.
        args: Leaf<Vec<String>>,
        /// The file that is handed to the program before its arguments. What runs is a copy of what was read here.
        script: Leaf<PathBuf>,
        /// The executable of a binary.
        path: Leaf<PathBuf>,
        /// The working directory: "private" (an empty one, and the default), "conversation", or a path.
        cwd: Leaf<PathBuf>,
        /// Its variables, besides PATH, HOME and the like. `${NAME}` and `${NAME:-default}` stand for variables of the
        /// daemon. Their values are never shown.
        env: BTreeMap<String, Leaf<Secret>>,
        /// Names of resources of the conversation that its calls are given.
        reads: Leaf<Vec<String>>,
        /// What a call may take.
        limits: Limits,
        /// What it can do.
        capability: Vec<Capability>,
    }

    /// What a call may take.
    Limits {
        /// Its time; 60s when it is not said.
        timeout: Leaf<Time>,
        /// Its output; 1 MiB when it is not said.
        output_bytes: Leaf<Whole<1, 16_777_216>>,
        /// Address space of each process.
        memory_bytes: Leaf<Whole<1_048_576, 1_099_511_627_776>>,
        /// Processes of the user, as the kernel counts.
        processes: Leaf<Whole<1, 100_000>>,
    }

    /// One thing that it can do.
    Capability {
        /// Its name, unlike the others of this tool.
        name: Leaf<String>,
        /// What it does, for models.
        description: Leaf<String>,
        /// The level that a call needs: 1 reads, 2 writes, 3 executes; 3 when it is not said.
        level: Leaf<Whole<1, 3>>,
        /// Hints of MCP, e.g. `title`.
        annotations: BTreeMap<String, Leaf<Tree>>,
        /// Its arguments in the short form.
        input: Fields,
        /// Its arguments as a JSON schema: a table, or JSON in a text.
        input_schema: Leaf<Tree>,
        /// Its result in the short form.
        output: Fields,
        /// Its result as a JSON schema.
        output_schema: Leaf<Tree>,
    }
}

/// Any value, as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree(pub serde_json::Value);

impl Value for Tree {
    fn read(value: &DeValue<'_>) -> Result<Self, Misread> {
        tree(value).map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

fn tree(value: &DeValue<'_>) -> Result<serde_json::Value, Misread> {
    Ok(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            number
                .map_err(|_| Misread::new("the number is too large"))?
                .into()
        }
        DeValue::Float(number) => {
            let number: f64 = number.as_str().parse().unwrap_or(f64::NAN);
            let number = serde_json::Number::from_f64(number);
            number
                .ok_or_else(|| Misread::new("the number is no number of JSON"))?
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

impl JsonSchema for Tree {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tree".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}

/// Fields in the short form; none is not the same as nothing said.
pub type Fields = Option<BTreeMap<String, Leaf<Tree>>>;

impl Part for Fields {
    fn read(&mut self, path: &str, value: &Spanned<DeValue<'_>>, reader: &mut Reader) {
        self.get_or_insert_default().read(path, value, reader);
    }

    fn lay_over(&mut self, above: Self) {
        if above.is_some() {
            *self = above;
        }
    }

    fn list(&self, path: &str, entries: &mut Vec<Entry>) {
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
impl Part for Vec<Capability> {
    fn read(&mut self, path: &str, value: &Spanned<DeValue<'_>>, reader: &mut Reader) {
        let Some(list) = value.get_ref().as_array() else {
            let misread = Misread::kind("a list of tables", value.get_ref());
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

    fn list(&self, path: &str, entries: &mut Vec<Entry>) {
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
