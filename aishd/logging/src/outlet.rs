//! Lines on their way to stderr. Whoever logs never waits for who reads: a thread of its own writes, and what it cannot
//! get rid of in time is dropped and counted.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// What waits at most; a single line may be longer.
const WAITING_BYTES: usize = 1024 * 1024;
/// How long the last lines may take at the end.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Cheap to clone; what was put in leaves in its order.
#[derive(Clone)]
pub(super) struct LogOutlet(Arc<OutletQueue>);

struct OutletQueue {
    waiting: Mutex<OutletWaiting>,
    changed: Condvar,
    /// How a line says that so many are missing where it stands.
    missing: Box<dyn Fn(u64) -> String + Send + Sync>,
}

#[derive(Default)]
struct OutletWaiting {
    lines: VecDeque<String>,
    /// Of the lines, and of the one that is being written.
    bytes: usize,
    dropped: u64,
}

impl std::fmt::Debug for LogOutlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogOutlet").finish_non_exhaustive()
    }
}

impl LogOutlet {
    /// Begins to write into `sink`.
    pub(super) fn start(
        sink: impl Write + Send + 'static,
        missing: impl Fn(u64) -> String + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(OutletQueue {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            missing: Box::new(missing),
        });
        let outlet = Self(shared.clone());
        let named = thread::Builder::new().name("log".to_owned());
        named.spawn(move || shared.write_all(sink))?;
        Ok(outlet)
    }

    /// Takes a line without its end.
    pub(super) fn put(&self, mut line: String) {
        line.push('\n');
        let mut waiting = self.0.waiting();
        if !waiting.has_room(line.len()) {
            waiting.dropped += 1;
            return;
        }
        if waiting.dropped > 0 {
            let dropped = std::mem::take(&mut waiting.dropped);
            waiting.add((self.0.missing)(dropped) + "\n");
        }
        waiting.add(line);
        drop(waiting);
        self.0.changed.notify_all();
    }

    /// Waits until everything is written, but not for ever.
    pub(super) fn flush(&self) {
        let unwritten = |it: &mut OutletWaiting| it.bytes > 0 || it.dropped > 0;
        let mut waiting = self.0.waiting();
        self.0
            .changed
            .wait_while_for(&mut waiting, unwritten, LAST_LINES);
    }
}

impl OutletWaiting {
    fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= WAITING_BYTES
    }

    fn add(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push_back(line);
    }
}

impl OutletQueue {
    fn waiting(&self) -> MutexGuard<'_, OutletWaiting> {
        self.waiting.lock()
    }

    /// Writes for ever; the end of the process ends it, also in the middle of a line that nobody takes.
    fn write_all(&self, mut sink: impl Write) {
        loop {
            let line = self.next();
            let _nobody_reads = sink.write_all(line.as_bytes());
            self.waiting().bytes -= line.len();
            self.changed.notify_all();
        }
    }

    fn next(&self) -> String {
        let mut waiting = self.waiting();
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                return line;
            }
            if waiting.dropped > 0 {
                let dropped = std::mem::take(&mut waiting.dropped);
                waiting.add((self.missing)(dropped) + "\n");
                continue;
            }
            self.changed.wait(&mut waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::time::Instant;

    use super::*;

    /// A reader that takes a line when the test does.
    struct Slow(SyncSender<String>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.0.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (LogOutlet, Receiver<String>) {
        let (sender, receiver) = sync_channel(0);
        let outlet = LogOutlet::start(Slow(sender), |count| format!("{count} missing")).unwrap();
        (outlet, receiver)
    }

    #[test]
    fn nobody_waits_for_a_reader_and_it_learns_how_many_lines_it_missed() {
        let (outlet, reader) = slow();
        let line = "x".repeat(1023);
        for _ in 0..3000 {
            outlet.put(line.clone());
        }
        assert!(outlet.0.waiting().bytes <= WAITING_BYTES);
        let started = Instant::now();
        outlet.flush();
        assert!(started.elapsed() < LAST_LINES * 10);
        for _ in 0..1024 {
            assert_eq!(1024, reader.recv().unwrap().len());
        }
        assert_eq!("1976 missing\n", reader.recv().unwrap());
        outlet.put("and on".to_owned());
        assert_eq!("and on\n", reader.recv().unwrap());
        outlet.flush();
        assert_eq!(0, outlet.0.waiting().bytes);
    }

    #[test]
    fn what_is_missing_is_said_where_it_is_missing() {
        let (outlet, reader) = slow();
        // Longer than the whole room, and still a line.
        outlet.put("x".repeat(2 * WAITING_BYTES));
        outlet.put("dropped".to_owned());
        assert_eq!(2 * WAITING_BYTES + 1, reader.recv().unwrap().len());
        assert_eq!("1 missing\n", reader.recv().unwrap());
    }
}
