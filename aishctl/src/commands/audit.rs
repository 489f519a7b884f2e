//! `audit`: what was decided about every effect, and whether that record of it is whole.

use aish_proto::audit::{
    AuditDecision, AuditExportParams, AuditFinding, AuditKind, AuditListParams, AuditOrder,
    AuditOutcome, AuditRecord, Export, List, Verify, VerifyParams,
};
use aish_proto::confirm::Decision;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use crate::command_output::{CommandOutput, OutputKind, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{question, table};
use crate::safe;
use crate::since::{self, PastTime};

const PAGE: u32 = 500;
/// As much of the arguments stands in a row.
const ARGUMENT_COLUMNS: usize = 60;
/// As much of the rules that changed; `--json` has all that are named.
const RULE_COLUMNS: usize = 100;
/// Records that are shown where neither a number nor a time is given.
const NEWEST: usize = 100;

#[derive(Args, Clone, Debug, Default)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AuditArgs {
    #[command(subcommand)]
    pub command: Option<AuditCommand>,
    /// Not older than this: 30m, 2h, 7d, or 2026-11-21T10:00:00Z
    #[arg(long, value_name = "T", value_parser = since::parse)]
    pub since: Option<PastTime>,
    /// Of these tools; `*` stands for any characters: 'fs__*'
    #[arg(long, value_name = "GLOB")]
    pub tool: Option<String>,
    #[arg(long, value_enum, value_name = "DECISION")]
    pub decision: Option<AuditQuery>,
    /// The newest N (100 where there is no --since)
    #[arg(short = 'n', long, value_name = "N")]
    pub newest: Option<usize>,
    /// Straight to the terminal
    #[arg(long)]
    pub no_pager: bool,
}

#[derive(Clone, Debug, Subcommand)]
pub enum AuditCommand {
    /// Whether all of it is what was written
    Verify {
        /// The end of an earlier check, noted elsewhere: it must still be there
        #[arg(long, value_name = "NUMBER:DIGEST")]
        noted: Option<String>,
    },
    /// The records as they were written, one a line
    Export,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditQuery {
    Allow,
    Ask,
    Deny,
    Expire,
    Cancel,
}

impl From<AuditQuery> for AuditDecision {
    fn from(wanted: AuditQuery) -> Self {
        match wanted {
            AuditQuery::Allow => Self::Allow,
            AuditQuery::Ask => Self::Ask,
            AuditQuery::Deny => Self::Deny,
            AuditQuery::Expire => Self::Expire,
            AuditQuery::Cancel => Self::Cancel,
        }
    }
}

pub async fn run(context: &CommandContext, audit: &AuditArgs) -> PrintResult {
    match &audit.command {
        None => list(context, audit).await,
        Some(AuditCommand::Verify { noted }) => verify(context, noted.clone()).await,
        Some(AuditCommand::Export) => export(context).await,
    }
}

async fn list(context: &CommandContext, audit: &AuditArgs) -> PrintResult {
    let (since, max_age_ms) = match &audit.since {
        None => (None, None),
        Some(PastTime::Time(time)) => (Some(time.clone()), None),
        Some(PastTime::Ago(ago)) => (None, u64::try_from(ago.as_millis()).ok()),
    };
    let conversation = match context.name(None) {
        Some(name) => Some(context.meant(Some(name)).await?.id),
        None => None,
    };
    let most = match (audit.newest, &audit.since) {
        (Some(newest), _) => newest,
        (None, Some(_)) => usize::MAX,
        (None, None) => NEWEST,
    };
    let mut records: Vec<AuditRecord> = vec![];
    let mut cursor = None;
    while records.len() < most {
        let left = u32::try_from(most - records.len()).unwrap_or(PAGE);
        let params = AuditListParams {
            since: since.clone(),
            max_age_ms,
            tool: audit.tool.clone(),
            decision: audit.decision.map(AuditDecision::from),
            conversation,
            order: AuditOrder::NewestFirst,
            cursor,
            limit: Some(left.min(PAGE)),
        };
        let page = context.call::<List>(params).await?;
        records.extend(page.records);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    records.reverse();
    if context.global.jsonl {
        return lines(&records);
    }
    context.print(&json!({ "records": records }), || rows(&records))
}

fn lines(records: &[AuditRecord]) -> PrintResult {
    let mut text = String::new();
    for record in records {
        let line = serde_json::to_string(record);
        let line = line.map_err(|error| {
            Failure::new(Exit::FAILED, format!("cannot print a record: {error}"))
        })?;
        text.push_str(&line);
        text.push('\n');
    }
    Ok(CommandOutput {
        text,
        kind: OutputKind::Json,
        exit: Exit::DONE,
    })
}

fn rows(records: &[AuditRecord]) -> String {
    let row = |it: &AuditRecord| {
        let about = it.tool.clone().or_else(|| it.provider.clone());
        let about = about.or_else(|| it.model.clone());
        let about = about.or_else(|| it.changes.map(|it| it.to_string()));
        let about = about.unwrap_or_default();
        vec![
            it.n.to_string(),
            it.at.clone(),
            what(it.kind).to_owned(),
            about,
            outcome(it),
            who(it),
        ]
    };
    let rows: Vec<Vec<String>> = records.iter().map(row).collect();
    table::columns(
        &["n", "at", "what", "about", "how", "who, or with what"],
        &rows,
    )
}

fn what(kind: AuditKind) -> &'static str {
    match kind {
        AuditKind::TurnAsked => "question",
        AuditKind::ModelChosen => "model",
        AuditKind::ConfirmRequested => "asked",
        AuditKind::ConfirmResolved => "answered",
        AuditKind::CommandTried => "tried",
        AuditKind::ChangesSettled | AuditKind::ChangesPart => "changes",
        AuditKind::ChangesUndone => "undo",
        AuditKind::ChangesRedone => "redo",
        AuditKind::CallStarted => "started",
        AuditKind::CallEnded => "ended",
        AuditKind::CallRefused => "refused",
        AuditKind::PermissionChanged => "permission",
        AuditKind::NorrisLaunched => "norris",
        AuditKind::AutoApproveSet => "unasked",
        AuditKind::PolicyChanged => "rules",
        AuditKind::ConstraintsChanged => "limits",
        AuditKind::ResourcePinned => "pinned",
        AuditKind::ResourceUnpinned => "unpinned",
        AuditKind::ResourceChanged => "resource",
        AuditKind::PromptAsked => "prompt",
        AuditKind::ResourceRead => "read",
        AuditKind::ServerChanged => "server",
        AuditKind::NoticeGiven => "notice",
        AuditKind::ProgramHeld => "held",
        AuditKind::ProgramReached => "network",
        AuditKind::Routed => "routed",
        AuditKind::QuestionRouted => "class",
        AuditKind::FellBack => "fallback",
        AuditKind::RoutingSwitched => "switch",
        AuditKind::ConversationImported => "imported",
        AuditKind::MemoryChanged => "memory",
        AuditKind::ConversationDeleted => "deleted",
        AuditKind::StoreRepaired => "repaired",
    }
}

fn outcome(it: &AuditRecord) -> String {
    let decision = it.decision.map(|it| match it {
        AuditDecision::Allow => "allow",
        AuditDecision::Ask => "ask",
        AuditDecision::Deny => "deny",
        AuditDecision::Expire => "expire",
        AuditDecision::Cancel => "cancel",
    });
    let answer = it.answer.map(|it| match it {
        Decision::AllowOnce => "once",
        Decision::AllowConversation => "always here",
        Decision::AllowProvider => "always here, all of the provider",
        Decision::RaiseOnly => "level raised",
        Decision::Edit => "edited",
        Decision::Deny => "",
        Decision::Abort => "and the turn ended",
        Decision::Keep => "kept as tried",
    });
    let outcome = it.outcome.map(|it| match it {
        AuditOutcome::Ok => "ok",
        AuditOutcome::Failed => "failed",
        AuditOutcome::Unknown => "effect unknown",
    });
    let levels = match (it.from, it.to) {
        (Some(from), Some(to)) => Some(format!("{from} → {to}")),
        (None, Some(to)) => Some(format!("level → {to}")),
        (Some(_) | None, None) => None,
    };
    let size = it.bytes.zip(it.ms);
    let size = size.map(|(bytes, ms)| format!("{bytes} bytes in {ms} ms"));
    let rules = [(&it.added, '+'), (&it.removed, '-')];
    let rules = rules.iter().flat_map(|(rules, sign)| {
        let rule = move |it: &String| format!("{sign}{it}");
        rules.iter().map(rule)
    });
    let rules: Vec<String> = rules.collect();
    let parts = [
        decision.map(str::to_owned),
        outcome.map(str::to_owned),
        answer.filter(|it| !it.is_empty()).map(str::to_owned),
        levels,
        size,
        it.because.clone(),
        it.network.as_ref().map(|it| safe::one_line(&it.line)),
        (!rules.is_empty()).then(|| table::cut(&rules.join(", "), RULE_COLUMNS)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

fn who(it: &AuditRecord) -> String {
    match (&it.by, &it.arguments) {
        (Some(by), Some(arguments)) => {
            let arguments = table::cut(arguments, ARGUMENT_COLUMNS);
            format!("{}: {arguments}", question::who(by))
        }
        (Some(by), None) => question::who(by),
        (None, Some(arguments)) => table::cut(arguments, ARGUMENT_COLUMNS),
        (None, None) => String::new(),
    }
}

async fn verify(context: &CommandContext, noted: Option<String>) -> PrintResult {
    let result = context.call::<Verify>(VerifyParams { noted }).await?;
    let mut printed = context.print(&result, || {
        if result.whole {
            let others = match result.lost {
                0 => "all as they were written".to_owned(),
                lost => format!("{lost} lost, as a repair has told, and all others as they were written"),
            };
            return format!(
                "{} records, {others}\nnote the end elsewhere, to find out later whether the trail was cut: {}\n",
                result.records, result.head
            );
        }
        let mut text = String::new();
        for finding in &result.findings {
            text.push_str(&finding_text(finding));
        }
        if result.more > 0 {
            text.push_str(&format!("and {} more\n", result.more));
        }
        text
    })?;
    if !result.whole {
        printed.exit = Exit::FAILED;
    }
    Ok(printed)
}

fn finding_text(finding: &AuditFinding) -> String {
    let n = finding.n.map(|it| format!("record {it}: "));
    let place = finding.file.as_ref().map(|file| {
        let offset = finding.offset.unwrap_or_default();
        format!("{} at byte {offset}: ", safe::one_line(file))
    });
    format!(
        "{}{}{}\n",
        n.unwrap_or_default(),
        place.unwrap_or_default(),
        safe::one_line(&finding.what)
    )
}

async fn export(context: &CommandContext) -> PrintResult {
    let mut text = String::new();
    let mut cursor = None;
    loop {
        let params = AuditExportParams {
            cursor,
            limit: None,
        };
        let page = context.call::<Export>(params).await?;
        for line in page.sealed {
            text.push_str(&line);
            text.push('\n');
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(CommandOutput {
        text,
        kind: OutputKind::Json,
        exit: Exit::DONE,
    })
}
