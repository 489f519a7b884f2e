//! What a contained child finds around it, whoever it runs as.

use std::fs;

use aishd_process::contained::Containment;

use crate::Test;
use crate::place::{Place, USERS};

pub(crate) const TESTS: &[Test] = &[
    ("nothing_is_inherited", nothing_inherited),
    ("each_namespace_is_its_own", namespaces),
    ("own_directories_are_empty_and_can_be_used", own_directories),
    ("names_and_owners_are_as_outside", as_outside),
];

fn nothing_inherited() {
    for user in USERS {
        let place = Place::new(user);
        let seen = place.well(
            "ls /proc/self/fd | tr '\\n' ' '; env | cut -d= -f1 | sort | tr '\\n' ' '; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status",
            Containment::default(),
        );
        let mut lines = seen.lines();
        // The third of them is the directory that is listed.
        let first = "0 1 2 3 HOME LC_ALL OUT PATH PWD W CapInh:\t0000000000000000";
        assert_eq!(Some(first), lines.next(), "{user:?}");
        let rest = [
            "CapPrm:\t0000000000000000",
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "CapAmb:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ];
        assert_eq!(rest[..], lines.collect::<Vec<_>>(), "{user:?}");
        // Whatever stands at the seventh place: no terminal is that of the session.
        let seen = place.well("cut -d' ' -f7 /proc/self/stat", Containment::default());
        assert_eq!("0\n", seen, "{user:?}");
    }
}

fn namespaces() {
    for user in USERS {
        let place = Place::new(user);
        for name in ["user", "mnt", "pid", "ipc", "uts", "net", "cgroup"] {
            let ours = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            let script = format!("readlink /proc/self/ns/{name}");
            let theirs = place.well(&script, Containment::default());
            assert_ne!(ours.to_str().unwrap(), theirs.trim(), "{user:?}");
        }
        let script = "[ $$ != 1 ] && cat /proc/1/comm && ls -d /proc/[0-9]* | wc -l";
        let seen = place.well(script, Containment::default());
        let count = seen.strip_prefix("aish-init\n").unwrap().trim();
        assert!(count.parse::<u32>().unwrap() <= 4, "{count}");
    }
}

fn own_directories() {
    for user in USERS {
        let place = Place::new(user);
        let seen = place.well(
            "ls -A /tmp /dev/shm /run/user/$(id -u); ls -A /dev | tr '\\n' ' '; \
             for it in /tmp /dev/shm /run/user/$(id -u); do echo x >$it/x && cat $it/x; done; \
             echo x >/dev/null && head -c 3 /dev/zero | od -An -tx1 && head -c 8 /dev/urandom | wc -c; \
             (cat /proc/self/comm >/dev/full) 2>&1 | grep -c 'No space'; echo there | cat /dev/stdin",
            Containment::default(),
        );
        let devices = "fd full null ptmx pts random shm stderr stdin stdout urandom zero";
        assert!(seen.contains(devices), "{user:?}: {seen}");
        assert!(
            seen.ends_with("x\nx\nx\n 00 00 00\n8\n1\nthere\n"),
            "{user:?}: {seen}"
        );
    }
}

/// The same user and group, and no owner is another than outside where it is the user's.
fn as_outside() {
    for user in USERS {
        let place = Place::new(user);
        let script = "id -u; id -g; uname -n; stat -c '%u %g %a' . ~ \"$OUT\"; umask; pwd";
        let within = place.well(script, Containment::default());
        let outside = place.try_run(&place.sh(script, None)).unwrap();
        assert_eq!(outside.output, within, "{user:?}");
    }
}
