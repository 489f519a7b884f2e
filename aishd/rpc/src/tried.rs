//! Trials of commands and the changes of runs, as the wire shows them.

use aish_proto::changes as wire;
use aish_proto::event::{self as events, CommandTried};
use aish_proto::hosts as wire_hosts;
use aishd_log::changes_undo::{ChangesUndo, UndoAct};
use aishd_log::confirm::changes::ChangesSubject;
use aishd_log::confirm::host::HostSubject;
use aishd_log::network::{HostCount, NetworkUse};
use aishd_log::run_changes::{
    ChangesOutcome, ChangesPart, ChangesSettled, PartAct, PartStage, of_run,
};
use aishd_log::tried::{ChangeSummary, ChangedFile, FileChange, TriedCommand};

use crate::answerer::answerer;
use crate::{shell, stored_result};

pub(super) fn tried(tried: TriedCommand) -> CommandTried {
    let (ending, exit_code, signal) = shell::ending(tried.ending);
    CommandTried {
        confirm: tried.confirm,
        changes: tried.changes,
        command: tried.command,
        ending,
        exit_code,
        signal,
        output: tried.output,
        bytes: tried.bytes,
        ms: tried.ms,
        kept: tried.kept.map(stored_result::result),
        changed: summary(tried.changed),
        difference: tried.tool.is_some().then_some(tried.difference),
        difference_lines: Some(tried.difference_lines).filter(|it| *it > 0),
        network: tried.network.and_then(|it| network(*it)),
        by: tried.by.map(answerer),
    }
}

pub(super) fn run_changes(subject: ChangesSubject) -> wire::ProposedChanges {
    wire::ProposedChanges {
        changes: subject.changes(),
        turn: subject.turn,
        goal: subject.goal,
        changed: summary(subject.changed),
        network: network(subject.network),
    }
}

pub(super) fn host(subject: HostSubject) -> wire_hosts::WantedHost {
    wire_hosts::WantedHost {
        rule: subject.named().to_owned(),
        host: subject.host,
        plain: subject.plain,
        command: subject.command,
        tool: subject.tool.map(|it| it.to_string()),
        run: subject.run,
    }
}

/// `None`: there was nothing.
pub(super) fn network(used: NetworkUse) -> Option<wire_hosts::NetworkUse> {
    let line = used.line()?;
    let all = |hosts: Vec<HostCount>| {
        let wire = |HostCount { host, times, bytes }| wire_hosts::HostCount { host, times, bytes };
        hosts.into_iter().map(wire).collect()
    };
    Some(wire_hosts::NetworkUse {
        reached: all(used.reached),
        refused: all(used.refused),
        failed: all(used.failed),
        others: used.others,
        line,
    })
}

pub(super) fn settled(settled: ChangesSettled) -> events::ChangesSettled {
    let end = wire::ChangesEnd {
        changes: of_run(settled.turn),
        outcome: match settled.outcome {
            ChangesOutcome::Nothing => wire::ChangesOutcome::Nothing,
            ChangesOutcome::Kept => wire::ChangesOutcome::Kept,
            ChangesOutcome::KeptInPart => wire::ChangesOutcome::KeptInPart,
            ChangesOutcome::Dropped => wire::ChangesOutcome::Dropped,
            ChangesOutcome::Failed => wire::ChangesOutcome::Failed,
        },
        paths: settled.paths,
        count: settled.count,
        remark: Some(settled.remark).filter(|it| !it.is_empty()),
        confirm: settled.confirm,
        by: settled.by.map(answerer),
    };
    events::ChangesSettled {
        turn: settled.turn,
        end,
    }
}

pub(super) fn undo(undo: ChangesUndo) -> events::ChangesUndo {
    events::ChangesUndo {
        act: match undo.act {
            UndoAct::Undo => wire::UndoAct::Undo,
            UndoAct::Redo => wire::UndoAct::Redo,
        },
        changes: undo.changes,
        paths: undo.paths,
        count: undo.count,
        reversible: undo.reversible,
    }
}

pub(super) fn part(part: ChangesPart) -> wire::PartOfChanges {
    wire::PartOfChanges {
        changes: of_run(part.turn),
        part: part.part,
        act: match part.act {
            PartAct::Keep => wire::PartAct::Keep,
            PartAct::Drop => wire::PartAct::Drop,
        },
        stage: match part.stage {
            PartStage::Ordered => wire::PartStage::Ordered,
            PartStage::Done => wire::PartStage::Done,
            PartStage::Failed => wire::PartStage::Failed,
        },
        paths: part.paths,
        count: part.count,
        remark: Some(part.remark).filter(|it| !it.is_empty()),
        by: part.by.map(answerer),
    }
}

pub(super) fn summary(changed: ChangeSummary) -> wire::ChangeSummary {
    wire::ChangeSummary {
        listed: changed.listed.into_iter().map(file).collect(),
        count: changed.count,
        refused: changed.refused,
    }
}

fn file(it: ChangedFile) -> wire::ChangedFile {
    let ChangedFile {
        path,
        change,
        lines,
    } = it;
    wire::ChangedFile {
        path,
        change: match change {
            FileChange::Created => wire::FileChange::Created,
            FileChange::Modified => wire::FileChange::Modified,
            FileChange::Attributes => wire::FileChange::Attributes,
            FileChange::Removed => wire::FileChange::Removed,
            FileChange::Replaced => wire::FileChange::Replaced,
        },
        added: lines.map(|(added, _)| added),
        removed: lines.map(|(_, removed)| removed),
    }
}
