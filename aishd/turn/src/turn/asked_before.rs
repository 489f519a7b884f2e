//! What a person was asked before in this turn and what came of it, so that nobody is asked about the same for ever.

use std::collections::HashMap;

use aishd_log::confirm::Denial;
use aishd_log::tool::ContentDigest;

/// So often a person is asked about the same call in one turn, where the answer is no.
const MAX_DENIALS: u32 = 3;
/// So often the same may come to the same before it is not asked about again.
const MAX_SAME_RESULTS: u32 = 2;

/// What a model is told in place of a question to a person.
#[derive(Debug)]
pub(super) struct RepeatRefusal {
    pub(super) denial: Option<Denial>,
    pub(super) content: &'static str,
    /// For the audit.
    pub(super) because: &'static str,
}

#[derive(Debug, Default)]
pub(super) struct AskedBefore {
    /// How often a person said no to the same call.
    denials: HashMap<ContentDigest, u32>,
    /// What a call that a person allowed came to of late, and how often since anything else was new.
    results: HashMap<ContentDigest, (ContentDigest, u32)>,
    /// The model is told with the replies of this round that it goes round in a circle.
    remarks: bool,
    /// It was told with those of an earlier one.
    has_remarked: bool,
}

impl AskedBefore {
    pub(super) fn denied(&mut self, call: ContentDigest) {
        *self.denials.entry(call).or_default() += 1;
    }

    /// What comes to something new may have changed what others would come to.
    pub(super) fn came_to(&mut self, call: ContentDigest, result: &str) {
        let result = ContentDigest::of(result.as_bytes());
        let times = match self.results.get(&call) {
            Some((last, times)) if *last == result => *times + 1,
            Some(_) | None => {
                self.something_changed();
                1
            }
        };
        self.results.insert(call, (result, times));
    }

    /// All of them may come to something else from now on.
    pub(super) fn something_changed(&mut self) {
        self.results.values_mut().for_each(|(_, times)| *times = 1);
    }

    /// Why a person is not asked about it once more.
    pub(super) fn refusal(&mut self, call: ContentDigest) -> Option<RepeatRefusal> {
        if self.denials.get(&call).is_some_and(|it| *it >= MAX_DENIALS) {
            return Some(RepeatRefusal {
                denial: Some(Denial::Person),
                content: "[aish] denied by user, and not asked about again in this turn",
                because: "denied before by a person in this turn",
            });
        }
        let known = self.results.get(&call);
        let is_known = known.is_some_and(|(_, times)| *times >= MAX_SAME_RESULTS);
        self.remarks |= is_known;
        is_known.then_some(RepeatRefusal {
            denial: None,
            content: "[aish] it ran twice in this turn and came to the same, so nobody is asked a third time; nothing ran",
            because: "it came to the same twice",
        })
    }

    /// At the end of a round: whether the model had been told, and did not turn to anything else.
    pub(super) fn goes_in_circles(&mut self) -> bool {
        let remarks = std::mem::take(&mut self.remarks);
        let goes_on = remarks && self.has_remarked;
        self.has_remarked |= remarks;
        goes_on
    }
}
