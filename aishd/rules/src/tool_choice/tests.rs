use aishd_log::access::Access;
use aishd_log::pattern::Pattern;

use super::*;
use crate::catalog::Catalog;
use crate::log_samples::tool;
use crate::policy::Policy;

fn is_own(name: &ToolName) -> bool {
    name.alias().as_str() == "aish"
}

/// A conversation with these tools, `a=3` being `a__t00` to `a__t02`.
#[derive(Default)]
struct Scene {
    pinned: Patterns,
    chosen: Vec<ToolName>,
    called: HashSet<String>,
}

impl Scene {
    fn all(providers: &str) -> ToolOffer {
        let mut tools = vec![];
        for provider in providers.split_whitespace() {
            let (name, count) = provider.split_once('=').unwrap();
            let numbers = 0..count.parse::<usize>().unwrap();
            tools.extend(
                numbers.map(|it| Arc::new(tool(&format!("{name}__t{it:02}"), Access::Read))),
            );
        }
        Catalog::new(tools).offer(&Policy::default(), |_| true)
    }

    /// What is sent, by name; what was chosen is remembered.
    fn sent(&mut self, providers: &str, bounds: OfferBounds, question: &str) -> Vec<String> {
        let offer = Self::all(providers);
        let offer = match bounds.exceeded_by(&offer, is_own) {
            None => offer,
            Some(because) => offer.choose(&ToolChoice {
                bounds,
                because,
                is_own,
                pinned: &self.pinned,
                chosen: &self.chosen,
                called: &self.called,
                questions: &[question],
                finder: &tool("aish__find_tools", Access::Read),
            }),
        };
        if let Some(made) = offer.selection() {
            self.chosen.retain(|it| !made.dropped.contains(it));
            self.chosen.extend(made.added.iter().cloned());
        }
        offer.iter().map(|(wire, _)| wire.to_owned()).collect()
    }

    fn find(&mut self, names: &[&str]) {
        self.chosen
            .extend(names.iter().map(|it| it.parse().unwrap()));
    }
}

fn most(most: usize) -> OfferBounds {
    OfferBounds {
        most: Some(most),
        room: None,
    }
}

#[test]
fn below_the_bounds_all_are_sent_as_ever() {
    let mut scene = Scene::default();
    let sent = scene.sent("aish=1 b=2", most(3), "b__t01");
    assert_eq!(vec!["aish__t00", "b__t00", "b__t01"], sent);
    assert!(scene.chosen.is_empty());
}

#[test]
fn own_tools_are_sent_and_those_that_are_pinned_called_or_named() {
    let mut scene = Scene {
        pinned: Patterns::new([Pattern::Provider("c".parse().unwrap())]),
        called: HashSet::from(["b__t07".to_owned()]),
        ..Scene::default()
    };
    let sent = scene.sent(
        "aish=1 b=30 c=2",
        most(20),
        "please use `b__t03`, and not t04",
    );
    assert_eq!(
        vec![
            "aish__find_tools",
            "aish__t00",
            "c__t00",
            "c__t01",
            "b__t07",
            "b__t03"
        ],
        sent
    );
    // It is not named any more, and stays.
    assert_eq!(sent, scene.sent("aish=1 b=30 c=2", most(20), "and now?"));
}

#[test]
fn what_is_chosen_later_comes_behind() {
    let mut scene = Scene::default();
    let mut before = scene.sent("aish=1 b=30", most(20), "b__t09");
    for found in [
        &["b__t01", "b__t02"][..],
        &["b__t00"],
        &["b__t09", "b__t05"],
    ] {
        scene.find(found);
        scene.chosen.dedup();
        let now = scene.sent("aish=1 b=30", most(20), "");
        assert_eq!(before, now[..before.len()], "it only grows");
        before = now;
    }
    assert_eq!(
        vec!["b__t09", "b__t01", "b__t02", "b__t00", "b__t05"],
        before[2..]
    );
    // A server that is away takes nothing else away, and what it has is where it was when it is back.
    assert_eq!(before[..2], scene.sent("aish=1 z=30", most(20), ""));
    assert_eq!(before, scene.sent("aish=1 b=30", most(20), ""));
}

#[test]
fn where_it_is_full_the_oldest_go_at_once_and_what_was_found_is_there() {
    let mut scene = Scene::default();
    let names: Vec<String> = (0..40).map(|it| format!("b__t{it:02}")).collect();
    let mut changed = 0;
    let mut before: Vec<String> = vec![];
    for found in names.chunks(4) {
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        scene.find(&found);
        let sent = scene.sent("aish=1 b=60", most(22), "");
        assert!(sent.len() <= 22, "{}", sent.len());
        assert!(found.iter().all(|it| sent.iter().any(|sent| sent == it)));
        let grew = sent.starts_with(&before);
        changed += usize::from(!grew);
        before = sent;
    }
    assert!(
        (1..=5).contains(&changed),
        "{changed} times another beginning"
    );
    // What had to go does not come back because it was called once.
    scene.called = names.iter().cloned().collect();
    assert_eq!(before, scene.sent("aish=1 b=60", most(22), ""));
}

#[test]
fn what_is_pinned_leaves_room_for_what_is_found() {
    let mut scene = Scene {
        pinned: Patterns::new([Pattern::Provider("b".parse().unwrap())]),
        ..Scene::default()
    };
    let sent = scene.sent("aish=1 b=60 c=5", most(22), "");
    assert_eq!(12, sent.len());
    scene.find(&["c__t00", "c__t01"]);
    let then = scene.sent("aish=1 b=60 c=5", most(22), "");
    assert_eq!(
        (sent.len() + 2, true),
        (then.len(), then.starts_with(&sent))
    );
}

#[test]
fn descriptions_that_take_too_much_of_the_context_are_left_out_too() {
    let room = OfferRoom {
        bytes: 900,
        percent: 25,
        tokens: 300,
    };
    let bounds = OfferBounds {
        most: None,
        room: Some(room),
    };
    let mut scene = Scene::default();
    // Own tools cannot be left out, and are not counted.
    assert_eq!(52, scene.sent("aish=50 b=2", bounds, "").len());
    let sent = scene.sent("aish=1 b=50", bounds, "b__t44");
    assert_eq!(vec!["aish__find_tools", "aish__t00", "b__t44"], sent);
    let because = bounds.exceeded_by(&Scene::all("b=50"), is_own).unwrap();
    assert_eq!(
        "all would take more than 25 % of its context, 300 tokens",
        because.to_string()
    );
}

#[test]
fn a_server_that_takes_few_is_sent_the_search_and_some_of_both() {
    let mut scene = Scene::default();
    scene.find(&["b__t03", "b__t04", "b__t05"]);
    let sent = scene.sent("aish=9 b=30", most(6), "");
    assert_eq!(
        vec!["aish__find_tools", "aish__t00", "aish__t01"],
        sent[..3]
    );
    assert!(
        sent.contains(&"b__t05".to_owned()) && sent.len() <= 6,
        "{sent:?}"
    );
    assert_eq!(4, Scene::default().sent("aish=9", most(4), "").len());
}

#[test]
fn a_word_is_no_name_of_a_tool() {
    let said = named_words("read the create_issue docs, then listIssues. And t03");
    let named = |name: &str| is_named(&tool(name, Access::Read), &said);
    for (name, expected) in [
        ("fs__read", false),
        ("gh__create_issue", true),
        ("gh__listIssues", true),
        ("b__t03", false),
        ("gh__docs", false),
    ] {
        assert_eq!(expected, named(name), "{name}");
    }
}
