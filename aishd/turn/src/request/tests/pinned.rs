//! What was pinned goes along with the newest question.

use super::*;

/// What a conversation has pinned stands before its newest question, and nothing else changes.
#[test]
fn pinned_resources_stand_before_the_newest_question() {
    let mut world = World::default();
    for what in [
        Happening::Ask,
        Happening::Start,
        Happening::Say {
            text: true,
            calls: 0,
        },
        Happening::Finish,
        Happening::Ask,
        Happening::Start,
    ] {
        world.happen(&what);
    }
    let pinned = PinnedEntry {
        alias: "notes".parse().unwrap(),
        uri: "note://1".to_owned(),
    };
    let held = [PinnedContent::new(&pinned, "buy milk".to_owned())];
    let said = |held: &[PinnedContent]| -> Value {
        let body = body(
            &preset(true),
            &world.transcript,
            &ToolOffer::default(),
            held,
            LoopMode::Talk,
        )
        .text;
        serde_json::from_str(&body).unwrap()
    };
    let (plain, mut with) = (said(&[]), said(&held));
    let newest = with["messages"].as_array_mut().unwrap().last_mut().unwrap();
    let question = plain["messages"].as_array().unwrap().last().unwrap();
    let expected = format!(
        "<pinned name=\"@notes:note://1\">\nbuy milk\n</pinned>\n\n{}",
        question["content"].as_str().unwrap()
    );
    assert_eq!(expected, newest["content"]);
    *newest = question.clone();
    assert_eq!(plain, with);
}
