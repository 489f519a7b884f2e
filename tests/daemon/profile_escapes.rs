//! What was written to get out of a containment, within what the product's own profiles make of one: its masks, its layers, and
//! its directories. Where a profile holds a thing otherwise, or allows it, that stands beside the script.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use aish_testkit::escapes::{self, EscapeEnd, EscapeScene};
use aishd_log::command_result::CommandResult;
use aishd_log::ending::CommandEnding;
use aishd_log::environment::ClientVariables;
use aishd_log::profile::Profile;
use aishd_mcp::hub::Hub;
use aishd_mcp::hub_parts::HubParts;
use aishd_process::Children;
use aishd_process::spec::{ChildExit, ChildSpec, StandardStream};
use aishd_profile::{EgressGround, NetworkWish, ProfileGround, ProfileWish};
use aishd_rules::command_setting::CommandSetting;
use aishd_rules::policy::Policy;
use aishd_signin::{SignIn, SignInParts};
use aishd_tools::ToolRunner;
use aishd_tools::registry::{ManifestRunner, RunnerServices};
use aishd_tools::shell::CommandLimits;
use aishd_tools::trial::TrialRoom;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::wall::ORDINARY;

/// Directories that every program is shown as its own, or through a layer: what is outside must not lie there.
const TEMPORARY: [&str; 4] = ["/tmp", "/var/tmp", "/dev", "/run"];
/// More than any script prints.
const OUTPUT_BYTES: usize = 16 << 20;

/// What is kept is where everybody can go, and in no directory of a program's own.
fn directory() -> Option<TempDir> {
    let mut places = vec![PathBuf::from("/srv"), PathBuf::from("/opt")];
    places.push(PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    places.retain(|it| !TEMPORARY.iter().any(|own| it.starts_with(own)));
    let mut made = places.iter().filter_map(|it| {
        let mut builder = tempfile::Builder::new();
        builder.prefix("aish-profiles-").tempdir_in(it).ok()
    });
    let made = made.next();
    if made.is_none() {
        println!("skipped: no directory here is outside of /tmp and can be written");
    }
    made
}

/// Who starts the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starter {
    /// Who runs the tests.
    Ours,
    /// Somebody without privileges; the same as ours where we have none.
    Ordinary,
    /// Root of a user namespace around us, with processes and mounts of its own, as in a container.
    InContainer,
}

struct Scene {
    directory: TempDir,
    around: EscapeScene,
    starter: Starter,
    profiles: ProfileGround,
    room: TrialRoom,
    tools: ToolRunner,
}

impl Scene {
    fn new(starter: Starter) -> Option<Self> {
        let directory = directory()?;
        let path = |it: &str| directory.path().join(it);
        let around = EscapeScene::new(directory.path());
        for it in ["state/changes", "config"] {
            fs::create_dir_all(path(it)).unwrap();
            fs::set_permissions(path(it), fs::Permissions::from_mode(0o700)).unwrap();
        }
        let mut base: BTreeMap<String, String> = around.env.clone();
        base.insert("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into());
        base.insert("LC_ALL".into(), "C".into());
        let children = Children::behind(keeper(&path("keeper"), starter), base);
        let profiles = ProfileGround::new(
            children,
            path("state/changes"),
            Some(path("home")),
            vec![path("state"), path("config")],
            EgressGround::default(),
            Box::new(|_news| {}),
        );
        let room = TrialRoom::open(&path("state/changes"), profiles.clone()).unwrap();
        let tools = tools(&profiles, path("state/tools"));
        let mut scene = Self {
            directory,
            around,
            starter,
            profiles,
            room,
            tools,
        };
        scene.give("");
        scene.around.begin();
        Some(scene)
    }

    fn path(&self, it: &str) -> PathBuf {
        self.directory.path().join(it)
    }

    /// Whoever runs the programs owns it from now on.
    fn give(&self, it: &str) {
        if is_another(self.starter) {
            hand(&self.path(it));
        }
    }

    async fn within(&self, profile: Profile, script: &str) -> (EscapeEnd, String) {
        let roots = [self.path("work")];
        let wish = ProfileWish {
            profile,
            roots: &roots,
            ..ProfileWish::OPEN
        };
        let spec = ChildSpec {
            args: vec!["-c".to_owned(), script.to_owned()],
            stderr: StandardStream::Joined,
            umask: 0o022,
            ..ChildSpec::new("/bin/sh", self.path("work"))
        };
        let held = self.profiles.spawn(spec, wish).await.unwrap();
        let output = held.child.output(OUTPUT_BYTES).await.unwrap();
        let text = String::from_utf8_lossy(&output.bytes).into_owned();
        (end(output.exit == ChildExit::Code(0)), text)
    }

    async fn tried(&self, script: &str) -> (EscapeEnd, String) {
        let cwd = self.path("work").display().to_string();
        let base = self.profiles.children().base();
        let given = ClientVariables::default();
        let setting = CommandSetting::new(given, base, &cwd, |it| Path::new(it).exists());
        let trial = self.room.begin(&setting, &[]).unwrap();
        self.give("state");
        let mut policy = Policy {
            max_result_chars: OUTPUT_BYTES,
            ..Policy::default()
        };
        policy.shell.max_output_bytes = OUTPUT_BYTES;
        let (limits, never) = (CommandLimits::of(&policy), CancellationToken::new());
        let within = (trial, NetworkWish::default());
        let tried = self
            .tools
            .try_command(script, &setting, limits, &never, within);
        let (CommandResult { ending, output, .. }, ..) = tried.await.unwrap();
        (end(ending == CommandEnding::Exited { code: 0 }), output)
    }

    /// Whether this machine holds anything; where it does not, that is said.
    async fn is_held(&self) -> bool {
        let missing = self.room.missing().await;
        if let Some(why) = &missing {
            println!("skipped: {why}");
        }
        missing.is_none()
    }
}

fn is_another(starter: Starter) -> bool {
    starter == Starter::Ordinary && rustix::process::geteuid().is_root()
}

/// The program that keeps children, as this one starts it.
fn keeper(script: &Path, starter: Starter) -> PathBuf {
    let aishd = PathBuf::from(env!("CARGO_BIN_EXE_aishd"));
    let before = match starter {
        Starter::InContainer => {
            "unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc"
                .to_owned()
        }
        Starter::Ordinary if is_another(starter) => {
            format!("setpriv --reuid={ORDINARY} --regid={ORDINARY} --clear-groups")
        }
        Starter::Ours | Starter::Ordinary => return aishd,
    };
    let text = format!("#!/bin/sh\nexec {before} {} \"$@\"\n", aishd.display());
    fs::write(script, text).unwrap();
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    script.to_owned()
}

fn tools(profiles: &ProfileGround, folder: PathBuf) -> ToolRunner {
    let hub = Hub::new(HubParts {
        profiles: profiles.clone(),
        sign_in: SignIn::new(SignInParts {
            directory: "/nowhere".into(),
            environment: Box::new(|_name| None),
            learn: Box::new(|_secret| {}),
            not_renewed: Box::new(|_failed| {}),
            redact: Box::new(str::to_owned),
        }),
        environment: Box::new(|_name| None),
        recall: Box::new(|_key| None),
        keep: Box::new(|_key, _text| {}),
        roots: Box::new(Vec::new),
        learn: Box::new(|_secret| {}),
        redact: Box::new(str::to_owned),
        elicitation: false,
    });
    let runner = ManifestRunner::new(RunnerServices {
        profiles: profiles.clone(),
        folder,
        environment: Box::new(|_name| None),
        learn: Box::new(|_secret| {}),
        redact: Box::new(str::to_owned),
    });
    ToolRunner::new(hub, runner)
}

fn end(is_well: bool) -> EscapeEnd {
    if is_well {
        EscapeEnd::Well
    } else {
        EscapeEnd::Badly
    }
}

fn hand(path: &Path) {
    lchown(path, Some(ORDINARY), Some(ORDINARY)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            hand(&entry.path());
        }
    }
}

/// None of them gets out of what this profile makes.
fn nothing_gets_out(profile: &str) {
    for starter in [Starter::Ours, Starter::Ordinary, Starter::InContainer] {
        let Some(scene) = Scene::new(starter) else {
            return;
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        if !runtime.block_on(scene.is_held()) {
            return;
        }
        let mut wrong = vec![];
        let mut tried = 0;
        for escape in escapes::all() {
            let Some(script) = escape.shell() else {
                println!("SKIPPED: {}", escape.script);
                continue;
            };
            tried += 1;
            let ran = runtime.block_on(async {
                match profile {
                    "read" => scene.within(Profile::Read, &script).await,
                    "workspace" => scene.within(Profile::Workspace, &script).await,
                    _ => scene.tried(&script).await,
                }
            });
            wrong.extend(scene.around.done_by(&escape, profile, (ran.0, &ran.1)));
        }
        println!("{profile}, {starter:?}: {tried} tried");
        assert!(wrong.is_empty(), "{starter:?}\n{}", wrong.join("\n"));
        let least = if escapes::has_python() { 150 } else { 40 };
        assert!(tried > least, "{tried}");
    }
}

#[test]
fn nothing_gets_out_of_a_program_that_only_reads() {
    nothing_gets_out("read");
}

#[test]
fn nothing_gets_out_of_a_workspace() {
    nothing_gets_out("workspace");
}

#[test]
fn nothing_gets_out_of_a_trial() {
    nothing_gets_out("try");
}
