//! Conversations below those that they were copied from.

use std::collections::{HashMap, HashSet};

use aish_proto::conversation::ConversationStatus;
use aish_proto::id::ConversationId;

use crate::render::markdown::GlyphSet;

/// A conversation, and what stands in front of its title.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeEntry {
    pub(crate) conversation: ConversationStatus,
    pub(crate) branch: String,
}

/// All of them as they are.
pub(crate) fn flat(found: Vec<ConversationStatus>) -> Vec<TreeEntry> {
    let entries = found.into_iter().map(|conversation| TreeEntry {
        conversation,
        branch: String::new(),
    });
    entries.collect()
}

/// Copies stand below their originals, and otherwise in the order in which they came; a tree stands where the first of it
/// stood. A copy whose original is not among them stands for itself.
pub(crate) fn tree(found: Vec<ConversationStatus>, glyphs: GlyphSet) -> Vec<TreeEntry> {
    let parents: HashMap<ConversationId, ConversationId> = found
        .iter()
        .filter_map(|it| Some((it.id, it.forked_from?.conversation)))
        .collect();
    let order: Vec<ConversationId> = found.iter().map(|it| it.id).collect();
    let mut left: HashMap<ConversationId, ConversationStatus> =
        found.into_iter().map(|it| (it.id, it)).collect();
    let parent = |id| parents.get(&id).filter(|it| left.contains_key(it)).copied();
    let mut children: HashMap<ConversationId, Vec<ConversationId>> = HashMap::new();
    let (mut roots, mut known) = (vec![], HashSet::new());
    for id in &order {
        if let Some(parent) = parent(*id) {
            children.entry(parent).or_default().push(*id);
        }
        let (mut root, mut steps) = (*id, 0);
        while let Some(above) = parent(root).filter(|_| steps < order.len()) {
            (root, steps) = (above, steps + 1);
        }
        if known.insert(root) {
            roots.push(root);
        }
    }
    // Not by recursion: a chain of copies may be long.
    let mut waiting: Vec<(ConversationId, String, String)> = roots
        .into_iter()
        .rev()
        .map(|it| (it, String::new(), String::new()))
        .collect();
    let mut entries = vec![];
    while let Some((id, branch, below)) = waiting.pop() {
        let Some(conversation) = left.remove(&id) else {
            continue;
        };
        entries.push(TreeEntry {
            conversation,
            branch,
        });
        let children = children.remove(&id).unwrap_or_default();
        let last = children.len().saturating_sub(1);
        for (at, child) in children.into_iter().enumerate().rev() {
            let (mark, gap) = marks(glyphs, at == last);
            waiting.push((child, format!("{below}{mark}"), format!("{below}{gap}")));
        }
    }
    entries
}

fn marks(glyphs: GlyphSet, is_last: bool) -> (&'static str, &'static str) {
    match (glyphs, is_last) {
        (GlyphSet::Drawn, false) => ("├ ", "│ "),
        (GlyphSet::Drawn, true) => ("└ ", "  "),
        (GlyphSet::Words, _) => ("- ", "  "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_daemon;

    fn conversation(title: &str, byte: u8, of: Option<u8>) -> ConversationStatus {
        let mut status = test_daemon::status(title, byte);
        if let Some(of) = of {
            let original = ConversationId::from_bytes([of; 16]);
            status["forkedFrom"] = json!({"conversation": original, "seq": 3});
        }
        serde_json::from_value(status).unwrap()
    }

    #[track_caller]
    fn check(found: &[(&str, u8, Option<u8>)], glyphs: GlyphSet, expected: &[&str]) {
        let found = found.iter().map(|it| conversation(it.0, it.1, it.2));
        let shown = tree(found.collect(), glyphs);
        let shown: Vec<String> = shown
            .iter()
            .map(|it| format!("{}{}", it.branch, it.conversation.title))
            .collect();
        assert_eq!(expected, shown);
    }

    #[test]
    fn copies_stand_below_their_originals() {
        let found = [
            ("c", 3, Some(1)),
            ("z", 9, None),
            ("d", 4, Some(3)),
            ("a", 1, None),
            ("b", 2, Some(1)),
            ("lost", 5, Some(77)),
        ];
        let drawn = ["a", "├ c", "│ └ d", "└ b", "z", "lost"];
        check(&found, GlyphSet::Drawn, &drawn);
        let words = ["a", "- c", "  - d", "- b", "z", "lost"];
        check(&found, GlyphSet::Words, &words);
        check(&[("a", 1, None)], GlyphSet::Drawn, &["a"]);
    }

    #[test]
    fn a_long_chain_is_no_depth_of_ours() {
        let found: Vec<(&str, u8, Option<u8>)> = (1..=200)
            .map(|it| ("x", it, (it > 1).then(|| it - 1)))
            .collect();
        let found = found.iter().map(|it| conversation(it.0, it.1, it.2));
        let shown = tree(found.collect(), GlyphSet::Drawn);
        assert_eq!(200, shown.len());
        assert_eq!(199 * 2, shown[199].branch.chars().count());
    }
}
