//! `limits.daily_spend_usd`: what may be spent on a day, and what that cannot count. `limits.ask_above_usd`: the price from which
//! on a request is asked about.

use std::collections::BTreeMap;
use std::sync::Arc;

use aishd_log::spending::NanoUsd;
use aishd_model::preset::Preset;

use super::fault::Fault;
use super::layers::LayerStack;
use super::table_reader::join;

/// `None`: nobody is asked.
pub(super) fn ask_above(stack: &LayerStack) -> Option<NanoUsd> {
    let said = stack.file.limits.ask_above_usd.as_ref()?;
    Some(said.value.nano()).filter(|it| *it > NanoUsd(0))
}

/// `None`: no limit.
pub(super) fn daily(
    stack: &LayerStack,
    presets: &BTreeMap<String, Arc<Preset>>,
    faults: &mut Vec<Fault>,
) -> Option<NanoUsd> {
    let said = stack.file.limits.daily_spend_usd.as_ref()?;
    let limit = said.value.nano();
    if limit == NanoUsd(0) {
        return None;
    }
    let uncounted = presets.values().filter(|it| it.price.is_none());
    let names: Vec<String> = uncounted.map(|it| join("models", &it.name)).collect();
    if !names.is_empty() {
        let message = format!(
            "`limits.daily_spend_usd` cannot count what these presets cost, which have no `price`: {}",
            names.join(", ")
        );
        let help = "price = { input = 3.0, output = 15.0 } in US dollars for a million tokens, with 0 for what costs nothing; \
            once the limit is reached, presets without a price are not asked either";
        faults.push(Fault::warning(&said.place, message).help(help));
    }
    Some(limit)
}
