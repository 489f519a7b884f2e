//! `route/*`, `fallback/*`, and how a turn came to its preset.

use std::sync::Arc;

use aish_proto::event::RouteDecided;
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::route::{
    self as wire, Check, CheckParams, CheckResult, ClassPreset, Classes, ClassesParams,
    ClassesResult, FallbackGet, FallbackSet, FallbackState, Get, RouteClass, RouteState, Set,
    SwitchParams, Switched,
};
use jsonrpsee::RpcModule;

use super::confirm::answerer;
use super::connection::Connection;
use super::refusal::Refusal;
use super::{Call, Server, config, register};
use aishd_config::live::Changed;
use aishd_log::routed::{Class, Routed, Which};
use aishd_model::preset::Models;
use aishd_model::routing;
use aishd_model::routing::{Meant, Switch};
use aishd_platform::clock::rfc3339;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<Get, _, _>(module, get);
    register::<Set, _, _>(module, set);
    register::<Check, _, _>(module, check);
    register::<Classes, _, _>(module, classes);
    register::<FallbackGet, _, _>(module, fallback_get);
    register::<FallbackSet, _, _>(module, fallback_set);
}

async fn get(call: Call<Get>) -> Result<RouteState, Refusal> {
    let Empty {} = call.params;
    Ok(route_state(&call.server))
}

async fn set(call: Call<Set>) -> Result<RouteState, Refusal> {
    let SwitchParams { on } = call.params;
    throw(&call.server, &call.connection, Which::Route, on).await?;
    Ok(route_state(&call.server))
}

async fn fallback_get(call: Call<FallbackGet>) -> Result<FallbackState, Refusal> {
    let Empty {} = call.params;
    Ok(fallback_state(&call.server))
}

async fn fallback_set(call: Call<FallbackSet>) -> Result<FallbackState, Refusal> {
    let SwitchParams { on } = call.params;
    throw(&call.server, &call.connection, Which::Fallback, on).await?;
    Ok(fallback_state(&call.server))
}

async fn throw(
    server: &Server,
    connection: &Connection,
    which: Which,
    on: Option<bool>,
) -> Result<(), Refusal> {
    let routes = server.directory.routes();
    let by = connection.person();
    if routes.throw(which, on, by.clone()).await? {
        let key = which.key().to_owned();
        let is_on = routes
            .switches()
            .is_on(which, &server.directory.models().routing);
        let changed = Changed {
            keys: vec![key.clone()],
            values: [(key, is_on.to_string())].into(),
            by: Some(by),
        };
        config::read(server, move |it| it.announce(changed)).await?;
    }
    Ok(())
}

fn route_state(server: &Server) -> RouteState {
    let models = server.directory.models();
    let switches = server.directory.routes().switches();
    RouteState {
        on: switches.is_on(Which::Route, &models.routing),
        configured: models.routing.auto,
        switched: switches.route.map(switched),
    }
}

fn fallback_state(server: &Server) -> FallbackState {
    let models = server.directory.models();
    let switches = server.directory.routes().switches();
    let model = models.routing.fallback_model.clone();
    FallbackState {
        on: switches.is_on(Which::Fallback, &models.routing),
        configured: models.routing.fallback,
        switched: switches.fallback.map(switched),
        known: models.presets.contains_key(&model),
        model,
    }
}

fn switched(switch: Switch) -> Switched {
    let Switch { on, by, at } = switch;
    Switched {
        on,
        by: answerer(by),
        at: rfc3339(at),
    }
}

/// Where a question would be asked.
struct Place {
    models: Arc<Models>,
    /// The model that was named by hand there.
    by_hand: Option<String>,
}

async fn place(server: &Server, conversation: Option<ConversationId>) -> Result<Place, Refusal> {
    let models = server.directory.models();
    let Some(conversation) = conversation else {
        return Ok(Place {
            models,
            by_hand: None,
        });
    };
    let handle = server.directory.open(conversation).await?;
    let state = handle.view().borrow().state.clone();
    Ok(Place {
        models: models.within(&state.cwd).clone(),
        by_hand: state.model.clone(),
    })
}

async fn check(call: Call<Check>) -> Result<CheckResult, Refusal> {
    let CheckParams { text, conversation } = call.params;
    let Place { models, by_hand } = place(&call.server, conversation).await?;
    let found = routing::classify(&text);
    let (model, known) = preset_of(&models, found.class);
    let switches = call.server.directory.routes().switches();
    Ok(CheckResult {
        class: class(found.class),
        rule: found.rule.name().to_owned(),
        why: found.rule.to_string(),
        model,
        known,
        by_hand: by_hand.is_some(),
        active: by_hand.or_else(|| models.default.clone()),
        enabled: switches.is_on(Which::Route, &models.routing),
    })
}

async fn classes(call: Call<Classes>) -> Result<ClassesResult, Refusal> {
    let ClassesParams { conversation } = call.params;
    let Place { models, .. } = place(&call.server, conversation).await?;
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
        classes: Class::ALL.into_iter().map(of).collect(),
        enabled: switches.is_on(Which::Route, &models.routing),
    })
}

/// The preset of a class, and whether there is one of that name.
fn preset_of(models: &Models, class: Class) -> (Option<String>, bool) {
    let meant = models
        .routing
        .meant(class, |name| models.named(name).is_some());
    match meant {
        Meant::Active => (None, false),
        Meant::Preset(name) => (Some(name), true),
        Meant::Unknown(name) => (Some(name), false),
    }
}

fn class(class: Class) -> RouteClass {
    match class {
        Class::Code => RouteClass::Code,
        Class::Reasoning => RouteClass::Reasoning,
        Class::Default => RouteClass::Default,
    }
}

pub(super) fn decided(routed: Routed) -> RouteDecided {
    let Routed {
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
pub(super) fn routed(routed: &Routed) -> wire::Routed {
    let Routed {
        class: found,
        rule,
        preset: _,
        replaced,
    } = routed;
    wire::Routed {
        class: class(*found),
        rule: rule.name().to_owned(),
        why: rule.to_string(),
        replaced: *replaced,
    }
}

/// What is switched, over what is configured, for who asks for every value.
pub(super) fn overlay(server: &Server, settings: &mut Vec<aishd_config::show::Shown>) {
    let switches = server.directory.routes().switches();
    for which in [Which::Route, Which::Fallback] {
        let Some(switch) = switches.get(which) else {
            continue;
        };
        let by = &switch.by;
        let who = match (&by.tty, by.pid) {
            (Some(tty), _) => tty.clone(),
            (None, Some(pid)) => format!("{} pid {pid}", by.name),
            (None, None) => by.name.clone(),
        };
        let shown = aishd_config::show::Shown {
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
