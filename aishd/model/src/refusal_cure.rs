//! A request that a server refused for something optional is sent again without it, or with the limit under its other
//! name; what was learned on the way is remembered for this server and model.

use std::collections::HashSet;

use aishd_log::api_dialect::ApiDialect;
use serde_json::{Map, Value};

use crate::effort_refusal;
use crate::optional_fields::{LearnedFields, LimitName, OptionalField, refused};
use crate::picture_refusal::{self, PictureRefusal};
use crate::preset::Preset;
use crate::reply::{HttpDetail, RequestFailure};
use crate::thinking_effort::ThinkingEffort;
use crate::tool_limit;

/// A server that takes fewer tools each time it is asked is not asked for ever.
const MOST_CUTS: u32 = 3;

/// What became of a request that a server refused for something optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CureOutcome {
    pub learned: LearnedFields,
    /// For people.
    pub told: Vec<String>,
    /// How often tools were left out.
    cuts: u32,
}

impl CureOutcome {
    /// The same request as this server wants it, if it refused something optional that is in it. Each is cured once, so
    /// this ends.
    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each way to refuse something, and what cures it"
    )]
    pub fn cure(
        &mut self,
        preset: &Preset,
        body: &[u8],
        failure: &RequestFailure,
    ) -> Option<String> {
        let (field, message) = match failure {
            // By a server with several ways to say so.
            RequestFailure::Http {
                status: 400..=422 | 500..=501,
                detail: HttpDetail::Refuses(OptionalField::Pictures),
                message,
                ..
            } => return self.without_pictures(preset, body, message),
            RequestFailure::Http {
                status: 400 | 422,
                detail: HttpDetail::Refuses(field),
                message,
                ..
            } => (*field, message),
            RequestFailure::Http {
                detail: HttpDetail::TooManyTools,
                message,
                ..
            } => return self.with_fewer_tools(preset, body, message),
            RequestFailure::Http {
                detail: HttpDetail::TakesNoTools,
                ..
            } => return self.without_tools(preset, body),
            RequestFailure::Http {
                detail: HttpDetail::RefusesSeals,
                ..
            } => return self.without_seals(preset, body),
            RequestFailure::Api {
                message,
                overflow: false,
            } => match refused(message, None) {
                Some(OptionalField::Pictures) => {
                    return self.without_pictures(preset, body, message);
                }
                Some(field) => (field, message),
                None if tool_limit::takes_none(message) => {
                    return self.without_tools(preset, body);
                }
                None if tool_limit::is_refused(message, None) => {
                    return self.with_fewer_tools(preset, body, message);
                }
                None => return None,
            },
            _ => return None,
        };
        // What the preset adds itself would be there again in the next request.
        if preset.fields.adds(field.names()).is_some() {
            return None;
        }
        let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let model = &preset.model;
        let told = match field {
            OptionalField::Temperature => {
                body.remove("temperature")?;
                format!("{model} takes no `temperature`: asked again without it")
            }
            OptionalField::TopP => {
                body.remove("top_p")?;
                format!("{model} takes no `top_p`: asked again without it")
            }
            OptionalField::Verbosity => {
                without_verbosity(&mut body)?;
                format!("{model} takes no such `verbosity`: asked again without it")
            }
            OptionalField::StreamOptions => {
                body.remove("stream_options")?;
                format!(
                    "the server of {model} takes no `stream_options`: asked again without it, and tokens are estimated"
                )
            }
            OptionalField::StopSequences => {
                let names = ["stop", "stop_sequences"];
                names.iter().find_map(|it| body.remove(*it))?;
                format!("{model} takes no `stop`: asked again without it")
            }
            OptionalField::Effort => {
                if let Some(told) = self.nearest_effort(preset, &mut body, message) {
                    self.told.push(told);
                    return Some(Value::Object(body).to_string());
                }
                let names = field.names().iter();
                let removed = names.filter_map(|it| body.remove(*it)).count();
                if removed == 0 {
                    return None;
                }
                format!("{model} cannot be told how much to think: asked again without that")
            }
            OptionalField::SealedThinking => {
                body.remove("include")?;
                format!("{model} does not hand out what it thinks: asked again without that")
            }
            OptionalField::CacheKey => {
                body.remove("prompt_cache_key")?;
                format!("the server of {model} takes no `prompt_cache_key`: asked again without it")
            }
            OptionalField::CacheMarks => {
                let mut rest = Value::Object(body);
                if !without_marks(&mut rest) {
                    return None;
                }
                let told = format!(
                    "the server of {model} takes no `cache_control`: asked again without it"
                );
                self.told.push(told);
                self.learned.without.insert(field);
                return Some(rest.to_string());
            }
            OptionalField::Pictures => return None,
            OptionalField::Limit => {
                // There it has to be said.
                if preset.api() == ApiDialect::Messages {
                    let told = self.shorter_answer(preset, &mut body, message)?;
                    self.told.push(told);
                    return Some(Value::Object(body).to_string());
                }
                // It takes one, and a smaller one.
                if most_output(message).is_some() {
                    return None;
                }
                if body.remove("max_output_tokens").is_none()
                    && let Some(renamed) = self.renamed_limit(preset, &mut body)
                {
                    return renamed.then(|| Value::Object(body).to_string());
                }
                self.learned.limit = None;
                format!("{model} takes no limit of an answer: asked again without it")
            }
        };
        self.learned.without.insert(field);
        self.told.push(told);
        Some(Value::Object(body).to_string())
    }

    /// With the longest answer that the server says it takes, where nobody set another; what is thought has to fit into it.
    fn shorter_answer(
        &mut self,
        preset: &Preset,
        body: &mut Map<String, Value>,
        message: &str,
    ) -> Option<String> {
        let sent = body.get("max_tokens")?.as_u64()?;
        let most = most_output(message).filter(|it| *it < sent && preset.max_tokens.is_none())?;
        body.insert("max_tokens".to_owned(), Value::from(most));
        let budget = body
            .get_mut("thinking")
            .and_then(|it| it.get_mut("budget_tokens"));
        if let Some(budget) = budget.filter(|it| it.as_u64().is_some_and(|it| it >= most)) {
            *budget = Value::from(most / 2);
        }
        self.learned.most_output = Some(most);
        let model = &preset.model;
        Some(format!(
            "{model} answers with at most {most} tokens: asked again with that limit"
        ))
    }

    /// With the effort that comes nearest to the refused one among those that the server lists, once.
    fn nearest_effort(
        &mut self,
        preset: &Preset,
        body: &mut Map<String, Value>,
        message: &str,
    ) -> Option<String> {
        if self.learned.efforts.is_some() {
            return None;
        }
        let taken = effort_refusal::listed(message)?;
        let said = said_effort(body)?;
        let sent = ThinkingEffort::of_word(said.as_str()?)?;
        let nearest = taken.nearest(sent).filter(|_| !taken.has(sent))?;
        *said = Value::from(nearest.as_str());
        self.learned.efforts = Some(taken);
        Some(format!(
            "{} takes no effort `{}`: asked again with `{}`",
            preset.model,
            sent.as_str(),
            nearest.as_str()
        ))
    }

    /// The limit under its other name, once. `None`: it was that already, and is taken out; false: there is none in it.
    fn renamed_limit(&mut self, preset: &Preset, body: &mut Map<String, Value>) -> Option<bool> {
        let names = [LimitName::MaxTokens, LimitName::MaxCompletionTokens];
        let Some(sent) = names.into_iter().find(|it| body.contains_key(it.name())) else {
            return Some(false);
        };
        let tokens = body.remove(sent.name())?;
        if self.learned.limit.is_some() {
            return None;
        }
        let other = sent.other();
        if preset.fields.omit.contains(other.name()) {
            return None;
        }
        body.insert(other.name().to_owned(), tokens);
        self.learned.limit = Some(other);
        self.told.push(format!(
            "{} takes no `{}`: asked again with `{}`",
            preset.model,
            sent.name(),
            other.name()
        ));
        Some(true)
    }

    /// The same request without what the server sealed itself: it may have another key by now.
    fn without_seals(&mut self, preset: &Preset, body: &[u8]) -> Option<String> {
        let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let is_seal = |it: &Value| {
            let kind = it["type"].as_str();
            kind.is_some_and(|it| matches!(it, "reasoning" | "thinking" | "redacted_thinking"))
        };
        let mut removed = false;
        let mut sweep = |list: &mut Vec<Value>| {
            let before = list.len();
            list.retain(|it| !is_seal(it));
            removed |= list.len() < before;
        };
        if let Some(Value::Array(input)) = body.get_mut("input") {
            sweep(input);
        }
        let messages = body.get_mut("messages").and_then(Value::as_array_mut);
        for message in messages.into_iter().flatten() {
            if let Some(Value::Array(content)) = message.get_mut("content") {
                sweep(content);
            }
        }
        if !removed {
            return None;
        }
        self.told.push(format!(
            "the server of {} does not take back what it thought before: asked again without that",
            preset.model
        ));
        Some(Value::Object(body).to_string())
    }

    /// The same request with a line in place of each picture that was refused. Each goes once, so this ends.
    fn without_pictures(&mut self, preset: &Preset, body: &[u8], message: &str) -> Option<String> {
        let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let refusal = picture_refusal::refused(message)?;
        let taken = picture_refusal::take_out(&mut body, refusal, message);
        let model = &preset.model;
        let told = match (refusal, taken.len()) {
            (_, 0) => return None,
            (PictureRefusal::All, _) => {
                self.learned.without.insert(OptionalField::Pictures);
                format!("{model} takes no pictures: asked again without them")
            }
            (PictureRefusal::This, 1) => {
                format!(
                    "the server of {model} refused a picture: asked again without it ({message})"
                )
            }
            (PictureRefusal::This, many) => format!(
                "the server of {model} refused one of {many} pictures: asked again without them ({message})"
            ),
        };
        if refusal == PictureRefusal::This {
            self.learned.refuse_pictures(&taken);
        }
        self.told.push(told);
        Some(Value::Object(body).to_string())
    }

    /// The same request without tools. What was called before stays in it.
    fn without_tools(&mut self, preset: &Preset, body: &[u8]) -> Option<String> {
        let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        body.remove("tools")?;
        self.learned.takes_no_tools = true;
        self.told.push(format!(
            "{} takes no tools: asked again without them",
            preset.model
        ));
        Some(Value::Object(body).to_string())
    }

    /// The same request with as many tools as these words say that the server takes.
    fn with_fewer_tools(&mut self, preset: &Preset, body: &[u8], message: &str) -> Option<String> {
        if self.cuts == MOST_CUTS {
            return None;
        }
        let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let Some(Value::Array(mut tools)) = body.get("tools").cloned() else {
            return None;
        };
        let called = called(&body);
        let names: Vec<&str> = tools
            .iter()
            .map(|it| name(it).unwrap_or_default())
            .collect();
        let chosen = tool_limit::chosen(
            &names,
            &called,
            tool_limit::limit_from_error(message, names.len()),
        );
        self.told
            .extend(tool_limit::left_out_notice(&preset.model, &names, &chosen));
        self.learned.max_tools = Some(chosen.len());
        self.cuts += 1;
        let mut at = 0..;
        tools.retain(|_| at.next().is_some_and(|it| chosen.contains(&it)));
        // Some servers refuse an empty list.
        if tools.is_empty() {
            body.remove("tools");
        } else {
            body.insert("tools".to_owned(), Value::Array(tools));
        }
        Some(Value::Object(body).to_string())
    }
}

/// The number in `max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens`.
fn most_output(message: &str) -> Option<u64> {
    let (_, after) = message.split_once("max_tokens")?;
    let (_, most) = after.split_once('>')?;
    let digits = most.trim_start();
    let end = digits.find(|it: char| !it.is_ascii_digit());
    let most = digits[..end.unwrap_or(digits.len())].parse().ok()?;
    (most > 0).then_some(most)
}

/// What a tool, or a call of one, is called.
fn name(it: &Value) -> Option<&str> {
    it["function"]["name"].as_str().or(it["name"].as_str())
}

/// The names of all that was called in a request, in whatever dialect it is.
fn called(body: &Map<String, Value>) -> HashSet<&str> {
    let list = |name: &str| {
        body.get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let is_call = |it: &&Value| {
        let kind = it["type"].as_str();
        kind.is_some_and(|it| matches!(it, "function_call" | "tool_use"))
    };
    let in_messages = list("messages").flat_map(|it| {
        let lists = ["tool_calls", "content"].map(|name| it[name].as_array());
        lists.into_iter().flatten().flatten()
    });
    let of_chat = |it: &&Value| it["function"].is_object();
    let calls = in_messages.filter(|it| of_chat(it) || is_call(it));
    let calls = calls.chain(list("input").filter(is_call));
    calls.filter_map(name).collect()
}

/// Takes the marks of what is to be kept out, and says whether there were any.
fn without_marks(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => {
            let had = fields.remove("cache_control").is_some();
            let had_below = fields.iter_mut().filter_map(|(name, it)| {
                // The schema of a tool is its own.
                (name != "input_schema" && name != "input").then(|| without_marks(it))
            });
            had_below.fold(had, |any, it| any | it)
        }
        Value::Array(list) => list
            .iter_mut()
            .fold(false, |any, it| any | without_marks(it)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Where a request says how much to think, in any dialect.
fn said_effort(body: &mut Map<String, Value>) -> Option<&mut Value> {
    let within = ["reasoning", "output_config"];
    let within = within.into_iter().find(|it| body.contains_key(*it));
    match within {
        Some(name) => body.get_mut(name)?.get_mut("effort"),
        None => body.get_mut("reasoning_effort"),
    }
}

fn without_verbosity(body: &mut Map<String, Value>) -> Option<()> {
    if body.remove("verbosity").is_some() {
        return Some(());
    }
    let text = body.get_mut("text")?.as_object_mut()?;
    text.remove("verbosity")?;
    if text.is_empty() {
        body.remove("text");
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn http(field: OptionalField) -> RequestFailure {
        RequestFailure::Http {
            status: 400,
            message: String::new(),
            retry_after_ms: None,
            detail: HttpDetail::Refuses(field),
        }
    }

    #[test]
    fn an_answer_is_as_long_as_the_server_takes_it() {
        let preset = Preset::demo();
        let message =
            "max_tokens: 32192 > 4096, which is the maximum allowed number of output tokens for m";
        let sent =
            json!({"max_tokens": 32192, "thinking": {"type": "enabled", "budget_tokens": 24000}});
        let mut body = sent.as_object().unwrap().clone();
        let mut cured = CureOutcome::default();
        assert!(cured.shorter_answer(&preset, &mut body, message).is_some());
        assert_eq!(
            json!({"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 2048}}),
            Value::Object(body.clone())
        );
        assert_eq!(Some(4096), cured.learned.most_output);
        assert_eq!(None, cured.shorter_answer(&preset, &mut body, message));
        // What a person has set is theirs to change.
        let set = Preset {
            max_tokens: Some(32_192),
            ..preset
        };
        let mut body = sent.as_object().unwrap().clone();
        assert_eq!(None, cured.shorter_answer(&set, &mut body, message));
    }

    #[test]
    fn each_thing_is_left_out_once_and_the_limit_is_renamed_first() {
        let preset = Preset::demo();
        let mut cured = CureOutcome::default();
        let sent = br#"{"model":"m","max_tokens":5,"temperature":1.0}"#;
        let renamed = cured
            .cure(&preset, sent, &http(OptionalField::Limit))
            .unwrap();
        assert_eq!(
            json!({"model": "m", "max_completion_tokens": 5, "temperature": 1.0}),
            serde_json::from_str::<Value>(&renamed).unwrap()
        );
        assert_eq!(Some(LimitName::MaxCompletionTokens), cured.learned.limit);
        let without = cured
            .cure(&preset, renamed.as_bytes(), &http(OptionalField::Limit))
            .unwrap();
        assert_eq!(
            json!({"model": "m", "temperature": 1.0}),
            serde_json::from_str::<Value>(&without).unwrap()
        );
        let bare = cured
            .cure(
                &preset,
                without.as_bytes(),
                &http(OptionalField::Temperature),
            )
            .unwrap();
        assert_eq!(r#"{"model":"m"}"#, bare);
        for field in [
            OptionalField::Temperature,
            OptionalField::Limit,
            OptionalField::StreamOptions,
            OptionalField::StopSequences,
            OptionalField::Effort,
            OptionalField::SealedThinking,
            OptionalField::CacheKey,
            OptionalField::CacheMarks,
            OptionalField::Pictures,
        ] {
            assert_eq!(None, cured.cure(&preset, bare.as_bytes(), &http(field)));
        }
        assert_eq!((3, None), (cured.told.len(), cured.learned.limit));
        let kept = serde_json::to_string(&cured.learned).unwrap();
        assert_eq!(r#"{"without":["temperature","limit"],"limit":null}"#, kept);
        assert_eq!(cured.learned, serde_json::from_str(&kept).unwrap());
    }
}
