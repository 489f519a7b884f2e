//! What a run changed in layers over the files: a proposal from its end on, until a person keeps or drops it.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::{ChangesId, ConfirmId, TurnId};
use serde::{Deserialize, Serialize};

use crate::answering_person::AnsweringPerson;

/// So many of the kept files are named.
const FEW: usize = 10;

/// The layers of a run are named by its turn.
pub fn of_run(turn: TurnId) -> ChangesId {
    ChangesId(turn.0)
}

/// The layers of one run that are there, and what waits for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunChanges {
    pub turn: TurnId,
    /// What the run was to do, its beginning.
    #[serde(default)]
    pub goal: String,
    pub stage: RunChangesStage,
    /// A person's word about a part of them that is being done. Whatever happens, it is done or told why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Box<ChangesPart>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunChangesStage {
    /// The run works in them, or may go on to.
    InWork,
    /// The run is over, and nobody has been asked yet.
    Ended,
    /// A person is asked; the question has this number.
    Asked(u32),
    /// A person has said that they become real. Whatever happens, this is done or told why not.
    Ordered(ChangesOrder),
}

/// A person's word that changes become real.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesOrder {
    pub confirm: ConfirmId,
    /// Of the question.
    pub number: u32,
    /// These and what is below them; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnsweringPerson>,
}

/// A person's word about what a run has changed so far, or a part of it, while the run goes on; and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesPart {
    pub turn: TurnId,
    /// Names it; what was kept is undone by this.
    pub part: ChangesId,
    pub act: PartAct,
    pub stage: PartStage,
    /// These and what is below them; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// What it is about, the first ones of many; absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    #[serde(default)]
    pub count: u64,
    /// What there is to be said of it besides, or why nothing was done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remark: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnsweringPerson>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartAct {
    /// They become real.
    Keep,
    /// The run loses them.
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartStage {
    Ordered,
    Done,
    Failed,
}

/// What became of the changes of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesSettled {
    pub turn: TurnId,
    pub outcome: ChangesOutcome,
    /// What was kept, the first ones of many; absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// How many paths were kept.
    #[serde(default)]
    pub count: u64,
    /// What there is to be said of it besides, or why nothing was kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remark: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnsweringPerson>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangesOutcome {
    /// There were none.
    Nothing,
    /// They are real.
    Kept,
    /// Those that were chosen are real, and the others gone.
    KeptInPart,
    Dropped,
    /// They could not be kept; nothing was touched, and they are gone.
    Failed,
}

impl ChangesPart {
    /// For the model of the run, behind what its next command prints. `None`: there is nothing to say.
    pub fn told(&self) -> Option<String> {
        let what = named(&self.paths, self.count);
        match (self.stage, self.act) {
            (PartStage::Ordered | PartStage::Failed, _) => None,
            (PartStage::Done, PartAct::Keep) => Some(format!(
                "[aish] Meanwhile a person kept this of what the run changed, and it is real now: {what}."
            )),
            (PartStage::Done, PartAct::Drop) => Some(format!(
                "[aish] Meanwhile a person dropped this of what the run changed; it is as it was before the run: {what}."
            )),
        }
    }
}

/// A few of the paths.
pub(crate) fn named(paths: &[String], count: u64) -> String {
    let few = paths.iter().take(FEW);
    let few = few.cloned().collect::<Vec<_>>().join(", ");
    if count > paths.len().min(FEW) as u64 {
        format!("{count} paths, {few} among them")
    } else {
        few
    }
}

impl ChangesSettled {
    /// For the model, before the next question. `None`: there is nothing to say.
    pub fn told(&self) -> Option<String> {
        let kept = named(&self.paths, self.count);
        let remark = if self.remark.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.remark)
        };
        let said = match self.outcome {
            ChangesOutcome::Nothing => return None,
            ChangesOutcome::Kept => format!("A person kept all that the run changed: {kept}"),
            ChangesOutcome::KeptInPart => {
                format!("Of what the run changed a person kept this, and the rest is gone: {kept}")
            }
            ChangesOutcome::Dropped => {
                "A person kept nothing of what the run changed: the files are as before".to_owned()
            }
            ChangesOutcome::Failed => {
                "What the run changed could not be kept: the files are as before".to_owned()
            }
        };
        Some(format!("[aish] {said}{remark}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(outcome: ChangesOutcome, paths: &[&str], count: u64, expected: Option<&str>) {
        let settled = ChangesSettled {
            turn: TurnId::from_bytes([1; 16]),
            outcome,
            paths: paths.iter().map(|it| (*it).to_owned()).collect(),
            count,
            remark: String::new(),
            confirm: None,
            by: None,
        };
        assert_eq!(expected, settled.told().as_deref());
    }

    #[test]
    fn the_model_of_a_run_is_told_what_a_person_did_to_its_changes() {
        let part = |act, stage| ChangesPart {
            turn: TurnId::from_bytes([1; 16]),
            part: ChangesId::from_bytes([2; 16]),
            act,
            stage,
            only: vec![],
            paths: vec!["/w/a".to_owned()],
            count: 3,
            remark: String::new(),
            by: None,
        };
        assert_eq!(None, part(PartAct::Keep, PartStage::Ordered).told());
        assert_eq!(None, part(PartAct::Drop, PartStage::Failed).told());
        let kept = part(PartAct::Keep, PartStage::Done).told().unwrap();
        assert!(
            kept.ends_with("it is real now: 3 paths, /w/a among them."),
            "{kept}"
        );
        let dropped = part(PartAct::Drop, PartStage::Done).told().unwrap();
        assert!(
            dropped.contains("dropped this of what the run changed"),
            "{dropped}"
        );
    }

    #[test]
    fn a_model_is_told_what_became_of_its_changes() {
        check(ChangesOutcome::Nothing, &[], 0, None);
        check(
            ChangesOutcome::Kept,
            &["/w/a", "/w/b"],
            2,
            Some("[aish] A person kept all that the run changed: /w/a, /w/b."),
        );
        check(
            ChangesOutcome::KeptInPart,
            &["/w/a"],
            7,
            Some(
                "[aish] Of what the run changed a person kept this, and the rest is gone: 7 paths, /w/a among them.",
            ),
        );
        check(
            ChangesOutcome::Dropped,
            &[],
            0,
            Some("[aish] A person kept nothing of what the run changed: the files are as before."),
        );
    }
}
