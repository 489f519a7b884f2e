//! What a server is told in confidence: the log learns it before it is used, and where the server repeats it, in an error
//! or in an answer, it is cut out.

use std::collections::BTreeMap;

use aishd_mcp_messages::settings::StdioServerSettings;
use aishd_mcp_messages::{confidential, secret_name};
use aishd_signin::ServerBearer;
use serde_json::Value;

/// What stands where a secret was.
const MARK: &str = "[key]";
/// A shorter text is no secret, and cutting it out of messages would only make them unreadable.
const MIN_SECRET_BYTES: usize = 4;
/// In an answer, which is somebody's work, only what is no word.
const MIN_KEY_BYTES: usize = 8;

/// Is told a secret before it is used.
pub(super) type LearnSecret = dyn Fn(&str) + Send + Sync;

/// Deliberately without Debug and Display of its values.
#[derive(Clone, Default)]
pub(super) struct ServerSecrets {
    values: Vec<String>,
    /// Those of them that are keys by what they are for; a variable in an argument may be the name of a directory.
    keys: Vec<String>,
    /// Whose tokens change.
    bearer: Option<ServerBearer>,
}

impl std::fmt::Debug for ServerSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSecrets").finish_non_exhaustive()
    }
}

/// What nobody writes in an answer by chance. A path, an address or a name has a variable too whose name tells of a secret:
/// `SSH_AUTH_SOCK`, `GIT_AUTHOR_EMAIL`.
fn is_key(text: &str) -> bool {
    text.len() >= MIN_KEY_BYTES
        && text.bytes().any(|it| it.is_ascii_digit())
        && !text.starts_with('/')
        && !text.contains([' ', '@'])
}

impl ServerSecrets {
    /// Values of headers or variables that are named like secrets.
    pub(super) fn of_named(values: &BTreeMap<String, String>, learn: &LearnSecret) -> Self {
        let mut secrets = Self::default();
        for (_, value) in values
            .iter()
            .filter(|(name, _)| secret_name::is_secret_name(name))
        {
            secrets.add_key(value, learn);
            // Of `Bearer abc`, also the part that somebody would repeat.
            if let Some((scheme, bare)) = value.trim().split_once(' ') {
                match scheme.to_ascii_lowercase().as_str() {
                    "bearer" | "basic" | "token" => secrets.add_key(bare, learn),
                    _another_word => secrets.add(bare, learn),
                }
            }
        }
        secrets
    }

    /// Of a child: its variables, its arguments, and what `used` gives: variables that were put into either.
    pub(super) fn of_child(
        child: &StdioServerSettings,
        used: &[String],
        learn: &LearnSecret,
    ) -> Self {
        let mut secrets = Self::of_named(&child.env, learn);
        for secret in confidential::secrets(&child.args) {
            secrets.add_key(secret, learn);
        }
        for value in used {
            secrets.add(value, learn);
        }
        secrets
    }

    /// Cut out of answers too.
    pub(super) fn add_key(&mut self, secret: &str, learn: &LearnSecret) {
        self.add(secret, learn);
        let secret = secret.trim();
        if is_key(secret) {
            self.keys.push(secret.to_owned());
            self.keys.sort_by_key(|it| std::cmp::Reverse(it.len()));
        }
    }

    pub(super) fn add(&mut self, secret: &str, learn: &LearnSecret) {
        learn(secret);
        self.hide(secret);
    }

    /// Cut out of errors like a secret; the log does not learn it, since it may be a common word.
    pub(super) fn hide(&mut self, value: &str) {
        let value = value.trim();
        if value.len() >= MIN_SECRET_BYTES {
            self.values.push(value.to_owned());
            // The longest first, so that one which holds another goes as a whole.
            self.values.sort_by_key(|it| std::cmp::Reverse(it.len()));
        }
    }

    /// The tokens of now are cut out as well.
    pub(super) fn follow(&mut self, bearer: ServerBearer) {
        self.bearer = Some(bearer);
    }

    pub(super) fn redact(&self, text: &str) -> String {
        let secrets = self.values.iter();
        let text = secrets.fold(text.to_owned(), |text, it| text.replace(it, MARK));
        match &self.bearer {
            Some(bearer) => bearer.redact(&text),
            None => text,
        }
    }

    /// An answer goes to the model and into the log of its conversation: neither has any use for a key.
    pub(super) fn redact_answer(&self, answer: &mut Value) {
        let mut keys = self.keys.clone();
        if let Some(bearer) = &self.bearer {
            bearer.each_secret(&mut |it| keys.push(it.to_owned()));
        }
        if !keys.is_empty() {
            cut_out(&keys, answer);
        }
    }
}

fn cut_out(keys: &[String], answer: &mut Value) {
    match answer {
        Value::String(text) => {
            for key in keys.iter().filter(|it| it.len() >= MIN_KEY_BYTES) {
                if text.contains(key.as_str()) {
                    *text = text.replace(key.as_str(), MARK);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|it| cut_out(keys, it)),
        Value::Object(fields) => fields.values_mut().for_each(|it| cut_out(keys, it)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_named_like_a_secret_is_learnt_and_cut_out() {
        let learnt = Arc::new(Mutex::new(vec![]));
        let told = learnt.clone();
        let learn = move |it: &str| told.lock().push(it.to_owned());
        let values = [
            ("Authorization", "Bearer s3same"),
            ("X-Api-Key", "s3same-too"),
            ("LOG_LEVEL", "warn"),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut secrets = ServerSecrets::of_named(&BTreeMap::from(values), &learn);
        secrets.hide("notes");
        secrets.hide("abc");
        assert_eq!(
            "warn: [key] and [key], [key] of [key], abc",
            secrets.redact("warn: s3same and s3same-too, Bearer s3same of notes, abc")
        );
        let learnt = learnt.lock().clone();
        assert_eq!(vec!["Bearer s3same", "s3same", "s3same-too"], learnt);
        assert!(!format!("{secrets:?}").contains("s3same"));
    }

    #[test]
    fn an_answer_loses_keys_and_keeps_all_else() {
        let values = [
            ("Authorization", "Bearer s3same-key"),
            ("X-Api-Key", "short"),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut secrets = ServerSecrets::of_named(&BTreeMap::from(values), &|_| {});
        // As of `${HOME}` in an argument.
        secrets.add("/home/u", &|_| {});
        let mut answer = json!({"content": [{"text": "s3same-key, short, /home/u"}], "n": 1});
        secrets.redact_answer(&mut answer);
        assert_eq!(
            json!({"content": [{"text": "[key], short, /home/u"}], "n": 1}),
            answer
        );
    }
}
