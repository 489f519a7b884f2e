//! What a request says so that it fits its budget: whole exchanges leave from the front, the last one
//! never. Where that one alone is too long it goes without the summary and the project, then its largest results and the
//! outputs of commands that go with it are shortened, and where that is not enough there is no request. The real call, and
//! every preview of it, come from here.

use std::fmt;

use aishd_log::pinned_resource::PinnedContent;
use aishd_log::shortened_result::without_middle;
use aishd_model::context_budget::{BytesPerToken, ContextLimit, LoopMode, TokenLimit};
use aishd_model::preset::Preset;
use aishd_rules::catalog::ToolOffer;

use super::{TranscriptMessage, WeighedBody};
use crate::exchange::{Exchange, json_bytes, weight};
use crate::transcript::Transcript;

/// No result and no output is shortened to less, in bytes.
const LEAST_RESULT_BYTES: usize = 512;

/// In the mark of what was left out of a long result.
const MARK: &str = " bytes are left out here";

/// What a request is made of.
#[derive(Clone, Copy, Debug)]
pub struct FitInput<'a> {
    pub preset: &'a Preset,
    pub transcript: &'a Transcript,
    pub offer: &'a ToolOffer,
    /// What pinned resources hold.
    pub pinned: &'a [PinnedContent],
    /// Whether a summary is shown at all.
    pub summary: bool,
    pub limit: ContextLimit,
    pub ratio: BytesPerToken,
    pub mode: LoopMode,
}

/// A request that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedRequest {
    pub body: WeighedBody,
    /// An estimate.
    pub tokens: u64,
    /// Exchanges that leave the context for it, the oldest first.
    pub leaving: Vec<Exchange>,
    /// What it shows; `None`: the transcript as it is.
    pub shown: Option<Transcript>,
    /// Results and outputs that it shows shortened.
    pub shortened: usize,
}

/// The last exchange alone is more than the budget, whatever is shortened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLong {
    pub preset: String,
    /// Estimates.
    pub tokens: u64,
    pub question: u64,
    pub results: u64,
    /// Of commands that go with the question, and how many those are.
    pub outputs: (u64, usize),
    /// Pinned resources by name, the largest first.
    pub pinned: Vec<(String, u64)>,
    pub limit: TokenLimit,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            preset,
            tokens,
            question,
            results,
            outputs: (outputs, commands),
            pinned,
            limit,
        } = self;
        let held: u64 = pinned.iter().map(|(_, it)| it).sum();
        let rest = tokens.saturating_sub(question + results + outputs + held);
        write!(
            f,
            "the last question and what belongs to it take about {tokens} tokens, and {preset} has room for {} \
({} without the {} that are kept for the answer): about {question} are the question, ",
            limit.available(),
            limit.whole,
            limit.reserve,
        )?;
        if *commands > 0 {
            write!(
                f,
                "{outputs} what {commands} commands printed that go with it, shortened already, "
            )?;
        }
        write!(f, "{results} the results of tools, ")?;
        if let Some((largest, takes)) = pinned.first() {
            let count = pinned.len();
            write!(
                f,
                "{held} the {count} pinned resources (unpin {largest:?}, which is {takes} of them), "
            )?;
        }
        write!(f, "{rest} the rest; ")?;
        if outputs > question.max(results) {
            f.write_str(
                "a new question goes without those outputs, which stay in the log, and a retry takes them along again; or ",
            )?;
        }
        write!(
            f,
            "ask with less at once, offer fewer tools, or raise context_tokens of [models.{preset}] or context.max_tokens"
        )
    }
}

/// Makes the request fit. Reads nothing but what it is given.
pub fn fit(wanted: FitInput<'_>) -> Result<FittedRequest, TooLong> {
    let no_summary = !wanted.summary && wanted.transcript.summary().is_some();
    let room = wanted.limit.tokens;
    let room = room.map(|it| wanted.ratio.bytes(it.available()));
    let narrow = room.filter(|it| wanted.transcript.is_project_over(*it));
    if !no_summary && narrow.is_none() {
        return fit_all(wanted);
    }
    let mut without = wanted.transcript.clone();
    if no_summary {
        without.take_summary();
    }
    narrow.into_iter().for_each(|it| without.narrow_project(it));
    let mut fit = fit_all(FitInput {
        transcript: &without,
        ..wanted
    })?;
    fit.shown.get_or_insert(without);
    Ok(fit)
}

fn fit_all(wanted: FitInput<'_>) -> Result<FittedRequest, TooLong> {
    let FitInput {
        transcript, limit, ..
    } = wanted;
    let body = wanted.body(transcript);
    let tokens = wanted.tokens(&body);
    let turns = transcript.exchanges().len();
    if turns <= limit.turns && limit.holds(tokens) {
        return Ok(FittedRequest {
            body,
            tokens,
            leaving: vec![],
            shown: None,
            shortened: 0,
        });
    }
    let mut shown = transcript.clone();
    let mut leaving = vec![];
    for _ in 0..wanted.how_many_leave(tokens) {
        leaving.extend(shown.take_oldest());
    }
    let mut body = wanted.body(&shown);
    while !limit.holds(wanted.tokens(&body)) {
        // What an exchange takes was an estimate.
        let Some(oldest) = shown.take_oldest() else {
            break;
        };
        leaving.push(oldest);
        body = wanted.body(&shown);
    }
    // They are worth less than anything that the question came with.
    if !limit.holds(wanted.tokens(&body)) && shown.take_summary() {
        body = wanted.body(&shown);
    }
    if !limit.holds(wanted.tokens(&body)) && shown.take_project() {
        body = wanted.body(&shown);
    }
    let mut shortened = 0;
    if let Some(tokens) = limit.tokens
        && !limit.holds(wanted.tokens(&body))
    {
        shortened = wanted.shorten(&mut shown, body.weight, tokens.available());
        body = wanted.body(&shown);
        if !limit.holds(wanted.tokens(&body)) {
            return Err(wanted.too_long(&shown, wanted.tokens(&body), tokens));
        }
    }
    Ok(FittedRequest {
        tokens: wanted.tokens(&body),
        body,
        leaving,
        shown: Some(shown),
        shortened,
    })
}

/// The exchanges that would leave next, were there one more than fits.
pub fn next_to_leave(wanted: FitInput<'_>, tokens: u64) -> usize {
    let turns = wanted.transcript.exchanges().len();
    let by_turns = turns - wanted.limit.goal_turns().min(turns);
    let by_tokens = wanted.how_many_for_tokens(tokens);
    by_turns.max(by_tokens).min(turns.saturating_sub(1))
}

/// The exchanges that leave for the next question, and whether that is certain, or only likely because there is little
/// room left.
pub fn leaves_soon(wanted: FitInput<'_>) -> (usize, bool) {
    let tokens = wanted.tokens(&wanted.body(wanted.transcript));
    let turns = wanted.transcript.exchanges().len();
    let by_turns = if turns < wanted.limit.turns {
        0
    } else {
        turns + 1 - wanted.limit.goal_turns()
    };
    let by_tokens = if wanted.limit.is_nearly_full(tokens) {
        wanted.how_many_for_tokens(tokens)
    } else {
        0
    };
    let count = by_turns.max(by_tokens).min(turns.saturating_sub(1));
    (count, by_turns >= count)
}

impl FitInput<'_> {
    fn body(&self, transcript: &Transcript) -> WeighedBody {
        super::body(self.preset, transcript, self.offer, self.pinned, self.mode)
    }

    fn tokens(&self, body: &WeighedBody) -> u64 {
        self.ratio.tokens(body.weight as u64)
    }

    fn how_many_leave(&self, tokens: u64) -> usize {
        let turns = self.transcript.exchanges().len();
        let by_turns = if turns > self.limit.turns {
            turns - self.limit.goal_turns()
        } else {
            0
        };
        let by_tokens = if self.limit.holds(tokens) {
            0
        } else {
            self.how_many_for_tokens(tokens)
        };
        by_turns.max(by_tokens)
    }

    /// Down to the goal, by what each exchange takes.
    fn how_many_for_tokens(&self, tokens: u64) -> usize {
        let mut rest = tokens;
        let mut leave = 0;
        for exchange in self.transcript.exchanges() {
            if self.limit.is_reached(rest) {
                break;
            }
            rest = rest.saturating_sub(self.ratio.tokens(exchange.bytes()));
            leave += 1;
        }
        leave
    }

    /// Takes from the largest results and outputs of the last exchange what a body of so many bytes has too much, and
    /// says how many of them are shorter.
    fn shorten(&self, shown: &mut Transcript, body_bytes: usize, available: u64) -> usize {
        let most = self.ratio.bytes(available);
        let mut excess = (body_bytes as u64).saturating_sub(most);
        let Some(exchange) = shown.newest_mut() else {
            return 0;
        };
        let pieces = exchange.pieces();
        // How long each may be, and what it takes then.
        let mut sizes: Vec<(usize, u64)> = pieces
            .iter()
            .map(|it| (it.text.len(), json_bytes(&it.text)))
            .collect();
        while excess > 0 {
            // With its mark, one that is hardly longer would not be shorter.
            let can = sizes
                .iter()
                .enumerate()
                .filter(|(_, it)| it.0 > 2 * LEAST_RESULT_BYTES);
            let largest = can.max_by_key(|(_, it)| it.1);
            let Some((at, (length, takes))) = largest.map(|(at, it)| (at, *it)) else {
                break;
            };
            let shorter = (length / 2).max(LEAST_RESULT_BYTES);
            let takes_then = json_bytes(&without_some(&pieces[at].text, shorter));
            excess = excess.saturating_sub(takes.saturating_sub(takes_then));
            sizes[at] = (shorter, takes_then);
        }
        let shorter = pieces.iter().zip(&sizes);
        let shorter = shorter.filter(|(piece, (length, _))| *length < piece.text.len());
        let shorter: Vec<_> = shorter
            .map(|(piece, (length, _))| (piece, without_some(&piece.text, *length)))
            .collect();
        exchange.replace(&shorter);
        shorter.len()
    }

    fn too_long(&self, shown: &Transcript, tokens: u64, limit: TokenLimit) -> TooLong {
        let last = shown.exchanges().next_back();
        let (mut question, mut results) = (0, 0);
        let mut outputs = (0, 0);
        for message in last.iter().flat_map(|it| it.messages()) {
            match message {
                TranscriptMessage::User { .. } => question += weight(message),
                TranscriptMessage::Tool { .. } => results += weight(message),
                TranscriptMessage::Assistant { .. } => {}
            }
        }
        let printed = last.iter().flat_map(|it| it.pieces());
        for output in printed.filter(|it| it.is_output) {
            outputs.0 += json_bytes(&output.text);
            outputs.1 += 1;
        }
        let tokens_of = |it: &PinnedContent| self.ratio.tokens(json_bytes(&it.block()));
        let pinned = self
            .pinned
            .iter()
            .map(|it| (it.name.clone(), tokens_of(it)));
        let mut pinned: Vec<(String, u64)> = pinned.collect();
        pinned.sort_by_key(|(_, it)| std::cmp::Reverse(*it));
        TooLong {
            preset: self.preset.name.clone(),
            tokens,
            question: self.ratio.tokens(question.saturating_sub(outputs.0)),
            results: self.ratio.tokens(results),
            outputs: (self.ratio.tokens(outputs.0), outputs.1),
            pinned,
            limit,
        }
    }
}

/// A result or an output of about so many bytes, with a mark where its middle was. Where that middle had been left out
/// before, the mark says on how to read it, as the one before it did.
fn without_some(text: &str, bytes: usize) -> String {
    let cut = without_middle(text, bytes, bytes, |left_out| {
        let how = on_reading(&text[left_out.from..left_out.to]).unwrap_or_default();
        format!(
            "[aish] {} of {} bytes are left out here, so that the question fits the context{how}",
            left_out.to - left_out.from,
            left_out.whole
        )
    });
    cut.unwrap_or_else(|| text.to_owned())
}

/// How to read what was left out here before, as its mark says: the one nearest to the middle, for others may have been
/// printed.
fn on_reading(left_out: &str) -> Option<&str> {
    let middle = left_out.len() / 2;
    let marks = left_out.match_indices(MARK);
    let (at, _) = marks.min_by_key(|(at, _)| at.abs_diff(middle))?;
    let line = left_out[at..].lines().next()?;
    line.find("; to read on: ").map(|it| &line[it..])
}

#[cfg(test)]
mod tests;
