//! Values that tests of several packages begin with.

use std::collections::BTreeMap;

use aishd_log::environment::ClientVariables;
use aishd_rules::command_setting::CommandSetting;

pub(crate) fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

pub(crate) fn setting(pairs: &[(&str, &str)], cwd: &str) -> CommandSetting {
    let given = ClientVariables {
        variables: variables(pairs),
        umask: None,
        tty: None,
    };
    let base = variables(&[("PATH", "/bin"), ("HOME", "/home/u")]);
    CommandSetting::new(given, &base, cwd, |it| !it.contains("gone"))
}
