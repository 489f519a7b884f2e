//! `[norris]`: what holds of a run where its launch says nothing.

use super::fault::Fault;
use super::layers::Stack;
use super::routing::check;
use super::settings::{places, said, time};
use aishd_log::norris::launch::Limits;
use aishd_log::spending::Nano;
use aishd_model::norris_settings::Settings;
use aishd_model::norris_settings::Widened;

pub(super) fn norris(stack: &Stack, faults: &mut Vec<Fault>) -> Settings {
    let table = &stack.file.norris;
    let usual = Settings::default();
    if let Some(named) = &table.second_opinion_model {
        check("norris.second_opinion_model", named, stack, faults);
    }
    let steps = said(&table.steps).and_then(|it| u32::try_from(it.0).ok());
    let ms = time(&table.time).as_millis();
    Settings {
        limits: Limits {
            steps: steps.unwrap_or(usual.limits.steps),
            ms: u64::try_from(ms).ok().filter(|it| *it > 0),
            tokens: said(&table.tokens).map(|it| it.0),
            cost: said(&table.cost_usd)
                .map(|it| it.nano())
                .filter(|it| *it != Nano(0)),
        },
        second_opinion: said(&table.second_opinion).unwrap_or(usual.second_opinion),
        second_opinion_model: said(&table.second_opinion_model),
        second_opinion_within: time(&table.second_opinion_within),
        widened: Widened {
            read: places("norris.read", &table.read, faults),
            write: places("norris.write", &table.write, faults),
        },
    }
}
