//! No place at the daemon: who is turned away is told why, at once.

use std::os::unix::net::UnixStream;

use aish_testkit::World;
use aish_testkit::wait::until_true;

use crate::shell::shell;

#[test]
fn who_finds_no_place_is_told_why() {
    let world = World::new();
    world.write_config("[limits]\nmax_clients = 2\n");
    let _daemon = world.daemon().spawn();
    let held = [(); 2].map(|()| world.client());
    for line in ["status", "ask --no-stdin why", "conv ls"] {
        let refused = shell(&world, &format!("aishctl {line}")).run().code(7);
        assert!(
            refused.err().contains("2 clients are connected already")
                && refused.err().contains("limits.max_clients"),
            "{}",
            refused.report()
        );
    }
    drop(held);
    until_true("a place is free", || {
        UnixStream::connect(world.socket()).is_ok()
            && shell(&world, "aishctl conv ls").run().err().is_empty()
    });
}
