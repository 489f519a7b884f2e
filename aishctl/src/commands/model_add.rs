//! `model add`: a preset in the person's file, said by options or asked for at the terminal, and tried at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aish_proto::model::{ModelApi, Probe, ProbeParams, ProbedServer, ServesParams};
use clap::{ArgGroup, Args};

use crate::commands::config::ConfigContext;
use crate::commands::toml_text::{self, TomlTable};
use crate::commands::{key, served_model, typed_answer};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// Slow servers are asked too.
const PROBE_DEADLINE: Duration = Duration::from_secs(60);
/// So many of a server's models are named where the one that is wanted is not among them.
const MOST_NAMED: usize = 8;

/// A well-known place of models: its name, its endpoint, and whether it wants a key.
type Provider = (&'static str, &'static str, bool);

const PROVIDERS: [Provider; 13] = [
    ("ollama", "http://127.0.0.1:11434/v1", false),
    ("lmstudio", "http://127.0.0.1:1234/v1", false),
    ("llamacpp", "http://127.0.0.1:8080/v1", false),
    ("vllm", "http://127.0.0.1:8000/v1", false),
    ("openai", "https://api.openai.com/v1", true),
    ("anthropic", "https://api.anthropic.com/v1", true),
    (
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        true,
    ),
    ("mistral", "https://api.mistral.ai/v1", true),
    ("deepseek", "https://api.deepseek.com/v1", true),
    ("groq", "https://api.groq.com/openai/v1", true),
    ("openrouter", "https://openrouter.ai/api/v1", true),
    ("together", "https://api.together.xyz/v1", true),
    ("xai", "https://api.x.ai/v1", true),
];

const APIS: [ModelApi; 3] = [ModelApi::Chat, ModelApi::Responses, ModelApi::Messages];

#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("key-from"))]
#[command(after_help = "\
Examples:
  aishctl model add
  aishctl model add fast --provider ollama --id qwen2.5-coder:1.5b
  aishctl model add deep --provider openai --id gpt-4.1 --key-env OPENAI_API_KEY
  pass show example | aishctl model add deep --endpoint https://models.example.org/v1 --id large --key-stdin")]
pub struct ModelAddArgs {
    /// What the preset is to be called
    pub name: Option<String>,
    /// A well-known place of models, in place of --endpoint
    #[arg(long, value_name = "PROVIDER", conflicts_with = "endpoint", value_parser = PROVIDERS.map(|it| it.0))]
    pub provider: Option<String>,
    /// Where the model is asked: the address before /chat/completions
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// How the server is spoken to, where its address does not say it
    #[arg(long, value_name = "API", value_parser = APIS.map(ModelApi::name))]
    pub api: Option<String>,
    /// What the server calls the model
    #[arg(long, value_name = "MODEL")]
    pub id: Option<String>,
    /// The key is in this variable
    #[arg(long, value_name = "VARIABLE", group = "key-from")]
    pub key_env: Option<String>,
    /// The key is in this file, which only you can read
    #[arg(long, value_name = "FILE", group = "key-from")]
    pub key_file: Option<PathBuf>,
    /// The key is what this command prints
    #[arg(long, value_name = "COMMAND", group = "key-from")]
    pub key_cmd: Option<String>,
    /// The key is on stdin, and goes into a file of its own that only you can read
    #[arg(long, group = "key-from")]
    pub key_stdin: bool,
    /// How many tokens the model can take in
    #[arg(long, value_name = "N")]
    pub context_tokens: Option<u64>,
    /// Do not try it
    #[arg(long)]
    pub no_probe: bool,
}

/// Where the key is.
enum KeyPlace {
    None,
    Variable(String),
    File(PathBuf),
    Command(Vec<String>),
    /// It is here, and goes into this file.
    New(PathBuf, String),
}

impl KeyPlace {
    /// Writes one that is typed to its file.
    fn keep(&self) -> Result<(), Failure> {
        match self {
            Self::New(file, key) => key::write(file, key),
            Self::None | Self::Variable(_) | Self::File(_) | Self::Command(_) => Ok(()),
        }
    }

    /// The file of one that is typed.
    fn typed_into(&self) -> Option<&Path> {
        match self {
            Self::New(file, _) => Some(file),
            Self::None | Self::Variable(_) | Self::File(_) | Self::Command(_) => None,
        }
    }

    /// Takes the file of one that was typed away: no preset names it.
    fn forget(&self) {
        if let Some(file) = self.typed_into() {
            let _was_not_written = std::fs::remove_file(file);
        }
    }

    /// What asks the server with this key.
    fn asking(&self, endpoint: &str, api: Option<ModelApi>) -> ServesParams {
        let mut asking = ServesParams {
            endpoint: endpoint.to_owned(),
            api,
            ..ServesParams::default()
        };
        match self {
            Self::None => {}
            Self::Variable(name) => asking.key_env = Some(name.clone()),
            Self::File(file) | Self::New(file, _) => {
                asking.key_file = Some(file.display().to_string());
            }
            Self::Command(words) => asking.key_cmd = Some(words.clone()),
        }
        asking
    }
}

impl ModelAddArgs {
    fn api(&self) -> Option<ModelApi> {
        let name = self.api.as_deref()?;
        APIS.into_iter().find(|it| it.name() == name)
    }
}

struct NewPreset {
    name: String,
    endpoint: String,
    id: String,
    api: Option<ModelApi>,
    key: KeyPlace,
}

/// Runs it to its end.
pub async fn run(context: ConfigContext<'_>, args: &ModelAddArgs) -> Result<Exit, Failure> {
    let is_asked = context.may_prompt() && !args.key_stdin;
    let preset = if is_asked {
        asked(&context, args).await?
    } else {
        said(&context, args)?
    };
    let written = match table(&preset, args.context_tokens) {
        Ok(table) => context.write(&table.into_text()).await,
        Err(failure) => Err(failure),
    };
    if !matches!(written, Ok(Exit::DONE)) {
        preset.key.forget();
        return written;
    }
    let taken_over = context.reload().await?;
    if taken_over != Exit::DONE {
        return Ok(taken_over);
    }
    let exit = if args.no_probe {
        Exit::DONE
    } else {
        tried(&context, &preset).await?
    };
    if exit == Exit::DONE && is_asked && !args.no_probe {
        return offer_default(&context, &preset.name).await;
    }
    if exit == Exit::DONE && !matches!(preset.key, KeyPlace::None) {
        // Nothing goes to a model that costs money unless somebody says so.
        let name = safe::one_line(&preset.name);
        context.say(&format!(
            "{name} answers where it is named: aishctl ask -m {name}; always: aishctl model default {name}\n"
        ))?;
    }
    Ok(exit)
}

/// Takes a preset out of the person's file. Its key may be another one's too, and stays.
pub async fn remove(context: ConfigContext<'_>, name: &str) -> Result<Exit, Failure> {
    let table = format!("models.{}", toml_text::key(name)?);
    let exit = context.change(&["unset", "--", &table]).await?;
    if exit == Exit::CONFIG {
        typed_answer::say("hint: where it is the default: aishctl config unset default_model\n")?;
    }
    let key = key::place(context.around, name).ok();
    if key.is_some_and(|it| exit == Exit::DONE && it.exists()) {
        typed_answer::say(&format!(
            "a key of that name stays: aishctl key remove {name}\n"
        ))?;
    }
    Ok(exit)
}

/// Has a preset answer wherever none is named.
pub async fn set_default(context: ConfigContext<'_>, name: &str) -> Result<Exit, Failure> {
    if let Some(conversation) = &context.global.conversation {
        let message = "the default is that of all conversations";
        let hint = format!("of one: aishctl model {name} -C {conversation}");
        return Err(Failure::new(Exit::USAGE, message).hint(hint));
    }
    let exit = make_default(&context, name).await?;
    match exit {
        Exit::DONE => {
            let name = safe::one_line(name);
            context.say(&format!(
                "the default of your configuration is {name} now\n"
            ))?;
        }
        Exit::CONFIG => typed_answer::say(
            "hint: aishctl model list has the names; one that was found is kept by aishctl model add\n",
        )?,
        _ => {}
    }
    Ok(exit)
}

/// As a text of TOML: a name that looks like a number, or like what stands for stdin, is a name.
async fn make_default(context: &ConfigContext<'_>, name: &str) -> Result<Exit, Failure> {
    let text = toml_text::string(name)?;
    context.change(&["set", "--", "default_model", &text]).await
}

/// Its table of the file.
fn table(preset: &NewPreset, context_tokens: Option<u64>) -> Result<TomlTable, Failure> {
    let mut table = TomlTable::new("models", &preset.name)?
        .text("endpoint", &preset.endpoint)?
        .text("model", &preset.id)?;
    if let Some(api) = preset.api {
        table = table.text("api", api.name())?;
    }
    table = match &preset.key {
        KeyPlace::None => table,
        KeyPlace::Variable(name) => table.text("key_env", name)?,
        KeyPlace::File(file) | KeyPlace::New(file, _) => {
            table.text("key_file", toml_text::path(file)?)?
        }
        KeyPlace::Command(words) => table.list("key_cmd", words.iter().map(String::as_str))?,
    };
    if let Some(tokens) = context_tokens {
        table = table.number("context_tokens", tokens);
    }
    Ok(table)
}

/// Where no preset answers by default, asks whether this one shall.
async fn offer_default(context: &ConfigContext<'_>, name: &str) -> Result<Exit, Failure> {
    if let Some(default) = context.default_model().await? {
        if default != name {
            let name = safe::one_line(name);
            context.say(&format!(
                "{name} answers where it is named: aishctl ask -m {name}\n"
            ))?;
        }
        return Ok(Exit::DONE);
    }
    let question = "Make it the default, which answers every question that names no other preset?";
    if typed_answer::is_agreed(question, "yes")? {
        return make_default(context, name).await;
    }
    let name = safe::one_line(name);
    context.say(&format!(
        "{name} answers where it is named: aishctl ask -m {name}\n"
    ))?;
    Ok(Exit::DONE)
}

/// By the options alone.
fn said(context: &ConfigContext<'_>, args: &ModelAddArgs) -> Result<NewPreset, Failure> {
    let missing = |what: &str| {
        Failure::new(Exit::USAGE, format!("{what}, and nobody here can be asked")).hint(
            "aishctl model add NAME --endpoint URL --id MODEL [--key-env VARIABLE]; aishctl help model add",
        )
    };
    let endpoint = args
        .endpoint
        .clone()
        .or_else(|| known(args.provider.as_deref()?).map(|it| it.1.to_owned()));
    let name = args
        .name
        .clone()
        .ok_or_else(|| missing("the preset has no name"))?;
    let preset = NewPreset {
        endpoint: endpoint.ok_or_else(|| missing("there is no --endpoint and no --provider"))?,
        id: args
            .id
            .clone()
            .ok_or_else(|| missing("there is no --id of a model"))?,
        key: match key_said(context, args)? {
            None if args.key_stdin => new_key(context, &name, context.may_prompt())?,
            None if args
                .provider
                .as_deref()
                .and_then(known)
                .is_some_and(|it| it.2) =>
            {
                return Err(missing("the provider wants a key, and none is named").hint(
                    "--key-env VARIABLE, --key-file FILE, --key-cmd COMMAND or --key-stdin",
                ));
            }
            None => KeyPlace::None,
            Some(key) => key,
        },
        api: args.api(),
        name,
    };
    // Before the preset: one whose key is not there fails at its first question.
    preset.key.keep()?;
    Ok(preset)
}

/// What the options do not say is asked for. The key goes before the model: with it the server says which ones it has.
async fn asked(context: &ConfigContext<'_>, args: &ModelAddArgs) -> Result<NewPreset, Failure> {
    let place = match (&args.endpoint, args.provider.as_deref().and_then(known)) {
        (Some(endpoint), _) => ModelPlace::Elsewhere(endpoint.clone()),
        (None, Some(provider)) => ModelPlace::Known(provider),
        (None, None) => choose()?,
    };
    let (endpoint, provider) = match place {
        ModelPlace::Known(provider) => (provider.1.to_owned(), Some(provider)),
        ModelPlace::Elsewhere(endpoint) => (endpoint, None),
    };
    let name = match &args.name {
        Some(name) => name.clone(),
        None => {
            let usual = provider.map_or_else(|| usual_name(&endpoint), |it| it.0.to_owned());
            let usual = Some(usual.as_str()).filter(|it| !it.is_empty());
            typed_answer::ask("Name of the preset here", usual)?
        }
    };
    let key = match key_said(context, args)? {
        Some(key) => key,
        None => choose_key(context, &name, provider.is_none_or(|it| it.2))?,
    };
    // Before the server is asked: the daemon reads it there.
    key.keep()?;
    let model = match &args.id {
        Some(id) => Ok((id.clone(), None)),
        None if args.no_probe => {
            typed_answer::ask(served_model::QUESTION, None).map(|id| (id, None))
        }
        None => served_model::choose(
            context,
            &key.asking(&endpoint, args.api()),
            provider.is_some(),
            key.typed_into(),
        )
        .await
        .map(|it| (it.id, it.api)),
    };
    let (id, found_api) = model.inspect_err(|_| key.forget())?;
    Ok(NewPreset {
        name,
        endpoint,
        id,
        api: args.api().or(found_api),
        key,
    })
}

/// What a preset is called after its server: `https://api.example.org/v1` is `example`, one by its number is `local`.
fn usual_name(endpoint: &str) -> String {
    let place = endpoint.split_once("://").map_or(endpoint, |it| it.1);
    let host = place.split(['/', ':', '?']).next().unwrap_or_default();
    let labels: Vec<&str> = host.split('.').collect();
    let fits = |it: &str| {
        it.bytes().any(|it| it.is_ascii_alphabetic())
            && it
                .bytes()
                .all(|it| it.is_ascii_alphanumeric() || it == b'-')
    };
    let label = match labels.as_slice() {
        ["localhost"] | [] => "",
        [only] => only,
        [.., domain, _top] => domain,
    };
    let name = if fits(label) { label } else { "local" };
    name.to_owned()
}

fn known(provider: &str) -> Option<Provider> {
    PROVIDERS.into_iter().find(|it| it.0 == provider)
}

enum ModelPlace {
    Known(Provider),
    Elsewhere(String),
}

fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

fn choose() -> Result<ModelPlace, Failure> {
    let mut menu = "Where is the model?\n".to_owned();
    for (number, (name, endpoint, _)) in (1..).zip(PROVIDERS) {
        menu.push_str(&format!("  {number:>2}  {name:<12}{endpoint}\n"));
    }
    menu.push_str("   0  elsewhere\n");
    typed_answer::say(&menu)?;
    loop {
        let answer = typed_answer::ask("Number, name or address", None)?;
        if is_address(&answer) {
            return Ok(ModelPlace::Elsewhere(answer));
        }
        if answer == "0" || answer == "elsewhere" {
            return ask_address().map(ModelPlace::Elsewhere);
        }
        let number = answer
            .parse::<usize>()
            .ok()
            .and_then(|it| it.checked_sub(1));
        let numbered = number.and_then(|it| PROVIDERS.get(it).copied());
        if let Some(found) = numbered.or_else(|| known(&answer)) {
            return Ok(ModelPlace::Known(found));
        }
        typed_answer::say("that is none of them\n")?;
    }
}

fn ask_address() -> Result<String, Failure> {
    loop {
        let question = "Its address, for example https://models.example.org/v1";
        let address = typed_answer::ask(question, None)?;
        if is_address(&address) {
            return Ok(address);
        }
        typed_answer::say("an address begins with http:// or https://\n")?;
    }
}

fn key_said(context: &ConfigContext<'_>, args: &ModelAddArgs) -> Result<Option<KeyPlace>, Failure> {
    Ok(match (&args.key_env, &args.key_file, &args.key_cmd) {
        (Some(name), _, _) => Some(KeyPlace::Variable(name.clone())),
        (_, Some(file), _) => Some(KeyPlace::File(context.around.cwd.join(file))),
        (_, _, Some(command)) => Some(KeyPlace::Command(typed_answer::words(command)?)),
        (None, None, None) => None,
    })
}

const KEYS: &str = "\
How does the server know you?
  t, type       I type the key now; it goes into a file that only I can read
  v, variable   the key is in a variable of my shell
  c, command    a command prints the key
  n, none       it wants no key
";

fn choose_key(
    context: &ConfigContext<'_>,
    name: &str,
    wants_key: bool,
) -> Result<KeyPlace, Failure> {
    typed_answer::say(KEYS)?;
    loop {
        let usual = if wants_key { "type" } else { "none" };
        match typed_answer::ask("Key", Some(usual))?.as_str() {
            "t" | "type" => return new_key(context, name, true),
            "v" | "variable" => {
                return Ok(KeyPlace::Variable(typed_answer::ask("Its name", None)?));
            }
            "c" | "command" => {
                return Ok(KeyPlace::Command(typed_answer::words(&typed_answer::ask(
                    "It", None,
                )?)?));
            }
            "n" | "none" => return Ok(KeyPlace::None),
            _another_word => {
                typed_answer::say("t, v, c or n; a key is typed after t, where it is not shown\n")?;
            }
        }
    }
}

fn new_key(context: &ConfigContext<'_>, name: &str, may_prompt: bool) -> Result<KeyPlace, Failure> {
    let place = key::place(context.around, name)?;
    // It may be another preset's.
    if place.exists() {
        let question = format!("There is a key in {} already. Use it?", place.display());
        if may_prompt && typed_answer::is_agreed(&question, "yes")? {
            return Ok(KeyPlace::File(place));
        }
        let message = format!("there is a key in {} already", place.display());
        return Err(Failure::new(Exit::USAGE, message).hint(format!(
            "use it: aishctl model add {name} --key-file {}; or another one: aishctl key set {name}",
            place.display()
        )));
    }
    Ok(KeyPlace::New(place, key::read(may_prompt, "Key")?))
}

/// Asks the server of the new preset what it serves, as `model probe` does, and says it in one line.
async fn tried(context: &ConfigContext<'_>, preset: &NewPreset) -> Result<Exit, Failure> {
    let link = context.started().await?;
    let deadline = Some(context.global.timeout.unwrap_or(PROBE_DEADLINE));
    // Of this one alone: the others cost time, and are not what was asked about.
    let asking = ProbeParams {
        preset: Some(preset.name.clone()),
    };
    let found = link.caller.call_within::<Probe>(asking, deadline).await?;
    let mut servers = found.servers.iter();
    let ours = servers.find(|it| it.preset.as_deref() == Some(&preset.name));
    let (line, exit) = match ours {
        Some(server) => told(preset, server),
        None => (
            "the daemon does not know it yet: aishctl reload, then aishctl model probe".to_owned(),
            Exit::FAILED,
        ),
    };
    let name = safe::one_line(&preset.name);
    context.say(&format!("{name}: {}\n", safe::one_line(&line)))?;
    match ours.and_then(|it| other_api(preset, it)) {
        Some(api) => speak(context, &preset.name, api).await,
        None => Ok(exit),
    }
}

/// What the server speaks in place of chat completions, where nobody has said it and its address does not.
fn other_api(preset: &NewPreset, server: &ProbedServer) -> Option<ModelApi> {
    let speaks_chat = server.apis.contains(&ModelApi::Chat);
    let is_said = preset.api.is_some() || preset.endpoint.contains("//api.anthropic.com");
    let other = server.apis.first().copied();
    other.filter(|_| server.ok && !speaks_chat && !is_said)
}

async fn speak(context: &ConfigContext<'_>, name: &str, api: ModelApi) -> Result<Exit, Failure> {
    let api = api.name();
    context.say(&format!(
        "{}: it speaks {api} and no chat completions: api = \"{api}\" is set\n",
        safe::one_line(name)
    ))?;
    // A name with a dot in it is one part of the key all the same.
    let key = format!("models.{}.api", toml_text::key(name)?);
    context.change(&["set", &key, api]).await
}

fn told(preset: &NewPreset, server: &ProbedServer) -> (String, Exit) {
    let (endpoint, id) = (&server.endpoint, &preset.id);
    if !server.ok {
        let why = server.error.as_deref().unwrap_or("it does not answer");
        let why = why.trim_start_matches("transport: ").trim_end_matches('.');
        let name = &preset.name;
        let key = match preset.key {
            KeyPlace::New(..) => format!(" (aishctl key set {name} takes another key)"),
            KeyPlace::None | KeyPlace::Variable(_) | KeyPlace::File(_) | KeyPlace::Command(_) => {
                String::new()
            }
        };
        let line = format!("{endpoint}: {why}; aishctl model probe {name} asks again{key}");
        return (line, Exit::UNREACHABLE);
    }
    // Some say it with a path before it.
    let is_it = |it: &&String| *it == id || it.rsplit_once('/').is_some_and(|(_, it)| it == id);
    if server.models.is_empty() || server.models.iter().any(|it| is_it(&it)) {
        let ms = server.ms;
        return (
            format!("{endpoint} answers in {ms} ms and has {id}"),
            Exit::DONE,
        );
    }
    let some: Vec<&str> = server
        .models
        .iter()
        .take(MOST_NAMED)
        .map(String::as_str)
        .collect();
    let line = format!(
        "{endpoint} answers, but does not list {id}; it has {}",
        some.join(", ")
    );
    (line, Exit::UNKNOWN)
}
