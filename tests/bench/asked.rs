//! One question, asked by a program that is watched from outside: when it was started, what the model's server
//! saw of it, what stood on its standard output when, and when it was gone.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;

use crate::markers::Markers;
use crate::table::millis;
use crate::upstream::Upstream;

/// Times in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// From exec until the model's server had the whole request.
    pub(crate) request: f64,
    /// From exec until the first chunk stood on stdout.
    pub(crate) answer: f64,
    /// From exec until the process was gone.
    pub(crate) exit: f64,
    /// From the end of the answer at the server until the process was gone.
    pub(crate) after_end: f64,
    /// Of each chunk, from the server to stdout.
    pub(crate) lags: Vec<f64>,
    /// What the model's server was sent.
    pub(crate) body: Vec<u8>,
}

/// Runs the program to its end. An answer that is not whole is no measurement.
pub(crate) fn ask(upstream: &Upstream, command: &mut Command) -> anyhow::Result<Asked> {
    let shown = format!("{command:?}");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {shown}"))?;
    let mut stdout = child.stdout.take().context("it is piped")?;
    let mut markers = Markers::default();
    let mut page = vec![0; 64 << 10];
    loop {
        let read = stdout.read(&mut page)?;
        if read == 0 {
            break;
        }
        markers.feed(&page[..read], Instant::now());
    }
    let status = child.wait()?;
    let gone = Instant::now();
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said)?;
    }
    anyhow::ensure!(status.success(), "{shown} ended with {status}: {said}");
    let seen = upstream.take_one()?;
    let (sent, got) = (seen.chunks.len(), markers.times.len());
    anyhow::ensure!(sent == got, "{shown} printed {got} chunks of {sent}");
    let lags = seen.chunks.iter().zip(&markers.times);
    Ok(Asked {
        request: millis(began, seen.asked),
        answer: millis(
            began,
            *markers.times.first().context("the answer is empty")?,
        ),
        exit: millis(began, gone),
        after_end: millis(seen.ended, gone),
        lags: lags.map(|(sent, shown)| millis(*sent, *shown)).collect(),
        body: seen.body,
    })
}
