//! `conv`: list, make, name and put away conversations.

use std::io::{BufRead as _, Write as _};

use aish_proto::conversation::{
    Activity, Archive, ConversationCreateParams, ConversationDeleteParams, ConversationParams,
    Create, Delete, ErasureResult, Fork, ForkParams, ListState, Rename, RenameParams, Search,
    SearchParams, StatusOf, Unarchive,
};
use aish_proto::id::Seq;
use aish_proto::turn::{Wait, WaitParams};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::client::conversation_choice;
use crate::command_output::{CommandOutput, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::commands::route;
use crate::commands::usage::{self, BudgetArgs};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::render::conversation_list::{ConversationList, glyph};
use crate::render::{ago, fork_tree, screen, table};
use crate::safe;

#[derive(Clone, Debug, Subcommand)]
pub enum ConversationCommand {
    /// The conversations, last used first
    #[command(alias = "list")]
    Ls {
        /// The archived ones
        #[arg(long)]
        archived: bool,
        /// Archived or not
        #[arg(long, conflicts_with = "archived")]
        all: bool,
        /// Copies below those that they were made of
        #[arg(long)]
        tree: bool,
    },
    /// Make one
    New {
        /// The title; several words need no quotes
        title: Vec<String>,
    },
    /// One conversation as it is now
    #[command(alias = "show")]
    Status { conversation: Option<String> },
    /// Use another one (in attach; elsewhere it says how)
    Switch { conversation: String },
    /// What it may take of models: show, set, or take away
    Budget(BudgetArgs),
    /// Give it another title
    Rename {
        conversation: String,
        /// The title; several words need no quotes
        #[arg(required = true)]
        title: Vec<String>,
    },
    /// Take it out of the list; nothing is lost
    Archive { conversation: String },
    /// Put it back into the list
    Unarchive { conversation: String },
    /// Delete it for good
    #[command(alias = "delete")]
    Rm {
        conversation: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Its title, as a confirmation
        #[arg(long, value_name = "TITLE")]
        title: Option<String>,
    },
    /// Return once nothing runs or waits there
    Wait { conversation: Option<String> },
    /// Copy it up to a position
    Fork(ForkArgs),
    /// Messages that contain a text
    Search(SearchArgs),
}

#[derive(Args, Clone, Debug)]
pub struct ForkArgs {
    pub conversation: Option<String>,
    /// The last event to take along
    #[arg(long, value_name = "SEQ")]
    pub at: Option<u64>,
}

#[derive(Args, Clone, Debug)]
pub struct SearchArgs {
    #[arg(required = true)]
    pub query: Vec<String>,
    /// Archived conversations too
    #[arg(long)]
    pub archived: bool,
    /// At most this many
    #[arg(short = 'n', long)]
    pub limit: Option<u32>,
}

const TITLE_WIDTH: usize = 40;
const EXCERPT_WIDTH: usize = 80;

pub async fn run(context: &CommandContext, command: &ConversationCommand) -> PrintResult {
    match command {
        ConversationCommand::Ls {
            archived,
            all,
            tree,
        } => {
            let state = match (archived, all) {
                (true, _) => ListState::Archived,
                (_, true) => ListState::All,
                (false, false) => ListState::Open,
            };
            list(context, state, *tree).await
        }
        ConversationCommand::New { title } => {
            let title = (!title.is_empty()).then(|| title.join(" "));
            new(context, title).await
        }
        ConversationCommand::Status { conversation } => {
            status(context, conversation.as_deref()).await
        }
        ConversationCommand::Switch { conversation } => {
            let found = conversation_choice::by_name(&context.caller, conversation).await?;
            context.print(&json!({"conversation": found.id, "title": found.title}), || {
                format!(
                    "which conversation is used belongs to each client; for this shell:\n  export AISH_CONVERSATION={}\nor: aishctl attach {}\n",
                    found.id, found.id
                )
            })
        }
        ConversationCommand::Rename {
            conversation,
            title,
        } => {
            let found = conversation_choice::by_name(&context.caller, conversation).await?;
            let title = title.join(" ");
            let params = RenameParams {
                id: found.id,
                title: title.clone(),
            };
            let result = context.call::<Rename>(params).await?;
            context.print(&result, || {
                format!("{} is called {title} now\n", found.title)
            })
        }
        ConversationCommand::Archive { conversation } => {
            let found = conversation_choice::by_name(&context.caller, conversation).await?;
            let result = context
                .call::<Archive>(ConversationParams { id: found.id })
                .await?;
            context.print(&result, || {
                format!(
                    "{} is archived; aishctl conv unarchive {} brings it back\n",
                    found.title, found.id
                )
            })
        }
        ConversationCommand::Unarchive { conversation } => {
            let found = conversation_choice::by_name(&context.caller, conversation).await?;
            let result = context
                .call::<Unarchive>(ConversationParams { id: found.id })
                .await?;
            context.print(&result, || format!("{} is back\n", found.title))
        }
        ConversationCommand::Budget(args) => usage::budget(context, args).await,
        ConversationCommand::Rm {
            conversation,
            yes,
            title,
        } => remove(context, conversation, *yes, title.as_deref()).await,
        ConversationCommand::Wait { conversation } => wait(context, conversation.as_deref()).await,
        ConversationCommand::Fork(args) => fork(context, args).await,
        ConversationCommand::Search(args) => search(context, args).await,
    }
}

async fn list(context: &CommandContext, state: ListState, tree: bool) -> PrintResult {
    let found = conversation_choice::list(&context.caller, state).await?;
    context.print(&json!({"v": 1, "conversations": found}), || {
        let around = &context.around;
        let entries = if tree {
            fork_tree::tree(found.clone(), screen::glyphs(context.global.looks, around))
        } else {
            fork_tree::flat(found.clone())
        };
        let (home, now) = (around.variable("HOME"), ago::now());
        ConversationList::new(entries, home, now, around.stdout_columns).text()
    })
}

async fn new(context: &CommandContext, title: Option<String>) -> PrintResult {
    let params = ConversationCreateParams {
        title,
        model: context.global.model.clone(),
        cwd: context.around.cwd_text(),
        constraints: None,
        budget: None,
        temporary: false,
    };
    let made = context.call::<Create>(params).await?;
    context.print(&made, || format!("{}\n", made.id))
}

async fn status(context: &CommandContext, name: Option<&str>) -> PrintResult {
    let it = context.meant(context.name(name)).await?;
    context.print(&it, || {
        let state = match it.state {
            Activity::Idle => "idle",
            Activity::Running => "running",
            Activity::RequiresAction => "waits for a person",
            Activity::Queued => "held: a turn was interrupted (aishctl continue, aishctl queue resume)",
        };
        let command = it.command.as_ref().map_or_else(String::new, |it| {
            format!(" · !{}", safe::one_line(&it.command))
        });
        format!(
            "{} {}\n  id        {}\n  state     {state}{command}{}\n  model     {}\n{}  cwd       {}\n  turns     {} · last event {} · {} attached\n  usage     {}\n  updated   {}{}\n",
            glyph(it.state),
            it.title,
            it.id,
            if it.queued > 0 { format!(" · {} waiting", it.queued) } else { String::new() },
            it.model.as_deref().unwrap_or("the default"),
            route::last_turn(&it),
            it.cwd,
            it.turns,
            it.last_seq,
            it.attached,
            usage::amounts(&it),
            it.updated_at,
            if it.archived { "\n  archived" } else { "" },
        )
    })
}

async fn remove(
    context: &CommandContext,
    name: &str,
    yes: bool,
    title: Option<&str>,
) -> PrintResult {
    let found = conversation_choice::by_name(&context.caller, name).await?;
    let confirm_title = match title {
        Some(title) => title.to_owned(),
        None if yes && conversation_choice::is_whole(name, &found) => found.title.clone(),
        None if context.may_prompt => typed(&found.title)?,
        None => {
            return Err(Failure::new(
                Exit::USAGE,
                format!("deleting \"{}\" cannot be undone", found.title),
            )
            .hint(format!(
                "aishctl conv rm {} --yes   (or keep it: aishctl conv archive {})",
                found.id, found.id
            )));
        }
    };
    if confirm_title != found.title {
        return Err(Failure::new(
            Exit::USAGE,
            format!("it is called \"{}\"; nothing was deleted", found.title),
        )
        .hint(format!(
            "aishctl conv archive {} takes it out of the list and keeps it",
            found.id
        )));
    }
    let erased = context
        .call::<Delete>(ConversationDeleteParams {
            id: found.id,
            confirm_title,
        })
        .await?;
    let told = json!({"deleted": found.id, "remains": erased.remains});
    context.print(&told, || {
        format!("deleted {}{}\n", found.title, rest(&erased))
    })
}

/// What is to be said of texts that were deleted and are still there.
pub(crate) fn rest(erased: &ErasureResult) -> String {
    match &erased.remains {
        None => String::new(),
        Some(why) => format!(
            "; files of the store still have its texts, until they can be written anew: {}",
            safe::one_line(why)
        ),
    }
}

fn typed(title: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::new(Exit::FAILED, format!("cannot ask: {error}"));
    let mut line = String::new();
    let mut stderr = std::io::stderr();
    write!(
        stderr,
        "type the title to delete it for good ({}): ",
        safe::one_line(title)
    )
    .map_err(failed)?;
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(failed)?;
    Ok(line.trim_end_matches('\n').to_owned())
}

async fn wait(context: &CommandContext, name: Option<&str>) -> PrintResult {
    let mut exit = Exit::DONE;
    let mut now = context.meant(context.name(name)).await?;
    while let Some(turn) = now.turn {
        let params = WaitParams {
            turn,
            timeout_ms: None,
        };
        let record = context.caller.call_within::<Wait>(params, None).await?;
        let reason = record.stop_reason;
        exit = reason.map_or(Exit::DONE, |it| exit::of_turn(it, record.error.as_ref()));
        let params = ConversationParams { id: now.id };
        now = context.call::<StatusOf>(params).await?;
    }
    if now.state == Activity::Queued {
        let message = format!("{} turns wait behind an interrupted one", now.queued);
        return Err(Failure::new(Exit::FAILED, message).hint(format!(
            "aishctl continue {0}   or   aishctl queue resume {0}",
            now.id
        )));
    }
    let printed = context.print(&now, String::new)?;
    Ok(CommandOutput { exit, ..printed })
}

pub async fn fork(context: &CommandContext, args: &ForkArgs) -> PrintResult {
    let found = context
        .meant(context.name(args.conversation.as_deref()))
        .await?;
    let made = context
        .call::<Fork>(ForkParams {
            id: found.id,
            at_seq: args.at.map(Seq),
        })
        .await?;
    context.print(&made, || format!("{}\n", made.id))
}

/// Hits that are shown where nobody says how many.
const SEARCH_PAGE: u32 = 50;

pub async fn search(context: &CommandContext, args: &SearchArgs) -> PrintResult {
    let id = match context.global.conversation.as_deref() {
        Some(name) => Some(
            conversation_choice::by_name(&context.caller, name)
                .await?
                .id,
        ),
        None => None,
    };
    let wanted = args.limit.unwrap_or(SEARCH_PAGE);
    let mut params = SearchParams {
        query: args.query.join(" "),
        id,
        include_archived: args.archived,
        cursor: None,
        limit: Some(wanted),
    };
    let mut result = context.call::<Search>(params.clone()).await?;
    while let (Some(cursor), Some(rest)) = (
        result.next_cursor.clone(),
        u32::try_from(result.hits.len())
            .ok()
            .and_then(|it| wanted.checked_sub(it))
            .filter(|it| *it > 0),
    ) {
        params.cursor = Some(cursor);
        params.limit = Some(rest);
        let page = context.call::<Search>(params.clone()).await?;
        result.hits.extend(page.hits);
        result.more = page.more;
        result.next_cursor = page.next_cursor;
    }
    context.print(&result, || {
        let rows: Vec<Vec<String>> = result
            .hits
            .iter()
            .map(|it| {
                vec![
                    table::cut(&it.title, TITLE_WIDTH),
                    it.seq.to_string(),
                    if it.left_context { "archived" } else { "" }.to_owned(),
                    table::cut(&it.excerpt, EXCERPT_WIDTH),
                ]
            })
            .collect();
        let mut text = table::columns(&["title", "event", "", "text"], &rows);
        if result.more {
            text.push_str("… and more (-n)\n");
        }
        text
    })
}
