//! Variables that a command sets. Which ones programs heed is known of none, so that it is known of which they do harmlessly.

use crate::command::{Setting, Value};

/// Whatever they are set to.
const HARMLESS: &str = "RUST_LOG RUST_BACKTRACE CARGO_TERM_COLOR CARGO_INCREMENTAL NODE_ENV CI DEBUG VERBOSE V LANG LANGUAGE LC_ALL LC_CTYPE \
    LC_COLLATE LC_NUMERIC LC_TIME LC_MESSAGES TZ NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE TERM COLUMNS LINES PORT HOST LOG_LEVEL \
    LOGLEVEL PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONWARNINGS JEST_WORKERS \
    GOOS GOARCH CGO_ENABLED GIT_TERMINAL_PROMPT DEBIAN_FRONTEND SOURCE_DATE_EPOCH TEST ENVIRONMENT APP_ENV RAILS_ENV RACK_ENV \
    UPDATE_EXPECT INSTA_UPDATE PROPTEST_CASES BROWSERSLIST_IGNORE_OLD_DATA TF_LOG N COUNT NAME FILE FILES DIR SRC DST OUT VERSION \
    BRANCH COMMIT TAG MSG MESSAGE START END TOTAL SUM RESULT COVERAGE GIT_AUTHOR_DATE GIT_COMMITTER_DATE QT_QPA_PLATFORM";

/// In small letters, and programs or the shell heed them all the same.
const HEEDED: &str = "path fpath cdpath manpath module_path mailpath fignore prompt psvar watch histchars argv status \
    http_proxy https_proxy ftp_proxy all_proxy no_proxy rsync_proxy precmd_functions preexec_functions chpwd_functions \
    zsh_eval_context commands functions aliases galiases saliases dis_aliases options parameters modules";

/// Whether setting it changes nothing but what the command itself makes of it.
pub(super) fn is_harmless(set: &Setting) -> bool {
    let name = set.name.as_str();
    let is_in = |list: &str| list.split_whitespace().any(|it| it == name);
    if is_in(HARMLESS) {
        return true;
    }
    let value = set.value.as_ref().map(|it| &it.value);
    let plain_pager = matches!(value, Some(Value::Fixed(it)) if it == "cat" || it.is_empty());
    if plain_pager && matches!(name, "PAGER" | "GIT_PAGER" | "MANPAGER" | "SYSTEMD_PAGER") {
        return true;
    }
    let small = !name.contains(|it: char| it.is_ascii_uppercase());
    let configures = name.starts_with("npm_config_") || name.starts_with('_');
    small && !configures && !is_in(HEEDED)
}
