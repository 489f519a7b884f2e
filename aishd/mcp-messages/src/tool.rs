//! A tool's definition as a server sent it, read leniently: one bad definition costs itself only.

use std::time::Duration;

use aishd_log::tool::ContentDigest;
use serde_json::{Map, Value, json};

use crate::chosen_tools::LeftOutTool;
use crate::description;
use crate::mirrored_headers::{self, MirroredArgument};
use crate::remarks::RemarkList;
use crate::task::TaskSupport;
use crate::tool_naming::safe_name;

/// Caps of one tool.
pub const MAX_TOOLS: usize = 1024;
const MAX_SCHEMA_BYTES: usize = 64 * 1024;
const MAX_SCHEMA_DEPTH: usize = 32;
const MAX_DESCRIPTION_BYTES: usize = 4 * 1024;
/// Room for the mark of a description that was cut, so that it is not cut again when it is read again.
const MARK_BYTES: usize = 32;
const MAX_ANNOTATIONS_BYTES: usize = 4 * 1024;
const MAX_TITLE_CHARS: usize = 128;

/// One tool of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTool {
    /// As the server calls it.
    pub name: String,
    /// As it is called here, behind its server's alias.
    pub called: String,
    pub title: Option<String>,
    /// At most 4 KiB, with a mark where it was cut.
    pub description: String,
    /// Every keyword as it was sent; an object that allows anything where there was none.
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    /// As sent, whatever is in it; [`ServerTool::hints`] is what can be believed to have been said.
    pub annotations: Value,
    /// Of the definition as it is kept here, and the server's identity.
    pub digest: ContentDigest,
    /// Arguments that go into headers as well.
    pub mirrored: Vec<MirroredArgument>,
    /// Whether its server may, or has to, go on with a call by itself.
    pub task_support: TaskSupport,
}

/// What the annotations say where they say it properly; anything else is nothing said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolHints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// Whether the arguments of its calls travel where headers can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderMirroring {
    Headers,
    None,
}

/// What a list of tools came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedTools {
    /// In the server's order, each name once.
    pub tools: Vec<ServerTool>,
    /// What the configuration leaves out.
    pub left_out: Vec<LeftOutTool>,
    /// What was left out because it cannot be used, and why.
    pub remarks: RemarkList,
    /// For how long it is to be believed; `None`: until the server says that it changed.
    pub holds: Option<Duration>,
}

/// Reads the entries of a list.
pub fn read(entries: &[Value], identity: &str, mirroring: HeaderMirroring) -> ListedTools {
    let mut listed = ListedTools::default();
    // Behind what is worse.
    let mut renamed = vec![];
    for entry in entries {
        if listed.tools.len() >= MAX_TOOLS {
            let more = format!("more than {MAX_TOOLS} tools; the rest is left out");
            listed.remarks.push(more);
            break;
        }
        match ServerTool::read(entry, identity, mirroring) {
            Ok((tool, _)) if listed.tools.iter().any(|it| it.called == tool.called) => {
                let twice = format!("the tool {:?} is listed twice; the first counts", tool.name);
                listed.remarks.push(twice);
            }
            Ok((tool, hidden)) => {
                if tool.called != tool.name {
                    let (name, called) = (&tool.name, &tool.called);
                    renamed.push(format!("the tool {name:?} is called {called} here"));
                }
                if hidden > 0 {
                    listed.remarks.push(format!(
                        "{hidden} characters that nobody sees were taken out of what the tool {:?} says of itself",
                        tool.name
                    ));
                }
                listed.tools.push(tool);
            }
            Err(why) => {
                let name = entry.get("name").and_then(Value::as_str);
                let name: String = name.unwrap_or("(no name)").chars().take(64).collect();
                let left_out = format!("the tool {name:?} is left out: {why}");
                listed.remarks.push(left_out);
            }
        }
    }
    renamed.into_iter().for_each(|it| listed.remarks.push(it));
    listed
}

impl ServerTool {
    /// With how many characters were taken out of it.
    fn read(
        entry: &Value,
        identity: &str,
        mirroring: HeaderMirroring,
    ) -> Result<(Self, usize), String> {
        let Value::Object(sent) = entry else {
            return Err("it is no object".to_owned());
        };
        let name = sent.get("name").and_then(Value::as_str).unwrap_or_default();
        let annotations = sent.get("annotations").cloned().unwrap_or_default();
        let called = safe_name(name)?;
        let schema = |key| sent.get(key).filter(|it| it.is_object()).cloned();
        let input_schema = schema("inputSchema").unwrap_or_else(|| json!({"type": "object"}));
        let output_schema = schema("outputSchema");
        for schema in std::iter::once(&input_schema).chain(&output_schema) {
            check_size(schema)?;
        }
        if annotations.to_string().len() > MAX_ANNOTATIONS_BYTES {
            let most = MAX_ANNOTATIONS_BYTES / 1024;
            return Err(format!("its annotations are longer than {most} KiB"));
        }
        let mirrored = match mirroring {
            HeaderMirroring::Headers => mirrored_headers::find(&input_schema)?,
            HeaderMirroring::None => vec![],
        };
        let mut tool = Self {
            name: name.to_owned(),
            called,
            title: title(sent),
            description: description(sent),
            input_schema,
            output_schema,
            annotations,
            digest: ContentDigest::of(&[]),
            mirrored,
            task_support: TaskSupport::read(entry),
        };
        let hidden = tool.clean()?;
        tool.digest = tool.digest(identity);
        Ok((tool, hidden))
    }

    /// Takes out what would be read by a model and seen by nobody; returns how much that was.
    fn clean(&mut self) -> Result<usize, String> {
        let mut count = description::clean(&mut self.description);
        count += self.title.as_mut().map_or(0, description::clean);
        count += description::clean_all(&mut self.input_schema)?;
        if let Some(schema) = &mut self.output_schema {
            count += description::clean_all(schema)?;
        }
        Ok(count + description::clean_all(&mut self.annotations)?)
    }

    /// What [`read`] reads as the same tool again.
    pub fn written(&self) -> Value {
        let mut written = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
        });
        if let Some(title) = &self.title {
            written["title"] = json!(title);
        }
        if let Some(schema) = &self.output_schema {
            written["outputSchema"] = schema.clone();
        }
        if let Some(word) = self.task_support.word() {
            written["execution"] = json!({"taskSupport": word});
        }
        written
    }

    /// Of what a person approves, as one text for one definition, whatever the order of its keys.
    fn digest(&self, identity: &str) -> ContentDigest {
        ContentDigest::of_value(&json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
            "server": identity,
        }))
    }

    pub fn hints(&self) -> ToolHints {
        let said = |name| self.annotations.get(name).and_then(Value::as_bool);
        ToolHints {
            read_only: said("readOnlyHint"),
            destructive: said("destructiveHint"),
            idempotent: said("idempotentHint"),
            open_world: said("openWorldHint"),
        }
    }
}

fn check_size(schema: &Value) -> Result<(), String> {
    let mut level: Vec<&Value> = vec![schema];
    for _ in 0..=MAX_SCHEMA_DEPTH {
        level = level.into_iter().flat_map(children).collect();
    }
    if !level.is_empty() {
        return Err(format!("its schema is deeper than {MAX_SCHEMA_DEPTH}"));
    }
    if schema.to_string().len() > MAX_SCHEMA_BYTES {
        let most = MAX_SCHEMA_BYTES / 1024;
        return Err(format!("its schema is longer than {most} KiB"));
    }
    Ok(())
}

pub(super) fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![],
    }
}

fn title(sent: &Map<String, Value>) -> Option<String> {
    let annotated = sent.get("annotations").and_then(|it| it.get("title"));
    let title = sent
        .get("title")
        .filter(|it| it.is_string())
        .or(annotated)?;
    Some(title.as_str()?.chars().take(MAX_TITLE_CHARS).collect())
}

fn description(sent: &Map<String, Value>) -> String {
    let text = sent.get("description").and_then(Value::as_str);
    let text = text.unwrap_or_default();
    if text.len() <= MAX_DESCRIPTION_BYTES {
        return text.to_owned();
    }
    let kept = text.floor_char_boundary(MAX_DESCRIPTION_BYTES - MARK_BYTES);
    format!("{} [cut: {} bytes]", &text[..kept], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(entries: &Value) -> ListedTools {
        read(
            entries.as_array().unwrap(),
            "http://127.0.0.1:1",
            HeaderMirroring::Headers,
        )
    }

    #[track_caller]
    fn check(entries: &Value, names: &[&str], remarks: &[&str]) {
        let listed = listed(entries);
        let seen: Vec<_> = listed.tools.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, seen);
        let said = listed.remarks.lines();
        assert_eq!(remarks.len(), said.len(), "{said:?}");
        for (part, remark) in remarks.iter().zip(&said) {
            assert!(remark.contains(part), "{remark}");
        }
    }

    /// Whole lists were lost to one of these.
    #[test]
    fn one_bad_definition_costs_itself_only() {
        check(
            &json!([
                {"name": "good", "inputSchema": {"type": "object"}},
                {"name": "none"},
                {"name": "null", "inputSchema": null},
                {"name": "array", "inputSchema": []},
                {"name": "hint", "annotations": {"readOnlyHint": "yes"}},
                {"name": "also", "annotations": "all of it"},
                {"name": 7}, {"description": "?"}, "text", null,
                {"name": "two words"}, {"name": ""},
                {"name": "good", "description": "again"},
                {"name": "dots.are-fine_too"},
                {"name": "*"}, {"name": "../x"}, {"name": ".."}, {"name": "a/b"}, {"name": "a*"},
                {"name": "hides", "inputSchema": {"required": ["a\u{200b}"]}},
            ]),
            &[
                "good",
                "none",
                "null",
                "array",
                "hint",
                "also",
                "two words",
                "dots.are-fine_too",
                "a/b",
            ],
            &[
                "(no name)",
                "(no name)",
                "no object",
                "no object",
                "a name has",
                "twice",
                "\"*\" is left out",
                "\"../x\" is left out",
                "\"..\" is left out",
                "\"a*\" is left out",
                "nobody sees all of its \"required\"",
                "\"two words\" is called two_words-a03f1d61 here",
                "\"dots.are-fine_too\" is called dots_are-fine_too-",
                "\"a/b\" is called a_b-",
            ],
        );
    }

    #[test]
    fn a_hint_that_is_no_boolean_says_nothing() {
        let hints = |annotations: Value| {
            let listed = listed(&json!([{"name": "a", "annotations": annotations}]));
            listed.tools[0].hints()
        };
        assert_eq!(ToolHints::default(), hints(json!("yes")));
        assert_eq!(ToolHints::default(), hints(json!({"readOnlyHint": "yes"})));
        let said = hints(json!({"readOnlyHint": true, "destructiveHint": false}));
        assert_eq!(
            (Some(true), Some(false)),
            (said.read_only, said.destructive)
        );
    }

    #[test]
    fn definitions_have_limits() {
        let mut deep = json!({});
        for _ in 0..MAX_SCHEMA_DEPTH + 1 {
            deep = json!({"properties": deep});
        }
        let wide = json!({"description": "x".repeat(MAX_SCHEMA_BYTES)});
        check(
            &json!([
                {"name": "deep", "inputSchema": deep},
                {"name": "wide", "inputSchema": wide},
                {"name": "out", "outputSchema": wide},
                {"name": "fits"}
            ]),
            &["fits"],
            &["deeper than 32", "longer than 64 KiB", "longer than 64 KiB"],
        );
        let told = "é".repeat(MAX_DESCRIPTION_BYTES);
        let listed = listed(&json!([{"name": "told", "description": told}]));
        let description = &listed.tools[0].description;
        assert!(
            description.ends_with("é [cut: 8192 bytes]"),
            "{description}"
        );
        let many: Vec<Value> = (0..MAX_TOOLS + 5)
            .map(|it| json!({"name": format!("t{it}")}))
            .collect();
        let listed = read(&many, "", HeaderMirroring::None);
        assert_eq!(MAX_TOOLS, listed.tools.len());
        assert!(listed.remarks.lines()[0].contains("more than 1024"));
    }

    #[test]
    fn what_nobody_sees_is_taken_out_before_a_model_reads_it() {
        let listed = listed(&json!([
            {"name": "plain", "description": "reads\na file"},
            {
                "name": "odd",
                "title": "O\u{200b}dd",
                "description": "reads\u{202e} a\u{1b}[8m file\u{e0041}\u{e0042}",
                "inputSchema": {"type": "object", "properties": {
                    "description": {"type": "string", "description": "a \u{2066}path", "enum": ["❤\u{fe0f}"]},
                }},
            },
        ]));
        let [plain, odd] = &listed.tools[..] else {
            panic!("{listed:?}");
        };
        assert_eq!("reads\na file", plain.description);
        assert_eq!("reads a[8m file", odd.description);
        assert_eq!(Some("Odd"), odd.title.as_deref());
        let path = &odd.input_schema["properties"]["description"];
        assert_eq!(
            ("a path", "❤\u{fe0f}"),
            (
                path["description"].as_str().unwrap(),
                path["enum"][0].as_str().unwrap()
            )
        );
        assert_eq!(
            vec![
                "6 characters that nobody sees were taken out of what the tool \"odd\" says of itself"
            ],
            listed.remarks.lines()
        );
        let again = read(
            &[odd.written()],
            "http://127.0.0.1:1",
            HeaderMirroring::Headers,
        );
        assert_eq!((*odd).clone(), again.tools[0]);
    }

    /// A list in which everything is wrong is told of in a few lines, and no text of a server swells the store.
    #[test]
    fn neither_remarks_nor_definitions_grow_without_end() {
        let bad: Vec<Value> = (0..2000)
            .map(|it| json!({"name": format!("t*{it}")}))
            .collect();
        let said = read(&bad, "", HeaderMirroring::None).remarks.lines();
        assert_eq!((33, "and 1968 more"), (said.len(), said[32].as_str()));
        check(
            &json!([
                {"name": "hints", "annotations": {"x": "y".repeat(MAX_ANNOTATIONS_BYTES)}},
                {"name": "fits", "_meta": {"x": "y".repeat(MAX_SCHEMA_BYTES)}},
            ]),
            &["fits"],
            &["its annotations are longer than 4 KiB"],
        );
    }

    #[test]
    fn what_is_kept_of_a_tool_is_read_as_the_same_tool_and_is_no_longer_than_that() {
        for definition in [
            json!({"name": "a"}),
            json!({"name": "a", "annotations": {"title": "A", "readOnlyHint": true}, "inputSchema": null}),
            json!({"name": "a", "title": "A", "outputSchema": {"type": "object"}, "_meta": {"x": "y".repeat(9000)}}),
            json!({"name": "a", "execution": {"taskSupport": "required"}}),
            json!({"name": "a", "description": "é".repeat(MAX_DESCRIPTION_BYTES)}),
        ] {
            let first = listed(&json!([definition])).tools;
            let written = first[0].written();
            assert!(written.to_string().len() < MAX_DESCRIPTION_BYTES + 200);
            assert_eq!(first, listed(&json!([written])).tools);
        }
    }

    #[test]
    fn the_digest_is_of_all_that_a_person_approves() {
        let digest = |definition: Value, identity: &str| {
            let listed = read(&[definition], identity, HeaderMirroring::None);
            listed.tools[0].digest
        };
        let tool = json!({"name": "a", "description": "b", "inputSchema": {"x": 1, "y": 2}});
        let first = digest(tool.clone(), "one");
        let order = json!({"inputSchema": {"y": 2, "x": 1}, "description": "b", "name": "a"});
        assert_eq!(first, digest(order, "one"));
        assert_ne!(first, digest(tool.clone(), "two"));
        for (key, value) in [
            ("description", json!("c")),
            ("inputSchema", json!({"x": 1})),
            ("annotations", json!({})),
        ] {
            let mut other = tool.clone();
            other[key] = value;
            assert_ne!(first, digest(other, "one"), "{key}");
        }
        let mut same = tool;
        same["icons"] = json!([]);
        assert_eq!(first, digest(same, "one"));
    }

    /// All keywords are kept, nothing is fetched.
    #[test]
    fn schemas_are_kept_as_they_are() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": "https://example.test/never-fetched",
            "$defs": {"a": {"$anchor": "b", "unevaluatedProperties": false}},
            "type": "object",
        });
        let listed = listed(&json!([{"name": "a", "inputSchema": schema}]));
        assert_eq!(schema, listed.tools[0].input_schema);
    }
}
