//! Which preset answers a turn, decided once when it starts, and which one its requests fall back to.

use std::sync::Arc;

use aish_proto::id::{Seq, TurnId};
use aishd_log::call_list::CallList;
use aishd_log::event::{Event, ProviderLevel, StopReason, TurnOrigin};
use aishd_log::routed::{RoutedSide, RoutingDecision};
use aishd_log::turn_error::TurnError;
use aishd_model::fallback::FallbackWay;
use aishd_model::preset::Preset;
use aishd_model::reply::RequestFailure;
use aishd_model::routing;
use aishd_model::routing::{Classified, Meant};
use aishd_model::unshown_picture::UnshownPicture;

use crate::actor::Conversation;
use crate::pending_commit::UncommittedFact;
use crate::request_error::{LargePicture, RequestError, UntakenPicture};
use crate::turns::active_turn::ActiveTurn;

/// How to get the preset of a turn.
pub(crate) enum PresetChoice {
    /// With what is to be told of the choice.
    Ready(Arc<Preset>, ChoiceReport),
    /// No model is asked: these calls are run.
    List(CallList, TurnOrigin),
    /// Nothing is configured: a local server has to be looked for.
    Look,
    /// It has left the configuration since it was named. Nobody else answers in its place.
    Gone(String),
}

/// What is told of a choice when the turn starts.
#[derive(Debug, Default)]
pub(crate) struct ChoiceReport {
    pub(crate) events: Vec<Event>,
    /// A preset that a class names and that is not there. Once is enough, once that is in the log.
    pub(crate) unknown: Option<String>,
}

/// What a question comes to by its look.
struct RouteResult {
    found: Classified,
    /// The preset that this means, where it is another one.
    preset: Option<Arc<Preset>>,
    told: ChoiceReport,
}

/// Continuations of continuations that are followed to their question.
pub(crate) const MOST_STEPS_BACK: usize = 64;

impl Conversation {
    /// For a question: a list of calls needs no model; a name by hand, of the turn or of the conversation, beats the look
    /// of the question, and that beats the default. Nothing is changed by it.
    pub(crate) fn choose(&self, question: &Event) -> PresetChoice {
        let Event::UserMessage {
            model,
            calls,
            origin,
            text,
            ..
        } = question
        else {
            return self.choose_named(None);
        };
        if let Some(list) = calls {
            return PresetChoice::List(list.clone(), *origin);
        }
        let by_hand = model.as_deref().or(self.state.model.as_deref());
        if by_hand.is_some() {
            return self.choose_named(by_hand);
        }
        let Some(route) = self.route(text, *origin) else {
            return self.choose_named(None);
        };
        let replaced = route.preset.is_some();
        let chosen = match route.preset {
            Some(preset) => PresetChoice::Ready(preset, ChoiceReport::default()),
            None => self.choose_named(None),
        };
        match chosen {
            PresetChoice::Ready(preset, _) => {
                let routed = RoutingDecision {
                    class: route.found.class,
                    rule: route.found.rule,
                    preset: preset.name.clone(),
                    replaced,
                };
                let said = routed.status().map(|it| status(ProviderLevel::Info, it));
                let mut told = route.told;
                told.events.insert(0, Event::RouteDecided(routed));
                told.events.extend(said);
                PresetChoice::Ready(preset, told)
            }
            other @ (PresetChoice::List(..) | PresetChoice::Look | PresetChoice::Gone(_)) => other,
        }
    }

    /// Refuses a question with a picture that its model is known not to take.
    pub(crate) fn check_pictures(&self, question: &Event) -> Result<(), RequestError> {
        let Event::UserMessage { attachments, .. } = question else {
            return Ok(());
        };
        let pictures = attachments
            .iter()
            .filter_map(|it| Some((&it.name, it.picture.as_ref()?)));
        if pictures.clone().next().is_none() {
            return Ok(());
        }
        let PresetChoice::Ready(preset, _) = self.choose(question) else {
            return Ok(());
        };
        let preset = self.services.broker.adapted(preset);
        let mut refused = pictures.filter_map(|(name, it)| Some((name, it, preset.unshown(it)?)));
        let Some((name, picture, why)) = refused.next() else {
            return Ok(());
        };
        let (name, preset_name) = (name.clone(), preset.name.clone());
        match (why, picture.size) {
            (UnshownPicture::TooManyPixels { most }, Some(size)) => {
                return Err(RequestError::LargePicture(Box::new(LargePicture {
                    name,
                    size,
                    most,
                    preset: preset_name,
                })));
            }
            (UnshownPicture::Refused, _) => {
                return Err(RequestError::RefusedPicture {
                    name,
                    preset: preset_name,
                });
            }
            (UnshownPicture::Kind | UnshownPicture::TooManyPixels { .. }, _) => {}
        }
        let kind = picture.kind;
        let models = self.models();
        let mut others = models.presets.values();
        let other = others.find(|it| it.takes(kind) == Some(true));
        Err(RequestError::TakesNoPicture(Box::new(UntakenPicture {
            name,
            kind,
            preset: preset_name,
            model: preset.model.clone(),
            other: other.map(|it| it.name.clone()),
        })))
    }

    /// By name, or else the default.
    pub(crate) fn choose_named(&self, by_hand: Option<&str>) -> PresetChoice {
        let models = self.models();
        match by_hand.or(models.default.as_deref()) {
            Some(name) => match models.by_name(name) {
                Some(preset) => PresetChoice::Ready(preset, ChoiceReport::default()),
                None => PresetChoice::Gone(name.to_owned()),
            },
            None => PresetChoice::Look,
        }
    }

    /// What the look of a question comes to; `None`: nobody wants that.
    fn route(&self, text: &str, origin: TurnOrigin) -> Option<RouteResult> {
        // A run keeps to one preset.
        if self.state.norris.is_some() {
            return None;
        }
        let models = self.models();
        if !self
            .services
            .routes
            .switches()
            .is_on(RoutedSide::Route, &models.routing)
        {
            return None;
        }
        let begun = self.question_of(origin);
        let found = routing::classify(begun.as_deref().unwrap_or(text));
        let mut told = ChoiceReport::default();
        let is_known = |name: &str| models.by_name(name).is_some();
        let preset = match models.routing.resolve(found.class, is_known) {
            Meant::Active => None,
            Meant::Preset(name) => models.by_name(&name),
            Meant::Unknown(name) => {
                let class = found.class.name();
                let text = format!(
                    "routing.classes.{class} names {name:?}, which is no preset; the active one answers \
                     (aishctl config check)"
                );
                if !self.unknown_told.contains(&name) {
                    told.events.push(status(ProviderLevel::Warning, text));
                    told.unknown = Some(name);
                }
                None
            }
        };
        // To be sent where it would have gone anyway is no change.
        let preset = preset.filter(|it| models.default.as_deref() != Some(it.name.as_str()));
        Some(RouteResult {
            found,
            preset,
            told,
        })
    }

    /// The question that such a turn goes back to in the end: what a continuation says itself is only to go on.
    fn question_of(&self, mut origin: TurnOrigin) -> Option<String> {
        let mut asked = None;
        for _ in 0..MOST_STEPS_BACK {
            let (TurnOrigin::Continue(turn) | TurnOrigin::Retry(turn)) = origin else {
                break;
            };
            let place = self.services.store.find_turn(turn).ok().flatten();
            let place = place.filter(|it| it.conversation == self.id);
            let question = place.and_then(|it| self.question(it.message_seq).ok().flatten());
            let Some(Event::UserMessage {
                text,
                origin: before,
                ..
            }) = question
            else {
                break;
            };
            (asked, origin) = (Some(text), before);
        }
        asked
    }

    /// The event at the place of a question.
    pub(crate) fn question(&self, seq: Seq) -> Result<Option<Event>, aishd_store::ReadError> {
        let record = self.services.store.record(self.id, seq)?;
        Ok(record.map(|it| it.event))
    }

    /// Finds out, for the turn that runs, how often and where its requests go again that fail. It keeps to that.
    pub(crate) fn find_way(&mut self) {
        let models = self.models();
        let allowed = self.may_fall_back();
        let Some(ActiveTurn {
            machine,
            preset: Some(first),
            second,
            ..
        }) = &mut self.turn
        else {
            return;
        };
        machine.set_retries(first.retries);
        let name = &models.routing.fallback_model;
        let found = models.presets.get(name).filter(|_| *name != first.name);
        machine.set_way(found.map(|it| FallbackWay {
            from: first.name.clone(),
            to: it.name.clone(),
            to_model_id: it.model.clone(),
            allowed,
        }));
        *second = found.cloned();
    }

    /// Whether fallback is on, as of now.
    pub(crate) fn may_fall_back(&self) -> bool {
        let switches = self.services.routes.switches();
        switches.is_on(RoutedSide::Fallback, &self.models().routing)
    }
}

fn status(level: ProviderLevel, text: String) -> Event {
    Event::Status { level, text }
}

/// The end of a turn whose preset is not configured any more.
pub(crate) fn preset_gone(turn: TurnId, name: &str) -> UncommittedFact {
    let failure = RequestFailure::Config(format!("no model preset is called {name:?} any more"));
    UncommittedFact {
        turn: Some(turn),
        by: None,
        event: Event::TurnFinished {
            stop: StopReason::Upstream,
            text: Arc::default(),
            usage: None,
            error: Some(TurnError {
                class: failure.class(),
                message: failure.to_string(),
                cause: None,
                hint: Some(
                    "aishctl model list shows what there is; -m NAME asks one of them".to_owned(),
                ),
            }),
            merged_into: None,
        },
    }
}
