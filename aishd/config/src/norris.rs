//! `[norris]`: what holds of a run where its launch says nothing.

use aishd_log::norris::launch::{RunContain, RunLimits};
use aishd_log::spending::NanoUsd;
use aishd_model::norris_settings::{NorrisSettings, WidenedLimits};

use super::fault::Fault;
use super::layers::LayerStack;
use super::routing::check;
use super::value::RunPlace;
use crate::key_values::{places, time, value_of};

pub(super) fn norris(stack: &LayerStack, faults: &mut Vec<Fault>) -> NorrisSettings {
    let table = &stack.file.norris;
    let usual = NorrisSettings::default();
    if let Some(named) = &table.second_opinion_model {
        check("norris.second_opinion_model", named, stack, faults);
    }
    let steps = value_of(&table.steps).and_then(|it| u32::try_from(it.0).ok());
    let ms = time(&table.time).as_millis();
    NorrisSettings {
        limits: RunLimits {
            steps: steps.unwrap_or(usual.limits.steps),
            ms: u64::try_from(ms).ok().filter(|it| *it > 0),
            tokens: value_of(&table.tokens).map(|it| it.0),
            cost: value_of(&table.cost_usd)
                .map(|it| it.nano())
                .filter(|it| *it != NanoUsd(0)),
        },
        second_opinion: value_of(&table.second_opinion).unwrap_or(usual.second_opinion),
        second_opinion_model: value_of(&table.second_opinion_model),
        second_opinion_within: time(&table.second_opinion_within),
        contain: match value_of(&table.contain) {
            Some(RunPlace::Try) => RunContain::Try,
            Some(RunPlace::Workspace) => RunContain::Workspace,
            None => usual.contain,
        },
        widened: WidenedLimits {
            read: places("norris.read", &table.read, faults),
            write: places("norris.write", &table.write, faults),
        },
    }
}
