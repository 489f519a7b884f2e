//! `route/*`, `fallback/*`, and how a turn came to its preset.

use std::sync::Arc;

use aish_proto::event::RouteDecided;
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::route::{
    self as wire, Check, ClassPreset, Classes, ClassesParams, ClassesResult, FallbackGet,
    FallbackSet, FallbackState, Get, RouteCheckParams, RouteCheckResult, RouteClass, RouteState,
    RoutingSwitched, Set, SwitchParams,
};
use aishd_config::live::ConfigChange;
use aishd_log::routed::{QuestionClass, RoutedSide, RoutingDecision};
use aishd_model::model_settings::ModelSettings;
use aishd_model::routing::{self, Meant, RoutingSwitch};
use aishd_platform::clock::rfc3339;
use jsonrpsee::RpcModule;

use super::answerer::answerer;
use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, config, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Get, _, _>(module, get);
    register::<Set, _, _>(module, set);
    register::<Check, _, _>(module, check);
    register::<Classes, _, _>(module, classes);
    register::<FallbackGet, _, _>(module, fallback_get);
    register::<FallbackSet, _, _>(module, fallback_set);
}

async fn get(call: MethodCall<Get>) -> Result<RouteState, MethodError> {
    let Empty {} = call.params;
    Ok(route_state(&call.server))
}

async fn set(call: MethodCall<Set>) -> Result<RouteState, MethodError> {
    let SwitchParams { on } = call.params;
    throw(&call.server, &call.connection, RoutedSide::Route, on).await?;
    Ok(route_state(&call.server))
}

async fn fallback_get(call: MethodCall<FallbackGet>) -> Result<FallbackState, MethodError> {
    let Empty {} = call.params;
    Ok(fallback_state(&call.server))
}

async fn fallback_set(call: MethodCall<FallbackSet>) -> Result<FallbackState, MethodError> {
    let SwitchParams { on } = call.params;
    throw(&call.server, &call.connection, RoutedSide::Fallback, on).await?;
    Ok(fallback_state(&call.server))
}

async fn throw(
    server: &RpcServer,
    connection: &ClientConnection,
    which: RoutedSide,
    on: Option<bool>,
) -> Result<(), MethodError> {
    let routes = server.directory.routes();
    let by = connection.person();
    if routes.throw(which, on, by.clone()).await? {
        let key = which.key().to_owned();
        let is_on = routes
            .switches()
            .is_on(which, &server.directory.models().routing);
        let changed = ConfigChange {
            keys: vec![key.clone()],
            values: [(key, is_on.to_string())].into(),
            by: Some(by),
        };
        config::read(server, move |it| it.announce(changed)).await?;
    }
    Ok(())
}

fn route_state(server: &RpcServer) -> RouteState {
    let models = server.directory.models();
    let switches = server.directory.routes().switches();
    RouteState {
        on: switches.is_on(RoutedSide::Route, &models.routing),
        configured: models.routing.auto,
        switched: switches.route.map(switched),
    }
}

fn fallback_state(server: &RpcServer) -> FallbackState {
    let models = server.directory.models();
    let switches = server.directory.routes().switches();
    let model = models.routing.fallback_model.clone();
    FallbackState {
        on: switches.is_on(RoutedSide::Fallback, &models.routing),
        configured: models.routing.fallback,
        switched: switches.fallback.map(switched),
        known: models.presets.contains_key(&model),
        model,
    }
}

fn switched(switch: RoutingSwitch) -> RoutingSwitched {
    let RoutingSwitch { on, by, at } = switch;
    RoutingSwitched {
        on,
        by: answerer(by),
        at: rfc3339(at),
    }
}

/// Where a question would be asked.
struct RoutePlace {
    models: Arc<ModelSettings>,
    /// The model that was named by hand there.
    by_hand: Option<String>,
}

async fn place(
    server: &RpcServer,
    conversation: Option<ConversationId>,
) -> Result<RoutePlace, MethodError> {
    let models = server.directory.models();
    let Some(conversation) = conversation else {
        return Ok(RoutePlace {
            models,
            by_hand: None,
        });
    };
    let handle = server.directory.open(conversation).await?;
    let state = handle.view().borrow().state.clone();
    Ok(RoutePlace {
        models: models.within(&state.cwd).clone(),
        by_hand: state.model.clone(),
    })
}

async fn check(call: MethodCall<Check>) -> Result<RouteCheckResult, MethodError> {
    let RouteCheckParams { text, conversation } = call.params;
    let RoutePlace { models, by_hand } = place(&call.server, conversation).await?;
    let found = routing::classify(&text);
    let (model, known) = preset_of(&models, found.class);
    let switches = call.server.directory.routes().switches();
    Ok(RouteCheckResult {
        class: class(found.class),
        rule: found.rule.name().to_owned(),
        why: found.rule.to_string(),
        model,
        known,
        by_hand: by_hand.is_some(),
        active: by_hand.or_else(|| models.default.clone()),
        enabled: switches.is_on(RoutedSide::Route, &models.routing),
    })
}

async fn classes(call: MethodCall<Classes>) -> Result<ClassesResult, MethodError> {
    let ClassesParams { conversation } = call.params;
    let RoutePlace { models, .. } = place(&call.server, conversation).await?;
    let switches = call.server.directory.routes().switches();
    let of = |it| {
        let (model, known) = preset_of(&models, it);
        ClassPreset {
            class: class(it),
            model,
            known,
        }
    };
    Ok(ClassesResult {
        classes: QuestionClass::ALL.into_iter().map(of).collect(),
        enabled: switches.is_on(RoutedSide::Route, &models.routing),
    })
}

/// The preset of a class, and whether there is one of that name.
fn preset_of(models: &ModelSettings, class: QuestionClass) -> (Option<String>, bool) {
    let meant = models
        .routing
        .resolve(class, |name| models.by_name(name).is_some());
    match meant {
        Meant::Active => (None, false),
        Meant::Preset(name) => (Some(name), true),
        Meant::Unknown(name) => (Some(name), false),
    }
}

fn class(class: QuestionClass) -> RouteClass {
    match class {
        QuestionClass::Code => RouteClass::Code,
        QuestionClass::Reasoning => RouteClass::Reasoning,
        QuestionClass::Default => RouteClass::Default,
    }
}

pub(super) fn decided(routed: RoutingDecision) -> RouteDecided {
    let RoutingDecision {
        class: found,
        rule,
        preset,
        replaced,
    } = routed;
    RouteDecided {
        class: class(found),
        rule: rule.name().to_owned(),
        why: rule.to_string(),
        model: preset,
        replaced,
    }
}

/// The same, beside what says which preset answers.
pub(super) fn routed(routed: &RoutingDecision) -> wire::RoutedTurn {
    let RoutingDecision {
        class: found,
        rule,
        preset: _,
        replaced,
    } = routed;
    wire::RoutedTurn {
        class: class(*found),
        rule: rule.name().to_owned(),
        why: rule.to_string(),
        replaced: *replaced,
    }
}

/// What is switched, over what is configured, for who asks for every value.
pub(super) fn overlay(
    server: &RpcServer,
    settings: &mut Vec<aishd_config::effective_values::ShownValue>,
) {
    let switches = server.directory.routes().switches();
    for which in [RoutedSide::Route, RoutedSide::Fallback] {
        let Some(switch) = switches.get(which) else {
            continue;
        };
        let by = &switch.by;
        let who = match (&by.tty, by.pid) {
            (Some(tty), _) => tty.clone(),
            (None, Some(pid)) => format!("{} pid {pid}", by.name),
            (None, None) => by.name.clone(),
        };
        let shown = aishd_config::effective_values::ShownValue {
            key: which.key().to_owned(),
            value: switch.on.to_string(),
            origin: format!("(runtime, by {who})"),
        };
        match settings.iter_mut().find(|it| it.key == shown.key) {
            Some(setting) => *setting = shown,
            None => settings.push(shown),
        }
    }
}
