//! The daemon's command line.

use std::path::PathBuf;

use aishd_config::command::ConfigAction;
use clap::{Parser, Subcommand};

/// The daemon that holds aish's conversations.
#[derive(Clone, Debug, Parser)]
#[command(name = "aishd", version)]
pub struct DaemonArgs {
    /// Stay attached to the terminal and log to it (the default)
    #[arg(long, conflicts_with = "detach")]
    pub foreground: bool,
    /// Leave the terminal's session; used by aishctl when it starts the daemon
    #[arg(long)]
    pub detach: bool,
    /// The socket to serve
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The directory that holds the store
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The configuration file
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set a key of the configuration, over all files; the value is TOML, or a plain text
    #[arg(short = 'c', global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    #[command(subcommand)]
    pub command: Option<OfflineCommand>,
}

/// What prints and exits instead of serving.
#[derive(Clone, Debug, Subcommand)]
pub enum OfflineCommand {
    /// The configuration; used by `aishctl config`
    #[command(hide = true)]
    Config {
        #[command(subcommand)]
        command: ConfigAction,
    },
    /// The store as it lies there; used by `aishctl doctor`
    #[command(hide = true)]
    Store {
        #[command(subcommand)]
        command: LookArguments,
    },
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum LookArguments {
    /// Read it and change nothing
    Look,
}
