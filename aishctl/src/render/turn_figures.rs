//! What a turn took, in one row behind its answer: tokens, time, money, and how full the context is.

use std::time::{Duration, SystemTime};

use aish_proto::event::{ClientEvent, Event};
use aish_proto::id::TurnId;
use aish_proto::usage::Usage;

/// Takes the events of a conversation in.
#[derive(Debug, Default)]
pub struct TurnFigures {
    running: Option<RunningFigures>,
}

#[derive(Debug)]
struct RunningFigures {
    turn: TurnId,
    since: Option<SystemTime>,
    /// It waited for a person.
    waited: Duration,
    /// Questions that are open, and since when there has been one.
    open: u32,
    asked: Option<SystemTime>,
    /// Tokens that a request and its answer may take.
    context_tokens: Option<u64>,
    /// Of the last request.
    sent: Option<u64>,
}

impl TurnFigures {
    /// The row, at the end of a turn whose beginning was seen and of which something is known.
    pub fn take(&mut self, event: &ClientEvent) -> Option<String> {
        let turn = event.turn?;
        if let Event::TurnStarted(started) = &event.data {
            self.running = Some(RunningFigures {
                turn,
                since: at(event),
                waited: Duration::ZERO,
                open: 0,
                asked: None,
                context_tokens: started.context_tokens,
                sent: None,
            });
            return None;
        }
        let running = self.running.as_mut().filter(|it| it.turn == turn)?;
        match &event.data {
            // Nobody has said how much the other preset takes.
            Event::FallbackUsed(_) => running.context_tokens = None,
            Event::AssistantMessage(message) => {
                running.sent = message.usage.as_ref().and_then(|it| it.input_tokens);
            }
            Event::ConfirmRequested(_) => {
                running.open += 1;
                running.asked = running.asked.or(at(event));
            }
            Event::ConfirmResolved(_) => {
                running.open = running.open.saturating_sub(1);
                if running.open == 0
                    && let Some((asked, now)) = running.asked.take().zip(at(event))
                {
                    running.waited += now.duration_since(asked).unwrap_or_default();
                }
            }
            Event::TurnFinished(finished) => {
                let running = self.running.take()?;
                return running.row(finished.usage.as_ref()?, at(event));
            }
            _ => {}
        }
        None
    }
}

impl RunningFigures {
    fn row(&self, usage: &Usage, end: Option<SystemTime>) -> Option<String> {
        let mut parts = vec![];
        if let Some(input) = usage.input_tokens {
            let believed = if usage.estimated { "~" } else { "" };
            let cached = usage.cached_input_tokens.filter(|it| *it > 0);
            let cached = cached.map_or_else(String::new, |it| format!(" ({} cached)", short(it)));
            parts.push(format!("{believed}{} in{cached}", short(input)));
        }
        parts.extend(usage.output_tokens.map(|it| format!("{} out", short(it))));
        if parts.is_empty() {
            return None;
        }
        let took = self.since.zip(end);
        let took = took.and_then(|(since, end)| end.duration_since(since).ok());
        parts.extend(took.map(|it| length(it.saturating_sub(self.waited))));
        parts.extend(usage.cost_usd.map(|it| {
            let more = if usage.unpriced > 0 { "+" } else { "" };
            price(it.dollars()) + more
        }));
        if let (Some(sent), Some(whole)) = (self.sent, self.context_tokens.filter(|it| *it > 0)) {
            let share = u128::from(sent) * 100 / u128::from(whole);
            parts.push(format!("context {share} %"));
        }
        Some(parts.join(" · "))
    }
}

fn at(event: &ClientEvent) -> Option<SystemTime> {
    humantime::parse_rfc3339(&event.ts).ok()
}

/// `240`, `3.1k`, `12k`, `1.2M`.
fn short(tokens: u64) -> String {
    let of = |unit: u64, sign| match tokens / unit {
        whole @ ..10 => format!("{whole}.{}{sign}", tokens % unit * 10 / unit),
        whole => format!("{whole}{sign}"),
    };
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 => of(1_000, "k"),
        _ => of(1_000_000, "M"),
    }
}

/// `0.4 s`, `42 s`, `3 min 5 s`.
fn length(it: Duration) -> String {
    let (seconds, tenths) = (it.as_secs(), it.subsec_millis() / 100);
    match seconds {
        0..10 => format!("{seconds}.{tenths} s"),
        10..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Two digits that say something, and cents from a dollar on.
pub(crate) fn price(dollars: f64) -> String {
    if dollars <= 0.0 {
        return "$0".to_owned();
    }
    let mut digits = 2;
    let mut least = 0.1;
    while dollars < least && digits < 9 {
        digits += 1;
        least /= 10.0;
    }
    format!("${dollars:.digits$}")
}

#[cfg(test)]
mod tests {
    use aish_proto::usage::Usd;
    use ulid::Ulid;

    use super::*;

    #[test]
    fn tokens_times_and_prices_are_short() {
        let tokens = [999, 1_000, 3_149, 12_900, 999_999, 1_250_000].map(short);
        assert_eq!(
            ["999", "1.0k", "3.1k", "12k", "999k", "1.2M"].map(str::to_owned),
            tokens
        );
        let times = [400, 9_990, 42_000, 185_000].map(|it| length(Duration::from_millis(it)));
        assert_eq!(
            ["0.4 s", "9.9 s", "42 s", "3 min 5 s"].map(str::to_owned),
            times
        );
        let prices = [0.0, 0.000_045, 0.0126, 0.25, 1.5, 12.0].map(price);
        let wanted = ["$0", "$0.000045", "$0.013", "$0.25", "$1.50", "$12.00"];
        assert_eq!(wanted.map(str::to_owned), prices);
    }

    #[test]
    fn a_row_has_what_is_known_and_no_more() {
        let running = RunningFigures {
            turn: TurnId(Ulid::nil()),
            since: Some(SystemTime::UNIX_EPOCH),
            waited: Duration::from_secs(60),
            open: 0,
            asked: None,
            context_tokens: Some(25_000),
            sent: Some(3_000),
        };
        let end = SystemTime::UNIX_EPOCH + Duration::from_millis(65_200);
        let usage = Usage {
            input_tokens: Some(3_149),
            output_tokens: Some(240),
            cached_input_tokens: Some(2_800),
            cost_usd: Usd::of(0.0126),
            ..Usage::default()
        };
        assert_eq!(
            Some("3.1k in (2.8k cached) · 240 out · 5.2 s · $0.013 · context 12 %".to_owned()),
            running.row(&usage, Some(end))
        );
        let believed = Usage {
            input_tokens: Some(10),
            estimated: true,
            ..Usage::default()
        };
        let bare = RunningFigures {
            since: None,
            sent: None,
            ..running
        };
        assert_eq!(Some("~10 in".to_owned()), bare.row(&believed, None));
        assert_eq!(None, bare.row(&Usage::default(), Some(end)));
    }
}
