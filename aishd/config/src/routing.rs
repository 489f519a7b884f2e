//! `[routing]`: which preset answers what, and which one when a server is down.

use aishd_log::routed::QuestionClass;
use aishd_model::routing::Routing;

use super::fault::Fault;
use super::layers::LayerStack;
use super::source::ConfigOrigin;
use super::table_reader::{KeyLeaf, LocatedValue, join, nearest};
use crate::key_values::value_of;

/// The built-in responder, which needs no preset.
const DEMO: &str = "demo";

pub(super) fn routing(stack: &LayerStack, faults: &mut Vec<Fault>) -> Routing {
    let table = &stack.file.routing;
    let leaf = |class| match class {
        QuestionClass::Code => &table.classes.code,
        QuestionClass::Reasoning => &table.classes.reasoning,
        QuestionClass::Default => &table.classes.default,
    };
    let mut classes = std::collections::BTreeMap::new();
    for class in QuestionClass::ALL {
        let key = format!("routing.classes.{}", class.name());
        if let Some(named) = preset_named(&key, leaf(class), stack, faults) {
            classes.insert(class, named.value.clone());
        }
    }
    if let Some(named) = &table.fallback_model
        && !is_default(named)
    {
        check("routing.fallback_model", named, stack, faults);
    }
    let title_key = "routing.title_model";
    let title_model = preset_named(title_key, &table.title_model, stack, faults);
    Routing {
        title_model: title_model.map(|it| it.value.clone()),
        auto: value_of(&table.auto).unwrap_or(false),
        fallback: value_of(&table.fallback).unwrap_or(false),
        fallback_model: value_of(&table.fallback_model).unwrap_or_default(),
        classes,
    }
}

/// What somebody wrote holds. What nobody wrote holds only for a model that cannot cost money.
fn preset_named<'a>(
    key: &str,
    leaf: &'a KeyLeaf<String>,
    stack: &LayerStack,
    faults: &mut Vec<Fault>,
) -> Option<&'a LocatedValue<String>> {
    let named = leaf.as_ref()?;
    if is_default(named) {
        let model = stack.file.models.get(&named.value);
        return model.filter(|it| !it.has_key()).map(|_| named);
    }
    check(key, named, stack, faults);
    Some(named)
}

fn is_default(named: &LocatedValue<String>) -> bool {
    named.place.source.origin == ConfigOrigin::Default
}

/// A name that is no preset's is no reason not to start: the preset that answers anyway answers.
pub(super) fn check(
    key: &str,
    named: &LocatedValue<String>,
    stack: &LayerStack,
    faults: &mut Vec<Fault>,
) {
    let (file, name) = (&stack.file, &named.value);
    let unread = stack.broken.contains("") || stack.broken.contains("models");
    if file.models.contains_key(name) || name == DEMO || unread {
        return;
    }
    let known: Vec<&str> = file.models.keys().map(String::as_str).collect();
    let message = format!("`{key}`: there is no [models.{}]", join("", name));
    let fault = Fault::warning(&named.place, message);
    faults.push(match nearest(name, &known) {
        Some(near) => fault.label(format!("did you mean `{near}`?")),
        None if known.is_empty() => fault,
        None => fault.help(format!("there are: {}", known.join(", "))),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::DEFAULTS;
    use crate::layers::ConfigLayer;
    use crate::source::{FileExposure, SourceText};

    const FREE: &str = "endpoint = \"http://127.0.0.1:1\"\nmodel = \"m\"\n";

    fn read(text: &str) -> (Routing, Vec<String>) {
        let source =
            |origin, text: &str| SourceText::new(origin, FileExposure::Private, text.to_owned());
        let mut stack = LayerStack::default();
        stack.put_layer(&ConfigLayer::read(source(ConfigOrigin::Default, DEFAULTS)));
        let user = ConfigOrigin::File("/c.toml".into());
        stack.put_layer(&ConfigLayer::read(source(user, text)));
        let mut faults = vec![];
        let routing = routing(&stack, &mut faults);
        assert!(faults.iter().all(|it| !it.is_error()), "{faults:?}");
        (routing, faults.iter().map(Fault::line).collect())
    }

    #[track_caller]
    fn check_code(text: &str, preset: Option<&str>) {
        let (routing, faults) = read(text);
        let found = routing
            .classes
            .get(&QuestionClass::Code)
            .map(String::as_str);
        assert_eq!((preset, 0), (found, faults.len()), "{text}: {faults:?}");
        assert_eq!(1, routing.classes.len().max(1), "{text}");
    }

    #[test]
    fn nothing_is_on_and_nothing_paid_is_chosen_by_itself() {
        let (routing, faults) = read("");
        assert!(!routing.auto && !routing.fallback && routing.classes.is_empty());
        assert_eq!(
            ("cloud", 0),
            (routing.fallback_model.as_str(), faults.len())
        );
        check_code(&format!("[models.deep]\n{FREE}"), Some("deep"));
        let paid = format!("[models.deep]\n{FREE}key_env = \"K\"\n");
        check_code(&paid, None);
        let written = format!("{paid}[routing.classes]\ncode = \"deep\"\n");
        check_code(&written, Some("deep"));
    }

    #[test]
    fn a_preset_that_is_not_there_is_told_with_its_line_and_stops_nothing() {
        let (routing, faults) = read(&format!(
            "[models.deep]\n{FREE}[routing]\nauto = true\nfallback_model = \"clout\"\n[routing.classes]\nreasoning = \"dep\"\n"
        ));
        assert!(routing.auto);
        assert_eq!(
            Some("dep"),
            routing
                .classes
                .get(&QuestionClass::Reasoning)
                .map(String::as_str)
        );
        assert_eq!(2, faults.len(), "{faults:?}");
        assert!(
            faults[0].contains("c.toml:8") && faults[0].contains("`routing.classes.reasoning`"),
            "{}",
            faults[0]
        );
        assert!(
            faults[1].contains("c.toml:6") && faults[1].contains("[models.clout]"),
            "{}",
            faults[1]
        );
    }
}
