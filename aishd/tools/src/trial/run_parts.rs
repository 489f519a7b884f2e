//! Keeping or dropping a part of what a run has changed, or all of it, between two of its commands: the run goes on in its
//! layers, over what is real by then.

use aish_proto::id::{ChangesId, ConversationId};
use aishd_layers::{ReadBounds, RelPath};
use aishd_log::run_changes::{ChangesPart, PartAct};
use aishd_log::time::Timestamp;

use super::layers_hold::{LayersHold, unread};
use super::told::{few, shown, summary};
use super::{ChangeFailure, KeptAbout, choice, other, text};

/// What a person wants of the changes of a run that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartWish {
    pub act: PartAct,
    /// These paths and what is below them; empty: all.
    pub only: Vec<String>,
    /// What was looked at ([`super::LookedAt`]), where that matters: for what becomes real.
    pub seen: Option<String>,
}

/// What it comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartFound {
    /// The first ones of many.
    pub paths: Vec<String>,
    pub count: u64,
}

impl LayersHold {
    /// Whether it can be done as things are; touches nothing.
    pub fn check_part(&self, wish: &PartWish) -> Result<PartFound, ChangeFailure> {
        let nothing = |at: Option<&String>| match at {
            Some(path) => format!("nothing was changed at {path}"),
            None => "nothing was changed so far".to_owned(),
        };
        let Some((set, _)) = self.sealed().map_err(ChangeFailure::Other)? else {
            return Err(ChangeFailure::Other(nothing(None)));
        };
        let chosen = choice(&set, &wish.only)?;
        let read = |it: std::io::Error| ChangeFailure::Other(unread(&it));
        let changes = set.changes(&ReadBounds::default()).map_err(read)?;
        let changed = summary(&set, &changes.within(&chosen), 0);
        if let Some(seen) = &wish.seen
            && *seen != set.seen(&chosen).map_err(read)?
        {
            return Err(ChangeFailure::Unseen);
        }
        let split = set.split_by(&chosen).map_err(read)?;
        if !split.is_empty() {
            let split: Vec<String> = split
                .iter()
                .map(|(layer, path): &(usize, RelPath)| shown(&set, *layer, path))
                .collect();
            let why = format!(
                "the run has put another directory in the place of {}; name that as a whole, or wait for the end of the run",
                few(&split)
            );
            return Err(ChangeFailure::Other(why));
        }
        let count = match wish.act {
            PartAct::Keep => self.room.plan(self.id, &wish.only)?.1.paths() as u64,
            PartAct::Drop => changed.count,
        };
        if count == 0 {
            return Err(ChangeFailure::Other(nothing(wish.only.first())));
        }
        Ok(PartFound {
            paths: changed.listed.into_iter().map(|it| it.path).collect(),
            count,
        })
    }

    /// Does what was ordered, unless a daemon before this one has done it; returns what there is to be said of it.
    pub fn do_part(
        &self,
        part: &ChangesPart,
        now: Timestamp,
        conversation: ConversationId,
    ) -> Result<String, ChangeFailure> {
        match part.act {
            PartAct::Keep => self.keep_part(part, now, conversation),
            PartAct::Drop => {
                let (set, _) = self.found()?;
                let chosen = choice(&set, &part.only)?;
                let dropped = set.drop_part(&chosen);
                let why = |it| ChangeFailure::Other(format!("drop what was changed: {it}"));
                dropped.map(|_count| String::new()).map_err(why)
            }
        }
    }

    fn keep_part(
        &self,
        part: &ChangesPart,
        now: Timestamp,
        conversation: ConversationId,
    ) -> Result<String, ChangeFailure> {
        let undo: ChangesId = part.part;
        let remark = if self.room.is_kept(undo)? {
            String::new()
        } else {
            let about = KeptAbout {
                conversation: Some(conversation),
                turn: Some(part.turn),
                number: None,
                paths: part.paths.clone(),
            };
            let kept = self
                .room
                .keep_planned((self.id, undo), &part.only, now, &about)?;
            kept.remark
        };
        let set = self.layers().map_err(other)?;
        // They are kept; at the end the same paths would look like somebody else's.
        match self.room.0.layers.seal_upon(&set, &undo.to_string()) {
            Ok(_report) => Ok(remark),
            Err(error) => Ok(format!("the layers were not sealed anew: {}", text(&error))),
        }
    }
}
