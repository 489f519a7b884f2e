//! `config check`: all that is wrong, for people or for programs.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::{ActionContext, ActionOutput, exit, json_line};
use crate::fault::{self, Fault, Severity};
use crate::fault_picture;
use crate::load::{self, LoadedConfig};
use crate::project;

impl ActionContext<'_> {
    pub(super) fn check(self, project: Option<&Path>, json: bool) -> ActionOutput {
        let loaded = self.load();
        let mut faults = loaded.faults.clone();
        let mut notes = vec![];
        let here = project.and_then(project::find);
        for (file, left_out) in &loaded.left_out {
            // A project elsewhere makes nothing invalid but itself.
            let elsewhere = here.as_ref() != Some(file);
            faults.extend(left_out.iter().cloned().map(|fault| match elsewhere {
                true => Fault {
                    severity: Severity::Warning,
                    ..fault
                },
                false => fault,
            }));
        }
        if let Some(file) = here {
            let mut unused = self.of_project(&loaded, &file);
            let seen = loaded.left_out.contains_key(&file);
            match project.and_then(|it| load::notice(it, &loaded.trust, &loaded.left_out)) {
                Some(_) if seen => {}
                Some(notice) => {
                    // It does not count, so it makes nothing invalid.
                    notes.push(format!("note: {}", notice.text));
                    for fault in &mut unused {
                        fault.severity = Severity::Warning;
                    }
                    faults.append(&mut unused);
                }
                None => faults.append(&mut unused),
            }
        }
        faults.sort_by_key(|it| it.severity);
        let errors = faults.iter().filter(|it| it.is_error()).count();
        let code = if errors == 0 {
            exit::DONE
        } else {
            exit::CONFIG
        };
        if json {
            let report = CheckReport {
                ok: errors == 0,
                problems: faults
                    .iter()
                    .take(fault::MOST)
                    .map(CheckProblem::of)
                    .collect(),
                notes,
            };
            return ActionOutput {
                code,
                ..ActionOutput::done(json_line(&report))
            };
        }
        let mut out = fault_picture::pictures(&faults);
        for note in notes {
            let _never_fails = writeln!(out, "{note}");
        }
        if !out.is_empty() {
            out.push('\n');
        }
        let warnings = faults.len() - errors;
        out.push_str(&match (errors, warnings) {
            (0, 0) => "ok\n".to_owned(),
            (0, warnings) => format!("ok, with {}\n", count(warnings, "warning")),
            (errors, 0) => format!("{}\n", count(errors, "error")),
            (errors, warnings) => {
                format!(
                    "{}, {}\n",
                    count(errors, "error"),
                    count(warnings, "warning")
                )
            }
        });
        ActionOutput {
            code,
            ..ActionOutput::done(out)
        }
    }

    fn of_project(self, loaded: &LoadedConfig, file: &Path) -> Vec<Fault> {
        match project::read(file) {
            Ok(Some(layer)) => project::models(&loaded.layers, &layer, self.is_set).1,
            Ok(None) => vec![],
            Err(fault) => vec![fault],
        }
    }
}

#[derive(Serialize)]
struct CheckReport {
    ok: bool,
    problems: Vec<CheckProblem>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct CheckProblem {
    severity: &'static str,
    file: String,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
    hint: Option<String>,
}

impl CheckProblem {
    fn of(fault: &Fault) -> Self {
        let at = fault
            .span
            .as_ref()
            .map(|it| fault.source.line_and_column(it.start));
        Self {
            severity: match fault.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            file: fault.source.name(),
            line: at.map(|it| it.0),
            column: at.map(|it| it.1),
            message: fault.message.clone(),
            hint: fault.label.clone().or_else(|| fault.help.clone()),
        }
    }
}

fn count(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}
