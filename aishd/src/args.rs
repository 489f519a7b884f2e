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
    /// The store as it lies there; used by `aishctl doctor`, `store`, `backup` and `restore`
    #[command(hide = true)]
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
}

/// What is done with a store that no daemon need have open. Progress and the result are lines of JSON.
#[derive(Clone, Debug, Subcommand)]
pub enum StoreCommand {
    /// A line of a report
    Look,
    /// How much room it takes
    Stat,
    /// Read all of it
    Check,
    /// Give back what is not needed
    Compact,
    /// Set aside what is damaged
    Repair,
    /// Bring a backup up to it
    Backup { target: PathBuf },
    /// Make it of a backup
    Restore {
        backup: PathBuf,
        /// Put the store that is there aside
        #[arg(long)]
        replace: bool,
    },
}
