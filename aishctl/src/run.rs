//! From the command line to an exit code: parse, reach the daemon, run the command, say what failed.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use aish_proto::daemon::ClientKind;
use aish_proto::method::ClientRole;
use aish_proto::version::ProtocolRange;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::time::Instant;

use crate::args::CtlCommand;
use crate::attach::look::WindowLook;
use crate::attach::{self, WindowOptions};
use crate::attach_args::AttachArgs;
use crate::client::daemon_link::{DaemonReach, DaemonStart, DaemonWait};
use crate::client::service::{self, ServiceCommand};
use crate::command_output::{OutputKind, PrintResult};
use crate::commands::changes::ChangesCommand;
use crate::commands::command_context::CommandContext;
use crate::commands::confirm::{ConfirmCommand, watch};
use crate::commands::conversation::ConversationCommand;
use crate::commands::export::{self, ExportArgs, ExportSink};
use crate::commands::import::{self, ImportArgs};
use crate::commands::log::{self, LogArgs};
use crate::commands::mcp::{self, McpCommand};
use crate::commands::model::ModelCommand;
use crate::commands::program_context::{self, AskProgram};
use crate::commands::shell::ProposeArgs;
use crate::commands::shell_question::ShellQuestion;
use crate::commands::store::StoreContext;
use crate::commands::tools::{self, ToolsCommand};
use crate::commands::{
    ask, config, directory_listing, doctor, key, man, model_add, norris, prompt_ask, queue, rpc,
};
use crate::completion;
use crate::dispatch::is_status_bar;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::gateway;
use crate::help;
use crate::parse::{ProgramName, parse};
use crate::picture::protocol::PictureSupport;
use crate::recorder;
use crate::render::difference;
use crate::render::markdown::Painter;
use crate::render::notice;
use crate::render::output::OutputForm;
use crate::render::pager::{self, RunningPager};
use crate::signals::ClientSignals;
use crate::stdout::AnswerSink;

/// The whole program, by both its names.
pub fn main() -> ExitCode {
    let began = Instant::now();
    let around = ClientEnvironment::ours();
    let args: Vec<OsString> = std::env::args_os().collect();
    let door = ProgramName::of(&args);
    let (global, command) = match parse(door, &args) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help that nobody reads, or stderr that is gone: there is nobody to tell.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let program = AskProgram {
        around,
        global,
        began,
        typeset: Some(Painter::boxed),
        list: Some(directory_listing::of),
        draw: Some(ask::pictures::drawer),
    };
    program_context::ended(door.program(), program.run(command))
}

impl AskProgram {
    fn run(&self, command: Option<CtlCommand>) -> Result<Exit, Failure> {
        let command = match command {
            Some(CtlCommand::Help { topic }) => return print(&help::help(&topic)?),
            Some(CtlCommand::Init { shell, ring }) => return print(&shell.script(ring)),
            Some(CtlCommand::Record(args)) => {
                return self.block_on(recorder::run(&self.around, &args));
            }
            Some(CtlCommand::Completion { shell }) => return print(shell.completion()),
            Some(CtlCommand::Complete(args)) => {
                return print(&completion::offered(&self.around, &args));
            }
            Some(CtlCommand::Man(args)) => return print(&man::write(&args)?),
            Some(CtlCommand::Rpc(args)) if args.schema => {
                return print(&rpc::schema(self.around.stdout_terminal));
            }
            Some(command) => command,
            None if self.around.stdin_terminal && self.around.stdout_terminal => {
                CtlCommand::Attach(AttachArgs {
                    conversation: None,
                    pick: false,
                    new: false,
                    read_only: false,
                    tail: 40,
                })
            }
            None => return print(&help::help(&[])?),
        };
        self.block_on(self.serve(command))
    }

    async fn gateway(&self, args: &gateway::ServeArgs) -> Result<Exit, Failure> {
        let mut reach = self.reach(DaemonStart::Allowed, ClientKind::Script, ClientRole::Driver);
        // Whoever sees its stderr is asked nothing there.
        reach.around.tty = None;
        let (stdin, mut signals) = (tokio::io::stdin(), ClientSignals::default());
        let stdout = AnswerSink::ours();
        gateway::serve(reach, &self.global, args, &mut signals, stdin, stdout).await
    }

    async fn serve(&self, command: CtlCommand) -> Result<Exit, Failure> {
        if let Some(prompted) = crate::dispatch::prompt_request(&command) {
            let mut parts = self.parts(self.form());
            let reach = self.asking(DaemonStart::Forbidden, ClientKind::Ctl);
            return prompt_ask::run(parts.asker(&reach, self), &prompted).await;
        }
        if let CtlCommand::Norris(norris) = &command
            && let Some(launch) = norris.launches()
        {
            let mut parts = self.parts(self.form());
            let reach = self.asking(DaemonStart::Forbidden, ClientKind::Ctl);
            return norris::follow(parts.asker(&reach, self), launch).await;
        }
        match self.set_up(&command).await {
            Some(done) => done,
            None => Box::pin(self.carry_out(command)).await,
        }
    }

    /// The commands that change the person's files; of others, nothing.
    async fn set_up(&self, command: &CtlCommand) -> Option<Result<Exit, Failure>> {
        let context = self.config_context();
        Some(match command {
            CtlCommand::Mcp {
                command: Some(McpCommand::Import(args)),
            } if args.write => mcp::import::write(context, args).await,
            CtlCommand::Mcp {
                command: Some(McpCommand::Add(args)),
            } => mcp::add::run(context, args).await,
            CtlCommand::Mcp {
                command: Some(McpCommand::Remove { alias }),
            } => mcp::add::remove(context, alias).await,
            CtlCommand::Mcp {
                command: Some(McpCommand::Login(args)),
            } => mcp::login::run(context, args).await,
            CtlCommand::Mcp {
                command: Some(McpCommand::Logout(args)),
            } => mcp::login::logout(context, args).await,
            CtlCommand::Model {
                name: None,
                command: Some(ModelCommand::Add(args)),
            } => model_add::run(context, args).await,
            CtlCommand::Model {
                name: None,
                command: Some(ModelCommand::Remove { name }),
            } => model_add::remove(context, name).await,
            CtlCommand::Model {
                name: None,
                command: Some(ModelCommand::Default { name: Some(name) }),
            } => model_add::set_default(context, name).await,
            CtlCommand::Key { command } => key::run(context, command.as_ref()).await,
            _another => return None,
        })
    }

    async fn carry_out(&self, command: CtlCommand) -> Result<Exit, Failure> {
        match command {
            CtlCommand::Ask(args) => self.ask(&args).await,
            CtlCommand::Propose(args) => self.propose(&args).await,
            CtlCommand::ShellAsk => self.shell_ask().await,
            CtlCommand::Mcp {
                command: Some(McpCommand::Serve(args)),
            } => self.gateway(&args).await,
            CtlCommand::Tools {
                command: Some(ToolsCommand::Run(args)),
            } => self.run_list(&args).await,
            CtlCommand::Retry(args) => self.again(queue::RepeatKind::Retry, &args).await,
            CtlCommand::Continue(args) => self.again(queue::RepeatKind::Continue, &args).await,
            CtlCommand::Attach(args) => self.window(args).await,
            CtlCommand::Log(args) => self.log(&args, self.form()).await,
            CtlCommand::Export(args) => self.within(self.export(&args)).await,
            CtlCommand::Import(args) => self.within(self.import(&args)).await,
            CtlCommand::Doctor => {
                self.by_itself(doctor::run(&self.observing(), &self.global))
                    .await
            }
            CtlCommand::Store { command } => {
                self.by_itself(self.store_context().run(command)).await
            }
            CtlCommand::Backup(args) => self.by_itself(self.store_context().backup(&args)).await,
            CtlCommand::Restore(args) => self.by_itself(self.store_context().restore(&args)).await,
            CtlCommand::Logs(args) => service::tail(&self.observing(), &self.global, args).await,
            CtlCommand::Service {
                command: ServiceCommand::Logs(args),
            } => service::journal_or_tail(&self.observing(), &self.global, args).await,
            CtlCommand::Service { command } => self.service(&command).await,
            CtlCommand::Config { command } => config::run(self.config_context(), &command).await,
            CtlCommand::Confirm {
                command: Some(ConfirmCommand::Watch),
            } => self.watch().await,
            command @ (CtlCommand::Conv { .. }
            | CtlCommand::Status { .. }
            | CtlCommand::Model { .. }
            | CtlCommand::Key { .. }
            | CtlCommand::Route { .. }
            | CtlCommand::Fallback { .. }
            | CtlCommand::Norris(_)
            | CtlCommand::Queue { .. }
            | CtlCommand::Tools { .. }
            | CtlCommand::Confirm { .. }
            | CtlCommand::Changes { .. }
            | CtlCommand::Undo { .. }
            | CtlCommand::Redo { .. }
            | CtlCommand::Perm { .. }
            | CtlCommand::Usage(_)
            | CtlCommand::Audit(_)
            | CtlCommand::Result(_)
            | CtlCommand::Resource { .. }
            | CtlCommand::Context { .. }
            | CtlCommand::Memory { .. }
            | CtlCommand::Remember(_)
            | CtlCommand::Forget { .. }
            | CtlCommand::Prompt { .. }
            | CtlCommand::Cancel { .. }
            | CtlCommand::Jobs { .. }
            | CtlCommand::Search(_)
            | CtlCommand::Todo { .. }
            | CtlCommand::Fork(_)
            | CtlCommand::Mcp { .. }
            | CtlCommand::Reload
            | CtlCommand::Metrics
            | CtlCommand::Init { .. }
            | CtlCommand::Record(_)
            | CtlCommand::Completion { .. }
            | CtlCommand::Complete(_)
            | CtlCommand::Man(_)
            | CtlCommand::Rpc(_)
            | CtlCommand::Help { .. }) => self.within(self.in_context(command)).await,
        }
    }

    async fn run_list(&self, args: &tools::RunArgs) -> Result<Exit, Failure> {
        let form = Some(self.form()).filter(|it| *it != OutputForm::Text);
        let mut parts = self.parts(form.unwrap_or(OutputForm::Results));
        let reach = self.asking(DaemonStart::Forbidden, ClientKind::Ctl);
        let mut stdin = io::stdin().lock();
        tools::run(parts.asker(&reach, self), args, &mut stdin).await
    }

    async fn service(&self, command: &ServiceCommand) -> Result<Exit, Failure> {
        let reach = self.reach(DaemonStart::Forbidden, ClientKind::Ctl, ClientRole::Driver);
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
    async fn propose(&self, args: &ProposeArgs) -> Result<Exit, Failure> {
        let asked = args.ask_args(&mut io::stdin().lock())?;
        let mut parts = self.parts(OutputForm::Line);
        let reach = self.reach(DaemonStart::Allowed, ClientKind::Script, ClientRole::Driver);
        ask::run(parts.asker(&reach, self), &asked, &mut io::empty()).await
    }

    /// Asks what was typed beside the prompt of a shell, and says what goes along.
    async fn shell_ask(&self) -> Result<Exit, Failure> {
        let question = ShellQuestion::read(&mut io::stdin().lock())?;
        let (asked, row) = question.ask_args().await;
        let mut parts = self.parts(OutputForm::of(&asked, &self.global));
        if let Some(row) = row {
            parts.notices.print(&row);
        }
        let reach = self.asking(DaemonStart::Allowed, ClientKind::Ctl);
        ask::run(parts.asker(&reach, self), &asked, &mut io::empty()).await
    }

    async fn window(&self, args: AttachArgs) -> Result<Exit, Failure> {
        let role = if args.read_only {
            ClientRole::Observer
        } else {
            ClientRole::Driver
        };
        let window = WindowOptions {
            reach: self.reach(DaemonStart::Allowed, ClientKind::Line, role),
            global: self.global.clone(),
            args,
            look: WindowLook::of(&self.global, &self.around),
            signals: ClientSignals::default(),
        };
        let stdin = tokio::io::BufReader::new(tokio::io::stdin());
        Box::pin(attach::run(window, stdin, tokio::io::stdout())).await
    }

    fn store_context(&self) -> StoreContext<'_> {
        StoreContext {
            reach: self.reach(DaemonStart::Forbidden, ClientKind::Ctl, ClientRole::Driver),
            global: &self.global,
        }
    }

    fn config_context(&self) -> config::ConfigContext<'_> {
        config::ConfigContext {
            around: &self.around,
            global: &self.global,
            reach: self.reach(DaemonStart::Forbidden, ClientKind::Ctl, ClientRole::Driver),
        }
    }

    /// All questions of all conversations; here they can be answered where somebody sits.
    async fn watch(&self) -> Result<Exit, Failure> {
        let asks = self.around.stdin_terminal && self.around.stdout_terminal;
        let form = match (self.global.json || self.global.jsonl, asks) {
            (true, _) => watch::WatchFormat::Events,
            (false, true) if !self.global.no_input => watch::WatchFormat::Asks,
            (false, _) => watch::WatchFormat::Text,
        };
        let reach = self.reach(
            DaemonStart::Forbidden,
            ClientKind::Ctl,
            ClientRole::Approver,
        );
        let mut notices = self.parts(OutputForm::Text).notices;
        let watching = watch::run(&reach, &self.global, &mut notices, form);
        self.within(watching).await
    }

    fn observing(&self) -> DaemonReach {
        self.reach(
            DaemonStart::Forbidden,
            ClientKind::Ctl,
            ClientRole::Observer,
        )
    }

    /// A command that needs no daemon to begin with, and prints once.
    async fn by_itself(&self, work: impl Future<Output = PrintResult>) -> Result<Exit, Failure> {
        let printed = match self.global.timeout {
            None => work.await?,
            Some(limit) => tokio::time::timeout(limit, work)
                .await
                .unwrap_or_else(|_| Err(time_is_over()))?,
        };
        print(&printed.render(self.around.stdout_terminal))?;
        Ok(printed.exit)
    }

    async fn in_context(&self, command: CtlCommand) -> Result<Exit, Failure> {
        let makes_one = matches!(
            &command,
            CtlCommand::Conv {
                command: ConversationCommand::New { .. }
            }
        );
        let start = if makes_one {
            DaemonStart::Allowed
        } else {
            DaemonStart::Forbidden
        };
        let mut reach = self.reach(start, ClientKind::Ctl, ClientRole::Driver);
        // A daemon that is older than this program can be ended by it.
        if let CtlCommand::Rpc(_) = &command {
            reach.protocol = ProtocolRange::ANY;
        }
        let link = match reach.open(DaemonWait::No).await {
            Ok(link) => link,
            // A status bar shows nothing where there is nothing.
            Err(_) if is_status_bar(&command) => return Ok(Exit::DONE),
            Err(failure) => return Err(failure),
        };
        let context = CommandContext {
            caller: link.caller,
            editor: link.hello.ui.editor,
            around: self.around.clone(),
            global: self.global.clone(),
            may_prompt: self.around.stdin_terminal && !self.global.no_input,
            draws: if link.hello.ui.pictures {
                PictureSupport::of(self.global.looks, &self.around)
            } else {
                PictureSupport::None
            },
            picture_area: None,
        };
        let printed = context.run(&command).await?;
        let shown = printed.render(self.around.stdout_terminal);
        let around = &self.around;
        let shown = match printed.kind {
            OutputKind::Difference
                if notice::is_coloured(self.global.color, around, around.stdout_terminal) =>
            {
                difference::painted(&shown)
            }
            OutputKind::People
            | OutputKind::Json
            | OutputKind::Difference
            | OutputKind::Picture => shown,
        };
        let paged = match &command {
            CtlCommand::Audit(audit) => !audit.no_pager,
            CtlCommand::Changes {
                command: Some(ChangesCommand::Diff { no_pager, .. }),
            } => !no_pager,
            _ => false,
        };
        let paged = paged && !printed.is_json();
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

    fn pager(&self) -> Option<(RunningPager, pipe::Sender)> {
        let command = pager::command(&self.around)?;
        RunningPager::start(&command, &self.around)
    }

    /// The transcript, through a pager where a person reads it and it has an end.
    async fn log(&self, args: &LogArgs, form: OutputForm) -> Result<Exit, Failure> {
        let reach = self.reach(
            DaemonStart::Forbidden,
            ClientKind::Ctl,
            ClientRole::Observer,
        );
        let mut output = self.parts(form).output;
        let paged = form == OutputForm::Text && !args.follow && !args.no_pager;
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
        let reach = self.reach(
            DaemonStart::Forbidden,
            ClientKind::Ctl,
            ClientRole::Observer,
        );
        let terminal = self.around.stdout_terminal;
        let sink = args.sink(|| match (!args.no_pager).then(|| self.pager()).flatten() {
            Some((pager, to)) => ExportSink::Pager(pager, to),
            None => ExportSink::Out {
                to: AnswerSink::ours(),
                terminal,
            },
        })?;
        let is_paged = matches!(sink, ExportSink::Pager(..));
        match export::run(&reach, &self.global, args, sink).await {
            // The person has read enough.
            Err(failure) if is_paged && failure.exit == Exit::BROKEN_PIPE => Ok(Exit::DONE),
            done => done,
        }
    }

    async fn import(&self, args: &ImportArgs) -> Result<Exit, Failure> {
        let reach = self.reach(DaemonStart::Allowed, ClientKind::Ctl, ClientRole::Driver);
        let (printed, notes) = import::run(&reach, &self.global, args).await?;
        let mut notices = self.parts(OutputForm::Text).notices;
        for note in notes {
            notices.print(&note);
        }
        print(&printed.render(self.around.stdout_terminal))
    }

    async fn again(
        &self,
        again: queue::RepeatKind,
        args: &queue::AgainArgs,
    ) -> Result<Exit, Failure> {
        let reach = self.asking(DaemonStart::Forbidden, ClientKind::Ctl);
        let mut parts = self.parts(self.form());
        queue::repeat(parts.asker(&reach, self), again, args).await
    }

    /// Of a command whose output is an answer or a transcript.
    fn form(&self) -> OutputForm {
        match () {
            () if self.global.jsonl => OutputForm::Events,
            () if self.global.json => OutputForm::Json,
            () => OutputForm::Text,
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
