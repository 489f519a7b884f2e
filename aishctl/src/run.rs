//! From the command line to an exit code: parse, reach the daemon, run the command, say what failed.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use aish_proto::daemon::ClientKind;
use aish_proto::method::Role;
use clap::CommandFactory as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::time::Instant;

use crate::alone::{ALL, ALONE};
use crate::args::{AttachArgs, Command, Conversation, Ctl, LogArgs};
use crate::attach::look::Look;
use crate::attach::{self, Window};
use crate::confirm::{Confirm, watch};
use crate::desk::{self, Desk, Printed};
use crate::doctor;
use crate::exit::{self, Exit};
use crate::export::{ExportArgs, Sink};
use crate::failure::Failure;
use crate::hello::{Reach, Start, Wait};
use crate::import::ImportArgs;
use crate::listing;
use crate::markdown::Painter;
use crate::mcp::Mcp;
use crate::output::Form;
use crate::pager::Pager;
use crate::parse::parse;
use crate::program::{self, Program};
use crate::prompted::{self, Prompted};
use crate::service::{self, Service};
use crate::shell::Propose;
use crate::signals::Signals;
use crate::stdout::Stdout;
use crate::surroundings::Surroundings;
use crate::tools::{self, Tools};
use crate::{ask, config, export, gateway, import, log, mcp, norris, pager, queue, rpc};

/// By which name we were started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Ctl,
    Line,
}

impl Door {
    /// `aishctl` becomes this program for all but a plain question, and keeps its name.
    fn of(args: &[OsString]) -> Self {
        let name = args.first().map(Path::new).and_then(Path::file_name);
        if name.is_some_and(|it| it == ALONE) {
            Self::Ctl
        } else {
            Self::Line
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Ctl => ALONE,
            Self::Line => ALL,
        }
    }
}

/// The whole program, by both its names.
pub fn main() -> ExitCode {
    let began = Instant::now();
    let around = Surroundings::ours();
    let args: Vec<OsString> = std::env::args_os().collect();
    let door = Door::of(&args);
    let (global, command) = match parse(door, &args) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help that nobody reads, or stderr that is gone: there is nobody to tell.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let program = Program {
        around,
        global,
        began,
        typeset: Some(Painter::boxed),
        list: Some(listing::of),
    };
    program::ended(door.program(), program.run(command))
}

impl Program {
    fn run(&self, command: Option<Command>) -> Result<Exit, Failure> {
        let command = match command {
            Some(Command::Help { topic }) => return print(&help(&topic)?),
            Some(Command::Init { shell }) => return print(shell.script()),
            Some(Command::Rpc(args)) if args.schema => {
                return print(&rpc::schema(self.around.stdout_terminal));
            }
            Some(command) => command,
            None if self.around.stdin_terminal && self.around.stdout_terminal => {
                Command::Attach(AttachArgs {
                    conversation: None,
                    read_only: false,
                    tail: 40,
                })
            }
            None => return print(&Ctl::command().render_help().to_string()),
        };
        self.block_on(self.serve(command))
    }

    async fn gateway(&self, args: &gateway::ServeArgs) -> Result<Exit, Failure> {
        let mut reach = self.reach(Start::Allowed, ClientKind::Script, Role::Driver);
        // Whoever sees its stderr is asked nothing there.
        reach.around.tty = None;
        let (stdin, mut signals) = (tokio::io::stdin(), Signals::default());
        let stdout = Stdout::ours();
        gateway::serve(reach, &self.global, args, &mut signals, stdin, stdout).await
    }

    async fn serve(&self, command: Command) -> Result<Exit, Failure> {
        if let Some(prompted) = Prompted::of(&command) {
            let mut parts = self.parts(self.form());
            let reach = self.asking(Start::Forbidden, ClientKind::Ctl);
            return prompted::run(parts.asker(&reach, self), &prompted).await;
        }
        if let Command::Norris(norris) = &command
            && let Some(launch) = norris.launches()
        {
            let mut parts = self.parts(self.form());
            let reach = self.asking(Start::Forbidden, ClientKind::Ctl);
            return norris::follow(parts.asker(&reach, self), launch).await;
        }
        self.carry_out(command).await
    }

    async fn carry_out(&self, command: Command) -> Result<Exit, Failure> {
        match command {
            Command::Ask(args) => self.ask(&args).await,
            Command::Propose(args) => self.propose(&args).await,
            Command::Mcp {
                command: Some(Mcp::Serve(args)),
            } => self.gateway(&args).await,
            Command::Tools {
                command: Tools::Run(args),
            } => {
                let form = Some(self.form()).filter(|it| *it != Form::Text);
                let form = form.unwrap_or(Form::Results);
                let mut parts = self.parts(form);
                let reach = self.asking(Start::Forbidden, ClientKind::Ctl);
                let mut stdin = io::stdin().lock();
                tools::run(parts.asker(&reach, self), &args, &mut stdin).await
            }
            Command::Mcp {
                command:
                    Some(Mcp::Import {
                        file: Some(file),
                        write: true,
                    }),
            } => mcp::import::write(self.config_desk(), &file).await,
            Command::Retry(args) => self.again(queue::Again::Retry, &args).await,
            Command::Continue(args) => self.again(queue::Again::Continue, &args).await,
            Command::Attach(args) => self.window(args).await,
            Command::Log(args) => self.log(&args, self.form()).await,
            Command::Export(args) => self.within(self.export(&args)).await,
            Command::Import(args) => self.within(self.import(&args)).await,
            Command::Doctor => {
                self.by_itself(doctor::run(&self.observing(), &self.global))
                    .await
            }
            Command::Logs(args) => service::tail(&self.observing(), &self.global, args).await,
            Command::Service {
                command: Service::Logs(args),
            } => service::journal_or_tail(&self.observing(), &self.global, args).await,
            Command::Service { command } => self.service(&command).await,
            Command::Config { command } => config::run(self.config_desk(), &command).await,
            Command::Confirm {
                command: Some(Confirm::Watch),
            } => self.watch().await,
            command @ (Command::Conv { .. }
            | Command::Status { .. }
            | Command::Model { .. }
            | Command::Route { .. }
            | Command::Fallback { .. }
            | Command::Norris(_)
            | Command::Queue { .. }
            | Command::Tools { .. }
            | Command::Confirm { .. }
            | Command::Perm { .. }
            | Command::Usage(_)
            | Command::Audit(_)
            | Command::Result(_)
            | Command::Resource { .. }
            | Command::Context { .. }
            | Command::Memory { .. }
            | Command::Remember(_)
            | Command::Forget { .. }
            | Command::Prompt { .. }
            | Command::Cancel { .. }
            | Command::Search(_)
            | Command::Fork(_)
            | Command::Mcp { .. }
            | Command::Reload
            | Command::Metrics
            | Command::Init { .. }
            | Command::Rpc(_)
            | Command::Help { .. }) => self.within(self.at_desk(command)).await,
        }
    }

    async fn service(&self, command: &Service) -> Result<Exit, Failure> {
        let reach = self.reach(Start::Forbidden, ClientKind::Ctl, Role::Driver);
        self.by_itself(service::run(&reach, &self.global, command))
            .await
    }

    /// Not longer than `--timeout`.
    async fn within(
        &self,
        work: impl Future<Output = Result<Exit, Failure>>,
    ) -> Result<Exit, Failure> {
        match self.global.timeout {
            None => work.await,
            Some(limit) => tokio::time::timeout(limit, work)
                .await
                .unwrap_or_else(|_| Err(time_is_over())),
        }
    }

    /// Asks for one command, and prints nothing but that.
    async fn propose(&self, args: &Propose) -> Result<Exit, Failure> {
        let asked = args.asked(&mut io::stdin().lock())?;
        let mut parts = self.parts(Form::Line);
        let reach = self.reach(Start::Allowed, ClientKind::Script, Role::Driver);
        ask::run(parts.asker(&reach, self), &asked, &mut io::empty()).await
    }

    async fn window(&self, args: AttachArgs) -> Result<Exit, Failure> {
        let role = if args.read_only {
            Role::Observer
        } else {
            Role::Driver
        };
        let window = Window {
            reach: self.reach(Start::Allowed, ClientKind::Line, role),
            global: self.global.clone(),
            args,
            look: Look::of(&self.global, &self.around),
            signals: Signals::default(),
        };
        let stdin = tokio::io::BufReader::new(tokio::io::stdin());
        attach::run(window, stdin, tokio::io::stdout()).await
    }

    fn config_desk(&self) -> config::Desk<'_> {
        config::Desk {
            around: &self.around,
            global: &self.global,
            reach: self.reach(Start::Forbidden, ClientKind::Ctl, Role::Driver),
        }
    }

    /// All questions of all conversations; here they can be answered where somebody sits.
    async fn watch(&self) -> Result<Exit, Failure> {
        let asks = self.around.stdin_terminal && self.around.stdout_terminal;
        let form = match (self.global.json || self.global.jsonl, asks) {
            (true, _) => watch::Form::Events,
            (false, true) if !self.global.no_input => watch::Form::Asks,
            (false, _) => watch::Form::Text,
        };
        let reach = self.reach(Start::Forbidden, ClientKind::Ctl, Role::Approver);
        let mut notices = self.parts(Form::Text).notices;
        let watching = watch::run(&reach, &self.global, &mut notices, form);
        self.within(watching).await
    }

    fn observing(&self) -> Reach {
        self.reach(Start::Forbidden, ClientKind::Ctl, Role::Observer)
    }

    /// A command that needs no daemon to begin with, and prints once.
    async fn by_itself(
        &self,
        work: impl Future<Output = Result<Printed, Failure>>,
    ) -> Result<Exit, Failure> {
        let printed = match self.global.timeout {
            None => work.await?,
            Some(limit) => tokio::time::timeout(limit, work)
                .await
                .unwrap_or_else(|_| Err(time_is_over()))?,
        };
        print(&printed.shown(self.around.stdout_terminal))?;
        Ok(printed.exit)
    }

    async fn at_desk(&self, command: Command) -> Result<Exit, Failure> {
        let makes_one = matches!(
            &command,
            Command::Conv {
                command: Conversation::New { .. }
            }
        );
        let start = if makes_one {
            Start::Allowed
        } else {
            Start::Forbidden
        };
        let reach = self.reach(start, ClientKind::Ctl, Role::Driver);
        let link = match reach.open(Wait::No).await {
            Ok(link) => link,
            // A status bar shows nothing where there is nothing.
            Err(_) if desk::is_status_bar(&command) => return Ok(Exit::DONE),
            Err(failure) => return Err(failure),
        };
        let desk = Desk {
            caller: link.caller,
            editor: link.hello.ui.editor,
            around: self.around.clone(),
            global: self.global.clone(),
            may_prompt: self.around.stdin_terminal && !self.global.no_input,
        };
        let printed = desk.run(&command).await?;
        let shown = printed.shown(self.around.stdout_terminal);
        let paged = matches!(&command, Command::Audit(audit) if !audit.no_pager && !printed.json);
        match paged.then(|| self.pager()).flatten() {
            Some((pager, mut to)) => {
                // The person may have read enough before the end.
                let _read_enough = to.write_all(shown.as_bytes()).await;
                drop(to);
                pager.wait().map_err(|it| Failure::output(&it))?;
            }
            None => {
                print(&shown)?;
            }
        }
        Ok(printed.exit)
    }

    fn pager(&self) -> Option<(Pager, pipe::Sender)> {
        let command = pager::command(&self.around)?;
        Pager::start(&command, &self.around)
    }

    /// The transcript, through a pager where a person reads it and it has an end.
    async fn log(&self, args: &LogArgs, form: Form) -> Result<Exit, Failure> {
        let reach = self.reach(Start::Forbidden, ClientKind::Ctl, Role::Observer);
        let mut output = self.parts(form).output;
        let paged = form == Form::Text && !args.follow && !args.no_pager;
        let Some((pager, to)) = paged.then(|| self.pager()).flatten() else {
            return log::run(&reach, &self.global, args, &mut output).await;
        };
        let mut output = output.to(to);
        let done = log::run(&reach, &self.global, args, &mut output).await;
        drop(output);
        let waited = pager.wait();
        match done {
            // The person has read enough.
            Err(failure) if failure.exit == Exit::BROKEN_PIPE => Ok(Exit::DONE),
            done => waited.map_err(|it| Failure::output(&it)).and(done),
        }
    }

    /// A conversation in another form, through a pager where a person reads it.
    async fn export(&self, args: &ExportArgs) -> Result<Exit, Failure> {
        let reach = self.reach(Start::Forbidden, ClientKind::Ctl, Role::Observer);
        let terminal = self.around.stdout_terminal;
        let sink = args.sink(|| match (!args.no_pager).then(|| self.pager()).flatten() {
            Some((pager, to)) => Sink::Pager(pager, to),
            None => Sink::Out {
                to: Stdout::ours(),
                terminal,
            },
        })?;
        let is_paged = matches!(sink, Sink::Pager(..));
        match export::run(&reach, &self.global, args, sink).await {
            // The person has read enough.
            Err(failure) if is_paged && failure.exit == Exit::BROKEN_PIPE => Ok(Exit::DONE),
            done => done,
        }
    }

    async fn import(&self, args: &ImportArgs) -> Result<Exit, Failure> {
        let reach = self.reach(Start::Allowed, ClientKind::Ctl, Role::Driver);
        let (printed, notes) = import::run(&reach, &self.global, args).await?;
        let mut notices = self.parts(Form::Text).notices;
        for note in notes {
            notices.say(&note);
        }
        print(&printed.shown(self.around.stdout_terminal))
    }

    async fn again(
        &self,
        again: queue::Again,
        args: &crate::args::AgainArgs,
    ) -> Result<Exit, Failure> {
        let reach = self.asking(Start::Forbidden, ClientKind::Ctl);
        let mut parts = self.parts(self.form());
        queue::again(parts.asker(&reach, self), again, args).await
    }

    /// Of a command whose output is an answer or a transcript.
    fn form(&self) -> Form {
        match () {
            () if self.global.jsonl => Form::Events,
            () if self.global.json => Form::Json,
            () => Form::Text,
        }
    }
}

fn time_is_over() -> Failure {
    Failure::new(Exit::TIMEOUT, "the time is over")
        .hint("--timeout gives more; what the daemon has begun goes on")
}

fn print(text: &str) -> Result<Exit, Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output(&error))?;
    Ok(Exit::DONE)
}

/// The text of `aishctl help …`.
pub fn help(topic: &[String]) -> Result<String, Failure> {
    if topic == ["exit-codes"] {
        return Ok(exit::table());
    }
    let mut command = Ctl::command();
    command.build();
    let mut at = &mut command;
    for word in topic {
        at = at.find_subcommand_mut(word).ok_or_else(|| {
            Failure::new(Exit::USAGE, format!("there is no command {word}")).hint("aishctl help")
        })?;
    }
    Ok(at.render_long_help().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_knows_commands_and_exit_codes() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(Into::into).collect() };
        assert_eq!(exit::table(), help(&words("exit-codes")).unwrap());
        assert!(help(&words("conv ls")).unwrap().contains("--archived"));
        assert!(help(&[]).unwrap().contains("exit-codes"));
        assert_eq!(Exit::USAGE, help(&words("nonsense")).unwrap_err().exit);
    }
}
