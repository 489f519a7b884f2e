//! Why a command is destructive, or what is worth to be known of it, in words for a person.

use serde::Deserialize;

macro_rules! dangers {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $destructive:literal, $reason:literal;)*) => {
        /// One thing that a command is about to do, as far as its text tells.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        pub enum Danger {
            $($(#[$doc])* #[serde(rename = $name)] $kind,)*
        }

        impl Danger {
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// For people: what it does or may do. A fragment, without a full stop.
            pub fn reason(self) -> &'static str {
                match self {
                    $(Self::$kind => $reason,)*
                }
            }

            /// Whether it may not be undone, or nobody knows: a question about it wants a whole `yes`. All else is what a
            /// person may want to know.
            pub fn is_destructive(self) -> bool {
                match self {
                    $(Self::$kind => $destructive,)*
                }
            }
        }
    };
}

dangers! {
    // what cannot be known
    NotUnderstood = "not_understood", true, "cannot be read with certainty";
    HiddenCharacters = "hidden_characters", true, "has characters that cannot be seen";
    LookAlike = "look_alike", true, "has letters that look like others";
    KnownOnlyWhenRun = "known_only_when_run", true, "runs or names something that is known only when it runs";
    RunsCode = "runs_code", false, "runs code that is not read here";
    /// An option or a line of code starts another program.
    HiddenCommand = "hidden_command", true, "runs a command that is hidden in an option or in code";
    /// An alias or a trap takes the place of what follows.
    Redefines = "redefines", true, "gives a command another meaning";
    ChangesEnvironment = "changes_environment", true, "sets what changes how programs work";
    Interactive = "interactive", false, "starts something that waits for input";
    // files
    DeletesTree = "deletes_tree", true, "deletes directories and all that is in them";
    DeletesFiles = "deletes_files", true, "deletes files";
    /// Directories among it only where they are empty by then.
    DeletesFound = "deletes_found", true, "deletes all that it finds";
    EmptiesFile = "empties_file", true, "replaces what is in a file";
    ChangesInPlace = "changes_in_place", true, "changes files in place, without a copy";
    ChangesRights = "changes_rights", true, "changes owners or rights of files";
    OutsideRoots = "outside_roots", true, "writes outside of the project's directories";
    ProtectedFile = "protected_file", true, "writes a file that changes what programs do";
    WritesDevice = "writes_device", true, "writes to a disk or device";
    // systems
    Disks = "disks", true, "changes disks, partitions or mounts";
    StopsSystem = "stops_system", true, "shuts down or restarts the machine";
    StopsProcesses = "stops_processes", true, "ends processes";
    ChangesSystem = "changes_system", true, "changes services, the network or settings of the system";
    ChangesLogins = "changes_logins", true, "changes who may log in";
    Schedule = "schedule", true, "changes what runs at set times";
    AsAnother = "as_another", true, "runs as another user";
    RemovesPackages = "removes_packages", true, "removes installed packages";
    InstallsPackages = "installs_packages", true, "installs programs of others";
    // what others hold
    RewritesHistory = "rewrites_history", true, "rewrites or discards history";
    DiscardsChanges = "discards_changes", true, "discards changes that are kept nowhere else";
    Database = "database", true, "may change or delete a database";
    Infrastructure = "infrastructure", true, "changes containers, clusters or machines elsewhere";
    RunsDownload = "runs_download", true, "runs what comes out of a pipe or a download";
    SendsData = "sends_data", true, "sends data to somewhere else";
    SendsMail = "sends_mail", true, "sends mail";
    OtherMachine = "other_machine", false, "runs on another machine";
    ReadsSecrets = "reads_secrets", true, "reads keys or passwords";
    ShowsEnvironment = "shows_environment", false, "shows variables of the environment, where keys may be";
    ReachesNetwork = "reaches_network", false, "reaches the network";
}
