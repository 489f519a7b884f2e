//! The clients as people and scripts use them: the real programs, in shells and pipes, on terminals, with the real
//! daemon behind them and a scripted model server behind that.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on ends here, with a message for the person who reads it"
)]

mod alone;
mod ask;
mod attach;
mod audit;
mod autostart;
mod changes;
mod commands;
mod commands_run;
mod completion;
mod config;
mod confirm;
mod context;
mod costly;
mod default_model;
mod doctor;
mod exit_codes;
mod file_changes;
mod forms;
mod full_disk;
mod gateway;
mod gateway_client;
mod gateway_offers;
mod gateway_strangers;
mod gateway_subscriptions;
mod init;
mod input;
mod interleave;
mod jobs;
mod last_used;
mod llama;
mod man;
mod markdown;
mod mcp;
mod mcp_import;
mod memory;
mod named_file;
mod network;
mod norris;
mod pictures;
mod places;
mod resource;
mod result;
mod ring;
mod routing;
mod saved_prompt;
mod screens;
mod server_words;
mod setup;
mod shell;
mod sign_in;
mod stop;
mod store;
mod stranger;
mod systemd;
mod temporary;
mod ten_screens;
mod terminal;
mod terminal_asked;
mod terminal_keys;
mod terminal_turns;
mod tmux;
mod todo;
mod tools;
mod transfer;
mod unasked;
mod usage;
mod window;
mod window_pictures;
mod witness;
