//! What is configured about runs, for those who launch one and say nothing else.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aishd_log::norris::launch::{RunContain, RunLimits};

use crate::model_settings::ModelSettings;
use crate::preset::Preset;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NorrisSettings {
    pub limits: RunLimits,
    /// Whether another preset is asked about each action.
    pub second_opinion: bool,
    /// Which one. `None`: one that costs nothing, if there is one.
    pub second_opinion_model: Option<String>,
    /// An answer that comes later is none.
    pub second_opinion_within: Duration,
    /// Where its commands work.
    pub contain: RunContain,
    /// What its commands may reach besides the conversation's directories.
    pub widened: WidenedLimits,
}

impl Default for NorrisSettings {
    /// As without a configuration.
    fn default() -> Self {
        Self {
            limits: RunLimits {
                steps: 25,
                ms: Some(60 * 60 * 1000),
                tokens: None,
                cost: None,
            },
            second_opinion: true,
            second_opinion_model: None,
            second_opinion_within: Duration::from_secs(30),
            contain: RunContain::Try,
            widened: WidenedLimits::default(),
        }
    }
}

/// Who is asked about what `planner` wants to do: never the planner. Where nobody says who, it is the preset that answers by
/// default, or else one without a key: none that may cost money by itself.
pub fn second(models: &ModelSettings, planner: &str) -> Option<Arc<Preset>> {
    if let Some(named) = &models.norris.second_opinion_model {
        return models.by_name(named).filter(|it| it.name != planner);
    }
    let default = models
        .default
        .as_deref()
        .and_then(|it| models.presets.get(it));
    let free = models.presets.values().filter(|it| it.has_no_key());
    let another = |it: &&Arc<Preset>| it.name != planner;
    default.into_iter().chain(free).find(another).cloned()
}

/// What the configuration adds by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WidenedLimits {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use aishd_log::api_dialect::ApiDialect;

    use super::*;
    use crate::preset::{Backend, KeyHeader, KeySource, ModelEndpoint, Timeouts};

    fn models(
        presets: &[(&str, KeySource)],
        default: Option<&str>,
        named: Option<&str>,
    ) -> ModelSettings {
        let preset = |(name, key): &(&str, KeySource)| {
            let preset = Preset {
                name: (*name).to_owned(),
                backend: Backend::Http(ModelEndpoint {
                    url: "http://127.0.0.1:1/v1".to_owned(),
                    api: ApiDialect::Chat,
                    auth: KeyHeader::Bearer,
                    key: key.clone(),
                    headers: BTreeMap::new(),
                    timeouts: Timeouts::LOOPBACK,
                }),
                ..Preset::demo()
            };
            ((*name).to_owned(), Arc::new(preset))
        };
        ModelSettings {
            presets: presets.iter().map(preset).collect::<BTreeMap<_, _>>(),
            default: default.map(str::to_owned),
            norris: NorrisSettings {
                second_opinion_model: named.map(str::to_owned),
                ..NorrisSettings::default()
            },
            ..ModelSettings::default()
        }
    }

    #[track_caller]
    fn check(models: &ModelSettings, planner: &str, expected: Option<&str>) {
        let second = second(models, planner);
        assert_eq!(expected, second.as_ref().map(|it| it.name.as_str()));
    }

    #[test]
    fn another_one_is_asked_and_none_that_costs_money_by_itself() {
        let key = || KeySource::Env("KEY".to_owned());
        let all = [
            ("a", KeySource::None),
            ("b", KeySource::None),
            ("paid", key()),
        ];
        check(&models(&all, Some("a"), None), "a", Some("b"));
        check(&models(&all, Some("a"), None), "b", Some("a"));
        check(&models(&all, Some("paid"), None), "a", Some("paid"));
        check(&models(&all, Some("a"), Some("paid")), "a", Some("paid"));
        check(&models(&all, Some("a"), Some("a")), "a", None);
        check(&models(&all, Some("a"), Some("gone")), "a", None);
        check(
            &models(&[("a", KeySource::None), ("paid", key())], Some("a"), None),
            "a",
            None,
        );
        check(&models(&[], None, None), "found", None);
    }
}
