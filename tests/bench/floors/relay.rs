//! The client half of the thinnest question through a daemon: no runtime, a blocking socket.
//!
//! `bench-relay SOCKET MODEL PROMPT`

use std::borrow::Cow;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    delta: Cow<'a, str>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, socket, model, prompt] = args.as_slice() else {
        return Err("bench-relay SOCKET MODEL PROMPT".into());
    };
    let mut stream = UnixStream::connect(socket)?;
    let mut question = json!({"model": model, "prompt": prompt}).to_string();
    question.push('\n');
    stream.write_all(question.as_bytes())?;
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    let mut out = std::io::stdout().lock();
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        let got: Line<'_> = serde_json::from_str(&line)?;
        out.write_all(got.delta.as_bytes())?;
        out.flush()?;
        line.clear();
    }
    Ok(())
}
