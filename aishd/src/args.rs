//! The daemon's command line.

use std::path::PathBuf;

use clap::Parser;

/// The daemon that holds aish's conversations.
#[derive(Clone, Debug, Parser)]
#[command(name = "aishd", version)]
pub struct Args {
    /// Stay attached to the terminal and log to it (the default)
    #[arg(long, conflicts_with = "detach")]
    pub foreground: bool,
    /// Leave the terminal's session; used by aishctl when it starts the daemon
    #[arg(long)]
    pub detach: bool,
    /// The socket to serve
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The directory that holds the store
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}
