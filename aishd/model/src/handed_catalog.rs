//! A file that somebody hands over is made into a catalog: the `api.json` of models.dev, or the price file of LiteLLM. Which
//! of them it is, its shape says. Nothing in it is believed to be of the right kind.

use std::collections::BTreeMap;
use std::fmt;

use aishd_log::spending::{NanoUsd, TokenPrice};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::catalog_table::{CatalogDay, CatalogFacts, CatalogTable};
use crate::loose_value::{LooseSeed, LooseValue};
use crate::thinking_effort::{EffortSet, ThinkingEffort};

/// Larger files are refused; both are about 3 MB.
pub const MOST_FILE_BYTES: usize = 64 << 20;
/// What is kept of one is no larger.
pub const MOST_TABLE_BYTES: usize = 32 << 20;
/// A file with more models is none of these two; they have less than 10,000.
const MOST_MODELS: usize = 100_000;
const MOST_NAME_BYTES: usize = 200;
const MOST_TOKENS: f64 = 1e9;
/// Dollars for a million tokens.
const MOST_DOLLARS: f64 = 1e6;

/// Whose servers are at which host: by their name in models.dev, and in the price file.
const HOSTS: [(&str, &str, &str); 18] = [
    ("alibaba", "dashscope", "dashscope-intl.aliyuncs.com"),
    ("anthropic", "anthropic", "api.anthropic.com"),
    ("cerebras", "cerebras", "api.cerebras.ai"),
    ("deepinfra", "deepinfra", "api.deepinfra.com"),
    ("deepseek", "deepseek", "api.deepseek.com"),
    ("fireworks-ai", "fireworks_ai", "api.fireworks.ai"),
    ("google", "gemini", "generativelanguage.googleapis.com"),
    ("groq", "groq", "api.groq.com"),
    ("huggingface", "huggingface", "router.huggingface.co"),
    ("minimax", "minimax", "api.minimax.io"),
    ("mistral", "mistral", "api.mistral.ai"),
    ("moonshotai", "moonshot", "api.moonshot.ai"),
    ("nvidia", "nvidia_nim", "integrate.api.nvidia.com"),
    ("openai", "openai", "api.openai.com"),
    ("openrouter", "openrouter", "openrouter.ai"),
    ("togetherai", "together_ai", "api.together.xyz"),
    ("xai", "xai", "api.x.ai"),
    ("zai", "zai", "api.z.ai"),
];

const WANTED: [&str; 39] = [
    // models.dev
    "limit",
    "context",
    "output",
    "cost",
    "input",
    "cache_read",
    "cache_write",
    "temperature",
    "tool_call",
    "attachment",
    "modalities",
    "reasoning_options",
    "type",
    "values",
    // LiteLLM
    "litellm_provider",
    "mode",
    "max_tokens",
    "max_input_tokens",
    "max_output_tokens",
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "supports_function_calling",
    "supports_vision",
    "supports_pdf_input",
    "supports_reasoning",
    "supports_sampling_params",
    "reasoning_effort_levels",
    "supports_none_reasoning_effort",
    "supports_minimal_reasoning_effort",
    "supports_low_reasoning_effort",
    "supports_xhigh_reasoning_effort",
    "supports_max_reasoning_effort",
    // Both, of what has models in it.
    "models",
    "api",
    "id",
    "name",
    "env",
];

/// Fields that only the price file has.
const OF_PRICES: [&str; 4] = [
    "litellm_provider",
    "input_cost_per_token",
    "max_input_tokens",
    "mode",
];

/// What became of a file.
#[derive(Debug)]
pub struct ReducedCatalog {
    pub table: CatalogTable,
    /// Models that are at no host that is known, that answer with no text, or of which nothing is said.
    pub left_out: usize,
}

/// Why a file is no catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCatalog {
    #[error("it has more than {} MiB", MOST_FILE_BYTES >> 20)]
    TooLarge,
    /// With what is wrong, and where.
    #[error("it is no JSON: {0}")]
    Broken(String),
    #[error("{0}")]
    NoObject(String),
    #[error(
        "it is neither models.dev's api.json (providers, each with `models`) nor LiteLLM's model_prices_and_context_window.json (models, each with `litellm_provider`)"
    )]
    OtherShape,
    #[error("it has providers as models.dev and models as LiteLLM: expected one of the two")]
    BothShapes,
    #[error("it has more than {MOST_MODELS} models")]
    TooMany,
    #[error("none of its {0} models is at a host that is known")]
    NothingKnown(usize),
}

type Models = BTreeMap<(String, String), CatalogFacts>;

/// Makes a catalog of what such a file holds.
pub fn reduced(json: &[u8], day: CatalogDay) -> Result<ReducedCatalog, NoCatalog> {
    if json.len() > MOST_FILE_BYTES {
        return Err(NoCatalog::TooLarge);
    }
    // A mark of the byte order is no part of it.
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let mut found = ReducedModels::default();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let read = reader.deserialize_any(WholeFile(&mut found));
    read.and_then(|()| reader.end()).map_err(|error| {
        if error.is_data() {
            NoCatalog::NoObject(error.to_string())
        } else {
            NoCatalog::Broken(error.to_string())
        }
    })?;
    if found.too_many {
        return Err(NoCatalog::TooMany);
    }
    let (origin, models) = match (found.providers > 0, found.priced > 0) {
        (false, false) => return Err(NoCatalog::OtherShape),
        (true, true) => return Err(NoCatalog::BothShapes),
        (true, false) => ("models.dev", found.models),
        (false, true) => ("litellm", found.models),
    };
    if models.is_empty() {
        return Err(NoCatalog::NothingKnown(found.left_out));
    }
    let table = CatalogTable::of(day, origin, &models);
    if table.text().len() > MOST_TABLE_BYTES {
        return Err(NoCatalog::TooMany);
    }
    Ok(ReducedCatalog {
        table,
        left_out: found.left_out,
    })
}

/// What a file holds of either form.
#[derive(Default)]
struct ReducedModels {
    models: Models,
    /// Of models.dev.
    providers: usize,
    /// Of `LiteLLM`.
    priced: usize,
    left_out: usize,
    too_many: bool,
}

impl ReducedModels {
    fn take(&mut self, host: Option<&str>, model: &str, facts: Option<CatalogFacts>) {
        let named = !model.is_empty()
            && model.len() <= MOST_NAME_BYTES
            && !model.chars().any(char::is_control);
        match (host, facts) {
            (Some(host), Some(facts)) if named => {
                if self.models.len() >= MOST_MODELS {
                    self.too_many = true;
                } else {
                    self.models
                        .insert((host.to_owned(), model.to_owned()), facts);
                }
            }
            _ => self.left_out += 1,
        }
    }

    /// An entry of the price file.
    fn take_priced(&mut self, name: &str, entry: &LooseValue) {
        // It says what the fields mean.
        if name == "sample_spec" {
            return;
        }
        self.priced += 1;
        let provider = entry.get("litellm_provider").text().unwrap_or_default();
        let host = HOSTS.iter().find(|(_, it, _)| *it == provider);
        let model = name
            .strip_prefix(provider)
            .and_then(|it| it.strip_prefix('/'));
        let answers = matches!(entry.get("mode").text(), None | Some("chat" | "responses"));
        let facts = answers.then(|| priced_facts(entry)).flatten();
        self.take(host.map(|(_, _, host)| *host), model.unwrap_or(name), facts);
    }
}

/// What is no object is passed over.
macro_rules! passes_over {
    ($value:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_bool<E>(self, _flag: bool) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_i64<E>(self, _number: i64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_u64<E>(self, _number: u64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_f64<E>(self, _number: f64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_str<E>(self, _text: &str) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
}

/// The whole of a file.
struct WholeFile<'a>(&'a mut ReducedModels);

impl<'de> Visitor<'de> for WholeFile<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of providers or of models")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(name) = entries.next_key::<String>()? {
            entries.next_value_seed(TopEntry {
                name: &name,
                found: self.0,
            })?;
        }
        Ok(())
    }
}

/// A provider, or a model with its prices. A provider's address may stand behind its models, so that these wait for it.
struct TopEntry<'a> {
    name: &'a str,
    found: &'a mut ReducedModels,
}

impl<'de> DeserializeSeed<'de> for TopEntry<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TopEntry<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a provider or a model, which is an object")
    }

    passes_over!(());

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut said: BTreeMap<&'static str, LooseValue> = BTreeMap::new();
        let mut models: Option<Vec<(String, Option<CatalogFacts>)>> = None;
        while let Some(name) = fields.next_key::<String>()? {
            let room = MOST_MODELS.saturating_sub(self.found.models.len());
            if name == "models" {
                models = fields.next_value_seed(ProviderModels { room })?;
            } else if let Some(name) = WANTED.iter().find(|it| **it == name) {
                said.insert(name, fields.next_value_seed(LOOSE)?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        let entry = LooseValue::Object(said);
        match models {
            Some(models) => {
                self.found.providers += 1;
                let host = provider_host(self.name, &entry);
                for (model, facts) in models {
                    self.found.take(host.as_deref(), &model, facts);
                }
            }
            None if OF_PRICES.iter().any(|it| !entry.get(it).is_nothing()) => {
                self.found.take_priced(self.name, &entry);
            }
            None => self.found.left_out += 1,
        }
        Ok(())
    }
}

/// What is kept of a model: a list within an object within an object within a list is the deepest.
const LOOSE: LooseSeed = LooseSeed {
    wanted: &WANTED,
    levels: 4,
};

/// The models of a provider; `None`: it is no object.
struct ProviderModels {
    room: usize,
}

impl<'de> DeserializeSeed<'de> for ProviderModels {
    type Value = Option<Vec<(String, Option<CatalogFacts>)>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ProviderModels {
    type Value = Option<Vec<(String, Option<CatalogFacts>)>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the models of a provider, which are an object")
    }

    passes_over!(None);

    fn visit_map<A: MapAccess<'de>>(self, mut models: A) -> Result<Self::Value, A::Error> {
        let mut read = vec![];
        while let Some(name) = models.next_key::<String>()? {
            let model = models.next_value_seed(LOOSE)?;
            // One more than there is room for tells that there are too many.
            if read.len() <= self.room {
                read.push((name, listed_facts(&model)));
            }
        }
        Ok(Some(read))
    }
}

/// Where a provider's servers are: as is known of it, else as its address says. An address with a part to be filled in is
/// none.
fn provider_host(name: &str, provider: &LooseValue) -> Option<String> {
    if let Some((_, _, host)) = HOSTS.iter().find(|(it, _, _)| *it == name) {
        return Some((*host).to_owned());
    }
    let (scheme, rest) = provider.get("api").text()?.split_once("://")?;
    let place = rest.split(['/', '?', '#']).next()?;
    let is_host = !place.is_empty()
        && place
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b".-:[]_".contains(&it));
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let place = place.strip_suffix(usual).unwrap_or(place);
    (is_host && matches!(scheme, "http" | "https")).then(|| place.to_ascii_lowercase())
}

/// Of a model as models.dev has it; `None`: it answers with no text, or nothing is said of it.
fn listed_facts(model: &LooseValue) -> Option<CatalogFacts> {
    let modalities = model.get("modalities");
    if let Some(out) = modalities.get("output").texts()
        && !out.contains(&"text")
    {
        return None;
    }
    let (limit, cost) = (model.get("limit"), model.get("cost"));
    let takes = |kind: &str| match modalities.get("input").texts() {
        Some(kinds) => Some(kinds.contains(&kind)),
        None => model.get("attachment").flag().filter(|takes| !takes),
    };
    let options = model.get("reasoning_options").list().unwrap_or_default();
    let of_effort = options
        .iter()
        .find(|it| it.get("type").text() == Some("effort"));
    let price = |name: &str| dollars(cost.get(name), 1.0);
    said(CatalogFacts {
        day: None,
        context_tokens: tokens(limit.get("context")),
        output_tokens: tokens(limit.get("output")),
        temperature: model.get("temperature").flag(),
        tools: model.get("tool_call").flag(),
        pictures: takes("image"),
        pdfs: takes("pdf"),
        price: token_price(
            (price("input"), price("output")),
            (price("cache_read"), price("cache_write")),
        ),
        efforts: of_effort.and_then(|it| effort_words(it.get("values"))),
    })
}

/// Of a model as `LiteLLM` has it.
fn priced_facts(model: &LooseValue) -> Option<CatalogFacts> {
    // It counts by the token.
    let price = |name: &str| dollars(model.get(name), 1e6);
    let sampling = model.get("supports_sampling_params").flag();
    said(CatalogFacts {
        day: None,
        context_tokens: tokens(model.get("max_input_tokens")),
        output_tokens: tokens(model.get("max_output_tokens"))
            .or_else(|| tokens(model.get("max_tokens"))),
        temperature: sampling.filter(|takes| !takes),
        tools: model.get("supports_function_calling").flag(),
        pictures: model.get("supports_vision").flag(),
        pdfs: model.get("supports_pdf_input").flag(),
        price: token_price(
            (
                price("input_cost_per_token"),
                price("output_cost_per_token"),
            ),
            (
                price("cache_read_input_token_cost"),
                price("cache_creation_input_token_cost"),
            ),
        ),
        efforts: effort_words(model.get("reasoning_effort_levels"))
            .or_else(|| flagged_efforts(model)),
    })
}

fn said(facts: CatalogFacts) -> Option<CatalogFacts> {
    (facts != CatalogFacts::default()).then_some(facts)
}

fn tokens(value: &LooseValue) -> Option<u64> {
    let number = value.number()?.round();
    (1.0..=MOST_TOKENS)
        .contains(&number)
        .then_some(number as u64)
}

/// For a million tokens.
fn dollars(value: &LooseValue, times: f64) -> Option<NanoUsd> {
    let amount = value.number()? * times;
    let is_price = (0.0..=MOST_DOLLARS).contains(&amount);
    is_price.then(|| NanoUsd::from_usd(amount)).flatten()
}

/// Half a price is none, and one of nothing is often one that nobody knew.
fn token_price(
    (input, output): (Option<NanoUsd>, Option<NanoUsd>),
    (cached_input, cache_write): (Option<NanoUsd>, Option<NanoUsd>),
) -> Option<TokenPrice> {
    let price = TokenPrice {
        input: input?,
        output: output?,
        cached_input,
        cache_write: cache_write.filter(|it| *it > NanoUsd(0)),
    };
    Some(price).filter(|it| !it.is_nothing())
}

/// A list with a word that is none of ours says something else.
fn effort_words(list: &LooseValue) -> Option<EffortSet> {
    let words = list.texts().filter(|it| !it.is_empty())?;
    words.into_iter().map(ThinkingEffort::of_word).collect()
}

/// `LiteLLM` says of some efforts alone whether they are taken; the middle ones always are.
fn flagged_efforts(model: &LooseValue) -> Option<EffortSet> {
    const FLAGS: [(&str, ThinkingEffort); 5] = [
        ("supports_none_reasoning_effort", ThinkingEffort::None),
        ("supports_minimal_reasoning_effort", ThinkingEffort::Minimal),
        ("supports_low_reasoning_effort", ThinkingEffort::Low),
        ("supports_xhigh_reasoning_effort", ThinkingEffort::XHigh),
        ("supports_max_reasoning_effort", ThinkingEffort::Max),
    ];
    let flags = FLAGS.map(|(name, effort)| (effort, model.get(name).flag()));
    if model.get("supports_reasoning").flag() != Some(true)
        || flags.iter().all(|(_, flag)| flag.is_none())
    {
        return None;
    }
    let mut taken = EffortSet::from_iter([ThinkingEffort::Medium, ThinkingEffort::High]);
    for (effort, flag) in flags {
        if flag.unwrap_or(effort == ThinkingEffort::Low) {
            taken.insert(effort);
        }
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn day() -> CatalogDay {
        CatalogDay::parse("2031-02-03").unwrap()
    }

    #[track_caller]
    fn facts_of(file: &Value, host: &str, model: &str) -> Option<CatalogFacts> {
        let reduced = reduced(file.to_string().as_bytes(), day()).unwrap();
        let facts = reduced.table.facts(host, model)?;
        assert_eq!(Some(day()), facts.day);
        Some(CatalogFacts { day: None, ..facts })
    }

    fn nano(dollars: f64) -> NanoUsd {
        NanoUsd::from_usd(dollars).unwrap()
    }

    fn efforts(words: &str) -> Option<EffortSet> {
        words.split(' ').map(ThinkingEffort::of_word).collect()
    }

    /// As models.dev has it, of models that nobody made.
    fn listed(more: &Value) -> Value {
        let mut model = json!({
            "id": "owl-2", "name": "Owl 2", "attachment": true, "reasoning": true, "temperature": false, "tool_call": true,
            "modalities": {"input": ["text", "image"], "output": ["text"]},
            "limit": {"context": 300_000, "output": 20_000},
            "cost": {"input": 1.5, "output": 6, "cache_read": 0.15, "cache_write": 0},
            "reasoning_options": [{"type": "budget"}, {"type": "effort", "values": ["low", "high"]}],
        });
        for (name, value) in more.as_object().unwrap() {
            model[name] = value.clone();
        }
        json!({"aviary": {
            "id": "aviary", "models": {"owl-2": model}, "env": ["AVIARY_KEY"], "api": "https://API.aviary.test/v1",
        }})
    }

    const AVIARY: &str = "api.aviary.test";

    #[test]
    fn models_dev_is_read() {
        let expected = CatalogFacts {
            context_tokens: Some(300_000),
            output_tokens: Some(20_000),
            temperature: Some(false),
            tools: Some(true),
            pictures: Some(true),
            pdfs: Some(false),
            price: Some(TokenPrice {
                input: nano(1.5),
                output: nano(6.0),
                cached_input: Some(nano(0.15)),
                cache_write: None,
            }),
            efforts: efforts("low high"),
            day: None,
        };
        let found = |more: &Value| facts_of(&listed(more), AVIARY, "owl-2");
        assert_eq!(Some(expected), found(&json!({})));
        // What is of no use is as if it were not there.
        let hostile = json!({
            "limit": {"context": -5, "output": 1e300},
            "cost": {"input": "NaN", "output": -1},
            "temperature": "yes", "tool_call": [], "reasoning_options": {"type": "effort"},
            "modalities": 7, "attachment": false,
        });
        let little = CatalogFacts {
            pictures: Some(false),
            pdfs: Some(false),
            ..CatalogFacts::default()
        };
        assert_eq!(Some(little), found(&hostile));
        let price = |cost: Value| found(&json!({"cost": cost})).unwrap().price;
        assert_eq!(None, price(json!({"input": 1})));
        assert_eq!(None, price(json!({"input": 0, "output": 0})));
        assert_eq!(None, price(json!({"input": 1, "output": 1e9})));
        assert_eq!(None, price(json!([1, 2])));
        let odd = json!({"reasoning_options": [{"type": "effort", "values": ["low", "ultra"]}]});
        assert_eq!(None, found(&odd).unwrap().efforts);
    }

    #[test]
    fn whose_server_it_is_its_name_or_its_address_says() {
        let check = |provider: &str, api: Value, host: Option<&str>| {
            let mut file = listed(&json!({}));
            let mut aviary = file["aviary"].take();
            aviary["api"] = api;
            let file = json!({provider: aviary});
            match (host, reduced(file.to_string().as_bytes(), day())) {
                (Some(host), Ok(done)) => {
                    assert!(done.table.facts(host, "owl-2").is_some(), "{file}");
                }
                (None, Err(none)) => assert_eq!(NoCatalog::NothingKnown(1), none),
                (_, other) => panic!("{file}: {other:?}"),
            }
        };
        check("openai", Value::Null, Some("api.openai.com"));
        check(
            "x",
            json!("http://127.0.0.1:8080/v1"),
            Some("127.0.0.1:8080"),
        );
        check("x", json!("https://h.test:443"), Some("h.test"));
        check("x", json!("https://${ACCOUNT}.h.test/v1"), None);
        check("x", json!("https://h\t.test/v1"), None);
        check("x", json!("ftp://h.test/v1"), None);
        check("x", json!(5), None);
        check("x", Value::Null, None);
    }

    /// As `LiteLLM` has it.
    #[test]
    fn a_file_of_prices_is_read() {
        let file = json!({
            "sample_spec": {"max_tokens": "a number", "litellm_provider": "one of many", "mode": "chat"},
            "owl-3": {
                "litellm_provider": "openai", "mode": "responses",
                "max_input_tokens": 1_000_000, "max_output_tokens": 50_000, "max_tokens": 7,
                "input_cost_per_token": 2.5e-7, "output_cost_per_token": 1e-6,
                "cache_read_input_token_cost": 2.5e-8, "cache_creation_input_token_cost": 3e-7,
                "supports_vision": true, "supports_function_calling": true, "supports_sampling_params": false,
                "supports_reasoning": true, "supports_none_reasoning_effort": false,
                "supports_xhigh_reasoning_effort": true,
            },
            "xai/wren": {"litellm_provider": "xai", "max_tokens": 9, "supports_reasoning": true},
            "azure/owl-3": {"litellm_provider": "azure", "mode": "chat", "max_tokens": 9},
            "openai/draw": {"litellm_provider": "openai", "mode": "image_generation", "max_tokens": 9},
            "groq/finch": {"litellm_provider": "groq", "max_input_tokens": {"a": 1}, "input_cost_per_token": -1,
                "output_cost_per_token": "1e-6", "supports_vision": "no", "mode": "chat",
                "supports_function_calling": true, "reasoning_effort_levels": ["low", "max"]},
            "\u{1b}[31m": {"litellm_provider": "groq", "mode": "chat", "max_tokens": 9},
            "odd": 5, "odder": [1], "oddest": null,
        });
        let expected = CatalogFacts {
            context_tokens: Some(1_000_000),
            output_tokens: Some(50_000),
            temperature: Some(false),
            tools: Some(true),
            pictures: Some(true),
            pdfs: None,
            price: Some(TokenPrice {
                input: nano(0.25),
                output: nano(1.0),
                cached_input: Some(nano(0.025)),
                cache_write: Some(nano(0.3)),
            }),
            efforts: efforts("low medium high xhigh"),
            day: None,
        };
        assert_eq!(Some(expected), facts_of(&file, "api.openai.com", "owl-3"));
        let wren = facts_of(&file, "api.x.ai", "wren").unwrap();
        assert_eq!((Some(9), None), (wren.output_tokens, wren.efforts));
        let finch = CatalogFacts {
            tools: Some(true),
            efforts: efforts("low max"),
            ..CatalogFacts::default()
        };
        assert_eq!(Some(finch), facts_of(&file, "api.groq.com", "finch"));
        let reduced = reduced(file.to_string().as_bytes(), day()).unwrap();
        assert_eq!(3, reduced.table.models());
        assert_eq!("litellm", reduced.table.origin());
        // Of another host, no chat, a name that no terminal should see; `odd` ones are none of it.
        assert_eq!(3, reduced.left_out);
    }

    #[test]
    fn what_is_no_catalog_is_refused_with_the_reason() {
        let check = |file: &[u8], expected: &str| {
            let refused = reduced(file, day())
                .map(|it| it.table)
                .unwrap_err()
                .to_string();
            assert!(refused.contains(expected), "{refused}");
        };
        check(
            b"",
            "it is no JSON: EOF while parsing a value at line 1 column 0",
        );
        check(
            b"<html>",
            "it is no JSON: expected value at line 1 column 1",
        );
        check(
            b"{\"a\": {}} x",
            "it is no JSON: trailing characters at line 1",
        );
        check(b"{\"a\": NaN}", "it is no JSON");
        check(
            b"[]",
            "expected an object of providers or of models at line 1",
        );
        check(b"{}", "it is neither models.dev's api.json");
        check(b"{\"a\": {\"id\": \"x\"}}", "it is neither");
        check(b"{\"a\": {\"models\": []}}", "it is neither");
        check(b"{\"a\": {\"models\": {}}}", "none of its 0 models");
        let mut both = listed(&json!({}));
        both["owl"] = json!({"litellm_provider": "openai", "mode": "chat", "max_tokens": 5});
        check(both.to_string().as_bytes(), "expected one of the two");
        let deep = format!("{{\"a\": {}", "[".repeat(1_000_000));
        check(deep.as_bytes(), "it is no JSON");
        let many: serde_json::Map<String, Value> = (0..=MOST_MODELS)
            .map(|it| (format!("m{it}"), json!({"tool_call": true})))
            .collect();
        let many = json!({"openai": {"models": many}});
        check(many.to_string().as_bytes(), "more than 100000 models");
        check(&vec![b' '; MOST_FILE_BYTES + 1], "more than 64 MiB");
    }
}
