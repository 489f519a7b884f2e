//! The fields of every method, event and type as tables for people, made from the schema.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The page, of the document that `protocol.schema.json` is.
pub(crate) fn page(schema: &Value) -> String {
    let mut page = String::from(
        "# The protocol, field by field\n\nMade from the types; the rules and the exchanges are in [PROTOCOL.md](PROTOCOL.md). A field in **bold** is always there.\n\n## Methods\n",
    );
    for (name, method) in members(&schema["methods"]) {
        let role = method["role"].as_str().unwrap_or_default();
        let (params, result) = (shown(&method["params"]), shown(&method["result"]));
        let order = if method["ordered"] == true {
            "ordered"
        } else {
            "unordered"
        };
        let about = one_line(method["description"].as_str().unwrap_or_default());
        let _never_fails = write!(
            page,
            "\n- `{name}` ({role}, {order}): {params} → {result}. {about}"
        );
    }
    page.push_str("\n\n## Events\n");
    for (name, event) in members(&schema["events"]) {
        let stored = if event["stored"] == true {
            "stored"
        } else {
            "ephemeral"
        };
        let _never_fails = write!(page, "\n- `{name}` ({stored}): {}", shown(&event["data"]));
    }
    page.push_str("\n\n## Types\n");
    for (name, definition) in members(&schema["$defs"]) {
        let _never_fails = write!(page, "\n### {name}\n\n{}", described(definition));
    }
    page
}

fn members(of: &Value) -> impl Iterator<Item = (&String, &Value)> {
    of.as_object().into_iter().flatten()
}

/// What a definition says of itself, and its fields or values.
fn described(definition: &Value) -> String {
    let mut text = String::new();
    if let Some(said) = definition["description"].as_str() {
        let _never_fails = write!(text, "{}\n\n", one_line(said));
    }
    let choices = definition["oneOf"]
        .as_array()
        .or(definition["anyOf"].as_array());
    for choice in choices.into_iter().flatten() {
        text.push_str(&choice_line(choice));
    }
    if choices.is_some() {
        text.push('\n');
    }
    match definition["properties"].as_object() {
        Some(fields) => text.push_str(&table(fields, &definition["required"])),
        None if choices.is_none() => {
            let _never_fails = writeln!(text, "{}", shown_without_words(definition));
        }
        None => {}
    }
    text
}

/// One of several forms: a value, or an object that a tag tells from the others.
fn choice_line(choice: &Value) -> String {
    let tag =
        members(&choice["properties"]).find_map(|(name, it)| Some((name, it["const"].as_str()?)));
    let said = choice["description"].as_str();
    let said = said.map_or(String::new(), |it| format!(": {}", one_line(it)));
    match tag {
        Some((tag, value)) => {
            let others = members(&choice["properties"]).filter(|(name, _)| *name != tag);
            let fields = others.map(|(name, it)| format!("`{name}` {}", shown(it)));
            let of = choice["$ref"].as_str().map(link);
            let fields: Vec<String> = of.into_iter().chain(fields).collect();
            format!("- `{tag}` `{value}`{said} {}\n", fields.join(", "))
        }
        None => format!("- {}{said}\n", shown_without_words(choice)),
    }
}

fn table(fields: &Map<String, Value>, required: &Value) -> String {
    let mut text = String::from("| field | type | |\n| --- | --- | --- |\n");
    for (name, field) in fields {
        let is_required = required
            .as_array()
            .is_some_and(|it| it.contains(&name.as_str().into()));
        let name = if is_required {
            format!("**`{name}`**")
        } else {
            format!("`{name}`")
        };
        let said = one_line(field["description"].as_str().unwrap_or_default());
        let _never_fails = writeln!(text, "| {name} | {} | {said} |", shown(field));
    }
    text
}

/// A type in a few words.
fn shown(schema: &Value) -> String {
    shown_without_words(schema).replace('|', "\\|")
}

fn shown_without_words(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return link(name);
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|it| format!("`{it}`")).collect();
        return values.join(", ");
    }
    if let Some(several) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let several: Vec<String> = several.iter().map(shown_without_words).collect();
        return several.join(" or ");
    }
    if let Some(item) = schema.get("items") {
        return format!("list of {}", shown_without_words(item));
    }
    if let Some(values) = schema
        .get("additionalProperties")
        .filter(|it| it.is_object())
    {
        return format!("object of {}", shown_without_words(values));
    }
    match &schema["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            let several: Vec<&str> = several.iter().filter_map(Value::as_str).collect();
            several.join(" or ")
        }
        _ => "any JSON".to_owned(),
    }
}

fn link(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or_default();
    format!("[{name}](#{})", name.to_lowercase())
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
