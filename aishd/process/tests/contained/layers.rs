//! What a child writes into a layer, and what it writes for real.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use aishd_process::SpawnError;
use aishd_process::contained::{Containment, ContainmentPart, WriteLayer};
use aishd_process::spec::ChildExit;
use aishd_process::wall::Wall;

use crate::Test;
use crate::place::{Place, Ran, USERS, User, runtime};

pub(crate) const TESTS: &[Test] = &[
    ("a_layer_has_exactly_what_was_written", exactly),
    ("a_second_child_sees_what_the_first_left", second),
    ("an_upper_directory_below_its_lower_works", below_its_lower),
    ("a_layer_in_a_workspace_below_tmp_is_seen", below_tmp),
    ("layers_within_layers_keep_apart", nested_layers),
    (
        "a_workspace_is_written_for_real_and_nothing_else",
        workspace,
    ),
    ("a_layer_in_use_is_not_used_twice", in_use),
    ("a_place_behind_a_link_is_refused", behind_a_link),
    ("a_wall_within_a_containment_holds_too", wall_within),
    ("odd_names_and_long_paths_are_places_too", odd_names),
];

/// Everything below a directory, as it is; a removed one is `gone`.
fn tree(of: &Path) -> BTreeMap<String, String> {
    fn look(at: &Path, name: &str, into: &mut BTreeMap<String, String>) {
        let mut entries: Vec<_> = fs::read_dir(at).unwrap().map(Result::unwrap).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = format!("{name}{}", entry.file_name().to_string_lossy());
            let about = entry.metadata().unwrap();
            let kind = about.file_type();
            let said = if kind.is_char_device() && about.rdev() == 0 {
                "gone".to_owned()
            } else if kind.is_dir() {
                look(&entry.path(), &format!("{name}/"), into);
                let opaque =
                    rustix::fs::lgetxattr(entry.path(), "user.overlay.opaque", &mut [0_u8; 8][..]);
                if opaque.is_ok() {
                    "opaque"
                } else {
                    "directory"
                }
                .to_owned()
            } else if kind.is_symlink() {
                fs::read_link(entry.path()).unwrap().display().to_string()
            } else {
                fs::read_to_string(entry.path()).unwrap()
            };
            into.insert(name, said);
        }
    }
    let mut all = BTreeMap::new();
    look(of, "", &mut all);
    all
}

fn one(layer: &WriteLayer) -> Containment {
    Containment {
        layers: vec![layer.clone()],
        ..Containment::default()
    }
}

fn exactly() {
    for user in USERS {
        let place = Place::new(user);
        for (file, text) in [
            ("work/changed", "before"),
            ("work/same", "same"),
            ("work/removed", "removed"),
            ("work/from", "moved"),
            ("work/made-anew/old", "old"),
            ("work/deep/er/file", "deep"),
        ] {
            place.write(file, text);
        }
        place.give();
        let before = tree(&place.path("work"));
        let layer = place.layer("work", "one");
        let script = "printf after >changed; rm removed; mv from to; rm -r made-anew; mkdir made-anew; printf n >made-anew/new; \
                      printf er >>deep/er/file; ln -s same link; cat changed; cat same; ls";
        let seen = place.well(script, one(&layer));
        assert_eq!(
            "aftersamechanged\ndeep\nlink\nmade-anew\nsame\nto\n", seen,
            "{user:?}"
        );
        assert_eq!(before, tree(&place.path("work")), "{user:?}");
        let expected = [
            ("changed", "after"),
            ("deep", "directory"),
            ("deep/er", "directory"),
            ("deep/er/file", "deeper"),
            ("from", "gone"),
            ("link", "same"),
            ("made-anew", "opaque"),
            ("made-anew/new", "n"),
            ("removed", "gone"),
            ("to", "moved"),
        ];
        let expected = expected.map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(BTreeMap::from(expected), tree(&layer.upper), "{user:?}");
    }
}

fn second() {
    let place = Place::new(User::Ordinary);
    place.write("work/a", "a");
    let layer = place.layer("work", "one");
    place.well("rm a; printf b >b", one(&layer));
    let seen = place.well("ls; cat b; printf c >>b; printf A >a; cat a", one(&layer));
    assert_eq!("b\nbA", seen);
    assert_eq!("bcA", place.well("cat b a", one(&layer)));
    assert_eq!("a", place.read("work/a"));
    assert!(!place.path("work/b").exists());
}

fn below_its_lower() {
    let place = Place::new(User::Ordinary);
    place.write("home/.state/secret", "s3cret");
    place.write("home/file", "before");
    let mut layer = place.layer("home", "x");
    layer.upper = place.path("home/.state/upper");
    layer.work = place.path("home/.state/work");
    for it in [&layer.upper, &layer.work] {
        fs::create_dir(it).unwrap();
    }
    place.give();
    let contained = Containment {
        masks: vec![place.path("home/.state")],
        ..one(&layer)
    };
    let script = "cd ~; printf after >file; cat file; ls -A .state; ls -A";
    assert_eq!("after.state\nfile\n", place.well(script, contained));
    assert_eq!("before", place.read("home/file"));
    assert_eq!("after", place.read("home/.state/upper/file"));
}

fn below_tmp() {
    for user in USERS {
        let place = Place::below(Path::new("/tmp"), user);
        place.write("work/file", "before");
        place.write("outside/file", "not to be seen");
        let layer = place.layer("work", "one");
        let contained = Containment {
            write: vec![place.path("home")],
            ..one(&layer)
        };
        let script =
            "printf after >file; cat file; printf real >~/real; ls \"$W\"; printf x >/tmp/own";
        assert_eq!(
            "afterhome\nwork\n",
            place.well(script, contained),
            "{user:?}"
        );
        assert_eq!("before", place.read("work/file"));
        assert_eq!("real", place.read("home/real"));
        assert!(!Path::new("/tmp/own").exists());
    }
    let place = Place::new(User::Ordinary);
    let layer = WriteLayer {
        lower: "/tmp".into(),
        ..place.layer("work", "tmp")
    };
    let name = format!("aish-layered-{}", std::process::id());
    place.well(&format!("printf x >/tmp/{name}"), one(&layer));
    assert!(!Path::new("/tmp").join(&name).exists());
    assert_eq!(
        vec![name],
        tree(&layer.upper).into_keys().collect::<Vec<_>>()
    );
}

fn nested_layers() {
    let place = Place::new(User::Ordinary);
    place.write("home/src/file", "before");
    place.write("home/real/file", "before");
    let [home, src] = [place.layer("home", "home"), place.layer("home/src", "src")];
    let contained = Containment {
        layers: vec![src.clone(), home.clone()],
        write: vec![place.path("home/real")],
        ..Containment::default()
    };
    place.well(
        "printf 1 >~/one; printf 2 >~/src/two; printf 3 >~/real/file",
        contained,
    );
    assert_eq!(
        vec!["one"],
        tree(&home.upper).into_keys().collect::<Vec<_>>()
    );
    assert_eq!(
        vec!["two"],
        tree(&src.upper).into_keys().collect::<Vec<_>>()
    );
    assert_eq!("3", place.read("home/real/file"));
}

fn workspace() {
    for user in USERS {
        let place = Place::new(user);
        place.write("work/file", "before");
        place.give();
        let contained = Containment {
            write: vec![place.path("work")],
            ..Containment::default()
        };
        let script = "printf after >file; mkdir new; touch ~/x; touch \"$OUT/x\"; touch /var/tmp/x; printf x >/tmp/x && cat /tmp/x";
        let seen = place.well(script, contained);
        assert_eq!("after", place.read("work/file"));
        assert!(place.path("work/new").is_dir());
        assert_eq!(3, seen.matches("Read-only file system").count(), "{seen}");
        assert!(seen.ends_with('x'), "{seen}");
    }
}

fn in_use() {
    let place = Place::new(User::Ours);
    let layer = place.layer("work", "one");
    runtime().block_on(async {
        let spec = place.sh("exec sleep 1000", Some(one(&layer)));
        let first = place.children().spawn(&spec).await.unwrap();
        let again = place.children().spawn(&spec).await.unwrap_err();
        assert!(
            matches!(
                &again,
                SpawnError::Contained {
                    part: ContainmentPart::LayerInUse,
                    ..
                }
            ),
            "{again}"
        );
        println!("{again}");
        first.end(std::time::Duration::ZERO).await;
        let third = place.children().spawn(&spec).await.unwrap();
        third.end(std::time::Duration::ZERO).await;
    });
}

fn behind_a_link() {
    let place = Place::new(User::Ours);
    std::os::unix::fs::symlink("outside", place.path("link")).unwrap();
    fs::create_dir(place.path("outside/below")).unwrap();
    for path in ["link", "link/below", "missing", "work/../outside"] {
        let contained = Containment {
            write: vec![place.path(path)],
            ..Containment::default()
        };
        let refused = place.try_run(&place.sh("true", Some(contained)));
        let error = refused.map(|it: Ran| it.output).unwrap_err();
        println!("{error}");
        assert!(
            matches!(
                &error,
                SpawnError::Contained {
                    part: ContainmentPart::Places,
                    place: Some(_),
                    ..
                }
            ),
            "{path}: {error}"
        );
    }
}

fn wall_within() {
    for user in USERS {
        let place = Place::new(user);
        let layer = place.layer("work", "one");
        let mut contained = one(&layer);
        contained.write.push(place.path("home"));
        let mut spec = place.sh(
            "printf x >within && cat within; touch ~/not",
            Some(contained),
        );
        spec.wall = Some(Box::new(Wall::of_system(&place.path("work"))));
        let ran = place.try_run(&spec).unwrap();
        assert!(
            ran.output.starts_with('x') && ran.output.contains("Permission denied"),
            "{ran:?}"
        );
        assert!(layer.upper.join("within").exists());
        assert!(!place.path("home/not").exists());
    }
}

fn odd_names() {
    let place = Place::new(User::Ordinary);
    let odd = format!("work/a:b, c\\040d\"{}", "x/".repeat(150));
    let odd = odd.trim_end_matches('/');
    fs::create_dir_all(place.path(odd)).unwrap();
    let layer = place.layer(odd, "a,b:c\\");
    let mut spec = place.sh("printf x >new; cat new", Some(one(&layer)));
    spec.cwd.clone_from(&layer.lower);
    let ran = place.try_run(&spec).unwrap();
    assert_eq!((ChildExit::Code(0), "x"), (ran.exit, ran.output.as_str()));
    assert!(layer.upper.join("new").exists());
}
