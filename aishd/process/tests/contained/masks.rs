//! What is hidden from a child.

use std::os::unix::fs::symlink;

use aishd_process::contained::Containment;
use aishd_process::spec::ChildExit;

use crate::Test;
use crate::place::{Place, USERS};

const SECRET: &str = "sekret-of-a-person";

pub(crate) const TESTS: &[Test] = &[
    ("what_is_masked_cannot_be_had_by_any_name", by_any_name),
    ("a_mask_cannot_be_moved_away_or_removed", stays),
    ("what_is_not_there_needs_no_mask", missing),
    (
        "a_program_in_what_is_masked_runs_and_nothing_beside_it_is_seen",
        programs,
    ),
    (
        "what_is_to_be_read_in_tmp_is_there_and_nothing_beside_it",
        in_tmp,
    ),
];

fn scene(user: crate::place::User) -> (Place, Containment) {
    let place = Place::new(user);
    for it in [
        "home/.ssh/key",
        "home/.netrc",
        "home/src/.env",
        "home/.config/gh/hosts",
        "home/real-secret",
    ] {
        place.write(it, SECRET);
    }
    symlink("real-secret", place.path("home/linked")).unwrap();
    symlink(".ssh", place.path("home/to-ssh")).unwrap();
    place.give();
    let layer = place.layer("home", "home");
    let masks = [
        ".ssh",
        ".netrc",
        "src/.env",
        ".config/gh",
        "linked",
        "nothing/here",
    ];
    let contained = Containment {
        layers: vec![layer],
        write: vec![place.path("work")],
        masks: masks.map(|it| place.path("home").join(it)).to_vec(),
        ..Containment::default()
    };
    (place, contained)
}

fn by_any_name() {
    for user in USERS {
        let (place, contained) = scene(user);
        for script in [
            "cat ~/.ssh/key ~/.netrc ~/src/.env ~/.config/gh/hosts",
            "cat ~/linked ~/real-secret",
            "cat ~/to-ssh/key; cd ~/to-ssh && cat *",
            "find ~ -type f -exec cat {} +",
            "cat /proc/self/root\"$HOME\"/.netrc /proc/self/root\"$HOME\"/.ssh/key",
            "tar cf - -C ~ . | cat",
            "ln ~/.netrc copy; cp ~/.netrc copy; cat copy",
            "ln -s ~/.netrc link; cat link",
            "chmod 644 ~/.netrc; cat ~/.netrc",
            "dd if=\"$HOME/.netrc\"",
            "grep -r sekret ~ /proc/self/root\"$HOME\"",
            "cat \"$W\"/layers/*/upper/.netrc; ls \"$W\"/layers/*/*",
        ] {
            let ran = place.run(script, contained.clone());
            assert!(
                !ran.output.contains(SECRET),
                "{user:?} {script}: {}",
                ran.output
            );
        }
        let seen = place.well("ls -A ~/.ssh; test -d ~/.ssh && ls ~/.config", contained);
        assert_eq!("gh\n", seen);
    }
}

fn stays() {
    for user in USERS {
        let (place, contained) = scene(user);
        for (script, said) in [
            ("mv ~/.ssh ~/x", "busy"),
            ("rm -rf ~/.ssh", "busy"),
            ("rm -f ~/.netrc", "busy"),
            ("umount ~/.ssh", "superuser\u{0}not permitted"),
            ("touch ~/.ssh/new", "Read-only"),
            ("chmod 777 ~/.ssh", "Read-only"),
        ] {
            let ran = place.run(script, contained.clone());
            assert_ne!(ChildExit::Code(0), ran.exit, "{user:?} {script}");
            let mut words = said.split('\u{0}');
            assert!(
                words.any(|it| ran.output.contains(it)),
                "{script}: {}",
                ran.output
            );
        }
        // What is moved with it is empty, in this child and in the next.
        place.run(
            "mv ~/.config ~/moved; mv ~/src ~/moved-src",
            contained.clone(),
        );
        let ran = place.run(
            "cat ~/moved/gh/hosts ~/moved-src/.env ~/.config/gh/hosts ~/src/.env",
            contained,
        );
        assert!(!ran.output.contains(SECRET), "{user:?}: {}", ran.output);
    }
}

fn missing() {
    let (place, mut contained) = scene(crate::place::User::Ours);
    contained.masks.push(place.path("home/.netrc/below-a-file"));
    contained.masks.push(place.path("home/.ssh"));
    assert_eq!("", place.well("ls -A ~/.ssh", contained));
}

fn programs() {
    for user in USERS {
        let (place, mut contained) = scene(user);
        place.write("home/.ssh/tools/tool", "#!/bin/sh\necho ran\n");
        place.write("home/.ssh/tools/beside", SECRET);
        place.give();
        let tool = place.path("home/.ssh/tools/tool");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&tool, mode).unwrap();
        contained.programs = vec![tool];
        let well = |script: &str| place.well(script, contained.clone());
        assert_eq!("ran\n", well("~/.ssh/tools/tool"));
        assert_eq!("tools\ntool\n", well("ls -A ~/.ssh; ls -A ~/.ssh/tools"));
        for script in [
            "echo more >>~/.ssh/tools/tool",
            "touch ~/.ssh/new",
            "touch ~/.ssh/tools/new",
            "rm ~/.ssh/tools/tool",
            "chmod 777 ~/.ssh/tools",
        ] {
            let ran = place.run(script, contained.clone());
            assert_ne!(ChildExit::Code(0), ran.exit, "{user:?} {script}");
        }
    }
}

fn in_tmp() {
    let (place, mut contained) = scene(crate::place::User::Ours);
    let shown = tempfile::tempdir_in("/tmp").unwrap();
    let hidden = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::create_dir(shown.path().join("written")).unwrap();
    std::fs::create_dir(shown.path().join("keys")).unwrap();
    std::fs::write(shown.path().join("keys/key"), SECRET).unwrap();
    std::fs::write(shown.path().join("file"), "text\n").unwrap();
    contained.read = vec![shown.path().to_owned()];
    contained.write.push(shown.path().join("written"));
    contained.masks.push(shown.path().join("keys"));
    let (shown, hidden) = (shown.path().display(), hidden.path().display());
    let script = format!(
        "cat {shown}/file; echo new >{shown}/written/new; ls -A {shown}/keys; touch /tmp/own"
    );
    assert_eq!("text\n", place.well(&script, contained.clone()));
    assert!(std::path::Path::new(&format!("{shown}/written/new")).exists());
    for script in [format!("touch {shown}/new"), format!("ls {hidden}")] {
        let ran = place.run(&script, contained.clone());
        assert_ne!(ChildExit::Code(0), ran.exit, "{script}");
    }
}
