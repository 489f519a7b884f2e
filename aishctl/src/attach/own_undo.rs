//! `:undo` and `:redo` of this window: a turn may have been kept in several parts, and one row sums up what became of all of them.

use std::collections::VecDeque;

use aish_proto::changes::UndoAct;
use aish_proto::event::{ClientEvent, Event};
use aish_proto::id::ChangesId;

use super::ui::UserInterface;
use super::{CompletedCall, OpenWindow};
use crate::commands::command_context::CommandContext;
use crate::commands::undo::{self, HalfReversed, Reversed, WantedChanges};
use crate::failure::Failure;
use crate::render::rows::SafeRow;

/// Parts that are summed up and were not told yet; those of another conversation never are.
const MOST_EXPECTED: usize = 64;

#[derive(Debug, Default)]
pub(super) struct OwnUndo {
    /// Commands that have not come back.
    begun: usize,
    /// What was told meanwhile, in the order that it came in.
    held: Vec<(ChangesId, Vec<SafeRow>)>,
    /// What has been summed up and is still to be told.
    expected: VecDeque<ChangesId>,
}

impl OwnUndo {
    /// The rows of an event, but for those that the sum stands for.
    pub(super) fn take(&mut self, event: &ClientEvent, rows: Vec<SafeRow>) -> Vec<SafeRow> {
        let Event::ChangesUndo(undo) = &event.data else {
            return rows;
        };
        let expected = self.expected.iter().position(|it| *it == undo.changes);
        if let Some(at) = expected {
            self.expected.remove(at);
            return vec![];
        }
        if self.begun > 0 {
            self.held.push((undo.changes, rows));
            return vec![];
        }
        rows
    }

    fn ended(&mut self, done: &[ChangesId]) -> Vec<SafeRow> {
        self.begun = self.begun.saturating_sub(1);
        for id in done {
            match self.held.iter().position(|it| it.0 == *id) {
                Some(at) => drop(self.held.remove(at)),
                None => self.expected.push_back(*id),
            }
        }
        let over = self.expected.len().saturating_sub(MOST_EXPECTED);
        self.expected.drain(..over);
        if self.begun > 0 {
            return vec![];
        }
        // Somebody else did that.
        self.held.drain(..).flat_map(|it| it.1).collect()
    }

    /// Another conversation is looked at.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.expected.clear();
    }
}

impl<U: UserInterface> OpenWindow<U> {
    pub(super) fn undo(&mut self, context: CommandContext, act: UndoAct, wanted: WantedChanges) {
        self.own_undo.begun += 1;
        self.calls.spawn(async move {
            let done = undo::reverse_all(&context, act, wanted).await;
            CompletedCall::Undone(Box::new(done))
        });
    }

    /// One row says what was done, and then what was not.
    pub(super) async fn undone(
        &mut self,
        done: Result<Reversed, HalfReversed>,
    ) -> Result<(), Failure> {
        let (done, failure) = match done {
            Ok(done) => (done, None),
            Err(half) => (half.done, Some(half.failure)),
        };
        let mut rows = self.own_undo.ended(&done.changes);
        if !done.changes.is_empty() {
            let row = done.sum.row(self.display.ui.columns());
            rows.push(SafeRow::Text(row));
        }
        self.display.show(rows).await?;
        match failure {
            Some(failure) => self.display.refuse(&failure).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_daemon;

    fn id(number: u8) -> ChangesId {
        ChangesId::from_bytes([number; 16])
    }

    fn told(own: &mut OwnUndo, number: u8) -> usize {
        let data = json!({
            "act": "undo", "changes": id(number), "paths": [], "count": 1, "reversible": true
        });
        let event = test_daemon::event(test_daemon::envelope(None, "changesUndo", data));
        let rows = vec![SafeRow::Text(format!("row {number}"))];
        own.take(&event, rows).len()
    }

    #[test]
    fn what_the_sum_stands_for_is_not_told_again_and_all_else_is() {
        let mut own = OwnUndo::default();
        assert_eq!(1, told(&mut own, 1));
        own.begun = 1;
        // Told before the command comes back, and behind it; and somebody else did the third.
        assert_eq!(0, told(&mut own, 2));
        assert_eq!(0, told(&mut own, 4));
        let others = own.ended(&[id(2), id(3)]);
        assert_eq!(vec![SafeRow::Text("row 4".to_owned())], others);
        assert_eq!(0, told(&mut own, 3));
        assert_eq!(1, told(&mut own, 3));
    }
}
