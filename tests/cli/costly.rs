//! Questions that are dear: a person is asked at the terminal, a script is told how to say yes.

use aish_testkit::{Answer, Daemon, Upstream, World};

use crate::shell::shell_on_terminal;

/// Ten dollars for a million tokens that are sent.
const DEAR: &str = "price = { input = 10.0, output = 10.0 }";

fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    upstream.answer_with(|_| Answer::text("I see."));
    let world = World::new();
    let preset = upstream.preset("paid", DEAR);
    world.write_config(&format!("default_model = \"paid\"\n{preset}"));
    world.write("work/log", &"a line of a log\n".repeat(40_000));
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

#[test]
fn a_script_is_told_what_it_takes_and_how_to_accept_it() {
    let (upstream, world, _daemon) = world();
    let refused = world.ctl(&["ask", "-f", "log", "why?"]).run().code(10);
    assert!(
        refused
            .err()
            .contains("this would send about 213k tokens to paid, for $2.14 and the answer")
            && refused
                .err()
                .contains("hint: nothing was sent; aishctl ask --accept-cost ... sends it")
            && !refused.err().contains("acceptCost"),
        "{}",
        refused.err()
    );
    assert_eq!(0, upstream.requests().len());
    let sent = world
        .ctl(&["ask", "--accept-cost", "-f", "log", "why?"])
        .run();
    assert_eq!("I see.\n", sent.ok().out());
    assert_eq!(1, upstream.requests().len());
}

#[test]
fn a_person_is_asked_at_the_terminal_and_a_no_sends_nothing() {
    let (upstream, world, _daemon) = world();
    let mut asking = shell_on_terminal(&world, "aishctl ask -f log why");
    asking.wait_for("send it? [y/N]");
    asking.key("\n");
    assert_eq!(10, asking.wait(), "{}", asking.seen());
    assert!(
        asking.seen().contains("it was not sent"),
        "{}",
        asking.seen()
    );
    let mut asking = shell_on_terminal(&world, "aishctl ask -f log why");
    asking.wait_for("send it? [y/N]");
    assert_eq!(0, upstream.requests().len());
    asking.key("y\n");
    assert_eq!(0, asking.wait(), "{}", asking.seen());
    assert!(asking.seen().contains("I see."), "{}", asking.seen());
    assert_eq!(1, upstream.requests().len());
}
