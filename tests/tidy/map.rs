//! The pages that say where things are: what they name is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aish_testkit::repository;

use crate::none;

/// Names of types, of their members and of functions in the pages, and of files as `PACKAGE/FILE` or `aishctl/FILE`.
#[test]
fn the_pages_of_the_architecture_name_what_is_there() {
    let files: BTreeSet<PathBuf> = repository::files().into_iter().collect();
    let sources: Vec<String> = ["aish-proto", "aishctl", "aishd", "tests"]
        .iter()
        .flat_map(|it| repository::rust_files(it))
        .map(|it| repository::text(&it).unwrap())
        .collect();
    let definitions: Vec<Definitions<'_>> = sources.iter().map(|it| Definitions::of(it)).collect();
    let defined: BTreeSet<&str> = sources.iter().flat_map(|it| words(it)).collect();
    let methods = methods();
    let mut wrong = vec![];
    for page in pages(&files) {
        let text = repository::text(&page).unwrap();
        // The others speak of much that is not ours.
        let is_map = ["ARCHITECTURE.md", "CONTRIBUTING.md"]
            .iter()
            .any(|it| page.ends_with(it))
            || page.starts_with("docs/design");
        for name in text.split('`').skip(1).step_by(2) {
            let is_there = if name.contains('/') {
                methods.contains(name) || is_file(name, &files)
            } else if let Some((owner, member)) = name.split_once("::")
                && owner.starts_with(char::is_uppercase)
            {
                let member = words(member).next().unwrap_or_default();
                definitions
                    .iter()
                    .any(|it| it.owners.contains(owner) && it.members.contains(member))
            } else if name.contains("::") || is_map && name.starts_with(char::is_uppercase) {
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
    let pages = [
        "ARCHITECTURE",
        "CONTRIBUTING",
        "SECURITY",
        "SHELL",
        "TESTING",
        "TOOLS",
    ];
    let mut pages: Vec<PathBuf> = pages
        .iter()
        .map(|it| PathBuf::from(format!("docs/{it}.md")))
        .collect();
    pages.extend(
        files
            .iter()
            .filter(|it| it.starts_with("docs/design"))
            .cloned(),
    );
    assert!(pages.len() > 7, "{pages:?}");
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

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.filter(|it| !it.is_empty())
}

/// What a file defines: types or an `impl` of them, and functions, fields or variants.
struct Definitions<'a> {
    owners: BTreeSet<&'a str>,
    members: BTreeSet<&'a str>,
}

impl<'a> Definitions<'a> {
    fn of(source: &'a str) -> Self {
        const BEGIN: [&str; 5] = ["impl", "enum", "struct", "trait", "type"];
        const VISIBILITY: [&str; 3] = ["pub", "crate", "super"];
        let (mut owners, mut members) = (BTreeSet::new(), BTreeSet::new());
        for line in source.lines() {
            let words: Vec<&str> = words(line).collect();
            if words.iter().any(|it| BEGIN.contains(it)) {
                owners.extend(words.iter().copied());
            }
            let functions = words.iter().zip(words.iter().skip(1));
            members.extend(functions.filter(|it| *it.0 == "fn").map(|it| *it.1));
            let mut named = words.iter().skip_while(|it| VISIBILITY.contains(it));
            members.extend(named.next().copied());
        }
        Self { owners, members }
    }
}

fn is_name(word: &str) -> bool {
    word.chars().all(|it| it.is_alphanumeric() || it == '_')
}

/// Whether the path is there, as it is written or within a package.
fn is_file(name: &str, files: &BTreeSet<PathBuf>) -> bool {
    let path = name.split("::").next().unwrap().trim_end_matches('/');
    // `GROUP` stands for any; addresses and drawings are no paths, and others are of the machine of whoever reads.
    let is_elsewhere = name.starts_with(['/', '~', '.', '$', '@']) && !name.starts_with(".ci/");
    let is_no_path =
        name.contains("://") || name.contains(|it: char| it.is_whitespace() || it == '=');
    if path.contains("GROUP") || is_no_path || is_elsewhere {
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
