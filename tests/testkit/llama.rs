//! llama.cpp's own server, with the model that `tests/prepare-llamacpp.sh` makes.

use crate::process::Running;
use crate::{World, built, repository};

/// The server; it ends with the value.
#[derive(Debug)]
pub struct Llama {
    _server: Running,
    /// Its address, without `/v1`.
    pub endpoint: String,
}

impl Llama {
    /// `None` where it is not prepared, which is said. `more` are arguments of `serve.py`.
    #[expect(clippy::print_stdout, reason = "a test that does not run says why")]
    pub fn start(world: &World, more: &[&str]) -> Option<Self> {
        // The programs lie in TARGET/PROFILE.
        let prepared = built("aishctl").ancestors().nth(2)?.join("llamacpp");
        if !prepared.join("stamp").exists() {
            println!(
                "skipped: run tests/prepare-llamacpp.sh for {}",
                prepared.display()
            );
            return None;
        }
        let script = repository::top().join("tests/data/llamacpp/serve.py");
        let model = prepared.join("scripted.gguf");
        let args = [&[script.to_str()?, model.to_str()?], more].concat();
        let mut server = world
            .program(&prepared.join("venv/bin/python"), &args)
            .spawn();
        let line = server.line_with("LISTEN ");
        let endpoint = line.trim_start_matches("LISTEN ").to_owned();
        Some(Self {
            _server: server,
            endpoint,
        })
    }
}
