//! `confirm watch`: every question of every conversation as it comes, and how it ends. On a terminal they are asked one
//! after the other, the oldest first; elsewhere they are lines for whoever reads them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write as _;

use aish_proto::confirm::{Answer, AnswerOutcome, AnswerParams, Watch};
use aish_proto::conversation::{ConversationParams, StatusOf};
use aish_proto::event::{ConfirmRequested, ConfirmResolved, EventData as _, ReplayComplete};
use aish_proto::id::{ConfirmId, ConversationId};
use aish_proto::method::Empty;

use crate::args::Global;
use crate::attach::ring::{self, Rings};
use crate::confirm;
use crate::connect::Event;
use crate::consent::{self, Extent};
use crate::editor;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hello::{Link, Reach, Wait};
use crate::notice::Notices;
use crate::prompt::{Prompter, Reaction};
use crate::{resolve, safe};

/// What is done with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A person is asked.
    Asks,
    /// Lines for people.
    Text,
    /// Events, one a line.
    Events,
}

/// Watches until the program is ended, or the daemon does not come back.
pub async fn run(
    reach: &Reach,
    global: &Global,
    notices: &mut Notices,
    form: Form,
) -> Result<Exit, Failure> {
    let mut link = reach.open(Wait::No).await?;
    let only = match global.conversation.as_deref() {
        Some(name) => Some(resolve::named(&link.caller, name).await?.id),
        None => None,
    };
    let mut watching = Watching {
        reach,
        notices,
        form,
        only,
        open: VecDeque::new(),
        numbers: BTreeMap::new(),
        announced: BTreeSet::new(),
        prompter: Prompter::default(),
        asked: None,
    };
    loop {
        link.caller.call::<Watch>(Empty {}).await?;
        watching.follow(&mut link).await?;
        link = reach.open(Wait::UntilBack).await?;
    }
}

struct Watching<'a> {
    reach: &'a Reach,
    notices: &'a mut Notices,
    form: Form,
    only: Option<ConversationId>,
    /// The oldest first.
    open: VecDeque<(ConversationId, ConfirmRequested)>,
    /// What those are called that were told of.
    numbers: BTreeMap<ConfirmId, u32>,
    /// Those that the daemon told of since it was reached.
    announced: BTreeSet<ConfirmId>,
    prompter: Prompter,
    /// The one that stands on the screen.
    asked: Option<ConfirmId>,
}

impl Watching<'_> {
    /// Returns when the connection is gone.
    async fn follow(&mut self, link: &mut Link) -> Result<(), Failure> {
        loop {
            tokio::select! {
                event = link.events.recv() => {
                    let Some(event) = event else { return Ok(()) };
                    self.event(&event, link)?;
                }
                line = self.prompter.typed() => self.typed(&line, link).await?,
            }
            self.ask(link).await;
        }
    }

    fn event(&mut self, event: &Event, link: &Link) -> Result<(), Failure> {
        let envelope = &event.params.event;
        if envelope.kind == ReplayComplete::KIND {
            self.forget_settled();
        }
        let Some(conversation) = envelope.conversation else {
            return Ok(());
        };
        if self.only.is_some_and(|it| it != conversation) {
            return Ok(());
        }
        if let Some(request) = envelope.read::<ConfirmRequested>() {
            self.announced.insert(request.confirm);
            // After a reconnect all that wait come again.
            if self
                .numbers
                .insert(request.confirm, request.number)
                .is_some()
            {
                return Ok(());
            }
            self.print(event, || told(&request))?;
            if self.form == Form::Asks {
                let rings = Rings::of(&self.reach.around, false);
                let text = format!("c{} {}", request.number, request.title);
                let method = link.hello.ui.notify.method;
                self.notices.ring(&ring::notice(&text, method, rings));
                self.open.push_back((conversation, request));
            }
        } else if let Some(resolved) = envelope.read::<ConfirmResolved>() {
            self.resolved(event, &resolved)?;
        }
        Ok(())
    }

    /// All that wait have come. What waited before the connection was lost, and is not among them, is over.
    fn forget_settled(&mut self) {
        let announced = std::mem::take(&mut self.announced);
        self.numbers.retain(|it, _| announced.contains(it));
        self.open.retain(|(_, it)| announced.contains(&it.confirm));
        if let Some(asked) = self.asked
            && !announced.contains(&asked)
            && self.prompter.settle(asked)
        {
            self.asked = None;
            self.notices.coloured("\n", "");
            self.notices
                .say("it was settled while the connection was lost");
        }
    }

    fn resolved(&mut self, event: &Event, resolved: &ConfirmResolved) -> Result<(), Failure> {
        self.open.retain(|(_, it)| it.confirm != resolved.confirm);
        let Some(number) = self.numbers.remove(&resolved.confirm) else {
            return Ok(());
        };
        if self.prompter.settle(resolved.confirm) {
            self.asked = None;
            self.notices.coloured("\n", "");
        }
        let ending = consent::ending(number, resolved);
        if self.form == Form::Asks {
            self.notices.say(&ending);
            return Ok(());
        }
        self.print(event, || format!("{ending}\n"))
    }

    /// One line of JSON, or what people read.
    fn print(&self, event: &Event, human: impl FnOnce() -> String) -> Result<(), Failure> {
        let text = match self.form {
            Form::Asks => return Ok(()),
            Form::Text => safe::screen(&human()),
            Form::Events => format!("{}\n", safe::json_pipe(event.raw.get())),
        };
        let mut stdout = std::io::stdout().lock();
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush());
        written.map_err(|error| Failure::output(&error))
    }

    /// Puts the oldest question, unless one stands.
    async fn ask(&mut self, link: &Link) {
        let Some((conversation, request)) = self.open.front() else {
            return;
        };
        if self.asked.is_some() {
            return;
        }
        let id = *conversation;
        let request = request.clone();
        let status = link
            .caller
            .call::<StatusOf>(ConversationParams { id })
            .await;
        let title = status.map_or_else(|_| id.to_string(), |it| it.title);
        self.notices.say(&format!("in {}:", safe::one_line(&title)));
        self.asked = Some(request.confirm);
        let text = self.prompter.ask(request);
        self.put(&text);
    }

    fn put(&mut self, text: &str) {
        let colour = self.prompter.stands().map_or("", |(_, colour)| colour);
        self.notices.coloured(text, colour);
    }

    async fn typed(&mut self, line: &str, link: &Link) -> Result<(), Failure> {
        match self.prompter.take(line) {
            Reaction::Say(text) => self.notices.coloured(&text, ""),
            Reaction::Edit(arguments) => {
                let words = editor::program(&self.reach.around, &link.hello.ui.editor);
                let text = self.prompter.edit(&link.caller, words, arguments).await;
                self.put(&text);
            }
            Reaction::Answer(params) => self.answer(*params, link).await?,
        }
        Ok(())
    }

    async fn answer(&mut self, params: AnswerParams, link: &Link) -> Result<(), Failure> {
        let (confirm, decision) = (params.confirm, params.decision);
        match link.caller.call::<Answer>(params).await {
            // That it counts comes as an event, as it does for everybody.
            Ok(result) if result.outcome == AnswerOutcome::Resolved => {}
            Ok(result) => {
                let number = self.numbers.get(&confirm).copied().unwrap_or_default();
                let (text, _) = confirm::told(number, decision, &result);
                self.notices.say(&text);
                self.prompter.settle(confirm);
                self.asked = None;
                self.open.retain(|(_, it)| it.confirm != confirm);
            }
            Err(error) if error.is_transient() => {
                let text = self.prompter.again();
                self.put(&text);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// A question for somebody who reads a pipe, and how it is answered.
fn told(request: &ConfirmRequested) -> String {
    consent::question(request, Extent::Whole) + &consent::commands(request)
}
