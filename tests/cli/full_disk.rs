//! A disk without room: what waits for it is said, and comes when there is room.

use aish_testkit::{Answer, Upstream, World, disk, wait};

use crate::shell::shell;

#[test]
fn an_answer_that_waits_for_room_says_so_and_comes() {
    let (upstream, world) = (Upstream::start(), World::new());
    let Some(small) = disk::Small::mount(&world.path("state"), 40 << 20) else {
        return;
    };
    world.write_config(&format!(
        "default_model = \"test\"\n{}",
        upstream.preset("test", "")
    ));
    let _daemon = world.daemon().spawn();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut asking = shell(&world, "aishctl ask --no-stdin why 2>&1").spawn();
    gate.wait_request();
    std::fs::remove_file(world.state().join("store/reserve")).unwrap();
    small.fill();
    gate.text("Because.");
    gate.finish();
    let line =
        asking.line_with("what happened here waits to be stored: no room on the disk of the store");
    let status = shell(&world, "aishctl status").run().ok();
    assert!(
        status.out().contains("no room on the disk of the store"),
        "{}",
        status.report()
    );
    small.free();
    assert!(line.starts_with("Because."), "{line}");
    let _whole = asking.wait().ok();
    wait::until_true("the store is well again", || {
        let status = shell(&world, "aishctl status").run().ok();
        !status.out().contains("no room")
    });
    upstream.finish();
}
