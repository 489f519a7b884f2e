//! asciicast v2: what a window of 80 columns showed of the stored events, at the times at which they came. There is no
//! control character in it but ends of rows, so that a recording can only show text.

use aish_proto::conversation::ConversationStatus;
use aish_proto::envelope::Envelope;
use serde_json::json;

use crate::commands::export::instant::millis;
use crate::render::markdown::Style;
use crate::render::notice;
use crate::render::rows::{ConversationRows, SafeRow};
use crate::safe;

const COLUMNS: usize = 80;
const ROWS: usize = 24;
/// A player goes on after so many seconds in which nothing comes.
const IDLE_SECONDS: f64 = 2.0;

#[derive(Debug)]
pub(super) struct CastExport {
    title: String,
    rows: ConversationRows,
    /// When the first event came.
    began: Option<i64>,
    /// The time of the last row, in milliseconds; it never goes back, whatever the clock did.
    at: i64,
    created: i64,
}

impl CastExport {
    pub(super) fn new(of: &ConversationStatus) -> Self {
        Self {
            title: safe::one_line(&of.title),
            rows: ConversationRows::new(None, false).laid_out(Some(Style::plain(Some(COLUMNS)))),
            began: None,
            at: 0,
            created: millis(&of.created_at).unwrap_or(0),
        }
    }

    pub(super) fn event(&mut self, event: &Envelope) -> String {
        let mut text = String::new();
        let now = millis(&event.ts).unwrap_or(self.created);
        if self.began.is_none() {
            text.push_str(&self.header());
        }
        let began = *self.began.get_or_insert(now);
        self.at = self.at.max(now - began);
        let rows = self.rows.take(&event.clone().into());
        text.push_str(&self.render(&rows));
        text
    }

    pub(super) fn end(&mut self) -> String {
        let header = match self.began {
            None => self.header(),
            Some(_) => String::new(),
        };
        let rows = self.rows.rest();
        header + &self.render(&rows)
    }

    fn header(&self) -> String {
        let header = json!({
            "version": 2,
            "width": COLUMNS,
            "height": ROWS,
            "timestamp": self.created / 1000,
            "idle_time_limit": IDLE_SECONDS,
            "title": self.title,
            "env": {"TERM": "dumb"},
        });
        format!("{header}\n")
    }

    fn render(&self, rows: &[SafeRow]) -> String {
        let mut text = String::new();
        for row in rows {
            let shown = match row {
                SafeRow::Text(row) | SafeRow::Asked(_, row) | SafeRow::Aside(row) => {
                    safe::screen(row)
                }
                SafeRow::Notice(row) => safe::screen(notice::line(row, false).trim_end()),
            };
            text.push_str(&shown.replace('\n', "\r\n"));
            text.push_str("\r\n");
        }
        if text.is_empty() {
            return text;
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a conversation")]
        let seconds = self.at as f64 / 1000.0;
        format!("{}\n", json!([seconds, "o", text]))
    }
}
