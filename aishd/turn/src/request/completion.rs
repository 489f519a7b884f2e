//! The body of a model request that a server wanted and a person allowed: what the person was shown, and nothing
//! of the conversation; no tools.

use aishd_dialect::prompt::{Prompt, PromptItem};
use aishd_model::optional_fields::{OutputLimit, RequestOptions};
use aishd_model::preset::Preset;
use aishd_rules::sampling_request::{SamplingRequest, SamplingRole};

/// The request body as it goes out.
pub fn body(preset: &Preset, asked: &SamplingRequest) -> String {
    let mut items: Vec<PromptItem<'_>> = vec![];
    for message in &asked.messages {
        let said = match (message.role, items.last_mut()) {
            // Strict templates want the roles to take turns.
            (SamplingRole::User, Some(PromptItem::User { text, .. }))
            | (SamplingRole::Assistant, Some(PromptItem::Assistant { text, .. })) => {
                let text = text.to_mut();
                text.push_str("\n\n");
                text.push_str(&message.text);
                continue;
            }
            (SamplingRole::User, _) => PromptItem::User {
                text: (&*message.text).into(),
                pictures: vec![],
            },
            (SamplingRole::Assistant, _) => PromptItem::Assistant {
                text: (&*message.text).into(),
                calls: &[],
                extra: None,
                sealed: None,
            },
        };
        items.push(said);
    }
    let prompt = Prompt {
        system: asked.system_prompt.as_deref().unwrap_or_default(),
        items,
        options: RequestOptions {
            temperature: asked.temperature.or(preset.temperature),
            limit: Some(OutputLimit::Said(asked.max_tokens)),
            stop: &asked.stop_sequences,
        },
        ..Prompt::default()
    };
    aishd_dialect::encode(preset, &prompt)
}

#[cfg(test)]
mod tests {
    use aishd_rules::sampling_request::SamplingMessage;
    use serde_json::{Value, json};

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
