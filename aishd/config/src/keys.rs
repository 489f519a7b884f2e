//! Every key that there is. What a comment here says is what people read: it is the description in
//! `config/aish.schema.json`, and `aishctl config explain` prints it. Defaults are in [`DEFAULTS`]; those of rules are also in
//! `Policy::default`, for what is made without a configuration, and `nothing_said_is_what_the_defaults_say` compares the two.

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use super::defaults::DEFAULTS;
use super::extra_fields::ExtraFields;
use super::merged_list::MergedList;
use super::table_reader::{KeyLeaf, KeyPart as _, tables};
use super::value::{
    Api, Auth, Cache, Client, Contain, DollarAmount, Effort, Grant, Keymap, LogFormat,
    NotifyMethod, NotifyWhen, OnTimeout, Pkce, ProposedCommands, ProtocolRevision, RunPlace,
    SecretText, ServerLogLevel, Share, Temperature, Thinks, TimeSpan, Verbosity, When, WholeNumber,
};

tables! {
    /// Configuration of aishd, in TOML. Every key is optional, and an unknown one is an error.
    File {
        /// The form of the file; there is only one so far.
        config_version: KeyLeaf<WholeNumber<1, 1>>,
        /// The preset that answers when nobody names one. When this is not said, it is the preset `fast`, or else the
        /// first one by name that has no key: a model that may cost money is never chosen by itself.
        default_model: KeyLeaf<String>,
        /// Presets by name. A preset is one way to reach one model with an OpenAI-compatible endpoint.
        models: BTreeMap<String, Model>,
        /// Looking for a model server on this machine while no preset answers by default.
        discovery: Discovery,
        /// How much of a conversation a model is shown.
        context: Context,
        /// What models are told of what you keep for all conversations (`aishctl memory`).
        memory: Memory,
        /// Which preset answers what, and which one when a server is down. Nothing of it is on by itself.
        routing: Routing,
        /// Runs that work on their own towards a goal (`aishctl norris`). What is said here holds where the launch says nothing.
        norris: Norris,
        /// What works in a copy of your files: commands that are tried, and those of runs with `norris.contain = "try"`.
        contain: Layers,
        /// Servers of the Model Context Protocol, whose tools models can be offered.
        mcp: Mcp,
        /// What tools may do. Every call of a tool is asked about, unless something says otherwise.
        permissions: Permissions,
        /// Calls of tools: how many, how they run, and how much of a result models see.
        tools: Tools,
        /// Commands of this machine: what models propose with a line `CMD:`, and your own.
        shell: Shell,
        /// Bounds of what the daemon holds.
        limits: Limits,
        /// The daemon itself.
        daemon: Daemon,
        /// What is kept of conversations, and how long. Changes count at once.
        store: Store,
        /// Stopping the daemon.
        shutdown: Shutdown,
        /// The daemon's log.
        logging: Logging,
        /// Telling somebody of a question that waits.
        notify: Notify,
        /// How clients look. The daemon hands it to them; it uses none of it.
        ui: Ui,
    }

    /// One way to reach one model.
    Model {
        /// The server's address up to `/v1`, which is added when the path is empty.
        endpoint: KeyLeaf<String>,
        /// What the server is asked for.
        model: KeyLeaf<String>,
        /// How the server is spoken to: `chat` for chat completions, which nearly all servers speak, `responses` as OpenAI's
        /// newer models want it, `messages` as Anthropic's do. When it is not said, by the end of the endpoint's path, by
        /// whose server it is, and else `chat`. `aishctl model probe` says what a server speaks.
        api: KeyLeaf<Api>,
        /// The header that the key goes in: `bearer`, `x-api-key`, `api-key`, or `none`. When it is not said, as Anthropic and Azure
        /// want it at their addresses, `x-api-key` where `api` says `messages`, and else `bearer`.
        auth: KeyLeaf<Auth>,
        /// The key is in this variable of the daemon, or lent by a client that has it.
        key_env: KeyLeaf<String>,
        /// The key is in this file, which only you can read.
        key_file: KeyLeaf<PathBuf>,
        /// The key is what this program prints.
        key_cmd: KeyLeaf<Vec<String>>,
        /// The key itself; only in a file that nobody else can read. Better: `key_env`, `key_file` or `key_cmd`.
        key: KeyLeaf<SecretText>,
        /// How freely the model chooses its words; not sent when it is not set.
        temperature: KeyLeaf<Temperature>,
        /// The longest answer, in tokens; not sent when it is not set, except with `api = "messages"`, which cannot be without it.
        max_tokens: KeyLeaf<WholeNumber<1, 1_000_000_000>>,
        /// How much the model is to think before it answers; not sent when it is not set. Where it is known that the model takes others
        /// only, the nearest of them is sent. What it thought goes back to the same
        /// server and model alone, as they sealed it.
        effort: KeyLeaf<Effort>,
        /// From how much of what is probable the model chooses its words; not sent when it is not set. Some servers take this or
        /// `temperature`, and not both.
        top_p: KeyLeaf<Share>,
        /// How much the model is to say, where its server has a word for it: not with `api = "messages"`. Not sent when it is not set.
        verbosity: KeyLeaf<Verbosity>,
        /// More fields of each request, as JSON has them. They go over those that aish writes; an object joins its object. It is no place
        /// for keys: what stands here is shown, and goes to the server. Not for `model`, `messages`, `input`, `tools`, `stream`,
        /// `system` and `instructions`, which are the request itself.
        extra: KeyLeaf<ExtraFields>,
        /// Fields that are never sent, by their names at the top of a request: for servers that refuse them.
        omit: KeyLeaf<Vec<String>>,
        /// With `api = "messages"`: how long the server is to keep what it has read of a conversation, so that the next request
        /// costs less; `off` says nothing of it. 5m when it is not said. With `api = "responses"`, `off` leaves out which
        /// conversation it is.
        cache: KeyLeaf<Cache>,
        /// How much the model can take in, in tokens: its requests are kept below it (`context`). When it is not said, as the catalog
        /// knows it: the one that comes with the program, or one that you handed over (`aishctl model catalog`).
        context_tokens: KeyLeaf<WholeNumber<1, 1_000_000_000>>,
        /// Whether results of tools go back with the role "tool"; false for servers whose template rejects it.
        use_tool_role: KeyLeaf<bool>,
        /// Whether the model can call tools.
        tools: KeyLeaf<bool>,
        /// How many tools one request may have: some servers refuse one that has more. When it is not said, what its server was
        /// found to take, or is known to (OpenAI and others 128). Where there are more, those are sent that are pinned
        /// (`tools.pinned`), named or used, and the model finds others by a search.
        max_tools: KeyLeaf<WholeNumber<1, 100_000>>,
        /// Whether the model takes pictures and PDFs. When it is not said, what the catalog knows; of a model that it does not know,
        /// they are tried.
        pictures: KeyLeaf<bool>,
        /// Whether to ask for the usage of tokens; false for servers that reject `stream_options`.
        include_usage: KeyLeaf<bool>,
        /// Thinking that stands in the answer itself. `auto`: between `<think>` and `</think>` at its start, and what is learned
        /// of a model whose template writes the first of them. `open`: answers begin in the middle of it. `off`: it is text.
        think: KeyLeaf<Thinks>,
        /// Sent along with each request. Their values are never shown.
        headers: BTreeMap<String, KeyLeaf<SecretText>>,
        /// What its server takes, in US dollars for a million tokens. When it is not said, what the catalog knows; without
        /// either nobody knows what a request cost.
        price: Price,
        /// How often a request is sent again that its server cannot answer just now: too many requests, overloaded, an error of its own,
        /// the connection lost before a word of the answer. It waits half a second first, then longer; a pause that the server asks for is
        /// waited for at least once, if it is no longer than 20 seconds. When it is not said, 2; 0 for a server on this machine.
        retries: KeyLeaf<WholeNumber<0, 10>>,
        /// Limits of one stream; the whole has none.
        timeouts: Timeouts,
    }

    /// What a preset's server takes, in US dollars for a million tokens.
    Price {
        /// Of a request.
        input: KeyLeaf<DollarAmount>,
        /// Of an answer.
        output: KeyLeaf<DollarAmount>,
        /// Of a request, as far as the server had it still; as other input when it is not said.
        cached_input: KeyLeaf<DollarAmount>,
        /// Of a request, as far as the server keeps it from now on; as other input when it is not said.
        cache_write: KeyLeaf<DollarAmount>,
    }

    /// Limits of one stream.
    Timeouts {
        /// Until the server takes the connection; 5s when it is not said.
        connect: KeyLeaf<TimeSpan>,
        /// From the request to the first byte of the answer; 600s on this machine and 120s elsewhere when it is not said.
        first_byte: KeyLeaf<TimeSpan>,
        /// The longest silence between two bytes; 60s when it is not said.
        idle: KeyLeaf<TimeSpan>,
        /// The longest time without content, whatever else comes; 300s when it is not said.
        content_idle: KeyLeaf<TimeSpan>,
    }

    /// How much of a conversation a model is shown. What is too much leaves from the front, in whole exchanges, until 70 %
    /// of the budget are left; it stays in the log, and can be found and put back (`aishctl context archive`).
    Context {
        /// Exchanges, which are questions with all that followed on them.
        max_turns: KeyLeaf<WholeNumber<1, 100_000>>,
        /// Tokens of a request and its answer; a preset's `context_tokens` when it is not said, and no limit where neither
        /// is. They are estimated, by what the preset's server has counted so far.
        max_tokens: KeyLeaf<WholeNumber<256, 1_000_000_000>>,
        /// Tokens kept free for the answer; where a preset has `max_tokens`, those are. Never more than half.
        reserve_tokens: KeyLeaf<WholeNumber<0, 1_000_000>>,
        /// Whether a model sums up what leaves, ahead, so that the next request has the summary in its place.
        summarize_on_evict: KeyLeaf<bool>,
        /// The preset that does it. What left is sent to its server.
        summarizer_model: KeyLeaf<String>,
        /// A summary is no longer.
        max_summary_chars: KeyLeaf<WholeNumber<200, 20_000>>,
        /// What the system message begins with, in place of the usual two sentences; this or `system_prompt_file`.
        system_prompt: KeyLeaf<String>,
        /// The same as a file, which belongs to you and which nobody else can write. It is read again when it changes.
        system_prompt_file: KeyLeaf<PathBuf>,
        /// Whether models are told of the directory of a conversation: its files by name, without hidden ones and those
        /// that `.gitignore` names, and its `AGENTS.md` and `AISH.md`, if you trust them as they are (`aishctl config
        /// trust`). It goes to whatever server the request goes to. A home directory is never told of.
        project: KeyLeaf<bool>,
    }

    /// What models are told of what you keep for all conversations.
    Memory {
        /// Characters of the facts in a request: pinned ones first, then the newest; 0: none. They go to whatever server the
        /// request goes to.
        max_chars: KeyLeaf<WholeNumber<0, 100_000>>,
        /// Whether `context.summarizer_model` looks through a conversation that is archived, and proposes facts. Nothing of
        /// it is kept before you have said so.
        summarize_on_close: KeyLeaf<bool>,
    }

    /// Which preset answers what.
    Routing {
        /// Whether a plain question goes to the preset of its class. A model that was named by hand beats it. `:route on` and
        /// `:route off` beat this.
        auto: KeyLeaf<bool>,
        /// Whether a request whose server looks down goes to `fallback_model`, once, before anything of an answer was
        /// shown. What is sent leaves this machine if that model is elsewhere. `:fallback on` and `:fallback off` beat this.
        fallback: KeyLeaf<bool>,
        /// The preset for that; nothing happens where there is none of this name.
        fallback_model: KeyLeaf<String>,
        /// The preset that gives a conversation a title once its first question is answered, beside everything else. When this
        /// is not said, or there is none of this name, a title is the first words of that question.
        title_model: KeyLeaf<String>,
        /// Presets of classes; what has none keeps the preset that would answer anyway.
        classes: Classes,
    }

    /// Runs that work on their own.
    Norris {
        /// Requests to the model in one run, at most.
        steps: KeyLeaf<WholeNumber<1, 1000>>,
        /// How long one run may work; waiting for a person does not count.
        time: KeyLeaf<TimeSpan>,
        /// Tokens that one run may use, in and out, those of second opinions among them. When this is not said, there is no
        /// such limit.
        tokens: KeyLeaf<WholeNumber<1, 1_000_000_000>>,
        /// What one run may cost, in US dollars; 0 is as much as it likes. Only presets with a `price` can be counted.
        cost_usd: KeyLeaf<DollarAmount>,
        /// Whether another preset is asked before each action whether it is safe for the goal. Everything but a plain yes has
        /// a person asked. It can only make a run stricter.
        second_opinion: KeyLeaf<bool>,
        /// Who is asked for it. When this is not said, it is the preset that answers by default, or else one without a key;
        /// never the one that works. Where there is none, a person is asked about every action.
        second_opinion_model: KeyLeaf<String>,
        /// An answer of it that comes later is none.
        second_opinion_within: KeyLeaf<TimeSpan>,
        /// Where its commands work that nobody was asked about. `try`: in a copy of the files; what they change you keep or drop
        /// when the run is over, or at any time while it goes on (`aishctl changes`), and nothing is real before that. `workspace`: in the directories of the conversation, for real; then a
        /// command that may destroy something is asked about, and so is one that cannot be read with certainty.
        contain: KeyLeaf<RunPlace>,
        /// With `workspace`: further places, by their real paths, that its commands may read without a question, besides the conversation's directories, the system
        /// and tool chains. Absolute, or beginning with ~/. What holds a home as a whole, or anything of aish's own, is refused.
        read: KeyLeaf<Vec<String>>,
        /// With `workspace`: further places, by their real paths, that its commands may write in without a question, and read, as caches are.
        write: KeyLeaf<Vec<String>>,
    }

    /// Commands that work in a copy of the files.
    Layers {
        /// Hosts that they may reach by name, unasked: `example.org`, `*.example.org` for all below it, `example.org:8443`. Without
        /// a port it is 80 and 443. A host that is named exactly may be at a private address. Anything can be sent to such a
        /// host. About others you are asked while the connection waits.
        hosts: KeyLeaf<Vec<String>>,
        /// How long a connection waits for your answer; then it is refused.
        hosts_timeout: KeyLeaf<TimeSpan>,
        /// The most that one trial, or one run in layers, may take of the disk until its changes are kept or
        /// dropped; a command that writes more is ended.
        max_layer_bytes: KeyLeaf<WholeNumber<1_048_576, 1_125_899_906_842_624>>,
    }

    /// Presets of classes.
    Classes {
        /// Pasted code, error messages, paths, source files. By itself it is the preset `deep`, if there is one and it
        /// has no key.
        code: KeyLeaf<String>,
        /// Questions that ask why, how, or for a comparison, and long ones.
        reasoning: KeyLeaf<String>,
        /// Everything else.
        default: KeyLeaf<String>,
    }

    /// Servers of the Model Context Protocol.
    Mcp {
        /// One question of the handshake, and the longest that a call waits for a session.
        connect_timeout: KeyLeaf<TimeSpan>,
        /// Until a program that was started says its first word; it may fetch itself before.
        start_timeout: KeyLeaf<TimeSpan>,
        /// A call without any progress.
        call_timeout: KeyLeaf<TimeSpan>,
        /// A call, whatever progress it reports.
        call_timeout_with_progress: KeyLeaf<TimeSpan>,
        /// A call that its server goes on with by itself, as a task that it is asked for.
        task_timeout: KeyLeaf<TimeSpan>,
        /// Whether servers are told the directories of the conversations.
        roots: KeyLeaf<bool>,
        /// Files of other programs that `aishctl mcp import` looks through, in place of the usual ones; `./` is where it is
        /// run. Nothing in them is connected to before it was taken over.
        import: KeyLeaf<Vec<String>>,
        /// Servers by name; the name is in front of the names of their tools. `${NAME}` and `${NAME:-default}` in their
        /// values stand for variables of the daemon.
        servers: BTreeMap<String, McpServer>,
        /// What runs unasked: the exact name of a tool, or a whole provider (`fs__*`). The exact name beats its
        /// provider, so that `false` takes one tool out. A tool that is not what it was when the rule first counted is
        /// asked about.
        auto_approve: BTreeMap<String, KeyLeaf<bool>>,
        /// Another name of `tools.max_depth`, which beats it.
        max_tool_depth: KeyLeaf<WholeNumber<1, 100>>,
    }

    /// What tools may do.
    Permissions {
        /// What never runs, and is not offered to models: exact names, or whole providers (`fs__*`). Every file adds to
        /// it, and none takes away what another has said.
        deny: MergedList,
        /// The level of a provider in a conversation where nobody changed it, and which `tools` below does not name.
        default_level: KeyLeaf<WholeNumber<1, 3>>,
        /// A question that nobody answers, while nobody is attached, has waited long enough after so long.
        confirm_timeout: KeyLeaf<TimeSpan>,
        /// What becomes of such a question: "deny" takes silence as a no, "wait" lets it wait on.
        on_timeout: KeyLeaf<OnTimeout>,
        /// The level that calls of a tool need, by its exact name, where you know better than its provider. What only a
        /// server says of its tool lets nothing run unasked where there is a limit.
        needs: BTreeMap<String, KeyLeaf<WholeNumber<1, 3>>>,
        /// Levels of providers: 1 read, 2 write, 3 execute.
        tools: BTreeMap<String, Provider>,
        /// What programs that the daemon starts may do on its socket, by the name of their MCP server or tool. `read`: all
        /// that is said in any conversation, the log, the audit trail and the configuration. `ask`: that, and ask questions in
        /// any conversation, with what is allowed there. What is not named here can find out that the daemon is there. None
        /// answers questions, joins or ends a turn, or changes what runs unasked.
        clients: BTreeMap<String, KeyLeaf<Client>>,
    }

    /// The levels of one provider.
    Provider {
        /// What it has in a conversation where nobody changed it; `default_level` when it is not said.
        level: KeyLeaf<WholeNumber<1, 3>>,
        /// No call may need more; 3 when it is not said.
        max_level: KeyLeaf<WholeNumber<1, 3>>,
    }

    /// Calls of tools.
    Tools {
        /// Whether models are offered the daemon's own tools: those of `aish`, `data-tool` and `example-tool`.
        builtin: KeyLeaf<bool>,
        /// Whether models are offered the tools that read, list and search files.
        files: KeyLeaf<bool>,
        /// Whether models are offered the tools that keep a list of tasks.
        todo: KeyLeaf<bool>,
        /// Whether models are offered the tool that reads pages of the web. Hosts that `contain.hosts` does not name are asked about.
        web: KeyLeaf<bool>,
        /// Directories with manifests of tools, besides `tools` beside this file.
        dirs: KeyLeaf<Vec<String>>,
        /// Rounds of calls in one turn; after so many it ends, and the last answer is kept.
        max_depth: KeyLeaf<WholeNumber<1, 100>>,
        /// Characters of a result that a model is shown. Of a longer one the middle is left out, and can be read on
        /// demand.
        max_result_chars: KeyLeaf<WholeNumber<1_000, 250_000>>,
        /// Tools that are sent where not all are (`max_tools` of a preset, `context_percent`): exact names, or whole providers
        /// (`fs__*`). aish's own always are.
        pinned: KeyLeaf<Vec<String>>,
        /// The part of what a model takes in, in percent, that tools of servers may take. Where there are more, they are chosen as
        /// with `max_tools`. 100 is no limit.
        context_percent: KeyLeaf<WholeNumber<1, 100>>,
        /// Whether calls that only read, by their provider's word, and that nobody is asked about run side by side.
        parallel_readonly: KeyLeaf<bool>,
    }

    /// Commands of this machine.
    Shell {
        /// Whether you are asked about each command that a model proposes. With false they all run, whatever they do; the
        /// daemon says so at each start. `permissions.deny` and the constraints of a conversation still hold.
        confirm: KeyLeaf<bool>,
        /// `ask`: you are asked about the text of a command. `try`: it is tried at once, in layers over the files and with the
        /// hosts of `contain.hosts`, and you are asked about what it printed and changed. Where nothing can be tried it is as with `ask`.
        default: KeyLeaf<ProposedCommands>,
        /// The longest that a command runs.
        timeout: KeyLeaf<TimeSpan>,
        /// The most that is kept of what it prints; of more, the beginning and the end.
        max_output_bytes: KeyLeaf<WholeNumber<1_024, 16_777_216>>,
        /// Variables of the asking client that commands get, by their exact names, besides SHELL. They are stored with the
        /// question: name no secrets.
        env_from_client: KeyLeaf<Vec<String>>,
        /// Whether the model goes on at once with what a command printed, or with why you said no; else that waits for your next
        /// question.
        feed_back: KeyLeaf<bool>,
        /// Whether models that take tools propose commands by calls of `shell__run`; else, as all others do, by lines of their
        /// answer.
        tool: KeyLeaf<bool>,
    }

    /// One MCP server: a url, or a command.
    McpServer {
        /// The address of a server over HTTP.
        url: KeyLeaf<String>,
        /// The variable of the daemon that holds the bearer token.
        auth_env: KeyLeaf<String>,
        /// The bearer token itself; only in a file that nobody else can read. Better: `auth_env`.
        auth_token: KeyLeaf<SecretText>,
        /// Sent along with each message. Their values are never shown.
        headers: BTreeMap<String, KeyLeaf<SecretText>>,
        /// The program that is the server, on its standard input and output.
        command: KeyLeaf<String>,
        /// Its arguments.
        args: KeyLeaf<Vec<String>>,
        /// Its variables, besides PATH, HOME and the like. Their values are never shown.
        env: BTreeMap<String, KeyLeaf<SecretText>>,
        /// Its working directory; `/` when it is not said.
        cwd: KeyLeaf<PathBuf>,
        /// What the kernel holds it to. "read": it reads all but keys and writes in a /tmp of its own; "workspace": and in `cwd`
        /// and what `write` names; both reach the hosts of `hosts` and nothing else. "open": whatever you can do.
        contain: KeyLeaf<Contain>,
        /// Files and directories that it may write besides `cwd`, with `contain = "workspace"`.
        write: KeyLeaf<Vec<String>>,
        /// Hosts that it may reach where `contain` holds it: `example.org`, `*.example.org`, `example.org:8443`. It finds them by
        /// HTTP_PROXY and its like; all others are refused, and `aishctl mcp` says which.
        hosts: KeyLeaf<Vec<String>>,
        /// Signing in to it, where it wants that and no token is set: nothing has to be said, `aishctl mcp login` finds out.
        oauth: OAuth,
        /// Its only tools here, by name; `*` is any text. All others are offered to nobody and called by nobody. All of them when
        /// it is not said.
        tools: KeyLeaf<Vec<String>>,
        /// Tools of it that there are not here, by name; `*` is any text.
        without_tools: KeyLeaf<Vec<String>>,
        /// False: it is listed and not connected to.
        enabled: KeyLeaf<bool>,
        /// True: it may ask for a model while a tool of its runs. You are asked each time, and shown what would be sent.
        sampling: KeyLeaf<bool>,
        /// The revision of the protocol that is spoken with it, without finding out which it speaks: for a server that answers
        /// the question for it wrongly or late.
        revision: KeyLeaf<ProtocolRevision>,
        /// From which level on it is to say what it does; "info" when it is not said. Rows of its calls and
        /// `aishctl mcp logs` show it.
        log_level: KeyLeaf<ServerLogLevel>,
    }

    /// Signing in to one server.
    OAuth {
        /// "person": somebody signs in with `aishctl mcp login`. "client_credentials": the client is its own account.
        /// "jwt_bearer": a token from elsewhere is handed in. "enterprise": an identity token is exchanged for one.
        grant: KeyLeaf<Grant>,
        /// Whose account it is; servers with the same address and account share a sign-in.
        account: KeyLeaf<String>,
        /// A client that you registered there. Without it one is registered.
        client_id: KeyLeaf<String>,
        /// The variable of the daemon that holds the client's secret.
        client_secret_env: KeyLeaf<String>,
        /// The file that holds it, which only you can read.
        client_secret_file: KeyLeaf<PathBuf>,
        /// A private key (PKCS#8) that the client signs with in place of a secret.
        private_key_file: KeyLeaf<PathBuf>,
        /// The variable that holds the token to hand in.
        assertion_env: KeyLeaf<String>,
        /// The file that holds it, read each time.
        assertion_file: KeyLeaf<PathBuf>,
        /// Where an identity token is exchanged ("enterprise").
        idp_token_endpoint: KeyLeaf<String>,
        /// Who you are there.
        idp_client_id: KeyLeaf<String>,
        /// What is asked for, in place of what the server asks for.
        scopes: KeyLeaf<Vec<String>>,
        /// What the authorization server calls itself, where that is not how the MCP server names it, or which of several.
        issuer: KeyLeaf<String>,
        /// "assume": it does PKCE with S256 and does not say so.
        pkce: KeyLeaf<Pkce>,
        /// Where the browser comes back to, as the authorization server knows it; a free port of this machine when it is not said.
        redirect_uri: KeyLeaf<String>,
        /// The https address of a document about this client, for authorization servers that take one.
        client_metadata_url: KeyLeaf<String>,
    }

    /// Looking for a model server on this machine.
    Discovery {
        /// The first of these that lists a model and answers with it is taken. Only addresses of this machine.
        servers: KeyLeaf<Vec<String>>,
    }

    /// Bounds of what the daemon holds.
    Limits {
        /// Connections at a time.
        max_clients: KeyLeaf<WholeNumber<1, 10_000>>,
        /// Questions that wait behind a running one.
        max_queue_per_conversation: KeyLeaf<WholeNumber<0, 1_000>>,
        /// Others are loaded when somebody asks for them.
        max_conversations_in_memory: KeyLeaf<WholeNumber<0, 10_000>>,
        /// A client that reads nothing for so long, with data pending, is cut off.
        client_stall: KeyLeaf<TimeSpan>,
        /// What may be spent on a day (UTC) by all conversations together, in US dollars; 0 is as much as they like. Only
        /// presets with a `price` can be counted. A change counts at once.
        daily_spend_usd: KeyLeaf<DollarAmount>,
        /// You are asked before a question is sent whose first request takes more than so many US dollars, its answer not
        /// counted, by a preset with a `price`; 0 asks nobody. One that fills half of what its model takes in is asked about in
        /// any case, unless it costs nothing. A change counts at once.
        ask_above_usd: KeyLeaf<DollarAmount>,
    }

    /// The daemon itself.
    Daemon {
        /// The directory that holds the conversations; `$XDG_STATE_HOME/aish` when it is not said.
        state: KeyLeaf<PathBuf>,
    }

    /// What is kept of conversations.
    Store {
        /// How large it may become, in bytes; 0: as large as the disk. Beyond it nothing begins until conversations are
        /// deleted; what has begun goes to its end. `aishctl doctor` warns when nine tenths are taken.
        max_bytes: KeyLeaf<WholeNumber<0, 1_000_000_000_000_000>>,
        /// Conversations that nobody has used for so many days are deleted, also those that were put away; 0: none are. One in
        /// which something runs or waits for you stays.
        keep_days: KeyLeaf<WholeNumber<0, 36_500>>,
    }

    /// Stopping the daemon.
    Shutdown {
        /// Time that running turns get to end; at most 3s.
        grace: KeyLeaf<TimeSpan>,
    }

    /// The daemon's log.
    Logging {
        /// A level (error, warn, info, debug, trace), or a filter such as "aishd=debug,info". `AISH_LOG` beats it.
        level: KeyLeaf<String>,
        /// How lines are written: for people, for programs, or for the journal; auto asks where they go.
        format: KeyLeaf<LogFormat>,
        /// Fields whose name contains one of these are written without their value.
        redact: KeyLeaf<Vec<String>>,
        /// Whether prompts and answers may be logged, at the level debug.
        content: KeyLeaf<bool>,
    }

    /// Telling somebody of a question that waits.
    Notify {
        /// Unattended: when nobody is attached, has pressed a key for 30s, or looks at that terminal.
        when: KeyLeaf<NotifyWhen>,
        /// Terminals have notices of their own (osc) and a bell; where nobody is attached, the daemon starts a program: the
        /// command, or else `notify-send` (desktop). Auto is all of it.
        method: KeyLeaf<NotifyMethod>,
        /// The program and its arguments; a title and a line of text are added to them. No shell reads it.
        command: KeyLeaf<Vec<String>>,
        /// What the kernel holds the program to: "open", "read" or "workspace". Programs that tell a desktop need "open", since
        /// the others have no D-Bus and no network.
        contain: KeyLeaf<Contain>,
        /// How long a question has to have waited.
        after: KeyLeaf<TimeSpan>,
    }

    /// How clients look.
    Ui {
        /// Colours: auto asks the terminal.
        color: KeyLeaf<When>,
        /// Whether answers are drawn as Markdown: auto does it on a terminal.
        markdown: KeyLeaf<When>,
        /// The colours of code and headings, by name; for clients that have several. `aish` has one, the terminal's own.
        theme: KeyLeaf<String>,
        /// The program that `aishctl config edit` starts; empty for `$VISUAL`, then `$EDITOR`.
        editor: KeyLeaf<String>,
        /// Keys of the line editor.
        keymap: KeyLeaf<Keymap>,
        /// Whether pictures of tools are drawn on terminals that can; else they are named.
        pictures: KeyLeaf<bool>,
    }
}

impl Model {
    /// Whether it says where a key comes from.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
            || self.key_env.is_some()
            || self.key_file.is_some()
            || self.key_cmd.is_some()
    }
}

/// Whether the value under this path may be shown: its key is known, and it is no secret.
pub fn may_show(path: &[&str]) -> bool {
    File::may_show(path)
}

/// Whether a key of this name is known somewhere, and no secret.
pub fn is_open_name(name: &str) -> bool {
    let mut names = vec![];
    File::open_names("", &mut names);
    names.contains(&name)
}
