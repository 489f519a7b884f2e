//! The kinds of values that keys take, each with its form in TOML and in the schema.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use aishd_log::spending::NanoUsd;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use toml::de::DeValue;

use super::table_reader::{KeyKind, ValueMisread, nearest};

impl KeyKind for String {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        match value.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(ValueMisread::kind("a text", value)),
        }
    }

    fn show(&self) -> String {
        toml::Value::from(self.as_str()).to_string()
    }
}

impl KeyKind for bool {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        value
            .as_bool()
            .ok_or_else(|| ValueMisread::kind("true or false", value))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl KeyKind for PathBuf {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        String::read(value).map(Self::from)
    }

    fn show(&self) -> String {
        self.display().to_string().show()
    }
}

impl KeyKind for Vec<String> {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        let list = value
            .as_array()
            .ok_or_else(|| ValueMisread::kind("a list of texts", value))?;
        let text = |it: &DeValue<'_>| match it.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(ValueMisread::kind("only texts in the list", it)),
        };
        list.iter().map(|it| text(it.get_ref())).collect()
    }

    fn show(&self) -> String {
        let items: Self = self.iter().map(KeyKind::show).collect();
        format!("[{}]", items.join(", "))
    }
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl KeyKind for SecretText {
    const SECRET: bool = true;

    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        String::read(value).map(Self)
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

impl JsonSchema for SecretText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// A whole number in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeNumber<const LEAST: u64, const MOST: u64>(pub u64);

impl<const LEAST: u64, const MOST: u64> KeyKind for WholeNumber<LEAST, MOST> {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        let DeValue::Integer(number) = value else {
            return Err(ValueMisread::kind("a whole number", value));
        };
        let number = i128::from_str_radix(number.as_str(), number.radix()).ok();
        match number.and_then(|it| u64::try_from(it).ok()) {
            Some(number) if (LEAST..=MOST).contains(&number) => Ok(Self(number)),
            Some(_) | None if LEAST == MOST => Err(ValueMisread::new(format!("expected {LEAST}"))),
            Some(_) | None => Err(ValueMisread::new(format!(
                "expected a number from {LEAST} to {MOST}"
            ))),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl<const LEAST: u64, const MOST: u64> JsonSchema for WholeNumber<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Whole{LEAST}To{MOST}").into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LEAST, "maximum": MOST })
    }
}

/// A number from 0, of what is called `kind`.
fn number(value: &DeValue<'_>, kind: &str, most: f64) -> Result<f64, ValueMisread> {
    let number: Option<f64> = match value {
        DeValue::Integer(number) => number.as_str().parse().ok(),
        DeValue::Float(number) => number.as_str().parse().ok(),
        DeValue::String(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => return Err(ValueMisread::kind(kind, value)),
    };
    number
        .filter(|it| (0.0..=most).contains(it))
        .ok_or_else(|| ValueMisread::new(format!("expected {kind} from 0 to {most}")))
}

/// A temperature: how freely a model chooses its words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature(pub f64);

impl Temperature {
    const MOST: f64 = 100.0;
}

impl KeyKind for Temperature {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        number(value, "a number", Self::MOST).map(Self)
    }

    fn show(&self) -> String {
        toml::Value::from(self.0).to_string()
    }
}

impl JsonSchema for Temperature {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Temperature".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 100 })
    }
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl KeyKind for Share {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        number(value, "a number", 1.0).map(Self)
    }

    fn show(&self) -> String {
        toml::Value::from(self.0).to_string()
    }
}

impl JsonSchema for Share {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}

/// An amount of money in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DollarAmount(f64);

impl DollarAmount {
    const MOST: f64 = 1_000_000.0;

    /// The nearest amount that can be counted with.
    pub fn nano(self) -> NanoUsd {
        NanoUsd::from_usd(self.0).unwrap_or_default()
    }
}

impl KeyKind for DollarAmount {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        number(value, "a number of dollars", Self::MOST).map(Self)
    }

    fn show(&self) -> String {
        toml::Value::from(self.0).to_string()
    }
}

impl JsonSchema for DollarAmount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Dollars".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": Self::MOST })
    }
}

/// A time: `250ms`, `5s`, `10m`, `1h 30m`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    text: String,
    pub value: Duration,
}

impl TimeSpan {
    /// What [`KeyKind::read`] takes, as nearly as a pattern can say it.
    const PATTERN: &'static str = r"^\s*([0-9]+\s*[A-Za-z]+\s*)+$";
    /// Longer ones mean "never", and arithmetic with them fails.
    const MOST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
}

impl KeyKind for TimeSpan {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        let expected = r#"a time such as "250ms", "5s" or "10m""#;
        let Some(text) = value.as_str() else {
            return Err(ValueMisread::kind(expected, value));
        };
        match humantime::parse_duration(text) {
            Ok(time) if time.is_zero() => Err(ValueMisread::new("a time of nothing is none")),
            Ok(time) if time > Self::MOST => Err(ValueMisread::new("expected at most a year")),
            Ok(value) => Ok(Self {
                text: text.to_owned(),
                value,
            }),
            Err(_) => Err(ValueMisread::new(format!("expected {expected}"))),
        }
    }

    fn show(&self) -> String {
        self.text.show()
    }
}

impl JsonSchema for TimeSpan {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": Self::PATTERN })
    }
}

/// Declares closed sets of words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($word:ident: $text:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $name { $($word,)* }

            impl $name {
                pub const WORDS: &[&str] = &[$($text),*];

                pub fn word(self) -> &'static str {
                    match self { $(Self::$word => $text,)* }
                }
            }

            impl KeyKind for $name {
                fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
                    match value.as_str() {
                        $(Some($text) => Ok(Self::$word),)*
                        Some(other) => Err(not_a_word(other, Self::WORDS)),
                        None => Err(ValueMisread::kind("a text", value)),
                    }
                }

                fn show(&self) -> String {
                    format!("\"{}\"", self.word())
                }
            }

            impl JsonSchema for $name {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> std::borrow::Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                    json_schema!({ "type": "string", "enum": Self::WORDS })
                }
            }
        )*
    };
}

fn not_a_word(found: &str, words: &[&str]) -> ValueMisread {
    ValueMisread {
        message: format!("expected one of {}", words.join(", ")),
        label: nearest(found, words).map(|it| format!("did you mean `{it}`?")),
    }
}

words! {
    /// How the answers of a model begin.
    Thinks {
        Auto: "auto",
        Open: "open",
        Off: "off",
    }
    /// How a server of models is spoken to.
    Api {
        Chat: "chat",
        Responses: "responses",
        Messages: "messages",
    }
    /// The header that a key goes in.
    Auth {
        Bearer: "bearer",
        XApiKey: "x-api-key",
        ApiKey: "api-key",
        None: "none",
    }
    /// How much a model is to think.
    Effort {
        None: "none",
        Minimal: "minimal",
        Low: "low",
        Medium: "medium",
        High: "high",
        XHigh: "xhigh",
        Max: "max",
    }
    /// How much a model is to say.
    Verbosity {
        Low: "low",
        Medium: "medium",
        High: "high",
    }
    /// How long a server is to keep what it has read.
    Cache {
        FiveMinutes: "5m",
        OneHour: "1h",
        Off: "off",
    }
    /// When something is used.
    When {
        Auto: "auto",
        Always: "always",
        Never: "never",
    }
    /// What a program that the daemon started may do as its client.
    Client {
        Read: "read",
        Ask: "ask",
    }
    /// What becomes of a command that a model proposes.
    ProposedCommands {
        Ask: "ask",
        Try: "try",
    }
    /// Where commands of a run work.
    RunPlace {
        Try: "try",
        Workspace: "workspace",
    }
    /// What becomes of a question that nobody answered in time.
    OnTimeout {
        Deny: "deny",
        Wait: "wait",
    }
    /// What the kernel holds a program to.
    Contain {
        Read: "read",
        Workspace: "workspace",
        Open: "open",
    }
    /// A revision of the Model Context Protocol.
    ProtocolRevision {
        Of20241105: "2024-11-05",
        Of20250326: "2025-03-26",
        Of20250618: "2025-06-18",
        Of20251125: "2025-11-25",
        Of20260728: "2026-07-28",
    }
    /// From which level on a server is to say what it does.
    ServerLogLevel {
        Debug: "debug",
        Info: "info",
        Notice: "notice",
        Warning: "warning",
        Error: "error",
        Critical: "critical",
        Alert: "alert",
        Emergency: "emergency",
    }
    /// How a token for a server is come by.
    Grant {
        Person: "person",
        ClientCredentials: "client_credentials",
        JwtBearer: "jwt_bearer",
        Enterprise: "enterprise",
    }
    /// What is believed of PKCE.
    Pkce {
        Listed: "listed",
        Assume: "assume",
    }
    /// When somebody is told of a question.
    NotifyWhen {
        Never: "never",
        Unattended: "unattended",
        Always: "always",
    }
    /// How somebody is told of a question.
    NotifyMethod {
        Auto: "auto",
        Desktop: "desktop",
        Osc: "osc",
        Bell: "bell",
        Command: "command",
    }
    /// How the log is written.
    LogFormat {
        Auto: "auto",
        Text: "text",
        Json: "json",
        Journald: "journald",
    }
    /// Keys of the line editor.
    Keymap {
        Emacs: "emacs",
        Vi: "vi",
    }
}
