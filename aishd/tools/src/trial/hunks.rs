//! Keeping some hunks of what was tried, numbered from 1 through the whole difference. Whoever chose them was shown that very
//! difference, or nothing is kept.

use std::collections::BTreeSet;

use aish_proto::id::ChangesId;
use aishd_layers::{KeepChoice, LayerSet, ReadBounds};
use aishd_log::confirm::KeptHunks;
use aishd_log::time::Timestamp;

use super::difference::{Difference, FileDifference};
use super::{ChangeFailure, KeepReport, KeptAbout, TrialRoom, other};

/// So many files are told with their hunks.
const TOLD_FILES: usize = 20;

/// What is chosen of what was tried, as it is there.
struct FoundHunks {
    set: LayerSet,
    difference: Difference,
    chosen: BTreeSet<usize>,
}

impl TrialRoom {
    /// Looks at what was chosen: its numbers in their order, and of how many. Nothing is changed by it.
    ///
    /// # Errors
    /// It is not what was shown, there is no such hunk, or somebody else changed the files since.
    pub fn check_hunks(
        &self,
        id: ChangesId,
        chosen: &KeptHunks,
    ) -> Result<KeptHunks, ChangeFailure> {
        let found = self.found_hunks(id, chosen)?;
        self.plan_choice(&found.set, &found.choice())?;
        let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        Ok(KeptHunks {
            numbers: found.chosen.iter().map(|at| number(at + 1)).collect(),
            of: number(found.difference.hunks.len()),
            difference: chosen.difference,
        })
    }

    /// Makes these hunks real, all of them or none; the rest of what was tried is gone either way. It says which they are, for the
    /// model. The layers stay where a keep has begun and did not end: recovery needs them.
    pub fn keep_hunks_or_drop(
        &self,
        id: ChangesId,
        chosen: &KeptHunks,
        now: Timestamp,
        about: &KeptAbout,
    ) -> Result<(KeepReport, String), ChangeFailure> {
        let kept = self.keep_hunks(id, chosen, now, about);
        if !matches!(kept, Err(ChangeFailure::Unfinished(_))) {
            self.drop_layers(id);
        }
        kept
    }

    fn keep_hunks(
        &self,
        id: ChangesId,
        chosen: &KeptHunks,
        now: Timestamp,
        about: &KeptAbout,
    ) -> Result<(KeepReport, String), ChangeFailure> {
        let found = self.found_hunks(id, chosen)?;
        let choice = found.choice();
        // Before anything is put into the layers: it is to be what somebody looked at, and not over somebody else's work.
        self.plan_choice(&found.set, &choice)?;
        for (it, own) in found.files().filter(|(it, own)| is_divided(it, own)) {
            let text = it.parts.as_ref().map(|parts| parts.with(&own));
            let text = text.unwrap_or_default();
            let put = found.set.put_text(it.layer, &it.path, &text);
            put.map_err(|error| ChangeFailure::Other(format!("divide {}: {error}", it.shown)))?;
        }
        let plan = self.plan_choice(&found.set, &choice)?;
        let about = KeptAbout {
            paths: found.kept().take(about.paths.len()).collect(),
            ..*about
        };
        let kept = self.keep_plan(&found.set, &plan, (id, now), &about)?;
        Ok((kept, found.told()))
    }

    fn found_hunks(&self, id: ChangesId, chosen: &KeptHunks) -> Result<FoundHunks, ChangeFailure> {
        let refused = |why: String| Err(ChangeFailure::Other(why));
        let set = self.0.layers.get(&id.to_string()).map_err(other)?;
        let bounds = ReadBounds::default();
        let changes = set.changes(&bounds).map_err(other)?;
        let difference = Difference::of(&set, &changes, &bounds);
        if difference.digest(id) != chosen.difference {
            return refused(
                "the difference is not the one that was shown; look at it again".to_owned(),
            );
        }
        let all = difference.hunks.len();
        if all == 0 {
            return refused("there is more than was shown; choose by files".to_owned());
        }
        let place = |number: &u32| {
            let at = usize::try_from(*number)
                .unwrap_or(usize::MAX)
                .checked_sub(1);
            at.filter(|it| *it < all).ok_or(*number)
        };
        let places: Result<BTreeSet<usize>, u32> = chosen.numbers.iter().map(place).collect();
        match places {
            Err(number) => refused(format!("there is no hunk {number}: they are 1 to {all}")),
            Ok(none) if none.is_empty() => refused("no hunk is chosen, which is a no".to_owned()),
            Ok(chosen) => Ok(FoundHunks {
                set,
                difference,
                chosen,
            }),
        }
    }
}

impl FoundHunks {
    /// Each file, with what is chosen of its own hunks.
    fn files(&self) -> impl Iterator<Item = (&FileDifference, BTreeSet<usize>)> {
        self.difference.files.iter().map(|it| {
            let own = self.chosen.range(it.hunks.clone());
            (it, own.map(|at| at - it.hunks.start).collect())
        })
    }

    fn choice(&self) -> KeepChoice {
        let (mut whole, mut alone) = (vec![], vec![]);
        for (it, _) in self.files().filter(|(_, own)| !own.is_empty()) {
            let those = if it.is_replaced {
                &mut whole
            } else {
                &mut alone
            };
            those.push((it.layer, it.path.clone()));
        }
        KeepChoice::Listed { whole, alone }
    }

    fn kept(&self) -> impl Iterator<Item = String> {
        let kept = self.files().filter(|(_, own)| !own.is_empty());
        kept.map(|(it, _)| it.shown.clone())
    }

    /// For the model: which are real, and which are not.
    fn told(&self) -> String {
        let files = self.files().take(TOLD_FILES);
        let mut told: Vec<String> = files.map(|(it, own)| told(it, &own)).collect();
        let more = self.difference.files.len().saturating_sub(TOLD_FILES);
        if more > 0 {
            told.push(format!("and {more} files more"));
        }
        told.join("; ")
    }
}

fn is_divided(it: &FileDifference, own: &BTreeSet<usize>) -> bool {
    !own.is_empty() && own.len() < it.hunks.len()
}

fn told(it: &FileDifference, own: &BTreeSet<usize>) -> String {
    if own.is_empty() {
        return format!("{} is as it was before", it.shown);
    }
    let Some(parts) = it.parts.as_ref().filter(|_| is_divided(it, own)) else {
        return format!("{} is as proposed", it.shown);
    };
    let those = |is_chosen: bool| -> String {
        let all = parts.shown.iter().enumerate();
        let those = all.filter(|(at, _)| own.contains(at) == is_chosen);
        let headers = those.filter_map(|(_, text)| text.lines().next());
        headers.collect::<Vec<_>>().join(", ")
    };
    format!(
        "of {} the hunks {}, but not {}",
        it.shown,
        those(true),
        those(false)
    )
}
