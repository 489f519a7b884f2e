//! Figures of the registry, printed: `cargo bench -p aishd --bench registry`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on ends here, and its figures go to whoever runs it"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aishd_config::layers::LayerPaths;
use aishd_config::live::LiveConfig;
use aishd_config::load;
use aishd_config::manifest_store::{ManifestSelection, ManifestStore, ManifestStoreServices};
use aishd_rules::catalog::Catalog;
use aishd_rules::registry::ManifestRegistry;

const MANIFESTS: usize = 200;
const CAPABILITIES: usize = 4;
const ROUNDS: usize = 50;

/// What is demanded.
const LOAD_LIMIT: Duration = Duration::from_millis(100);
const CHANGE_LIMIT: Duration = Duration::from_millis(10);

/// As people write them: a script beside it, and some fields each.
fn manifest(at: usize, version: usize) -> String {
    let mut text = format!(
        "name = \"tool{at}\"\nversion = \"{version}\"\ndescription = \"Does what number {at} does.\"\nruntime = \"process\"\n\
         command = \"sh\"\nscript = \"tool{at}.sh\"\nenv = {{ KEY = \"${{KEY:-none}}\" }}\n"
    );
    for it in 0..CAPABILITIES {
        let level = it % 3 + 1;
        write!(
            text,
            "[[capability]]\nname = \"do{it}\"\ndescription = \"Does it, and says in a line what that was.\"\n\
             level = {level}\ninput = {{ path = \"string\", times = {{ type = \"integer\", default = 1 }}, tags = \"string[]?\" }}\n\
             output = {{ done = \"boolean\" }}\n"
        )
        .unwrap();
    }
    text
}

/// The median is judged; the worst says what else the machine did.
fn told(what: &str, mut times: Vec<Duration>, limit: Duration) {
    times.sort();
    let (half, late) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let held = if half < limit { "held" } else { "MISSED" };
    println!("{what}: p50 {half:?}, p99 {late:?}; limit {limit:?} {held}");
}

fn live(folder: &Path) -> Arc<LiveConfig> {
    let user = folder.join("config.toml");
    fs::write(&user, "").unwrap();
    let place = LayerPaths {
        user: Some(user),
        ..LayerPaths::default()
    };
    let loaded = load::load(&place, &|_| false);
    let settings = loaded.settings.clone().unwrap();
    let apply = Box::new(|_: &_| Ok(()));
    Arc::new(LiveConfig::new(place, settings, loaded, |_| false, apply))
}

/// Each reading ends as in the daemon: with the catalog that the next request is offered.
fn manifests(live: Arc<LiveConfig>, catalog: Arc<Mutex<Catalog>>) -> ManifestStore {
    let before = Mutex::new(ManifestRegistry::default());
    let publish = move |manifests: Vec<_>, _faults: &[String]| {
        let mut before = before.lock().unwrap();
        let now = before.followed_by(manifests);
        let changes = now.changes_from(&before);
        *catalog.lock().unwrap() = Catalog::new(now.tools().cloned());
        *before = now;
        changes
    };
    let means = ManifestStoreServices {
        find: Box::new(|name| Some(PathBuf::from("/bin").join(name))),
        taken: Box::new(BTreeSet::new),
        publish: Box::new(publish),
    };
    ManifestStore::new(live, means)
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let live = live(folder.path());
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for at in 0..MANIFESTS {
        fs::write(tools.join(format!("tool{at}.toml")), manifest(at, 1)).unwrap();
        fs::write(tools.join(format!("tool{at}.sh")), "cat\n").unwrap();
    }
    let catalog = Arc::default();
    let loads = (0..ROUNDS).map(|_| {
        let manifests = manifests(live.clone(), Arc::clone(&catalog));
        let started = Instant::now();
        let report = manifests.read(ManifestSelection::Changed);
        let took = started.elapsed();
        assert_eq!(
            (MANIFESTS, Vec::<String>::new()),
            (report.read, report.faults)
        );
        took
    });
    told(
        &format!("{MANIFESTS} manifests"),
        loads.collect(),
        LOAD_LIMIT,
    );
    assert_eq!(
        MANIFESTS * CAPABILITIES,
        catalog.lock().unwrap().iter().count()
    );
    let manifests = manifests(live, catalog);
    manifests.read(ManifestSelection::Changed);
    let changes = (0..ROUNDS).map(|round| {
        let at = round % MANIFESTS;
        fs::write(
            tools.join(format!("tool{at}.toml")),
            manifest(at, round + 2),
        )
        .unwrap();
        let started = Instant::now();
        let report = manifests.read(ManifestSelection::Changed);
        let took = started.elapsed();
        assert_eq!(
            (1, 1),
            (report.read, report.changes.len()),
            "{:?}",
            report.faults
        );
        took
    });
    told(
        &format!("one of {MANIFESTS} changed, to the new catalog"),
        changes.collect(),
        CHANGE_LIMIT,
    );
}
