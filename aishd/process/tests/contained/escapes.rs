//! What was written to get out, as real programs: each must fail by the kernel, for root as for anybody else and within a
//! container, and what is around must be as it was.

use aish_testkit::escapes::{self, EscapeEnd, EscapeScene, python};
use aishd_process::contained::Containment;
use aishd_process::spec::ChildExit;

use crate::Test;
use crate::network::has_python;
use crate::place::{Place, USERS, User};

pub(crate) const TESTS: &[Test] = &[
    ("nothing_gets_out_as_root_or_whoever_we_are", ours),
    ("nothing_gets_out_as_an_ordinary_user", ordinary),
    ("nothing_gets_out_in_a_container", in_container),
    ("each_escape_is_one_outside", outside),
];

struct Scene {
    around: EscapeScene,
    place: Place,
}

impl Scene {
    fn new(user: User) -> Self {
        let mut place = Place::new(user);
        let mut around = EscapeScene::new(&place.path(""));
        place.env.extend(around.env.clone());
        place.give();
        around.begin();
        Self { around, place }
    }

    fn contained(&self) -> Containment {
        Containment {
            layers: vec![self.place.layer("home", "home")],
            write: vec![self.place.path("work")],
            masks: self.around.keys(),
            ..Containment::default()
        }
    }
}

fn nothing_gets_out(user: User) {
    let python = has_python();
    let scene = Scene::new(user);
    let mut wrong = vec![];
    let mut tried = 0;
    for escape in escapes::all() {
        let Some(script) = escape.shell() else {
            println!("SKIPPED: {}", escape.script);
            continue;
        };
        tried += 1;
        let ran = scene.place.run(&script, scene.contained());
        let last = ran.output.trim().lines().last().unwrap_or_default();
        println!("{user:?} {}: {:?} {last}", escape.script, ran.exit);
        let ended = if ran.exit == ChildExit::Code(0) {
            EscapeEnd::Well
        } else {
            EscapeEnd::Badly
        };
        wrong.extend(scene.around.done_by(&escape, "", (ended, &ran.output)));
    }
    println!("{user:?}: {tried} tried");
    assert!(tried > if python { 150 } else { 40 }, "{tried}");
    assert!(wrong.is_empty(), "{user:?}\n{}", wrong.join("\n"));
}

fn ours() {
    nothing_gets_out(USERS[0]);
}

fn ordinary() {
    nothing_gets_out(USERS[1]);
}

fn in_container() {
    nothing_gets_out(USERS[2]);
}

/// What the table relies on: without a containment, these reach what they are for.
fn outside() {
    if !has_python() {
        return;
    }
    let scene = Scene::new(User::Ordinary);
    let heard = || scene.around.heard();
    let reach = |script: &str| {
        let ran = scene.place.try_run(&scene.place.sh(script, None)).unwrap();
        assert_eq!(ChildExit::Code(0), ran.exit, "{script}: {}", ran.output);
        ran.output
    };
    for it in ["BUS", "AGENT", "TMPSOCK", "DOCKER"] {
        reach(&python(&format!("unix(os.environ[{it:?}])")));
        assert_eq!(vec!["a socket with a path"], heard(), "{it}");
    }
    reach(&python("unix(\"\\0\" + os.environ[\"ABSTRACT\"])"));
    reach(&python("socket.create_connection((\"127.0.0.1\", TCP))"));
    assert_eq!(vec!["a socket with a path", "TCP"], heard());
    reach(&python("os.listdir(f\"/proc/{VICTIM}\")"));
    assert!(reach("cat ~/.netrc ~/.pgpass \"$TMPFILE\"").contains(&scene.around.secret));
    reach("touch \"$OUT/new\" /var/tmp/aish-escape && rm \"$OUT/new\" /var/tmp/aish-escape");
}
