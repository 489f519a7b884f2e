//! The program: one request on its input, one reply on its output, and it ends.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::thread::set_name;

use crate::call::FileCall;
use crate::edit::edit;
use crate::failure::{FailureKind, FileFailure};
use crate::list::list;
use crate::read::read;
use crate::reply::FileReply;
use crate::request::FileRequest;
use crate::search::search;
use crate::write::write;

/// The argument that makes `aishd` this program.
pub const ARGUMENT: &str = "--files";
/// What a request can come to: the largest file that is written, with signs that are six bytes in JSON, and what was seen.
const REQUEST_BYTES: u64 = 256 << 20;

/// Whether these arguments ask for the program.
pub fn is_asked_for(mut args: impl Iterator<Item = OsString>) -> bool {
    args.nth(1).is_some_and(|it| it == ARGUMENT) && args.next().is_none()
}

/// Serves the standard input and output.
pub fn main() -> ExitCode {
    let _longer_name_in_ps = set_name(c"aish-files");
    // Whoever started us may have left descriptors open.
    close_fds::set_fds_cloexec(3, &[]);
    match serve(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads any more.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Reads one request to the end of the input and writes one reply, on one line. A request that is none gets a reply too.
///
/// # Errors
/// Where the reply cannot be written.
pub fn serve(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let reply = match request(input) {
        Ok(request) => answer(&request),
        Err(why) => FileReply::failed(FileFailure::new(FailureKind::BadRequest, why)),
    };
    let mut line = serde_json::to_vec(&reply)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

fn request(input: impl Read) -> Result<FileRequest, String> {
    let mut text = vec![];
    let read = input.take(REQUEST_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| format!("the request cannot be read: {error}"))?;
    if text.len() as u64 > REQUEST_BYTES {
        return Err("the request is too large".to_owned());
    }
    serde_json::from_slice(&text).map_err(|error| format!("the request is none: {error}"))
}

/// Does what a request asks for.
pub fn answer(request: &FileRequest) -> FileReply {
    if let Err(why) = request.call.check() {
        return FileReply::failed(FileFailure::new(FailureKind::BadRequest, why));
    }
    let done = match &request.call {
        FileCall::Read(call) => read(request, call),
        FileCall::List(call) => list(request, call),
        FileCall::Search(call) => search(request, call),
        FileCall::Edit(call) => edit(request, call),
        FileCall::Write(call) => write(request, call),
    };
    done.unwrap_or_else(FileReply::failed)
}
