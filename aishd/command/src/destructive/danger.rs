//! Why a command is destructive, in words for a person.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! dangers {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $reason:literal;)*) => {
        /// One way in which a command may destroy something, or may not be known not to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Danger {
            $($(#[$doc])* #[serde(rename = $name)] $kind,)*
        }

        impl Danger {
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// For programs. It never changes.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// For people: what it does or may do. A fragment, without a full stop.
            pub fn reason(self) -> &'static str {
                match self {
                    $(Self::$kind => $reason,)*
                }
            }
        }
    };
}

dangers! {
    // what cannot be known
    NotUnderstood = "not_understood", "cannot be read with certainty";
    HiddenCharacters = "hidden_characters", "has characters that cannot be seen";
    LookAlike = "look_alike", "has letters that look like others";
    UnknownProgram = "unknown_program", "runs a program that is not known to be harmless";
    UnknownOption = "unknown_option", "uses an option that is not known to be harmless";
    KnownOnlyWhenRun = "known_only_when_run", "runs or names something that is known only when it runs";
    RunsCode = "runs_code", "runs code that is not known to be harmless";
    /// A function or alias takes the place of a program.
    Redefines = "redefines", "gives a command another meaning";
    ChangesEnvironment = "changes_environment", "sets a variable that changes what programs do";
    Interactive = "interactive", "starts something that waits for input or can start programs";
    // files
    DeletesTree = "deletes_tree", "deletes directories and all that is in them";
    DeletesFiles = "deletes_files", "deletes files";
    EmptiesFile = "empties_file", "replaces what is in a file";
    ChangesInPlace = "changes_in_place", "changes files in place, without a copy";
    ChangesRights = "changes_rights", "changes owners or rights of files";
    OutsideRoots = "outside_roots", "writes outside of the project's directories";
    ProtectedFile = "protected_file", "writes a file that changes what programs do";
    WritesDevice = "writes_device", "writes to a disk or device";
    // systems
    Disks = "disks", "changes disks, partitions or mounts";
    StopsSystem = "stops_system", "shuts down or restarts the machine";
    StopsProcesses = "stops_processes", "ends processes";
    ChangesSystem = "changes_system", "changes services, users, the network or settings of the system";
    Schedule = "schedule", "changes what runs at set times";
    AsAnother = "as_another", "runs as another user";
    RemovesPackages = "removes_packages", "removes installed packages";
    InstallsPackages = "installs_packages", "installs programs of others";
    // what others hold
    RewritesHistory = "rewrites_history", "rewrites or discards history";
    DiscardsChanges = "discards_changes", "discards changes that are kept nowhere else";
    Database = "database", "may change or delete a database";
    Infrastructure = "infrastructure", "changes containers, clusters or machines elsewhere";
    RunsDownload = "runs_download", "runs what comes out of a pipe or a download";
    SendsData = "sends_data", "sends data to somewhere else";
    OtherMachine = "other_machine", "runs on another machine";
    ReadsSecrets = "reads_secrets", "reads keys or passwords";
    // what only a run is asked about
    MayReadSecrets = "may_read_secrets", "may read keys or passwords: what it reads is not certain to be anything else";
    ShowsEnvironment = "shows_environment", "shows variables of the environment, where keys may be";
    ReachesNetwork = "reaches_network", "reaches the network";
}

/// For people.
impl fmt::Display for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}
