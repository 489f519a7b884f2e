//! The configuration of a running daemon: noticed when it changes, kept when it is bad.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use aish_proto::attach::ReplayStart;
use aish_proto::config::{Check, ConfigCheckParams, KeymapName, Show, ShowParams, ShowResult};
use aish_proto::daemon::{Reload, Status, StatusResult};
use aish_proto::event::ConfigReloaded;
use aish_proto::id::TurnId;
use aish_proto::method::Empty;
use aish_proto::model::List;
use aish_proto::turn::{Cancel, TurnParams};
use aish_testkit::{Answer, Client, Follow, Upstream, World, wait};
use rustix::process::Signal;

fn preset(name: &str) -> String {
    format!("[models.{name}]\nendpoint = \"http://127.0.0.1:9\"\nmodel = \"m\"\n")
}

/// A client that follows a conversation, from where it begins to be told.
fn attached(world: &World) -> (Client, Follow) {
    let client = world.client();
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    (client, follow)
}

fn told(follow: &mut Follow) -> ConfigReloaded {
    let event = follow.until_kind("configReloaded");
    serde_json::from_value(event.data).unwrap()
}

fn presets(client: &Client) -> Vec<String> {
    let list = client.done::<List>(Empty {}).models;
    list.into_iter()
        .map(|it| it.name)
        .filter(|it| it != "demo")
        .collect()
}

fn status(client: &Client) -> StatusResult {
    client.done::<Status>(Empty {})
}

fn show(client: &Client, cwd: Option<&Path>) -> ShowResult {
    let cwd = cwd.map(|it| it.display().to_string());
    client.done::<Show>(ShowParams { cwd })
}

#[test]
fn every_way_to_write_a_file_is_noticed() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let (client, mut follow) = attached(&world);
    let file = world.config_file();
    let private =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    let none = "[discovery]\nservers = []\n";

    // In place.
    fs::write(&file, format!("{}{none}", preset("one"))).unwrap();
    wait::until_true("the first is there", || presets(&client) == ["one"]);

    // A new file in its place, as editors do.
    let new = world.path("config/aish/.new");
    fs::write(&new, format!("{}{none}", preset("two"))).unwrap();
    private(&new);
    fs::rename(&new, &file).unwrap();
    let changed = ["default_model", "models.one", "models.two"];
    follow.until(|it| {
        it.kind == "configReloaded" && it.data["changed"] == serde_json::json!(changed)
    });

    // The old one moved away first, as vi does with a backup.
    fs::rename(&file, world.path("config/aish/config.toml~")).unwrap();
    fs::write(&file, format!("{}{none}", preset("three"))).unwrap();
    private(&file);
    wait::until_true("the third is there", || presets(&client) == ["three"]);

    // Another directory in the place of its directory.
    let directory = world.path("config/aish");
    fs::rename(&directory, world.path("config/old")).unwrap();
    wait::until_true("without a file nothing is configured", || {
        presets(&client).is_empty()
    });
    fs::create_dir(&directory).unwrap();
    world.write(
        "config/aish/config.toml",
        &format!("{}{none}", preset("four")),
    );
    wait::until_true("a directory that appears is noticed", || {
        presets(&client) == ["four"]
    });

    // A link to a file elsewhere, and then that file.
    world.write(
        "work/dotfiles/aish.toml",
        &format!("{}{none}", preset("five")),
    );
    fs::remove_file(&file).unwrap();
    symlink(world.path("work/dotfiles/aish.toml"), &file).unwrap();
    wait::until_true("the link is followed", || presets(&client) == ["five"]);
    world.write(
        "work/dotfiles/aish.toml",
        &format!("{}{none}", preset("six")),
    );
    wait::until_true("what it leads to is watched", || {
        presets(&client) == ["six"]
    });
}

#[test]
fn a_bad_file_changes_nothing_and_everybody_hears_why() {
    let world = World::new();
    world.write_config(&preset("good"));
    let daemon = world.daemon().spawn();
    let (client, mut first) = attached(&world);
    let (_other, mut second) = attached(&world);
    world.write_config(&format!(
        "{}temprature = 1\nmax_tokens = \"many\"\n",
        preset("good")
    ));
    let heard = told(&mut first);
    assert_eq!(heard, told(&mut second));
    let file = world.config_file().display().to_string();
    let expected = [
        format!("{file}:4:1: unknown key `temprature`; did you mean `temperature`?"),
        format!("{file}:5:14: `models.good.max_tokens`: expected a whole number, found a text"),
    ];
    assert_eq!((expected.to_vec(), vec![]), (heard.errors, heard.changed));
    assert_eq!(expected.to_vec(), status(&client).config_errors);
    assert_eq!(expected.to_vec(), show(&client, None).errors);
    assert_eq!(vec!["good"], presets(&client));

    // SIGHUP and the call say the same of it, and nobody is told twice.
    assert_eq!(expected.to_vec(), client.done::<Reload>(Empty {}).errors);
    daemon.signal(Signal::HUP);
    let checked = client.done::<Check>(ConfigCheckParams {});
    assert_eq!(expected.to_vec(), checked.errors);

    world.write_config(&preset("good"));
    let heard = told(&mut first);
    assert_eq!(
        (vec![], vec![]),
        (heard.errors, heard.changed),
        "it is well again"
    );
    assert!(status(&client).config_errors.is_empty());
    let kinds = first.events_so_far().iter();
    assert_eq!(2, kinds.filter(|it| it.kind == "configReloaded").count());
}

/// However many conversations a client follows on its connection.
#[test]
fn each_client_is_told_once() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let (client, first) = attached(&world);
    let conversation = client.create();
    let mut second = client.attach(conversation, ReplayStart::Now);
    second.until_kind("replayComplete");
    let mut both = [first, second];
    let mut count = |limit: Duration| -> usize {
        let news = both.iter_mut().map(|it| it.next_within(limit));
        news.flatten()
            .filter(|it| it.kind == "configReloaded")
            .count()
    };
    for n in 1..4 {
        world.write_config(&preset(&format!("p{n}")));
        let mut told = 0;
        wait::until_true("it is told", || {
            told += count(Duration::from_millis(10));
            told > 0
        });
        // Both follow the same configuration: what one had not told by now, it would tell before this reply.
        client.done::<Reload>(Empty {});
        told += count(Duration::from_millis(50));
        assert_eq!(1, told);
    }
}

/// Who writes slowly is not told that half of a file is wrong, if the rest comes soon.
#[test]
fn a_thousand_rewrites_end_with_the_last() {
    let world = World::new();
    let daemon = world.daemon().spawn();
    let (client, follow) = attached(&world);
    for n in 0..1000 {
        world.write_config(&preset(&format!("p{n}")));
    }
    wait::until_true("the last one counts", || presets(&client) == ["p999"]);
    // In two pieces, in place.
    let whole = preset("whole");
    let file = world.config_file();
    fs::write(&file, whole.get(..whole.len() - 8).unwrap()).unwrap();
    fs::write(&file, &whole).unwrap();
    wait::until_true("the whole one counts", || presets(&client) == ["whole"]);
    drop(follow);
    // Lines are written behind what they tell of.
    wait::until_true("that is logged", || {
        daemon.log_text().contains("models.whole")
    });
    // Reading the files does not wake the reader: it is still now.
    let log = daemon.log_text();
    client.done::<Reload>(Empty {});
    assert_eq!(log, daemon.log_text());
    assert!(log.matches("configuration read again").count() <= 1010);
}

/// What others could have written, what is no file, what is too large.
#[test]
fn what_may_not_be_read_keeps_the_old_one() {
    let world = World::new();
    world.write_config(&preset("good"));
    let _daemon = world.daemon().spawn();
    let (client, mut follow) = attached(&world);
    let file = world.config_file();
    let mut wrong = |what: &str| {
        let heard = told(&mut follow);
        assert!(
            heard.errors.len() == 1 && heard.errors[0].contains(what),
            "{what}: {heard:?}"
        );
        assert_eq!(vec!["good"], presets(&client), "{what}");
        world.write_config(&preset("good"));
        assert!(told(&mut follow).errors.is_empty());
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    wrong("(mode 0666): chmod 600");
    let new = world.path("config/aish/.new");
    rustix::fs::mkfifoat(rustix::fs::CWD, &new, 0o600.into()).unwrap();
    fs::rename(&new, &file).unwrap();
    wrong("no ordinary file");
    let large = format!("# {}\n", "x".repeat(1 << 20));
    world.write("config/aish/config.toml", &large);
    wrong("larger than 1048576 bytes");
    fs::write(&new, b"# \xff\n").unwrap();
    fs::rename(&new, &file).unwrap();
    wrong("line 1 is no UTF-8");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(4_242), None).unwrap();
        wrong("belongs to the user 4242");
    }
}

#[test]
fn what_needs_a_restart_says_so_until_there_is_one() {
    let world = World::new();
    let daemon = world.daemon().spawn();
    let (client, mut follow) = attached(&world);
    world.write_config(
        "[limits]\nmax_clients = 3\n[logging]\nlevel = \"debug\"\nformat = \"text\"\n",
    );
    let heard = told(&mut follow);
    assert_eq!(
        vec!["limits.max_clients", "logging.format", "logging.level"],
        heard.changed
    );
    let waits = vec!["limits.max_clients", "logging.format"];
    assert_eq!(waits, heard.restart_needed);
    assert_eq!(waits, status(&client).restart_needed);
    assert_eq!(64, client.hello().limits.clients);
    wait::until_true("the level counts at once", || {
        let turn = TurnId::from_bytes([7; 16]);
        client.refused::<Cancel>(TurnParams { turn });
        world.log_text().contains("DEBUG")
    });
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(3, client.hello().limits.clients);
    assert_eq!(Vec::<String>::new(), status(&client).restart_needed);
}

#[test]
fn clients_are_handed_how_they_should_look() {
    let world = World::new();
    world.write_config("[ui]\nkeymap = \"vi\"\ntheme = \"dark\"\n");
    let _daemon = world.daemon().arg("-c").arg("ui.editor=nano").spawn();
    let (client, mut follow) = attached(&world);
    let ui = client.hello().ui;
    assert_eq!(
        (KeymapName::Vi, "dark", "nano"),
        (ui.keymap, ui.theme.as_str(), ui.editor.as_str())
    );
    world.write_config("");
    let heard = told(&mut follow);
    assert_eq!(vec!["ui.keymap", "ui.theme"], heard.changed);
    assert_eq!(
        ["ui.keymap", "ui.theme"],
        *heard.values.keys().collect::<Vec<_>>()
    );
    assert_eq!(KeymapName::Emacs, client.hello().ui.keymap);
}

#[test]
fn a_running_turn_keeps_what_it_began_with() {
    let (old, new) = (Upstream::start(), Upstream::start());
    let world = World::with(&old);
    let _daemon = world.daemon().spawn();
    let (client, mut follow) = attached(&world);
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    old.answer(answer);
    let turn = client.ask(conversation, "first");
    gate.text("from the ");
    world.write_config(&new.config("test"));
    told(&mut follow);
    gate.text("old one");
    gate.finish();
    assert_eq!("from the old one", client.wait_turn(turn).text);
    new.answer(Answer::text("from the new one"));
    let turn = client.ask(conversation, "second");
    assert_eq!("from the new one", client.wait_turn(turn).text);
}

/// The layers, and who has said what: secrets are not among it.
#[test]
fn what_is_in_force_is_shown_with_its_origin() {
    let world = World::new();
    world.write(
        "machine/aish/config.toml",
        "[limits]\nmax_clients = 5\nclient_stall = \"7s\"\n",
    );
    world.write_config(&format!(
        "{}key = \"sk-secret\"\n[limits]\nmax_clients = 6\n",
        preset("a")
    ));
    let daemon = world
        .daemon()
        .env("AISH_LOG", "warn")
        .arg("-c")
        .arg("shutdown.grace=1s");
    let _daemon = daemon.spawn();
    let client = world.client();
    let shown = show(&client, None).settings;
    let of = |key: &str| {
        let setting = shown.iter().find(|it| it.key == key).unwrap();
        let origin = setting
            .origin
            .replace(&world.path("").display().to_string(), "");
        format!("{} {origin}", setting.value)
    };
    assert_eq!("6 config/aish/config.toml:6", of("limits.max_clients"));
    assert_eq!(
        "\"7s\" machine/aish/config.toml:3",
        of("limits.client_stall")
    );
    assert_eq!("\"warn\" AISH_LOG", of("logging.level"));
    assert_eq!("\"1s\" -c", of("shutdown.grace"));
    assert_eq!("(set) config/aish/config.toml:4", of("models.a.key"));
    assert_eq!("\"auto\" default", of("ui.color"));
    assert!(!format!("{shown:?}").contains("sk-secret"));
}
