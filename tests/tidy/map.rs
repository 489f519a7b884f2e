//! The pages that say where things are: what they name is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aish_testkit::repository;

use crate::none;

/// Names of types and functions of the pages, and of files as `PACKAGE/FILE` or `aishctl/FILE`.
#[test]
fn the_pages_of_the_architecture_name_what_is_there() {
    let files: BTreeSet<PathBuf> = repository::files().into_iter().collect();
    let sources: Vec<String> = ["aish-proto", "aishctl", "aishd"]
        .iter()
        .flat_map(|it| repository::rust_files(it))
        .map(|it| repository::text(&it).unwrap())
        .collect();
    let defined: BTreeSet<&str> = sources
        .iter()
        .flat_map(|it| it.split(|c: char| !(c.is_alphanumeric() || c == '_')))
        .collect();
    let methods = methods();
    let mut wrong = vec![];
    for page in pages(&files) {
        let text = repository::text(&page).unwrap();
        for name in text.split('`').skip(1).step_by(2) {
            let is_there = if name.contains('/') {
                methods.contains(name) || is_file(name, &files)
            } else if name.starts_with(char::is_uppercase) || name.contains("::") {
                name.split("::")
                    .all(|it| defined.contains(it) || !is_name(it))
            } else {
                true
            };
            if !is_there {
                wrong.push(format!("{}: `{name}`", page.display()));
            }
        }
    }
    none(&wrong, "say what it is called and where it is now");
}

fn pages(files: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut pages = vec![PathBuf::from("docs/ARCHITECTURE.md")];
    pages.extend(
        files
            .iter()
            .filter(|it| it.starts_with("docs/design"))
            .cloned(),
    );
    assert!(pages.len() > 3, "{pages:?}");
    pages
}

/// Methods of the wire, and of MCP, which look like paths.
fn methods() -> BTreeSet<String> {
    let text = repository::text(Path::new("docs/protocol.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    let methods = schema["methods"].as_object().unwrap();
    let of_mcp = ["server/discover", "tools/list"];
    methods
        .keys()
        .cloned()
        .chain(of_mcp.map(str::to_owned))
        .collect()
}

fn is_name(word: &str) -> bool {
    word.chars().all(|it| it.is_alphanumeric() || it == '_')
}

/// Whether the path is there, as it is written or within a package.
fn is_file(name: &str, files: &BTreeSet<PathBuf>) -> bool {
    let path = name.split("::").next().unwrap().trim_end_matches('/');
    // `GROUP` stands for any; addresses and drawings are no paths.
    if path.contains("GROUP") || name.contains("://") || name.contains(char::is_whitespace) {
        return true;
    }
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let inside = match first {
        "aishctl" | "aishd" | "aish-proto" => format!("{first}/src/{rest}"),
        _ => format!("aishd/{first}/src/{rest}"),
    };
    [path, &inside].iter().any(|it| {
        files.contains(Path::new(it))
            || files.contains(Path::new(&format!("{it}.rs")))
            || files.iter().any(|file| file.starts_with(it))
    })
}
