//! Presets of models, what a request to one may fail of, and which one is asked. Pure.

pub mod call_assembly;
pub mod catalog;
mod catalog_table;
pub mod context_budget;
pub mod costly_request;
mod effort_refusal;
pub mod failure_hint;
pub mod fallback;
pub mod handed_catalog;
mod loose_value;
pub mod model_families;
pub mod model_settings;
pub mod norris_settings;
pub mod optional_fields;
mod picture_refusal;
pub mod preset;
pub mod preset_fields;
pub mod refusal_cure;
pub mod reply;
pub mod routing;
pub mod second_opinion;
pub mod thinking;
pub mod thinking_effort;
pub mod tool_limit;
pub mod trusted_instructions;
pub mod unshown_picture;
pub mod written_call;
