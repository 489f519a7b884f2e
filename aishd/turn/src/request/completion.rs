//! The body of a model request that a server wanted and a person allowed: what the person was shown, and nothing
//! of the conversation; no tools.

use aishd_model::optional_fields::{self, OutputLimit, RequestOptions};
use aishd_model::preset::Preset;
use aishd_rules::sampling_request::SamplingRequest;
use serde_json::{Map, Value, json};

/// The request body as it goes out.
pub fn body(preset: &Preset, asked: &SamplingRequest) -> String {
    let mut messages: Vec<(&str, String)> = vec![];
    if let Some(system) = &asked.system_prompt {
        messages.push(("system", system.clone()));
    }
    for message in &asked.messages {
        let role = message.role.name();
        match messages.last_mut() {
            // Strict templates want the roles to take turns.
            Some((before, text)) if *before == role => {
                text.push_str("\n\n");
                text.push_str(&message.text);
            }
            Some(_) | None => messages.push((role, message.text.clone())),
        }
    }
    let messages = messages.iter();
    let messages = messages.map(|(role, text)| json!({"role": role, "content": text}));
    let mut body = Map::new();
    let mut add = |name: &str, value: Value| body.insert(name.to_owned(), value);
    add("model", json!(preset.model));
    add("stream", json!(true));
    let options = RequestOptions {
        temperature: asked.temperature.or(preset.temperature),
        limit: Some(OutputLimit::Said(asked.max_tokens)),
        stop: &asked.stop_sequences,
    };
    for (name, value) in optional_fields::fields(preset, options) {
        add(name, value);
    }
    add("messages", messages.collect());
    Value::Object(body).to_string()
}

#[cfg(test)]
mod tests {
    use aishd_rules::sampling_request::{SamplingMessage, SamplingRole};

    use super::*;

    /// Without context and without tools.
    #[test]
    fn only_what_was_shown_is_sent() {
        let message = |role, text: &str| SamplingMessage {
            role,
            text: text.to_owned(),
        };
        let asked = SamplingRequest {
            server: "s".to_owned(),
            preset: "demo".to_owned(),
            model: "demo".to_owned(),
            system_prompt: Some("be brief".to_owned()),
            messages: vec![
                message(SamplingRole::User, "a"),
                message(SamplingRole::User, "b"),
                message(SamplingRole::Assistant, "c"),
            ],
            max_tokens: 7,
            temperature: None,
            stop_sequences: vec!["END".to_owned()],
        };
        let sent: Value = serde_json::from_str(&body(&Preset::demo(), &asked)).unwrap();
        let expected = json!({
            "model": "demo", "stream": true, "max_tokens": 7, "stop": ["END"],
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "a\n\nb"},
                {"role": "assistant", "content": "c"},
            ],
        });
        assert_eq!(expected, sent);
    }
}
