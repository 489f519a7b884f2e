//! Files of a package that use one another in a circle: nobody can read one of them without all the others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use aish_testkit::repository;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseTree, VisRestricted};

/// A module by its path within its package.
type ModulePath = Vec<String>;

/// The largest circle of each package that has one. Files of tests and code for tests are left out.
pub(crate) fn largest<'a>(
    files: impl Iterator<Item = &'a PathBuf>,
) -> BTreeMap<String, Vec<String>> {
    let mut packages: BTreeMap<String, BTreeMap<ModulePath, Vec<ModulePath>>> = BTreeMap::new();
    for file in files {
        let Some((package, module)) = place(file) else {
            continue;
        };
        let text = repository::text(file).unwrap();
        let mut names = Names::default();
        names.visit_file(&syn::parse_file(&text).unwrap());
        let used = names.found.iter().filter_map(|it| absolute(&module, it));
        let used = used.collect();
        packages.entry(package).or_default().insert(module, used);
    }
    let largest = packages.into_iter().map(|(package, used)| {
        let graph = edges(&used);
        let circles = graph.keys().map(|it| circle(&graph, it));
        let largest = circles.max_by_key(Vec::len).unwrap_or_default();
        (package, largest.iter().map(|it| it.join("::")).collect())
    });
    largest
        .filter(|(_, circle): &(String, Vec<String>)| circle.len() > 1)
        .collect()
}

/// The package of a file and its module. `None`: it is a program of its own.
fn place(file: &Path) -> Option<(String, ModulePath)> {
    let text = file.to_string_lossy().replace(".rs", "");
    let (package, path) = text.split_once("/src/")?;
    let mut path: ModulePath = path.split('/').map(str::to_owned).collect();
    if path[0] == "bin" {
        return None;
    }
    path.pop_if(|it| ["mod", "lib", "main"].contains(&it.as_str()));
    Some((package.to_owned(), path))
}

/// A name as its package knows it, where it is one of the package.
fn absolute(module: &[String], name: &[String]) -> Option<ModulePath> {
    let mut base = match name.first()?.as_str() {
        "crate" => vec![],
        "self" | "super" => module.to_vec(),
        _ => return None,
    };
    for part in name {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => drop(base.pop()),
            other => base.push(other.to_owned()),
        }
    }
    Some(base)
}

/// Which files use which: a name belongs to the file with the longest path that it begins with.
fn edges(
    used: &BTreeMap<ModulePath, Vec<ModulePath>>,
) -> BTreeMap<&ModulePath, BTreeSet<&ModulePath>> {
    let file_of = |name: &ModulePath| {
        let mut lengths = (1..=name.len()).rev();
        lengths
            .find_map(|it| used.get_key_value(&name[..it]))
            .map(|(file, _)| file)
    };
    let edges = used.iter().map(|(module, names)| {
        let files = names.iter().filter_map(file_of);
        (module, files.filter(|it| *it != module).collect())
    });
    edges.collect()
}

/// The files that this one uses and that use this one, by whatever way.
fn circle<'a>(
    graph: &BTreeMap<&'a ModulePath, BTreeSet<&'a ModulePath>>,
    of: &'a ModulePath,
) -> Vec<&'a ModulePath> {
    let reached = |from: &'a ModulePath| {
        let mut found = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            next.extend(graph[module].iter().filter(|it| found.insert(**it)));
        }
        found
    };
    let inside = reached(of).into_iter();
    inside.filter(|it| reached(it).contains(of)).collect()
}

/// The names that a file uses, as they are written.
#[derive(Default)]
struct Names {
    found: Vec<Vec<String>>,
}

impl Names {
    fn tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            path.push(name.to_string());
            path
        };
        match tree {
            UseTree::Path(path) => self.tree(&path.tree, &with(&path.ident)),
            UseTree::Name(name) => self.found.push(with(&name.ident)),
            UseTree::Rename(name) => self.found.push(with(&name.ident)),
            UseTree::Glob(_) => self.found.push(before.to_vec()),
            UseTree::Group(group) => group.items.iter().for_each(|it| self.tree(it, before)),
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.tree(&item.tree, &[]);
    }

    /// Who may see something is no use of it.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|it| it.ident.to_string());
        self.found.push(names.collect());
        visit::visit_path(self, path);
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    let list = attribute.meta.require_list();
    attribute.path().is_ident("cfg") && list.is_ok_and(|it| it.tokens.to_string() == "test")
}
