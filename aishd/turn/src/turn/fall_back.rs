//! A request that failed goes elsewhere: to another preset, once.

use aishd_log::event::{Event, ProviderLevel};
use aishd_model::fallback::{self, FallbackVerdict, FallbackWay, SentSoFar};
use aishd_model::reply::RequestFailure;

use super::{Effect, Phase, Step, StreamId, Turn, status};

impl Turn {
    /// How often a request of this turn is sent again whose server cannot answer just now.
    pub fn set_retries(&mut self, most: u32) {
        self.retries.set_most(most);
    }

    /// Where requests of this turn go whose server looks down.
    pub fn set_way(&mut self, way: Option<FallbackWay>) {
        self.way = way;
    }

    /// Somebody has switched that off: what is not sent yet is not sent.
    pub fn bar_way(&mut self) {
        if let Some(way) = &mut self.way {
            way.allowed = false;
        }
    }

    /// Whether a request that failed so is sent to another preset at once.
    pub(super) fn goes_elsewhere(&self, failure: &RequestFailure) -> bool {
        self.way.as_ref().is_some_and(|it| it.allowed) && fallback::down(failure).is_some()
    }

    /// Whether the request goes on elsewhere. It is announced before anything is sent.
    pub(super) fn fall_back(
        &mut self,
        next: StreamId,
        failure: &RequestFailure,
        sent: SentSoFar,
        step: &mut Step,
    ) -> bool {
        let (way, reason) = match fallback::decide(failure, sent, self.way.as_ref()) {
            FallbackVerdict::Switch { way, reason } => (way, reason),
            FallbackVerdict::WouldHelp { way, reason } => {
                let offer = fallback::offer(&way, &reason);
                step.events.push(status(ProviderLevel::Warning, offer));
                return false;
            }
            FallbackVerdict::Fails => return false,
        };
        let (cause, text) = (failure.to_string(), fallback::status(&way, &reason));
        self.fell_back = Some(cause.clone());
        step.events.push(Event::FellBack {
            from: way.from,
            to: way.to,
            model_id: way.to_model_id,
            reason,
            cause,
            status: failure.status(),
        });
        step.events.push(status(ProviderLevel::Warning, text));
        self.phase = Phase::Streaming(next);
        step.effects.push(Effect::OpenFallback(next));
        true
    }
}
