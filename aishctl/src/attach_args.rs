//! What a window is opened with.

use clap::Args;

#[derive(Args, Clone, Debug)]
pub struct AttachArgs {
    /// The conversation, by title or id; absent: what a window used last in this project
    pub conversation: Option<String>,
    /// Pick one from a list
    #[arg(long, conflicts_with = "conversation")]
    pub pick: bool,
    /// Begin a new one, with the name as its title where one is given
    #[arg(long, conflicts_with_all = ["pick", "read_only"])]
    pub new: bool,
    /// Only look
    #[arg(long)]
    pub read_only: bool,
    /// Rows of the past to show
    #[arg(long, default_value_t = 40, value_name = "ROWS")]
    pub tail: u32,
}
