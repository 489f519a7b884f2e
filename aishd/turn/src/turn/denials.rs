//! How often a person said no, so that nobody is asked for ever.

use std::collections::HashMap;

use aishd_log::tool::ContentDigest;

/// So often a person is asked about the same call in one turn.
const MAX_DENIALS: u32 = 3;

/// How often a person said no to the same call in this turn.
#[derive(Debug, Default)]
pub(super) struct Denials(HashMap<ContentDigest, u32>);

impl Denials {
    pub(super) fn add(&mut self, digest: ContentDigest) {
        *self.0.entry(digest).or_default() += 1;
    }

    pub(super) fn are_enough(&self, digest: ContentDigest) -> bool {
        self.0.get(&digest).is_some_and(|it| *it >= MAX_DENIALS)
    }
}
