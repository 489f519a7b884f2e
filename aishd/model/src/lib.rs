//! Presets of models, what a request to one may fail of, and which one is asked. Pure.

pub mod call_assembly;
pub mod catalog;
pub mod context_budget;
pub mod costly_request;
pub mod failure_hint;
pub mod fallback;
pub mod model_families;
pub mod model_settings;
pub mod norris_settings;
pub mod optional_fields;
mod picture_refusal;
pub mod preset;
pub mod reply;
pub mod routing;
pub mod second_opinion;
pub mod thinking;
pub mod tool_limit;
pub mod trusted_instructions;
pub mod written_call;
