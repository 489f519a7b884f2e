//! Rows of a screen: events, questions and answers, for people.

pub mod auto_approve;
pub mod bell;
pub mod command_frame;
pub mod command_question;
pub(crate) mod event_lines;
pub mod extract;
pub mod form_question;
pub mod level_question;
pub mod markdown;
pub(crate) mod mcp_status;
pub mod memory_question;
pub mod notice;
pub mod output;
pub mod pager;
pub mod preview;
pub mod progress;
pub mod question;
pub mod rows;
pub mod sampling_question;
pub mod screen;
pub mod spinner;
pub mod table;
pub mod terminal_prompt;
pub mod turn_stream;
pub(crate) mod waiting_notice;
pub(crate) mod wrap;
