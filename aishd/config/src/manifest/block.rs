//! What a Python script says at its head that it needs (PEP 723): a block of comments that holds TOML.

use aishd_rules::registry::ScriptNeeds;

const BEGIN: &str = "# /// script";
const END: &str = "# ///";
/// Of what a person is shown before it is fetched.
const MOST_SHOWN_BYTES: usize = 16 << 10;

/// What the block says; nothing when there is none. What uv could read in another way than we do is refused.
pub(super) fn read(script: &str) -> Result<ScriptNeeds, String> {
    let mut lines = script.lines().map(str::trim_end);
    let found = lines.by_ref().any(|it| it == BEGIN);
    if script.matches(BEGIN).count() != usize::from(found) {
        return Err(format!(
            "`{BEGIN}` stands in it where it begins no block, or more than once"
        ));
    }
    if !found {
        return Ok(ScriptNeeds::default());
    }
    let mut held = String::new();
    let mut closed = false;
    for line in lines {
        if line == END {
            closed = true;
            break;
        }
        let Some(inner) = line.strip_prefix('#') else {
            break;
        };
        held.push_str(inner.strip_prefix(' ').unwrap_or(inner));
        held.push('\n');
    }
    if !closed {
        return Err("its block `# /// script` has no end `# ///`".to_owned());
    }
    let table: toml::Table = held.parse().map_err(|error: toml::de::Error| {
        format!("its block `# /// script`: {}", error.message())
    })?;
    let text = |it: &toml::Value| it.as_str().map(str::to_owned);
    let dependencies = match table.get("dependencies") {
        None => vec![],
        Some(list) => {
            let list = list.as_array().map(|it| it.iter().map(text).collect());
            let list: Option<Vec<String>> = list.unwrap_or_default();
            list.ok_or("its `dependencies` are no list of texts")?
        }
    };
    let settings = table.get("tool").and_then(|it| it.get("uv"));
    if let Some(from) = changeable(&dependencies, settings) {
        return Err(format!(
            "{from} is a package from a directory, which may change after it was allowed"
        ));
    }
    let settings = settings.map(|it| serde_json::to_string(it).unwrap_or_else(|_| it.to_string()));
    let shown = dependencies.iter().chain(&settings);
    if shown.map(String::len).sum::<usize>() > MOST_SHOWN_BYTES {
        return Err(format!(
            "its packages, with what it says to uv, are more than {MOST_SHOWN_BYTES} bytes"
        ));
    }
    Ok(ScriptNeeds {
        dependencies,
        python: table.get("requires-python").and_then(text),
        settings,
    })
}

/// What is fetched is settled once, by a lock; what lies in a directory is built from what is there at each run.
fn changeable(dependencies: &[String], settings: Option<&toml::Value>) -> Option<String> {
    let is_local = |it: &&String| {
        let from = it.split_once('@').map_or("", |(_, from)| from.trim());
        from.starts_with(['/', '.', '~']) || from.starts_with("file:")
    };
    if let Some(found) = dependencies.iter().find(is_local) {
        return Some(found.clone());
    }
    let sources = settings?.get("sources")?.as_table()?;
    let is_local = |source: &toml::Value| {
        let keys = ["path", "editable", "workspace"];
        keys.iter().any(|it| source.get(it).is_some())
            || source
                .get("url")
                .and_then(toml::Value::as_str)
                .is_some_and(|it| it.starts_with("file:"))
    };
    let found = sources.iter().find(|(_, source)| {
        let several = source.as_array();
        several.map_or_else(|| is_local(source), |it| it.iter().any(is_local))
    });
    found.map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(script: &str, expected: Result<(&[&str], Option<&str>), &str>) {
        let seen = read(script);
        let seen = seen.as_ref().map(|it| {
            let dependencies: Vec<&str> = it.dependencies.iter().map(String::as_str).collect();
            (dependencies, it.python.as_deref())
        });
        let expected = expected.map(|(dependencies, python)| (dependencies.to_vec(), python));
        assert_eq!(
            expected.map_err(str::to_owned).as_ref(),
            seen.map_err(Clone::clone).as_ref()
        );
    }

    /// What is fetched is what is shown, wherever it comes from.
    #[test]
    fn where_packages_come_from_is_part_of_what_is_shown() {
        let of = |block: &str| read(&format!("# /// script\n{block}# ///\n")).unwrap();
        let sources = "# [tool.uv.sources]\n# rich = { url = \"https://example.org/rich.whl\" }\n";
        let needs = of(&format!("# dependencies = [\"rich\"]\n{sources}"));
        assert_eq!(
            [
                "rich",
                r#"as [tool.uv] says: {"sources":{"rich":{"url":"https://example.org/rich.whl"}}}"#
            ],
            needs.packages()[..]
        );
        assert!(of(sources).packages().is_empty());
        let long = format!(
            "# /// script\n# dependencies = [\"{}\"]\n# ///\n",
            "x".repeat(MOST_SHOWN_BYTES + 1)
        );
        assert!(read(&long).is_err());
    }

    /// uv ends a line where we do not, and would find what nobody was shown.
    #[test]
    fn a_block_that_others_read_otherwise_is_refused() {
        let why = "`# /// script` stands in it where it begins no block, or more than once";
        for script in [
            "#\r# /// script\n# dependencies = [\"evil\"]\n# ///\n",
            "x = '# /// script'\n",
            "# /// script\n# ///\n\n# /// script\n# dependencies = [\"evil\"]\n# ///\n",
            "  # /// script\n# ///\n",
        ] {
            check(script, Err(why));
        }
        assert!(
            read("# /// script\n# dependencies = []\r# dependencies = [\"evil\"]\n# ///\n")
                .is_err()
        );
    }

    #[test]
    fn a_package_that_may_change_is_refused() {
        let of = |block: &str| read(&format!("# /// script\n{block}# ///\n"));
        for block in [
            "# dependencies = [\"a @ file:///a\"]\n",
            "# dependencies = [\"a@/a\"]\n",
            "# dependencies = [\"a\"]\n# [tool.uv.sources]\n# a = { path = \"/a\", editable = true }\n",
            "# [tool.uv.sources]\n# a = [{ path = \"a\" }]\n",
            "# [tool.uv.sources]\n# a = { workspace = true }\n",
            "# [tool.uv.sources]\n# a = { url = \"file:///a.whl\" }\n",
        ] {
            let why = of(block).unwrap_err();
            assert!(why.contains("from a directory"), "{block} {why}");
        }
        of("# dependencies = [\"a @ https://example.org/a.whl\"]\n").unwrap();
    }

    #[test]
    fn a_script_says_what_it_needs() {
        check("print(1)\n", Ok((&[], None)));
        check(
            "#!/usr/bin/python3\n# /// script\n# requires-python = \">=3.9\"\n# dependencies = [\n#   \"rich==14.0\",\n#   \"idna\",\n# ]\n# ///\nprint(1)\n",
            Ok((&["rich==14.0", "idna"], Some(">=3.9"))),
        );
        check("# /// script\n#\n# ///\n", Ok((&[], None)));
        check(
            "# /// script\n# dependencies = []\nprint(1)\n",
            Err("its block `# /// script` has no end `# ///`"),
        );
        check(
            "# /// script\n# dependencies = [1]\n# ///\n",
            Err("its `dependencies` are no list of texts"),
        );
    }
}
