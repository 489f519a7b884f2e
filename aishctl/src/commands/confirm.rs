//! `confirm`: what waits for a person, and answering it from anywhere.

mod ended;
mod filled;
pub mod keep;
pub mod watch;

use std::io::{self, BufRead as _, Write as _};

use aish_proto::confirm::{
    Answer, AnswerOutcome, AnswerParams, AnswerResult, ConfirmListParams, ConfirmParams,
    ConfirmRecord, ConfirmState, ConfirmSubject, Decision, Get, List, Try, TryParams,
};
use aish_proto::conversation::{ConversationParams, StatusOf};
use aish_proto::id::{ChangesId, ConfirmId};
use clap::Subcommand;

use self::keep::KeepSelection;
use crate::client::{conversation_choice, editor};
use crate::command_output::{CommandOutput, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::commands::mcp::question_login::QuestionLogin;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::markdown::Colours;
use crate::render::question::form::FormAnswers;
use crate::render::question::{self, ArgumentExtent};
use crate::render::table;
use crate::render::terminal_prompt;
use crate::render::typed_lines::{TYPE_AHEAD, forget_typed};
use crate::safe;

#[derive(Clone, Debug, Subcommand)]
pub enum ConfirmCommand {
    /// What waits, oldest first
    #[command(alias = "list")]
    Ls,
    /// All questions as they come, and how they end; on a terminal they are asked
    Watch,
    /// All of one question
    Show { id: String },
    /// Allow it once
    #[command(alias = "yes")]
    Allow {
        id: String,
        /// This tool as it is now, in its conversation
        #[arg(long, conflicts_with_all = ["provider", "raise"])]
        always: bool,
        /// All tools of its provider as they are now, in its conversation
        #[arg(long, conflicts_with = "raise")]
        provider: bool,
        /// This call, and the provider's level is raised
        #[arg(long)]
        raise: bool,
        /// The beginning of the digest, as `confirm show` prints it; needed where nobody can be asked
        #[arg(long, value_name = "PREFIX")]
        digest: Option<String>,
        #[command(flatten)]
        given: FormAnswers,
    },
    /// Deny it; the rest is the reason
    #[command(alias = "no")]
    Deny {
        id: String,
        reason: Vec<String>,
        /// End the turn too
        #[arg(long)]
        abort: bool,
    },
    /// Run its command in layers over the files first, and show what it would change
    Try { id: String },
    /// Make real what its command changed when it was tried, or what a run changed
    Keep {
        id: String,
        /// The trial, as `confirm show --json` names it; needed where nobody can be asked
        #[arg(long, value_name = "ID")]
        changes: Option<ChangesId>,
        #[command(flatten)]
        part: KeepSelection,
    },
    /// Run it with other arguments
    Edit {
        id: String,
        /// One JSON object, instead of $EDITOR
        #[arg(long, value_name = "JSON")]
        arguments: Option<String>,
        /// The beginning of the digest of what waits, as `confirm show` prints it; needed where nobody can be asked
        #[arg(long, value_name = "PREFIX")]
        digest: Option<String>,
    },
}

pub async fn run(context: &CommandContext, command: Option<&ConfirmCommand>) -> PrintResult {
    match command {
        None | Some(ConfirmCommand::Ls) => list(context).await,
        Some(ConfirmCommand::Watch) => Err(Failure::new(
            Exit::USAGE,
            "watching has no end here; use it on a command line",
        )),
        Some(ConfirmCommand::Show { id }) => {
            let record = find(context, id).await?;
            context.print(&record, || question::full_card(&record))
        }
        Some(ConfirmCommand::Allow {
            id,
            always,
            provider,
            raise,
            digest,
            given,
        }) => {
            let record = find(context, id).await?;
            let decision = allowing(*always, *provider, *raise);
            if let ConfirmSubject::Form(_) = &*record.request.subject {
                let given = filled::read(given)?;
                return filled::allow(context, &record, decision, digest.as_deref(), &given).await;
            }
            if let (ConfirmSubject::SignIn(subject), ConfirmState::Pending, true) =
                (&*record.request.subject, record.state, given.is_empty())
            {
                return sign_in(context, &record, &subject.server).await;
            }
            if !given.is_empty() {
                return Err(Failure::new(Exit::USAGE, "that is no form to be filled in")
                    .hint(seen_with(&record)));
            }
            check_seen(context, &record, digest.as_deref()).await?;
            let decision = question::decision_for(decision, &record.request);
            answer(context, &record, decision, None, None).await
        }
        Some(ConfirmCommand::Deny { id, reason, abort }) => {
            let record = find(context, id).await?;
            let decision = if *abort {
                Decision::Abort
            } else {
                Decision::Deny
            };
            let reason = Some(reason.join(" ")).filter(|it| !it.is_empty());
            answer(context, &record, decision, None, reason).await
        }
        Some(ConfirmCommand::Try { id }) => {
            let record = find(context, id).await?;
            let params = TryParams {
                confirm: record.request.confirm,
                digest: record.request.digest.clone(),
            };
            // It takes as long as the command does.
            let result = context.caller.call_within::<Try>(params, None).await?;
            let number = Some(record.request.number);
            context.print(&result, || {
                question::tried::rows(number, &result.tried, Colours::None).join("\n") + "\n"
            })
        }
        Some(ConfirmCommand::Keep { id, changes, part }) => {
            keep::keep(context, id, *changes, part).await
        }
        Some(ConfirmCommand::Edit {
            id,
            arguments,
            digest,
        }) => edit_arguments(context, id, arguments.as_deref(), digest.as_deref()).await,
    }
}

/// `confirm edit`: the call runs with other arguments, which were shown before.
async fn edit_arguments(
    context: &CommandContext,
    id: &str,
    arguments: Option<&str>,
    digest: Option<&str>,
) -> PrintResult {
    let record = find(context, id).await?;
    match &*record.request.subject {
        ConfirmSubject::Level(_) => {
            let failure = Failure::new(Exit::USAGE, "a level has nothing to edit");
            return Err(failure.hint(seen_with(&record)));
        }
        ConfirmSubject::SignIn(subject) => {
            let failure = Failure::new(Exit::USAGE, "a sign-in has nothing to edit");
            let server = safe::one_line(&subject.server);
            return Err(failure.hint(format!("aishctl mcp login {server}")));
        }
        ConfirmSubject::Memory(_) => {
            let failure = Failure::new(Exit::USAGE, "a proposed fact is kept as it is");
            return Err(failure.hint("aishctl remember TEXT, and aishctl confirm deny ID"));
        }
        ConfirmSubject::Changes(_) => {
            let failure = Failure::new(Exit::USAGE, "changes are kept as they are, or in part");
            return Err(failure.hint("aishctl confirm keep ID --only PATH"));
        }
        ConfirmSubject::Host(_) => {
            let failure = Failure::new(Exit::USAGE, "a host has nothing to edit");
            return Err(failure.hint(seen_with(&record)));
        }
        ConfirmSubject::Call(_)
        | ConfirmSubject::Command(_)
        | ConfirmSubject::Form(_)
        | ConfirmSubject::Model(_) => {}
    }
    if record.state != ConfirmState::Pending {
        return answer(context, &record, Decision::Edit, None, None).await;
    }
    let edited = match arguments {
        Some(arguments) => arguments.to_owned(),
        None => edit(context, &record).await?,
    };
    let meant = terminal_prompt::judge(&context.caller, record.request.confirm, edited).await?;
    let edited = meant.subject.arguments().to_owned();
    // A digest is that of the confirm that waits; who is asked here is shown what would run.
    let shown = match digest {
        Some(_) => record.clone(),
        None => ConfirmRecord {
            request: meant,
            ..record.clone()
        },
    };
    check_seen(context, &shown, digest).await?;
    answer(context, &record, Decision::Edit, Some(edited), None).await
}

/// `confirm allow` of a sign-in: a person signs in here, and the daemon takes that for the answer.
async fn sign_in(context: &CommandContext, record: &ConfirmRecord, server: &str) -> PrintResult {
    if !context.may_prompt {
        let message = "nobody here can sign in";
        let hint = format!("aishctl mcp login {}", safe::one_line(server));
        return Err(Failure::new(Exit::USAGE, message).hint(hint));
    }
    let confirm = record.request.confirm;
    QuestionLogin::at_prompt(&context.caller, &context.around, server, confirm).await?;
    let number = record.request.number;
    Ok(CommandOutput::text(format!(
        "c{number} is settled: signed in\n"
    )))
}

/// What the flags of `allow` say.
pub fn allowing(always: bool, provider: bool, raise: bool) -> Decision {
    match (always, provider, raise) {
        (true, _, _) => Decision::AllowConversation,
        (_, true, _) => Decision::AllowProvider,
        (_, _, true) => Decision::RaiseOnly,
        (false, false, false) => Decision::AllowOnce,
    }
}

async fn list(context: &CommandContext) -> PrintResult {
    let conversation = match context.name(None) {
        Some(name) => Some(
            conversation_choice::by_name(&context.caller, name)
                .await?
                .id,
        ),
        None => None,
    };
    let result = context
        .call::<List>(ConfirmListParams { conversation })
        .await?;
    let mut rows = vec![];
    for record in &result.confirms {
        let id = record.conversation;
        let status = context.call::<StatusOf>(ConversationParams { id }).await;
        let title = status.map_or_else(|_| id.to_string(), |it| it.title);
        let request = &record.request;
        let (what, more) = question::in_short(request);
        rows.push(vec![
            format!("c{}", request.number),
            safe::visible(&title),
            what,
            more,
            record.requested_at.clone(),
            request.confirm.to_string(),
        ]);
    }
    context.print(&result, || {
        if rows.is_empty() {
            return "nothing waits\n".to_owned();
        }
        table::columns(&["", "conversation", "what", "with", "since", "id"], &rows)
    })
}

/// A confirm by its id, the end of its id, or its number: among those that wait, else the one that ended last.
async fn find(context: &CommandContext, name: &str) -> Result<ConfirmRecord, Failure> {
    if let Ok(confirm) = name.to_uppercase().parse::<ConfirmId>() {
        return Ok(context.call::<Get>(ConfirmParams { confirm }).await?);
    }
    let conversation = match context.global.conversation.as_deref() {
        Some(name) => Some(
            conversation_choice::by_name(&context.caller, name)
                .await?
                .id,
        ),
        None => None,
    };
    let open = context
        .call::<List>(ConfirmListParams { conversation })
        .await?
        .confirms;
    let found = open.into_iter().filter(|it| is_called(it, name));
    let mut found: Vec<ConfirmRecord> = found.collect();
    match (found.pop(), found.len()) {
        (Some(record), 0) => Ok(record),
        (Some(_), others) => Err(Failure::new(
            Exit::USAGE,
            format!("{} confirms are called {name}", others + 1),
        )
        .hint("say which with -C CONVERSATION, or by its id: aishctl confirm ls")),
        (None, _) => ended::find(context, conversation, name)
            .await?
            .ok_or_else(|| {
                let message = format!("nothing called {} waits", safe::one_line(name));
                Failure::new(Exit::UNKNOWN, message).hint("aishctl confirm ls")
            }),
    }
}

/// By its number, or by the end of its id.
fn is_called(record: &ConfirmRecord, name: &str) -> bool {
    let id = record.request.confirm.to_string();
    let by_number = format!("c{}", record.request.number) == name;
    by_number || (name.len() >= 4 && id.ends_with(&name.to_uppercase()))
}

/// A yes counts from somebody who has seen all of it: the digest says so, or a person at this terminal.
async fn check_seen(
    context: &CommandContext,
    record: &ConfirmRecord,
    digest: Option<&str>,
) -> Result<(), Failure> {
    // It is too late for any answer, and that is what is to be said.
    if record.state != ConfirmState::Pending {
        return Ok(());
    }
    if let Some(prefix) = digest {
        let fits = prefix.len() >= 8 && record.request.digest.starts_with(&prefix.to_lowercase());
        return if fits {
            Ok(())
        } else {
            Err(Failure::new(
                Exit::CONFLICT,
                "the digest is not that of what waits (at least 8 digits of it)",
            )
            .hint(format!("aishctl confirm show {}", record.request.confirm)))
        };
    }
    if !context.may_prompt {
        return Err(
            Failure::new(Exit::USAGE, "nobody here can see what would run").hint(format!(
                "aishctl confirm show {} shows it, and this allows exactly that: {}",
                record.request.confirm,
                question::allow_command(&record.request),
            )),
        );
    }
    let cannot =
        |error: &dyn std::fmt::Display| Failure::new(Exit::FAILED, format!("cannot ask: {error}"));
    let shown = record.clone();
    let asked = tokio::task::spawn_blocking(move || show_and_ask(&shown)).await;
    match asked {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => {
            let id = record.request.confirm;
            Err(Failure::new(Exit::DENIED, "not allowed; it still waits")
                .hint(format!("aishctl confirm deny {id} ends that")))
        }
        Ok(Err(error)) => Err(cannot(&error)),
        Err(panic) => Err(cannot(&panic)),
    }
}

/// What shows how a confirm is answered.
fn seen_with(record: &ConfirmRecord) -> String {
    let id = record.request.confirm;
    format!("aishctl confirm show {id} says how it is answered")
}

/// Shows all of it, and takes a yes that was typed afterwards.
fn show_and_ask(record: &ConfirmRecord) -> io::Result<bool> {
    let mut stderr = io::stderr().lock();
    let question = question::question(&record.request, ArgumentExtent::Whole);
    stderr.write_all(question.as_bytes())?;
    let wanted = if question::wants_whole_word(&record.request) {
        "type yes to allow it: "
    } else {
        "allow it? [y/N] "
    };
    stderr.write_all(wanted.as_bytes())?;
    stderr.flush()?;
    std::thread::sleep(TYPE_AHEAD);
    forget_typed();
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    let typed = typed.trim();
    Ok(typed == "yes" || (typed == "y" && !question::wants_whole_word(&record.request)))
}

async fn answer(
    context: &CommandContext,
    record: &ConfirmRecord,
    decision: Decision,
    arguments: Option<String>,
    reason: Option<String>,
) -> PrintResult {
    let request = &record.request;
    let params = AnswerParams {
        confirm: request.confirm,
        decision,
        digest: request.digest.clone(),
        arguments,
        reason,
        // Of a run there is one, and whoever allows it has seen it by its digest.
        changes: question::changes_of(request).map(|it| it.changes),
        only: vec![],
        hunks: None,
        content: None,
    };
    send(context, request.number, params).await
}

async fn send(context: &CommandContext, number: u32, params: AnswerParams) -> PrintResult {
    let decision = params.decision;
    let result = context.call::<Answer>(params).await?;
    let (text, exit) = answer_text(number, decision, &result);
    let mut printed = context.print(&result, || format!("{text}\n"))?;
    printed.exit = exit;
    Ok(printed)
}

/// What came of an answer, in words and as an exit code.
pub fn answer_text(number: u32, decision: Decision, result: &AnswerResult) -> (String, Exit) {
    match result.outcome {
        AnswerOutcome::Resolved => (
            format!("c{number} {}", question::decided(decision)),
            Exit::DONE,
        ),
        AnswerOutcome::AlreadyResolved => {
            let how = result.decision.map_or("answered", question::decided);
            let by = result
                .by
                .as_ref()
                .map_or(String::new(), |it| format!(" by {}", question::who(it)));
            let at = result
                .at
                .as_ref()
                .map_or(String::new(), |it| format!(", at {it}"));
            (
                format!("c{number} was already {how}{by}{at}"),
                Exit::CONFLICT,
            )
        }
        AnswerOutcome::Expired => (
            format!("c{number} has expired: nobody answered in time"),
            Exit::CONFLICT,
        ),
        AnswerOutcome::Cancelled => (format!("c{number} was taken back"), Exit::CONFLICT),
        AnswerOutcome::ArgsChanged => (
            format!(
                "c{number} is not what was shown any more; nothing ran, and it is asked about again"
            ),
            Exit::CONFLICT,
        ),
        AnswerOutcome::Unknown => (format!("there is no confirm c{number}"), Exit::UNKNOWN),
    }
}

/// The arguments as somebody leaves them in an editor.
async fn edit(context: &CommandContext, record: &ConfirmRecord) -> Result<String, Failure> {
    if !context.may_prompt {
        return Err(Failure::new(Exit::USAGE, "no editor can be used here")
            .hint("say the new arguments: --arguments '{...}'"));
    }
    let words = editor::program(&context.around, &context.editor);
    terminal_prompt::edit(words, record.request.subject.clone()).await
}
