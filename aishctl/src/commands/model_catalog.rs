//! `model catalog`: what is known of models before they are asked. The daemon reads a file that somebody got; nothing is
//! fetched here either.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aish_proto::method::Empty;
use aish_proto::model::{
    CatalogStatus, ModelCatalog, ModelCatalogResult, ResetCatalog, UpdateCatalog,
    UpdateCatalogParams,
};
use clap::{Subcommand, ValueHint};

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::table;
use crate::safe;

#[derive(Clone, Debug, Subcommand)]
pub enum CatalogCommand {
    /// Go by a file of models.dev or LiteLLM from now on
    ///
    /// Go by models.dev's api.json, or by LiteLLM's model_prices_and_context_window.json, from now on. Nothing is ever fetched:
    /// you get the file. Where it disagrees with the catalog that came with the program, the newer of the two counts.
    #[command(after_help = "\
Examples:
  aishctl model catalog update api.json
  curl -s https://models.dev/api.json | aishctl model catalog update -")]
    Update {
        /// The file; `-` is stdin
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Back to the catalog that came with the program
    Reset,
}

/// The daemon refuses a larger file.
const MOST_BYTES: u64 = 64 << 20;
/// A large file takes its time.
const UPDATE_DEADLINE: Duration = Duration::from_secs(60);

pub async fn run(context: &CommandContext, command: Option<&CatalogCommand>) -> PrintResult {
    match command {
        None => {
            let result = context.call::<ModelCatalog>(Empty {}).await?;
            context.print(&result, || shown(&result))
        }
        Some(CatalogCommand::Update { file }) => update(context, file).await,
        Some(CatalogCommand::Reset) => {
            let result = context.call::<ResetCatalog>(Empty {}).await?;
            context.print(&result, || shown(&result))
        }
    }
}

async fn update(context: &CommandContext, file: &Path) -> PrintResult {
    let copy = if file != Path::new("-") {
        None
    } else if context.around.stdin_terminal {
        let message = "`-` is stdin, and nothing is piped into it";
        return Err(Failure::new(Exit::USAGE, message)
            .hint("curl -s https://models.dev/api.json | aishctl model catalog update -"));
    } else {
        Some(StdinCopy::of(&mut io::stdin())?)
    };
    let meant = match &copy {
        Some(copy) => copy.0.clone(),
        None => context.around.cwd.join(file),
    };
    let Some(file) = meant.to_str() else {
        let message = format!(
            "the path {} is no UTF-8",
            safe::one_line(&meant.display().to_string())
        );
        return Err(Failure::new(Exit::USAGE, message));
    };
    let params = UpdateCatalogParams {
        file: file.to_owned(),
    };
    let deadline = context.global.timeout.unwrap_or(UPDATE_DEADLINE);
    let result = context
        .caller
        .call_within::<UpdateCatalog>(params, Some(deadline))
        .await
        .map_err(|error| {
            let mut failure = Failure::from(error);
            // The daemon speaks of its params, a person of the file.
            if let Some(what) = failure.message.strip_prefix("invalid params: ") {
                failure.message = what.to_owned();
            }
            failure
        })?;
    context.print(&result, || {
        let left_out = match result.left_out {
            0 => String::new(),
            count => format!(
                "{count} others are left out: at no host that is known, or with nothing said of them\n"
            ),
        };
        format!("{}{left_out}", shown(&result.catalog))
    })
}

fn shown(result: &ModelCatalogResult) -> String {
    let row = |name: &str, status: &CatalogStatus| {
        vec![
            name.to_owned(),
            status.day.clone(),
            status.origin.clone(),
            status.models.to_string(),
        ]
    };
    let mut rows = vec![row("came with the program", &result.built_in)];
    rows.extend(result.handed.iter().map(|it| row("handed over", it)));
    let mut text = table::columns(&["catalog", "day", "from", "models"], &rows);
    for error in &result.errors {
        text.push_str(&format!(
            "the presets stay as they are, because of {}\n",
            safe::one_line(error)
        ));
    }
    text
}

/// What came in by stdin, as a file that the daemon can read; it goes with this.
struct StdinCopy(PathBuf);

impl StdinCopy {
    fn of(stdin: &mut dyn Read) -> Result<Self, Failure> {
        let name = format!("aish-catalog-{}.json", ulid::Ulid::new());
        let copy = Self(std::env::temp_dir().join(name));
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&copy.0);
        let copied = made.and_then(|mut file| {
            let bytes = io::copy(&mut stdin.take(MOST_BYTES + 1), &mut file)?;
            file.flush()?;
            Ok(bytes)
        });
        match copied {
            Ok(bytes) if bytes > MOST_BYTES => {
                let message = format!("stdin has more than {} MiB", MOST_BYTES >> 20);
                Err(Failure::new(Exit::USAGE, message))
            }
            Ok(_) => Ok(copy),
            Err(error) => Err(Failure::new(
                Exit::FAILED,
                format!("cannot keep stdin in {}: {error}", copy.0.display()),
            )),
        }
    }
}

impl Drop for StdinCopy {
    fn drop(&mut self) {
        let _was_not_made = fs::remove_file(&self.0);
    }
}
