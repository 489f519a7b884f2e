//! Where something is missing, nothing runs, and it is said; and what a probe finds.

use std::path::Path;

use aishd_process::SpawnError;
use aishd_process::contained::{Containment, ContainmentPart, Mechanism};

use crate::Test;
use crate::place::{Place, User, runtime};

pub(crate) const TESTS: &[Test] = &[
    (
        "without_user_namespaces_nothing_runs_and_it_is_said",
        without,
    ),
    ("in_a_container_that_hides_proc_it_is_said", hidden_proc),
    ("a_probe_says_what_is_there", probe),
    ("an_overlay_that_cannot_be_is_said", no_overlay),
];

fn without() {
    let place = Place::new(User::WithoutNamespaces);
    let contained = Containment {
        write: vec![place.path("work")],
        ..Containment::default()
    };
    let refused = place.try_run(&place.sh("touch ran", Some(contained)));
    let error = refused.unwrap_err();
    println!("{error}");
    assert!(
        matches!(
            &error,
            SpawnError::Contained {
                part: ContainmentPart::UserNamespace,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(!place.path("work/ran").exists());
    let found = runtime().block_on(place.children().probe_containment(&place.path("layers")));
    println!("{found:#?}");
    assert!(!found.user_namespaces.is_found());
    assert!(!found.overlay.is_found());
}

/// The kernel gives nobody a `/proc` in which there is more than in the one that they have.
fn hidden_proc() {
    let place = Place::new(User::WithHiddenProc);
    let refused = place.try_run(&place.sh("true", Some(Containment::default())));
    let error = refused.unwrap_err();
    println!("{error}");
    assert!(
        matches!(
            &error,
            SpawnError::Contained {
                part: ContainmentPart::Processes,
                ..
            }
        ),
        "{error:?}"
    );
}

fn probe() {
    // Its directories are made by whoever asks, so that is who has to run them.
    for user in [User::Ours, User::InContainer] {
        let place = Place::new(user);
        let children = place.children();
        let found = runtime().block_on(children.probe_containment(&place.path("layers")));
        println!("{user:?}: {found:#?}");
        assert!(found.user_namespaces.is_found());
        assert!(found.seccomp.is_found());
        assert!(found.overlay.is_found());
        let left = std::fs::read_dir(place.path("layers")).unwrap().count();
        assert_eq!(0, left);
    }
}

/// Where no attributes can be kept (or no directory made), there are no layers.
fn no_overlay() {
    let place = Place::new(User::Ours);
    let found = runtime().block_on(place.children().probe_containment(Path::new("/proc")));
    println!("{:?}", found.overlay);
    assert!(matches!(found.overlay, Mechanism::Missing(_)));
}
