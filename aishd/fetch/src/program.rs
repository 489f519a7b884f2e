//! The program: one request on its input, one reply on its output, and it ends.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::thread::set_name;
use tokio::runtime::Builder;

use crate::failure::FetchFailure;
use crate::journey::find;
use crate::limits::FetchLimits;
use crate::page;
use crate::request::{FetchReply, FetchRequest};

/// The argument that makes `aishd` this program.
pub const ARGUMENT: &str = "--fetch";
/// What a request comes to.
const REQUEST_BYTES: u64 = 1 << 20;

/// Whether these arguments ask for the program.
pub fn is_asked_for(mut args: impl Iterator<Item = OsString>) -> bool {
    args.nth(1).is_some_and(|it| it == ARGUMENT) && args.next().is_none()
}

/// Serves the standard input and output.
pub fn main() -> ExitCode {
    let _longer_name_in_ps = set_name(c"aish-fetch");
    // Whoever started us may have left descriptors open.
    close_fds::set_fds_cloexec(3, &[]);
    match serve(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads any more.
        Err(_) => ExitCode::FAILURE,
    }
}

/// A request that is none gets a reply too.
fn serve(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let reply = match request(input) {
        Ok(request) => answer(&request, FetchLimits::default()),
        Err(why) => failed(&FetchFailure::BadRequest(why)),
    };
    let mut line = serde_json::to_vec(&reply)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

fn request(input: impl Read) -> Result<FetchRequest, String> {
    let mut text = vec![];
    let read = input.take(REQUEST_BYTES).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// Does what a request asks for.
pub fn answer(request: &FetchRequest, limits: FetchLimits) -> FetchReply {
    let runtime = Builder::new_current_thread().enable_all().build();
    let found = match runtime {
        Ok(runtime) => runtime.block_on(find(request, limits)),
        Err(error) => Err(FetchFailure::Unreadable(error.to_string())),
    };
    let reply = found.and_then(|it| page::reply(&request.call, it));
    reply.unwrap_or_else(|failure| failed(&failure))
}

fn failed(failure: &FetchFailure) -> FetchReply {
    let text = format!("[aish] the page was not read: {failure}");
    FetchReply { ok: false, text }
}
