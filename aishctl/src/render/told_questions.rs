//! What a conversation tells of questions to a person: that somebody was asked, what a trial came to, and how it ended.

use std::collections::BTreeMap;

use aish_proto::confirm::Decision;
use aish_proto::event::{CommandTried, ConfirmRequested, ConfirmResolved};
use aish_proto::id::ConfirmId;

use crate::render::markdown::Colours;
use crate::render::question::{self, ArgumentExtent};
use crate::render::rows::{RowReader, SafeRow};
use crate::render::table;
use crate::safe;

/// A row of a question that nobody can answer here any more.
const PAST_COLUMNS: usize = 160;

#[derive(Debug, Default)]
pub(crate) struct ToldQuestions {
    /// What they are called.
    numbers: BTreeMap<ConfirmId, u32>,
    /// Once is enough to say how something is taken back.
    knows_undo: bool,
}

impl ToldQuestions {
    pub(crate) fn remember(&mut self, request: &ConfirmRequested) {
        self.numbers.insert(request.confirm, request.number);
    }

    pub(crate) fn tried(&self, tried: &CommandTried, colours: Colours) -> Vec<SafeRow> {
        let number = self.numbers.get(&tried.confirm).copied();
        let rows = question::tried::rows(number, tried, colours);
        rows.into_iter().map(SafeRow::Text).collect()
    }

    pub(crate) fn ended(&mut self, resolved: &ConfirmResolved, reader: RowReader) -> SafeRow {
        let number = self.numbers.get(&resolved.confirm);
        let mut told = question::ending(number.copied().unwrap_or_default(), resolved);
        let is_kept = resolved.decision == Some(Decision::Keep) && reader == RowReader::Person;
        if is_kept && !std::mem::replace(&mut self.knows_undo, true) {
            told.push_str(" (:undo takes back what a turn has kept)");
        }
        SafeRow::Notice(safe::one_line(&told))
    }
}

/// That somebody was asked, and about what.
pub(crate) fn past(request: &ConfirmRequested) -> Vec<SafeRow> {
    let shown = question::question(request, ArgumentExtent::Short);
    let lines = shown.lines().take(2);
    lines
        .map(|it| SafeRow::Text(table::cut(it, PAST_COLUMNS)))
        .collect()
}
