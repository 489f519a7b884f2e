//! What every key is when nobody sets it.

/// What holds when nobody says otherwise: the lowest layer.
pub const DEFAULTS: &str = r#"config_version = 1

[discovery]
servers = [
  "http://127.0.0.1:11434/v1",
  "http://127.0.0.1:1234/v1",
  "http://127.0.0.1:8080/v1",
  "http://127.0.0.1:8000/v1",
  "http://127.0.0.1:1337/v1",
  "http://127.0.0.1:5001/v1",
  "http://127.0.0.1:12434/v1",
]

[context]
max_turns = 40
reserve_tokens = 2048
summarize_on_evict = false
summarizer_model = "fast"
max_summary_chars = 2000
project = false

[memory]
max_chars = 4000
summarize_on_close = false

[routing]
auto = false
fallback = false
fallback_model = "cloud"

[routing.classes]
code = "deep"

[norris]
steps = 25
time = "1h"
second_opinion = true
second_opinion_within = "30s"
contain = "try"
read = []
write = []

[contain]
hosts = []
hosts_timeout = "2m"
max_layer_bytes = 8589934592

[mcp]
connect_timeout = "5s"
start_timeout = "1m"
call_timeout = "2m"
call_timeout_with_progress = "15m"
task_timeout = "24h"
roots = false

[permissions]
deny = []
default_level = 1
confirm_timeout = "24h"
on_timeout = "deny"

[tools]
builtin = false
files = true
todo = true
web = true
dirs = []
pinned = []
context_percent = 25
max_depth = 50
max_result_chars = 16000
parallel_readonly = true

[shell]
confirm = true
default = "ask"
timeout = "5m"
max_output_bytes = 4194304
env_from_client = ["PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "VIRTUAL_ENV"]
feed_back = true
tool = true

[limits]
max_clients = 64
max_queue_per_conversation = 16
max_conversations_in_memory = 32
client_stall = "30s"
daily_spend_usd = 0.0
ask_above_usd = 1.0

[store]
max_bytes = 0
keep_days = 0

[shutdown]
grace = "2s"

[logging]
level = "info"
format = "auto"
redact = ["authorization", "key", "token"]
content = false

[notify]
when = "unattended"
method = "auto"
command = []
contain = "open"
after = "2s"

[ui]
color = "auto"
markdown = "auto"
theme = "ansi"
editor = ""
keymap = "emacs"
pictures = true
"#;
