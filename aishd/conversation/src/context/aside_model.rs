//! A model that is asked beside the conversation: paid for as what it is asked for, within a time, and nothing fails with it.

use std::sync::Arc;
use std::time::Duration;

use aishd_broker::Broker;
use aishd_log::spending::SpendingPurpose;
use aishd_model::preset::Preset;
use aishd_turn::summary::{SummaryWorth, worth};
use tokio::time::timeout;

use crate::context::token_counts::TokenCounts;
use crate::spending::budget::BudgetMeter;

const WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct AsideModel {
    pub(crate) broker: Broker,
    pub(crate) tokens: TokenCounts,
    pub(crate) budget: BudgetMeter,
    pub(crate) preset: Arc<Preset>,
}

impl AsideModel {
    /// What it says to this request.
    ///
    /// # Errors
    /// Why that is nothing that can be used, for people.
    pub(crate) async fn ask(
        &self,
        body: String,
        purpose: SpendingPurpose,
    ) -> Result<SummaryWorth, String> {
        let bytes = body.len();
        let admitted = self.budget.admit_aside(&self.preset, bytes as u64, purpose);
        let ticket = admitted.map_err(|reached| reached.to_string())?;
        ticket.meter().sends(bytes);
        let answer = self.broker.stream(&self.preset, body, |_delta| {});
        match timeout(WITHIN, answer).await {
            Ok(Ok(reply)) => {
                ticket.charge_aside(Some(&reply), None);
                let counted = reply.usage.and_then(|it| it.input);
                self.tokens.learn(&self.preset, bytes, counted);
                worth(&reply)
            }
            Ok(Err(broken)) => {
                ticket.charge_aside(Some(&broken.partial), Some(&broken.failure));
                Err(broken.failure.to_string())
            }
            Err(_elapsed) => Err(format!("no answer within {} s", WITHIN.as_secs())),
        }
    }
}
