//! Rows of figures, and what is said of them: medians, and ratios within each round.

use std::fmt::Write as _;
use std::time::Instant;

/// Milliseconds from one moment to another; negative when it was the other way round.
pub(crate) fn millis(from: Instant, to: Instant) -> f64 {
    let forward = to.saturating_duration_since(from).as_secs_f64();
    (forward - from.saturating_duration_since(to).as_secs_f64()) * 1e3
}

/// The middle one.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// What is demanded of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Of the figure itself.
    Figure(f64),
    /// Of the ratio to the base.
    Ratio(f64),
    /// Nothing: it is there to be seen.
    None,
}

/// One figure over the rounds, and the one beside it that was taken in the same rounds.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) figure: Vec<f64>,
    pub(crate) base: Option<(&'static str, Vec<f64>)>,
    pub(crate) limit: Limit,
}

impl Row {
    fn ratios(&self) -> Vec<f64> {
        let base = self.base.iter().flat_map(|it| &it.1);
        self.figure
            .iter()
            .zip(base)
            .map(|(figure, base)| figure / base)
            .collect()
    }

    pub(crate) fn is_missed(&self) -> bool {
        match self.limit {
            Limit::Figure(limit) => median(&self.figure) > limit,
            Limit::Ratio(limit) => median(&self.ratios()) > limit,
            Limit::None => false,
        }
    }

    fn render(&self) -> String {
        let unit = self.unit;
        let (base, ratio) = match &self.base {
            Some((name, values)) => {
                let ratios = self.ratios();
                let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
                let most = ratios.iter().copied().fold(0.0, f64::max);
                (
                    format!("{name} {}", number(median(values))),
                    format!("{:.2} ({least:.2}–{most:.2})", median(&ratios)),
                )
            }
            None => (String::new(), String::new()),
        };
        let limit = match self.limit {
            Limit::Figure(limit) => format!("≤ {limit} {unit}"),
            Limit::Ratio(limit) => format!("≤ {limit} ×"),
            Limit::None => String::new(),
        };
        let verdict = match self.limit {
            Limit::None => "",
            Limit::Figure(_) | Limit::Ratio(_) if self.is_missed() => "MISSED",
            Limit::Figure(_) | Limit::Ratio(_) => "ok",
        };
        let figure = format!("{} {unit}", number(median(&self.figure)));
        format!(
            "{:<48} {figure:>12}  {base:<16} {ratio:<20} {limit:<10} {verdict}",
            self.name
        )
    }
}

fn number(value: f64) -> String {
    match value {
        large if large.abs() >= 100.0 => format!("{large:.0}"),
        middle if middle.abs() >= 10.0 => format!("{middle:.1}"),
        small => format!("{small:.2}"),
    }
}

/// The table's head.
pub(crate) fn head() -> String {
    format!(
        "{:<48} {:>12}  {:<16} {:<20} {:<10}",
        "row", "figure", "base", "ratio (least–most)", "limit"
    )
}

/// Rows as lines.
pub(crate) fn render(rows: &[Row]) -> String {
    rows.iter().fold(String::new(), |mut text, row| {
        let _infallible = writeln!(text, "{}", row.render().trim_end());
        text
    })
}
