//! Presets of models, what a request to one may fail of, and which one is asked. Pure.

pub mod assemble;
pub mod budget;
pub mod fallback;
pub mod hint;
pub mod most_tools;
pub mod norris_settings;
pub mod opinion;
pub mod optional;
pub mod preset;
pub mod reply;
pub mod routing;
pub mod thinking;
pub mod trusted;
