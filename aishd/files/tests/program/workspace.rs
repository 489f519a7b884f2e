//! A directory of a conversation, and the program asked about it.

use std::cell::RefCell;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use aishd_files::{ARGUMENT, FailureKind, FileCall, FileReply, FileRequest, SeenFile};
use serde_json::Value;
use tempfile::TempDir;

/// The argument that has this program killed on its way, at the step that the next one says.
pub(crate) const KILLED: &str = "--killed";

pub(crate) struct Workspace {
    _temporary: TempDir,
    top: PathBuf,
    seen: RefCell<Vec<SeenFile>>,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        Self {
            top: fs::canonicalize(temporary.path()).unwrap(),
            _temporary: temporary,
            seen: RefCell::default(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    /// Makes a file, and the directories that it needs.
    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn link(&self, target: &str, name: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Names in the directory, those that were left behind among them.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.top).unwrap();
        let mut names: Vec<String> = names
            .map(|it| it.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// What the program says to a call, by a process of its own. What was seen is known to the next call.
    #[track_caller]
    pub(crate) fn ask(&self, tool: &str, arguments: &Value) -> FileReply {
        let (output, reply) = self.asked(&[ARGUMENT], &self.request(tool, arguments));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        reply.unwrap_or_else(|| panic!("no reply to {tool} {arguments}: {said}"))
    }

    /// The same from a program that is killed at its nth step; none: it was.
    #[track_caller]
    pub(crate) fn ask_killed(
        &self,
        nth: usize,
        tool: &str,
        arguments: &Value,
    ) -> Option<FileReply> {
        let nth = nth.to_string();
        let (output, reply) = self.asked(&[KILLED, &nth], &self.request(tool, arguments));
        if output.status.signal() == Some(9) {
            assert_eq!(None, reply, "it said what was not yet so");
            return None;
        }
        assert!(reply.is_some(), "no reply to {tool} {arguments}");
        reply
    }

    /// What the program says to some bytes.
    #[track_caller]
    pub(crate) fn ask_plainly(&self, request: &[u8]) -> FileReply {
        let (_, reply) = self.asked(&[ARGUMENT], request);
        reply.unwrap()
    }

    /// The text of a reply to a call that is done; `W` is the directory.
    #[track_caller]
    pub(crate) fn text(&self, tool: &str, arguments: &Value) -> String {
        let reply = self.ask(tool, arguments);
        assert_eq!(None, reply.failure, "{}", reply.text);
        self.shortened(&reply.text)
    }

    /// The same where it comes to nothing.
    #[track_caller]
    pub(crate) fn refused(&self, tool: &str, arguments: &Value, kind: FailureKind) -> String {
        let reply = self.ask(tool, arguments);
        assert_eq!(Some(kind), reply.failure, "{}", reply.text);
        self.shortened(&reply.text)
    }

    fn shortened(&self, text: &str) -> String {
        text.replace(self.top.to_str().unwrap(), "W")
    }

    fn request(&self, tool: &str, arguments: &Value) -> Vec<u8> {
        let call = FileCall::of(tool, arguments.as_object().unwrap());
        let request = FileRequest {
            call: call.unwrap_or_else(|why| panic!("{why}")),
            directory: self.top.clone(),
            home: Some(self.top.clone()),
            roots: vec![],
            keys: vec![],
            seen: self.seen.borrow().clone(),
        };
        serde_json::to_vec(&request).unwrap()
    }

    fn asked(&self, arguments: &[&str], request: &[u8]) -> (Output, Option<FileReply>) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .env_clear()
            .env("HOME", &self.top)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may have been killed before it has read all.
        let _killed = child.stdin.take().unwrap().write_all(request);
        let output = child.wait_with_output().unwrap();
        let reply: Option<FileReply> = serde_json::from_slice(&output.stdout).ok();
        if let Some(seen) = reply.as_ref().and_then(|it| it.seen.clone()) {
            self.seen.borrow_mut().push(seen);
        }
        (output, reply)
    }
}

/// What stands in the place of a directory in requests that are written by hand.
pub(crate) fn is_below(path: &str, top: &Path) -> bool {
    Path::new(path).starts_with(top)
}
