//! `model default NAME`: which preset answers where none is named.

use std::fs;

use aish_testkit::{Upstream, World};

#[test]
fn a_preset_becomes_the_one_that_answers_where_none_is_named() {
    let upstream = Upstream::start();
    let world = World::new();
    let [one, other] = ["one", "other"].map(|it| {
        format!(
            "[models.{it}]\nendpoint = \"{}\"\nmodel = \"{it}\"\n",
            upstream.endpoint()
        )
    });
    world.write_config(&format!("default_model = \"one\" # mine\n{one}{other}"));
    let _daemon = world.daemon().spawn();
    let file = || fs::read_to_string(world.path("config/aish/config.toml")).unwrap();
    let chosen = world.ctl(&["model", "default", "other"]).run().ok();
    assert!(
        chosen
            .out()
            .ends_with("the default of your configuration is other now\n"),
        "{}",
        chosen.report()
    );
    assert!(file().starts_with("default_model = \"other\" # mine\n"));
    for unknown in ["nobody", "7", "-", "\"one\""] {
        let refused = world.ctl(&["model", "default", unknown]).run().code(78);
        for told in ["there is no [models.", "hint: aishctl model list"] {
            assert!(refused.err().contains(told), "{}", refused.report());
        }
    }
    let of_one = world
        .ctl(&["model", "default", "one", "-C", "proj"])
        .run()
        .code(2);
    assert!(
        of_one.err().contains("aishctl model one -C proj"),
        "{}",
        of_one.report()
    );
    assert!(file().starts_with("default_model = \"other\" # mine\n"));
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let asked_of = |model: &str| {
        drop(world.ctl(&["ask", "-C", "proj", "who answers?"]).run().ok());
        assert_eq!(model, upstream.requests().pop().unwrap().json()["model"]);
    };
    asked_of("other");
    drop(world.ctl(&["model", "one", "-C", "proj"]).run().ok());
    asked_of("one");
    let of_the_last = world.ctl(&["model", "one"]).run().ok();
    assert_eq!(
        "proj uses one from its next turn on\nto have it in new ones too: aishctl model default one\n",
        of_the_last.out()
    );
    let back = world.ctl(&["model", "default", "-C", "proj"]).run().ok();
    asked_of("other");
    assert!(
        back.out()
            .contains("uses the default of your configuration"),
        "{}",
        back.report()
    );
}
