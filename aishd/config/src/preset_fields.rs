//! What a preset says of its requests beside what every request has, and what is wrong with that.

use std::collections::BTreeSet;

use aishd_log::api_dialect::ApiDialect;
use aishd_model::catalog::CatalogFacts;
use aishd_model::model_families::claude_version;
use aishd_model::preset_fields::{AnswerLength, OF_THE_REQUEST, PresetFields};

use super::fault::Fault;
use super::preset::{PresetCheck, effort};
use super::source::SourcePlace;
use super::value::Verbosity;
use crate::key_values::value_of;

/// The first of Anthropic's that is told an effort in words.
const TOLD_IN_WORDS: (u64, u64) = (4, 6);

impl PresetCheck<'_> {
    pub(super) fn fields(&self, faults: &mut Vec<Fault>) -> PresetFields {
        if let Some(verbosity) = &self.model.verbosity
            && self.api() == ApiDialect::Messages
        {
            let message = format!("`{}.verbosity` is not sent", self.path());
            let help = "servers that are spoken to with api = \"messages\" have no word for it";
            faults.push(Fault::warning(&verbosity.place, message).help(help));
        }
        let extra = self.model.extra.as_ref().map(|it| {
            self.check_names("extra", it.value.0.keys(), &it.place, faults);
            it.value.0.clone()
        });
        let omit = self.model.omit.as_ref().map(|it| {
            self.check_names("omit", &it.value, &it.place, faults);
            it.value.iter().cloned().collect::<BTreeSet<String>>()
        });
        let (extra, omit) = (extra.unwrap_or_default(), omit.unwrap_or_default());
        if let Some(both) = omit.iter().find(|it| extra.contains_key(*it))
            && let Some(said) = &self.model.omit
        {
            let message = format!(
                "`{both}` stands in `{0}.extra` and in `{0}.omit`",
                self.path()
            );
            faults.push(Fault::error(&said.place, message).help("take it out of one of them"));
        }
        PresetFields {
            top_p: value_of(&self.model.top_p).map(|it| it.0),
            verbosity: value_of(&self.model.verbosity).map(|it| match it {
                Verbosity::Low => AnswerLength::Low,
                Verbosity::Medium => AnswerLength::Medium,
                Verbosity::High => AnswerLength::High,
            }),
            extra,
            omit,
        }
    }

    fn check_names<'b>(
        &self,
        key: &str,
        names: impl IntoIterator<Item = &'b String>,
        place: &SourcePlace,
        faults: &mut Vec<Fault>,
    ) {
        for name in names
            .into_iter()
            .filter(|it| OF_THE_REQUEST.contains(&it.as_str()))
        {
            let message = format!("`{}.{key}` may not have `{name}`", self.path());
            let help = match name.as_str() {
                "model" => "the preset's own key `model` says it",
                "tools" => "tools = false offers none; [tools] says which there are",
                _ => "that is the request itself, which aish writes",
            };
            faults.push(Fault::error(place, message).help(help));
        }
    }

    /// What is sent in place of an effort that the catalog does not know of this model.
    pub(super) fn check_effort(&self, facts: &CatalogFacts, model: &str, faults: &mut Vec<Fault>) {
        let in_words = self.api() != ApiDialect::Messages
            || claude_version(model).is_some_and(|it| it >= TOLD_IN_WORDS);
        let (Some(said), Some(taken), Some(day)) = (&self.model.effort, facts.efforts, facts.day)
        else {
            return;
        };
        let wished = effort(said.value);
        if taken.has(wished) || !in_words {
            return;
        }
        let sent = match taken.nearest(wished) {
            Some(nearest) => format!("`{}` is sent", nearest.as_str()),
            None => "none is sent".to_owned(),
        };
        let message = format!(
            "`{}.effort`: the catalog of {day} has {} for {model}: {sent}",
            self.path(),
            taken.words(", ")
        );
        let help = "where the catalog is wrong, `extra` says it all the same";
        faults.push(Fault::warning(&said.place, message).help(help));
    }
}
