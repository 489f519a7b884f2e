use super::super::source::FileExposure as Readers;
use super::*;

/// A manifest in a folder that has a script and a program.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tool.sh"), "cat\n").unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(folder.path().join("tool.sh"), mode).unwrap();
        Self(folder)
    }

    fn read(&self, text: &str) -> (Option<Manifest>, Vec<String>) {
        self.read_where(text, &["sh"])
    }

    /// Where programs of these names are installed.
    fn read_where(&self, text: &str, names: &[&str]) -> (Option<Manifest>, Vec<String>) {
        let file = self.0.path().join("t.toml");
        let source = SourceText::new(
            ConfigOrigin::File("t.toml".into()),
            Readers::Private,
            text.to_owned(),
        );
        let find = |name: &str| names.contains(&name).then(|| PathBuf::from("/bin/sh"));
        let ManifestRead {
            manifest, faults, ..
        } = read(&source, &file, &find);
        (manifest, faults.iter().map(Fault::line).collect())
    }
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let (manifest, faults) = Folder::new().read(text);
    assert_eq!(expected, faults, "{text}");
    assert_eq!(expected.is_empty(), manifest.is_some());
}

/// After a whole head.
#[track_caller]
fn check_capability(text: &str, expected: &[&str]) {
    let head = "name = \"t\"\nruntime = \"process\"\ncommand = \"sh\"\n[[capability]]\n";
    check(&format!("{head}{text}"), expected);
}

#[test]
fn a_manifest_says_what_runs_and_what_it_can_do() {
    let folder = Folder::new();
    let (manifest, faults) = folder.read(
        "name = \"data-tool\"\nversion = \"1.0.0\"\nruntime = \"process\"\ncommand = \"sh\"\nscript = \"tool.sh\"\n\
         args = [\"-x\"]\ncwd = \"conversation\"\nreads = [\"build-config\"]\nenv = { A = \"${B:-c}\" }\n\
         [limits]\ntimeout = \"5s\"\nprocesses = 64\n\
         [[capability]]\nname = \"echo\"\nlevel = 2\nannotations = { title = \"Echo\" }\n\
         input = { text = \"string\", times = { type = \"integer\", default = 1 }, tags = \"string[]\", note = \"string?\" }\n\
         [[capability]]\nname = \"any\"\ninput_schema = '{\"type\": \"object\"}'\n",
    );
    assert_eq!(Vec::<String>::new(), faults);
    let manifest = manifest.unwrap();
    assert_eq!(
        ("data-tool", "1.0.0", CallDirectory::Conversation),
        (
            manifest.name.as_str(),
            manifest.version.as_str(),
            manifest.cwd.clone()
        )
    );
    let reads: Vec<_> = manifest.reads.iter().map(|it| it.as_str()).collect();
    assert_eq!(["build-config"], reads[..]);
    let script = manifest.program.script.as_ref().unwrap();
    assert_eq!(
        ("cat\n", ContentDigest::of(b"cat\n")),
        (&*script.text, script.digest)
    );
    assert_eq!(5, manifest.limits.timeout.as_secs());
    assert_eq!(
        (1 << 20, Some(64)),
        (manifest.limits.output_bytes, manifest.limits.processes)
    );
    let [echo, any] = &manifest.capabilities[..] else {
        panic!("{:?}", manifest.capabilities);
    };
    assert_eq!((Access::Write, Access::Execute), (echo.level, any.level));
    let expected = serde_json::json!({
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "times": {"type": "integer", "default": 1},
            "tags": {"type": "array", "items": {"type": "string"}},
            "note": {"type": "string"},
        },
        "required": ["tags", "text"],
        "additionalProperties": false,
    });
    assert_eq!(expected, echo.input);
    assert_eq!(serde_json::json!({"type": "object"}), any.input);
    assert!(!format!("{manifest:?}").contains("${B"));
}

#[test]
fn what_holds_it_is_read_and_packages_are_not_held() {
    let head = "name = \"t\"\nruntime = \"process\"\ncommand = \"sh\"\n";
    let tail = "[[capability]]\nname = \"x\"\nlevel = 2\n";
    let folder = Folder::new();
    let (manifest, faults) = folder.read(&format!("{head}write = [\"/srv/x\"]\n{tail}"));
    assert_eq!(Vec::<String>::new(), faults);
    let manifest = manifest.unwrap();
    assert_eq!(
        (None, vec![PathBuf::from("/srv/x")]),
        (manifest.contain, manifest.write)
    );
    for (said, fault) in [
        (
            "contain = \"read\"\nwrite = [\"/srv/x\"]\n",
            "t.toml:5:9: `write` goes with `contain = \"workspace\"`, and that is \"read\"",
        ),
        (
            "contain = \"all\"\n",
            "t.toml:4:11: `contain`: expected one of read, workspace, open",
        ),
        (
            "contain = \"workspace\"\nwrite = [\"x\"]\n",
            "t.toml:5:9: `write`: expected absolute paths, or some that begin with ~/",
        ),
    ] {
        check(&format!("{head}{said}{tail}"), &[fault]);
    }
    let script = "# /// script\n# dependencies = [\"requests\"]\n# ///\n";
    std::fs::write(folder.0.path().join("tool.sh"), script).unwrap();
    let uv = "name = \"t\"\nruntime = \"python-uv-script\"\nscript = \"tool.sh\"\n";
    let (_, faults) = folder.read_where(&format!("{uv}contain = \"read\"\n{tail}"), &["uv"]);
    let refused = faults
        .iter()
        .any(|it| it.contains("it can only be \"open\""));
    assert!(refused, "{faults:?}");
}

#[test]
fn what_is_missing_is_said() {
    check(
        "",
        &[
            "t.toml: it has no `name`",
            "t.toml: it has no `runtime`: process, python-uv-script or binary",
            "t.toml: it has no [[capability]]",
        ],
    );
    check_capability("level = 1\n", &["t.toml:4:1: it has no `name`"]);
    for (runtime, missing) in [
        ("process", "command"),
        ("binary", "path"),
        ("python-uv-script", "script"),
    ] {
        check(
            &format!("name = \"t\"\nruntime = \"{runtime}\"\n[[capability]]\nname = \"a\"\n"),
            &[&format!("t.toml: it has no `{missing}`")],
        );
    }
}

#[test]
fn a_slip_has_its_line_and_what_was_meant() {
    check(
        "nmae = \"t\"\n",
        &["t.toml:1:1: unknown key `nmae`; did you mean `name`?"],
    );
    check(
        "name = \"t\"\nruntime = \"proces\"\n[[capability]]\nname = \"a\"\n",
        &[
            "t.toml:2:11: `runtime`: expected one of process, python-uv-script, binary; did you mean `process`?",
        ],
    );
    check(
        "name = \"a__b\"\nruntime = \"process\"\ncommand = \"sh\"\n[[capability]]\nname = \"a\"\n",
        &[
            "t.toml:1:8: `name`: the alias \"a__b\" is not made of letters, digits and single hyphens or underscores within",
        ],
    );
    check_capability(
        "name = \"a\"\nlevl = 1\n",
        &["t.toml:6:1: unknown key `levl`; did you mean `level`?"],
    );
    check_capability(
        "name = \"a\"\nlevel = 4\n",
        &["t.toml:6:9: `capability.1.level`: expected a number from 1 to 3"],
    );
    check_capability(
        "name = \"a\"\n[[capability]]\nname = \"a\"\n",
        &["t.toml:7:8: there are two capabilities \"a\""],
    );
    check_capability(
        "name = \"a b\"\n",
        &["t.toml:5:8: the tool name \"a b\" is empty, too long, or not printable ASCII"],
    );
}

#[test]
fn what_is_to_run_has_to_be_there() {
    let with = |head: &str| format!("name = \"t\"\n{head}\n[[capability]]\nname = \"a\"\n");
    check(
        &with("runtime = \"process\"\ncommand = \"no-such\""),
        &["t.toml:3:11: `command`: there is no program \"no-such\" in PATH"],
    );
    check(
        &with("runtime = \"process\"\ncommand = \"sh\"\npath = \"x\""),
        &["t.toml:4:8: `path` goes with the runtime \"binary\" only"],
    );
    check(
        &with("runtime = \"python-uv-script\"\nscript = \"tool.sh\""),
        &[&format!(
            "t.toml:2:11: uv is not installed, and runs scripts of this kind; {NO_UV}"
        )],
    );
    let folder = Folder::new();
    let here = folder.0.path().display();
    let (_, faults) = folder.read(&with("runtime = \"binary\"\npath = \"tool.sh\""));
    assert_eq!(
        vec![format!(
            "t.toml:3:8: `path`: {here}/tool.sh: it is not executable"
        )],
        faults
    );
    let (_, faults) = folder.read(&with(
        "runtime = \"process\"\ncommand = \"sh\"\nscript = \"gone.sh\"",
    ));
    assert!(
        faults[0].starts_with(&format!(
            "t.toml:4:10: `script`: {here}/gone.sh: cannot read it"
        )),
        "{faults:?}"
    );
}

#[test]
fn a_schema_that_cannot_be_used_is_a_fault() {
    check_capability(
        "name = \"a\"\ninput = { text = \"strng\" }\n",
        &[
            "t.toml:6:18: `capability.1.input.text`: expected one of string, integer, number, boolean, object, array, any; \
           did you mean `string`?",
        ],
    );
    check_capability(
        "name = \"a\"\ninput = {}\ninput_schema = { type = \"object\" }\n",
        &["t.toml:7:16: `input` and `input_schema` are two words for one thing"],
    );
    check_capability(
        "name = \"a\"\ninput_schema = '{'\n",
        &[
            "t.toml:6:16: `capability.1.input_schema`: EOF while parsing an object at line 1 column 1",
        ],
    );
    check_capability(
        "name = \"a\"\noutput_schema = { \"$ref\" = \"http://127.0.0.1:1/x\" }\n",
        &[
            "t.toml:6:17: `capability.1.output_schema`: http://127.0.0.1:1/x is not within the schema",
        ],
    );
    let (_, faults) = Folder::new().read(
        "name = \"t\"\nruntime = \"process\"\ncommand = \"sh\"\n[[capability]]\nname = \"a\"\ninput_schema = { type = \"strnig\" }\n",
    );
    assert!(
        faults[0].starts_with("t.toml:6:16: `capability.1.input_schema`: "),
        "{faults:?}"
    );
}

/// What is not compiled when it is read can be compiled all the same.
#[test]
fn fields_in_the_short_form_are_a_schema_whatever_their_words_are() {
    let kinds = [
        "string", "integer", "number", "boolean", "object", "array", "any",
    ];
    let mut fields = vec!["\"$ref\" = \"string\"".to_owned()];
    for kind in kinds {
        for (at, suffix) in ["", "?", "[]", "[][]?"].iter().enumerate() {
            fields.push(format!("{kind}{at} = \"{kind}{suffix}\""));
            fields.push(format!(
                "{kind}t{at} = {{ type = \"{kind}{suffix}\", default = 7, description = \"#/x\", title = \"y\", optional = true }}"
            ));
        }
    }
    let folder = Folder::new();
    let read = |fields: &str| {
        let (manifest, faults) = folder.read(&format!(
            "name = \"t\"\nruntime = \"process\"\ncommand = \"sh\"\n[[capability]]\nname = \"go\"\ninput = {{ {fields} }}\n"
        ));
        let input = manifest.map(|it| it.capabilities[0].input.clone());
        input.ok_or_else(|| faults.join("; "))
    };
    let schema = read(&fields.join(", ")).unwrap();
    assert!(Schema::new(&schema).is_ok());
    for (field, why) in [
        ("a = \"string[][][][][][][][][]\"", "at most 8 times []"),
        (
            "a = { type = \"string\", pattern = \"(\" }",
            "`capability.1.input`: value is not",
        ),
        (
            "a = { \"$ref\" = \"http://far/away\" }",
            "is not within the schema",
        ),
    ] {
        let told = read(field).unwrap_err();
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_capability_hides_nothing_and_has_a_plain_name() {
    for name in ["*", "../x", "a.b", "a/b"] {
        check_capability(
            &format!("name = \"{name}\"\n"),
            &[&format!(
                "t.toml:5:8: \"{name}\" is no name of a capability: letters and digits of ASCII, `_` and `-`"
            )],
        );
    }
    let hides = "t.toml:5:8: capability \"a\" hides characters from who reads it";
    for more in [
        "description = \"tells\\u202e all\"",
        "input_schema = '{\"type\": \"object\", \"properties\": {\"a\\u200bb\": {}}}'",
        "annotations = { title = \"A\\u001b[8m\" }",
    ] {
        check_capability(&format!("name = \"a\"\n{more}\n"), &[hides]);
    }
    check(
        "name = \"t\"\nruntime = \"process\"\ncommand = \"sh\"\ndescription = \"x\\u200b\"\n[[capability]]\nname = \"a\"\n",
        &["t.toml:4:15: the description hides characters from who reads it"],
    );
    check_capability(
        "name = \"a\"\ndescription = \"reads \u{2764}\u{fe0f}\"\n",
        &[],
    );
}
