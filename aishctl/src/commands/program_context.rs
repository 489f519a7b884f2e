//! What every command has: what was around when we were started, the flags that all of them take, a runtime, and
//! the way to the daemon.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use aish_proto::daemon::ClientKind;
use aish_proto::method::ClientRole;
use aish_proto::version::ProtocolRange;
use tokio::time::Instant;

use crate::ask_args::AskArgs;
use crate::client::connect::CALL_DEADLINE;
use crate::client::daemon_link::{DaemonReach, DaemonStart};
use crate::commands::ask::pictures::PictureDrawer;
use crate::commands::ask::{self, AskContext};
use crate::commands::directory_listing::DirectoryLister;
use crate::controlling_terminal;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::render::markdown::Style;
use crate::render::notice::{self, Notices};
use crate::render::output::{AnswerOutput, OutputForm, TypesetAnswer};
use crate::render::screen;
use crate::signals::ClientSignals;
use crate::stdout::AnswerSink;

pub(crate) struct AskProgram {
    pub(crate) around: ClientEnvironment,
    pub(crate) global: GlobalArgs,
    pub(crate) began: Instant,
    /// How answers are laid out, if this program can.
    pub(crate) typeset: Option<fn(Style) -> Box<dyn TypesetAnswer>>,
    /// How the directories that a question names are listed, if this program can.
    pub(crate) list: Option<DirectoryLister>,
    /// How pictures of results are drawn below an answer, if this program can.
    pub(crate) draw: Option<PictureDrawer>,
}

impl AskProgram {
    /// Runs the work to its end.
    pub(crate) fn block_on(
        &self,
        work: impl Future<Output = Result<Exit, Failure>>,
    ) -> Result<Exit, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Exit::FAILED, format!("cannot start: {error}")))?;
        let done = runtime.block_on(work);
        // A read of stdin or a write to a full pipe may still hang in its thread.
        runtime.shutdown_background();
        done
    }

    /// Asks one question.
    pub(crate) async fn ask(&self, args: &AskArgs) -> Result<Exit, Failure> {
        let form = OutputForm::of(args, &self.global);
        let mut parts = self.parts(form);
        let kind = if self.around.stdout_terminal {
            ClientKind::Ctl
        } else {
            ClientKind::Script
        };
        let reach = self.asking(DaemonStart::Allowed, kind);
        ask::run(parts.asker(&reach, self), args, &mut io::stdin().lock()).await
    }

    /// For who asks a model and follows its answer. A terminal at which nobody is asked is no place where somebody could
    /// answer: the daemon would wait for it.
    pub(crate) fn asking(&self, start: DaemonStart, kind: ClientKind) -> DaemonReach {
        let mut reach = self.reach(start, kind, ClientRole::Driver);
        if !ask::may_prompt(&self.around, &self.global) {
            reach.around.tty = None;
        }
        reach
    }

    pub(crate) fn reach(
        &self,
        start: DaemonStart,
        kind: ClientKind,
        role: ClientRole,
    ) -> DaemonReach {
        let flag = self.global.socket.as_deref();
        DaemonReach {
            socket: self.around.socket(flag.map(Path::new)),
            start: if flag.is_some() {
                DaemonStart::Forbidden
            } else {
                start
            },
            kind,
            role,
            deadline: self
                .global
                .timeout
                .map_or(CALL_DEADLINE, |it| it.max(CALL_DEADLINE)),
            protocol: ProtocolRange::OURS,
            around: self.around.clone(),
        }
    }

    fn may_spin(&self) -> bool {
        self.around.stderr_terminal && !screen::is_plain(self.global.looks, &self.around)
    }

    pub(crate) fn parts(&self, form: OutputForm) -> AskerParts {
        let style = screen::markdown(self.global.looks, self.global.color, &self.around);
        let dim = notice::is_coloured(self.global.color, &self.around, self.around.stderr_terminal);
        let mut notices = Notices::new(Box::new(io::stderr()), &self.global, dim);
        let asks = ask::may_prompt(&self.around, &self.global) && !self.around.stderr_terminal;
        let terminal = controlling_terminal::open().filter(|_| asks);
        if let Some(Ok(terminal)) = terminal.map(File::try_clone) {
            notices = notices.asking_at(Box::new(terminal));
        }
        AskerParts {
            output: AnswerOutput {
                to: AnswerSink::ours(),
                form,
                terminal: self.around.stdout_terminal,
                markdown: style
                    .zip(self.typeset)
                    .map(|(style, typeset)| typeset(style)),
                begun: false,
                open_line: false,
                reported: false,
            },
            notices: if self.may_spin() {
                notices.with_spinner()
            } else {
                notices
            },
            signals: ClientSignals::default(),
        }
    }
}

/// What an asker borrows.
pub(crate) struct AskerParts {
    pub(crate) output: AnswerOutput<AnswerSink>,
    pub(crate) notices: Notices,
    signals: ClientSignals,
}

impl AskerParts {
    pub(crate) fn asker<'a>(
        &'a mut self,
        reach: &'a DaemonReach,
        program: &'a AskProgram,
    ) -> AskContext<'a, AnswerSink> {
        AskContext {
            reach,
            global: &program.global,
            notices: &mut self.notices,
            output: &mut self.output,
            signals: &mut self.signals,
            began: program.began,
            list: program.list,
            draw: program.draw,
        }
    }
}

/// The exit code, and what failed on stderr.
pub(crate) fn ended(program: &str, done: Result<Exit, Failure>) -> ExitCode {
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => {
            drop(io::stderr().write_all(failure.render(program).as_bytes()));
            failure.exit.into()
        }
    }
}
