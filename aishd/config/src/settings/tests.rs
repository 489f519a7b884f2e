//! What a configuration comes to, and each thing that can be wrong with it: `tests/data/config/NAME.toml`, and in
//! `NAME.txt` exactly what people are shown. `UPDATE_EXPECT=1` writes the latter.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use aish_testkit::{repository, surroundings};
use aishd_model::preset::Timeouts;

use super::super::layers::{BaseLayers, ConfigLayer, LayerPaths};
use super::super::source::{ConfigOrigin, FileExposure};
use super::super::table_reader::KeyKind as _;
use super::super::{fault_picture, project, redaction, schema};
use super::*;

mod presets;
mod servers;

fn nothing_is_set(_name: &str) -> bool {
    false
}

fn layers(user: &str, access: FileExposure) -> BaseLayers {
    let source = super::super::source::SourceText::new(
        ConfigOrigin::File("config.toml".into()),
        access,
        user.to_owned(),
    );
    BaseLayers::read_with(&LayerPaths::default(), source)
}

fn read(user: &str) -> Result<Settings, Vec<String>> {
    let layers = layers(user, FileExposure::Readable(0o644));
    let (settings, faults) = Settings::of(&layers.merged(), &nothing_is_set);
    let all = layers.faults.iter().chain(&faults);
    let errors: Vec<String> = all.filter(|it| it.is_error()).map(Fault::line).collect();
    if errors.is_empty() {
        Ok(settings.unwrap())
    } else {
        Err(errors)
    }
}

const USER: &str = "[models.cloud]\nendpoint = \"https://cloud.test\"\nmodel = \"m\"\nkey_env = \"CLOUD_KEY\"\n\
    [models.headed]\nendpoint = \"https://headed.test\"\nmodel = \"m\"\nheaders = { Authorization = \"Bearer x\" }\n\
    [models.plain]\nendpoint = \"http://127.0.0.1:1\"\nmodel = \"m\"\n";

/// All faults of a golden file, as people see them.
fn faults_of(name: &str, text: &str) -> Vec<Fault> {
    if name.starts_with("project-") {
        let layers = layers(USER, FileExposure::Readable(0o644));
        let source = super::super::source::SourceText::new(
            ConfigOrigin::Project(".aish/config.toml".into()),
            FileExposure::Readable(0o644),
            text.to_owned(),
        );
        return project::models(&layers, &ConfigLayer::read(source), &nothing_is_set).1;
    }
    let access = if name.starts_with("readable-") {
        FileExposure::Readable(0o640)
    } else {
        FileExposure::Private
    };
    let layers = layers(text, access);
    let mut faults = layers.faults.clone();
    faults.extend(Settings::of(&layers.merged(), &nothing_is_set).1);
    faults
}

fn golden() -> Vec<(String, PathBuf)> {
    let folder = repository::top().join("tests/data/config");
    let mut found: Vec<(String, PathBuf)> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "toml"))
        .map(|it| (it.file_stem().unwrap().to_str().unwrap().to_owned(), it))
        .collect();
    found.sort();
    found
}

#[test]
fn each_fault_is_shown_as_it_is_written_down() {
    let mut wrong = vec![];
    for (name, path) in golden() {
        let text = fs::read_to_string(&path).unwrap();
        let shown = fault_picture::pictures(&faults_of(&name, &text));
        assert!(!shown.contains("sk-"), "{name} shows a key:\n{shown}");
        let harmless = |it: char| it == '\n' || !it.is_control();
        assert!(shown.chars().all(harmless), "{name} drives a terminal");
        let expected = path.with_extension("txt");
        if surroundings::updating() {
            fs::write(expected, shown).unwrap();
        } else if fs::read_to_string(expected).unwrap_or_default() != shown {
            wrong.push(format!("{name}:\n{shown}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "not as in tests/data/config:\n{}",
        wrong.join("\n")
    );
}

/// An independent validator rejects what the daemon rejects, as far as a schema can say it.
#[test]
fn the_schema_agrees_with_the_reading() {
    let schema = schema::document();
    jsonschema::meta::validate(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let valid = |text: &str| {
        let tree: serde_json::Value = toml::from_str(text).unwrap();
        validator.is_valid(&tree)
    };
    assert!(valid(super::super::keys::DEFAULTS));
    assert!(valid(EXAMPLE) && valid(&all_of_the_example()) && valid(USER));
    let mut rejected = 0;
    for (name, path) in golden() {
        let text = fs::read_to_string(&path).unwrap();
        if toml::from_str::<toml::Table>(&text).is_err() {
            continue;
        }
        // These are wrong by what they mean, or are wrong elsewhere than in the file.
        let by_meaning = name.contains("meaning-")
            || (name.starts_with("project-") && name != "project-meaning")
            || name.starts_with("readable-")
            || name.starts_with("warning-");
        assert_eq!(by_meaning, valid(&text), "{name}");
        rejected += usize::from(!by_meaning);
    }
    assert!(rejected >= 8, "only {rejected}");
}

#[test]
fn the_committed_schema_is_that_of_the_keys() {
    let path = repository::top().join("config/aish.schema.json");
    let real = schema::text();
    if surroundings::updating() {
        fs::write(path, real).unwrap();
        return;
    }
    let fix = "UPDATE_EXPECT=1 cargo test -p aishd-config, and read the difference";
    assert!(
        fs::read_to_string(path).unwrap() == real,
        "config/aish.schema.json is old: {fix}"
    );
    assert!(!real.contains("null"), "there is no null in TOML");
}

#[test]
fn the_default_is_never_a_model_that_may_cost() {
    let paid = "[models.cloud]\nendpoint=\"https://x.test\"\nmodel=\"m\"\nkey_env=\"K\"\n";
    assert_eq!(None, read(paid).unwrap().models.default);
    let both = format!("{paid}[models.local]\nendpoint=\"http://127.0.0.1:9\"\nmodel=\"m\"\n");
    assert_eq!(
        Some("local".to_owned()),
        read(&both).unwrap().models.default
    );
    let named = format!("default_model=\"cloud\"\n{both}");
    assert_eq!(
        Some("cloud".to_owned()),
        read(&named).unwrap().models.default
    );
}

/// Layers over each other: what counts, and who has said it.
#[test]
fn every_value_knows_where_it_was_said() {
    let world = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = world.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let place = LayerPaths {
        machine: vec![
            file(
                "far.toml",
                "[limits]\nmax_clients = 1\nclient_stall = \"1s\"\n[ui]\ntheme = \"far\"\n",
            ),
            file(
                "near.toml",
                "[limits]\nmax_clients = 2\n[logging]\nlevel = \"warn\"\n",
            ),
        ],
        user: Some(file(
            "user.toml",
            "# mine\n[limits]\nmax_clients = 3\n[logging]\nlevel = \"debug\"\nformat = \"json\"\n",
        )),
        log: Some("aishd=trace".to_owned()),
        assignments: vec!["ui.theme=plain".to_owned(), "ui.keymap = 'vi'".to_owned()],
        ..LayerPaths::default()
    };
    let layers = BaseLayers::read(&place);
    let (settings, faults) = Settings::of(&layers.merged(), &nothing_is_set);
    let none: Vec<String> = layers
        .faults
        .iter()
        .chain(&faults)
        .map(Fault::line)
        .collect();
    assert_eq!(Vec::<String>::new(), none);
    let entries = settings.unwrap().entries;
    let found = |key: &str| {
        let entry = entries.iter().find(|it| it.key == key).unwrap();
        let origin = entry
            .place
            .origin()
            .replace(world.path().to_str().unwrap(), "");
        format!("{} {origin}", entry.value.display())
    };
    for (key, expected) in [
        ("limits.max_clients", "3 /user.toml:3"),
        ("limits.client_stall", "\"1s\" /far.toml:3"),
        ("limits.max_queue_per_conversation", "16 default"),
        ("logging.level", "\"aishd=trace\" AISH_LOG"),
        ("logging.format", "\"json\" /user.toml:6"),
        ("ui.theme", "\"plain\" -c"),
        ("ui.keymap", "\"vi\" -c"),
        ("ui.color", "\"auto\" default"),
    ] {
        assert_eq!(expected, found(key), "{key}");
    }
}

#[test]
fn what_is_wrong_outside_of_files_is_told_too() {
    #[track_caller]
    fn check(place: &LayerPaths, expected: &[&str]) {
        let layers = BaseLayers::read(place);
        let (_, meaning) = Settings::of(&layers.merged(), &nothing_is_set);
        let all: Vec<String> = layers
            .faults
            .iter()
            .chain(&meaning)
            .map(Fault::line)
            .collect();
        assert_eq!(expected, all);
    }
    let assigned = |text: &str| LayerPaths {
        assignments: vec![text.to_owned()],
        ..LayerPaths::default()
    };
    check(
        &assigned("ui.theem=x"),
        &["-c:1:4: unknown key `theem`; did you mean `theme`?"],
    );
    check(
        &assigned("limits.max_clients=0"),
        &["-c:1:22: `limits.max_clients`: expected a number from 1 to 10000"],
    );
    check(
        &assigned("a b=1"),
        &["-c:1:3: key with no value, expected `=`"],
    );
    let key = "models.a.key=sk-1";
    let whole = "models.a = { endpoint = 'http://h', model = 'm' }";
    let mut place = assigned(key);
    check(
        &place,
        &[
            "-c:1:8: [models.a] has no `endpoint`; `endpoint` is required",
            "-c:1:8: [models.a] has no `model`; `model` is required",
            "-c:1:16: a key on the command line is seen by every process; better: key_env, key_file or key_cmd",
        ],
    );
    place.assignments.push(whole.to_owned());
    check(
        &place,
        &[
            "-c:1:16: a key on the command line is seen by every process; better: key_env, key_file or key_cmd",
        ],
    );
    let log = LayerPaths {
        log: Some("dbug".to_owned()),
        ..LayerPaths::default()
    };
    check(
        &log,
        &["AISH_LOG:1:17: the filter of the log has no level `dbug`; did you mean `debug`?"],
    );
}

#[test]
fn a_change_is_told_by_its_key_and_of_a_preset_by_its_name() {
    #[track_caller]
    fn check(before: &str, after: &str, expected: &[&str]) {
        let changes = read(after).unwrap().changes_from(&read(before).unwrap());
        assert_eq!(expected, changes);
    }
    check(USER, USER, &[]);
    check("", "# nothing\n", &[]);
    check("", "[limits]\nmax_clients = 64\n", &[]);
    check("", "[ui]\ntheme = \"x\"\n", &["ui.theme"]);
    let other = USER
        .replace("CLOUD_KEY", "OTHER")
        .replace("http://127.0.0.1:1", "http://127.0.0.1:2");
    check(USER, &other, &["models.cloud", "models.plain"]);
    check(
        USER,
        &USER.replace("Bearer x", "Bearer y"),
        &["models.headed"],
    );
    check(
        USER,
        "",
        &[
            "default_model",
            "models.cloud",
            "models.headed",
            "models.plain",
        ],
    );
    let odd = "[models.\"a.b\"]\nendpoint=\"http://127.0.0.1\"\nmodel=\"m\"\n";
    check("", odd, &["default_model", "models.\"a.b\""]);
}

const EXAMPLE: &str = include_str!("../../../../config/aishd.toml");

/// The example without the signs that make its keys remarks: every key that there is.
fn all_of_the_example() -> String {
    let mut text = String::new();
    for line in EXAMPLE.lines() {
        let Some(said) = line.strip_prefix("# ") else {
            continue;
        };
        let key = said.split(" = ").next().unwrap_or_default();
        let is_key = !key.is_empty() && key.chars().all(|it| it.is_ascii_lowercase() || it == '_');
        let in_list = said.starts_with("  \"") || said == "]";
        if said.starts_with('[') || in_list || (is_key && said.contains(" = ")) {
            text.push_str(said);
            text.push('\n');
        }
    }
    // A preset has one key, and a message one beginning; the example shows all ways.
    let ways = ["key_file", "key_cmd", "key = ", "system_prompt_f"];
    let lines = text
        .lines()
        .filter(|it| !ways.iter().any(|way| it.starts_with(way)));
    lines.map(|it| format!("{it}\n")).collect()
}

#[test]
fn the_example_file_is_read_and_says_nothing() {
    let entries = |it: Settings| {
        format!(
            "{:?}",
            it.entries
                .iter()
                .map(|it| (&it.key, &it.value))
                .collect::<Vec<_>>()
        )
    };
    assert_eq!(entries(read("").unwrap()), entries(read(EXAMPLE).unwrap()));
    assert!(EXAMPLE.starts_with("#:schema ./aish.schema.json\n"));
}

/// A default in the example is the default, and every key is in it.
#[test]
fn the_example_file_tells_every_key_and_every_default() {
    let text = all_of_the_example();
    let settings = read(&text).unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
    let defaults = read("").unwrap();
    for default in &defaults.entries {
        let told = settings
            .entries
            .iter()
            .find(|it| it.key == default.key)
            .unwrap();
        assert_eq!(default.value, told.value, "{}", default.key);
        assert_ne!(
            ConfigOrigin::Default,
            told.place.source.origin,
            "{} is not told",
            default.key
        );
    }
    let mut known = BTreeSet::new();
    leaves("", &schema::document(), &mut known);
    let left_out = known.iter().filter(|key| {
        let names: Vec<&str> = key.split('.').collect();
        let last = names.last().unwrap();
        !text.contains(&format!("{last} = ")) && !EXAMPLE.contains(&format!("# {last} = "))
    });
    assert_eq!(Vec::<&String>::new(), left_out.collect::<Vec<_>>());
}

fn leaves(path: &str, schema: &serde_json::Value, found: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(|it| it.as_object()) {
        for (key, below) in properties {
            leaves(&join(path, key), below, found);
        }
    } else if let Some(below) = schema
        .get("additionalProperties")
        .filter(|it| it.get("properties").is_some())
    {
        leaves(&join(path, "NAME"), below, found);
    } else {
        found.insert(path.to_owned());
    }
}

/// What [`Settings`] reads without a default of its own is said by the lowest layer.
#[test]
fn the_lowest_layer_says_all_that_must_be_said() {
    let settings = read("").unwrap();
    assert_eq!(
        (64, 16, 32, Duration::from_secs(30), Duration::from_secs(2)),
        (
            settings.max_clients,
            settings.max_queue,
            settings.max_conversations_in_memory,
            settings.client_stall,
            settings.grace
        )
    );
    assert_eq!(7, settings.models.local_servers.len());
    assert_eq!("info", settings.log.filter);
    assert_eq!(LogFormat::Auto.show(), "\"auto\"");
    assert_eq!(["authorization", "key", "token"], settings.log.redact[..]);
    assert_eq!(
        (When::Auto, "ansi"),
        (settings.ui.color, settings.ui.theme.as_str())
    );
    assert_eq!(
        (None, Duration::from_secs(120)),
        (settings.state, Timeouts::REMOTE.first_byte)
    );
}

#[test]
fn keys_are_explained_from_the_same_words() {
    let about = schema::explain("limits.max_clients").unwrap();
    assert_eq!(
        ("a whole number from 1 to 10000", Some("64")),
        (about.takes.as_str(), about.default.as_deref())
    );
    let about = schema::explain("models.deep.timeouts").unwrap();
    assert_eq!(
        ("models.NAME.timeouts", 4),
        (about.key.as_str(), about.keys.len())
    );
    assert_eq!(
        r#"one of "emacs", "vi""#,
        schema::explain("ui.keymap").unwrap().takes
    );
    assert!(
        schema::explain("default_model")
            .unwrap()
            .description
            .contains("nobody names one")
    );
    assert_eq!(
        Err(Some("limits.max_clients".to_owned())),
        schema::explain("limits.max_client")
    );
    assert_eq!(Err(None), schema::explain("nonsense"));
    assert_eq!(Err(None), schema::explain("= ="));
    assert!(schema::explain("models.a.headers.X").is_ok());
    let mut known = BTreeSet::new();
    leaves("", &schema::document(), &mut known);
    assert!(known.len() > 30);
    for key in known {
        assert!(
            !schema::explain(&key).unwrap().description.is_empty(),
            "{key}"
        );
    }
}

/// Whatever stands in a file: it is read or refused, and what is said of it drives no terminal.
#[test]
fn no_text_breaks_the_reading_or_the_screen() {
    use proptest::prelude::*;
    let pieces = prop::sample::select(vec![
        "[models.a]",
        "[models.\"ü\"]",
        "[[models]]",
        "\n",
        "\r\n",
        " = ",
        "=",
        "key",
        "endpoint",
        "headers",
        "model",
        "\"sk-secret\"",
        "'sk-secret'",
        "\"\"\"",
        "'''",
        "{",
        "}",
        "[",
        "]",
        ",",
        ".",
        "#",
        "\u{1b}[2J",
        "\u{202e}",
        "ü",
        "limits",
        "max_clients",
        "99",
        "-",
        "nan",
        "default_model",
        "\u{0}",
        "\"",
        "'",
        "\\u",
        "x",
        "1979-05-27",
    ]);
    let texts = prop::collection::vec(pieces, 0..40).prop_map(|it| it.concat());
    let all = prop_oneof![texts, any::<String>(), golden_mutated()];
    proptest!(ProptestConfig::with_cases(2_000), |(text in all)| {
        let layers = layers(&text, FileExposure::Private);
        let mut faults = layers.faults.clone();
        faults.extend(Settings::of(&layers.merged(), &nothing_is_set).1);
        let shown = fault_picture::pictures(&faults);
        let lines: Vec<String> = faults.iter().map(Fault::line).collect();
        for said in std::iter::once(&shown).chain(&lines) {
            prop_assert!(!said.chars().any(|it| it.is_control() && it != '\n' && it != '\t'), "{said:?}");
            let turned = said.contains('\u{202e}');
            prop_assert!(!turned);
        }
        for fault in &faults {
            prop_assert_eq!(fault.source.text().len(), redaction::cover(fault.source.text()).len());
        }
    });
}

/// A file with a hole in it.
fn golden_mutated() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let texts: Vec<String> = golden()
        .iter()
        .map(|it| fs::read_to_string(&it.1).unwrap())
        .collect();
    (
        prop::sample::select(texts),
        any::<prop::sample::Index>(),
        0..30_usize,
    )
        .prop_map(|(text, at, length)| {
            let start = text.floor_char_boundary(at.index(text.len()));
            let end = text.ceil_char_boundary((start + length).min(text.len()));
            format!("{}{}", &text[..start], &text[end..])
        })
}
