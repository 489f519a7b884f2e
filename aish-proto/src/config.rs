//! `config/*`: the configuration that is in force, and the one that lies there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::method::methods;

methods! {
    /// Every value in force, and where it was said.
    Show: "config/show", Observer, Unordered, ShowParams => ShowResult;
    /// Reads the files as they are now and says what is wrong, without taking them over.
    Check: "config/check", Observer, Unordered, ConfigCheckParams => ConfigCheckResult;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShowParams {
    /// A directory: what holds for a conversation there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// One value that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveSetting {
    /// Dotted.
    pub key: String,
    /// As TOML; of a secret only `(set)`.
    pub value: String,
    /// `file:line`, `default`, the name of a variable, or `-c`.
    pub origin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShowResult {
    pub settings: Vec<EffectiveSetting>,
    /// The user's file, whether it is there or not.
    pub file: Option<String>,
    /// It was named by hand, so that it has to be there.
    pub named: bool,
    /// Where the daemon keeps conversations, and what is trusted.
    pub state: String,
    /// Why the files as they are now are not in force, if they are not.
    pub errors: Vec<String>,
    /// Keys whose new value waits for a restart.
    pub restart_needed: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigCheckParams {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigCheckResult {
    /// `file:line:column: what is wrong`. With any of them, the files would not be taken over.
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

/// How clients look, as configured; they read no files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UiConfig {
    pub color: ColorChoice,
    pub markdown: ColorChoice,
    pub theme: String,
    /// Empty: `$VISUAL`, then `$EDITOR`.
    pub editor: String,
    pub keymap: KeymapName,
    /// Whether pictures are drawn on terminals that can.
    pub pictures: bool,
    pub notify: NotifyConfig,
}

impl Default for UiConfig {
    fn default() -> Self {
        Self {
            color: ColorChoice::Auto,
            markdown: ColorChoice::Auto,
            theme: "ansi".to_owned(),
            editor: String::new(),
            keymap: KeymapName::Emacs,
            pictures: true,
            notify: NotifyConfig::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ColorChoice {
    /// As the terminal is.
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KeymapName {
    #[default]
    Emacs,
    Vi,
}

/// What becomes of a question that waits while nobody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NotifyConfig {
    pub when: NotifyWhen,
    pub method: NotifyMethod,
    /// How long it has to have waited.
    pub after_ms: u64,
}

impl Default for NotifyConfig {
    fn default() -> Self {
        Self {
            when: NotifyWhen::Unattended,
            method: NotifyMethod::Auto,
            after_ms: 2000,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NotifyWhen {
    Never,
    /// Nobody is attached, or has pressed a key for a while.
    #[default]
    Unattended,
    Always,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NotifyMethod {
    /// A notice of the terminal and its bell; where nobody is attached, a program.
    #[default]
    Auto,
    /// `notify-send`, by the daemon.
    Desktop,
    /// A notice of the terminal.
    Osc,
    /// The bell of the terminal.
    Bell,
    /// The configured program, by the daemon.
    Command,
}
