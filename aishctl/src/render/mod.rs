//! Rows of a screen: events, questions and answers, for people.

pub mod auto_approve;
pub mod bell;
pub mod command_frame;
pub mod difference;
pub(crate) mod event_lines;
pub mod extract;
pub(crate) mod held_to;
pub mod markdown;
pub(crate) mod mcp_status;
pub mod notice;
pub mod output;
pub mod pager;
pub mod progress;
pub mod question;
pub mod rows;
pub mod screen;
pub mod size;
pub mod spinner;
pub mod table;
pub mod terminal_prompt;
pub mod turn_figures;
pub mod turn_stream;
pub mod typed_lines;
pub(crate) mod waiting_notice;
pub(crate) mod wrap;
