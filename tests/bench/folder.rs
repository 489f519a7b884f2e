//! What it takes to look into a directory before a question, printed: `cargo bench -p aishd --bench folder`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on ends here, and its figures go to whoever runs it"
)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use aishd_model::trusted_instructions::TrustedInstructions;
use aishd_project::ProjectCache;

const ROUNDS: usize = 200;
/// A file system may give changes within so long the same time, and who looks meanwhile reads everything again.
const SETTLED: Duration = Duration::from_secs(4);

/// So many directories below two levels, each with so many files.
fn tree(root: &Path, directories: usize, files: usize) {
    for at in 0..directories {
        let directory = root.join(format!("part-{}/module-{at}", at % 10));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..files {
            fs::write(directory.join(format!("file-{file}.rs")), "").unwrap();
        }
    }
    fs::write(root.join(".gitignore"), "*.log\n/target\nbuild/\n").unwrap();
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    for (directories, files) in [(20, 10), (500, 100), (5_000, 10), (5, 10_000)] {
        let place = tempfile::tempdir().unwrap();
        tree(place.path(), directories, files);
        let path = place.path().to_str().unwrap().to_owned();
        let (folders, trusted) = (ProjectCache::default(), TrustedInstructions::default());
        std::thread::sleep(SETTLED);
        let look = || {
            let begun = Instant::now();
            let looked = runtime.block_on(folders.look(&path, &trusted));
            (begun.elapsed(), looked)
        };
        let (first, looked) = look();
        let mut times: Vec<Duration> = (0..ROUNDS).map(|_| look().0).collect();
        times.sort();
        let block = looked.blocks.as_ref().and_then(|it| it.within(None));
        println!(
            "{:>6} files in {directories:>4} directories: first {:>6.1} ms, then {:>5.2} ms (median), {:>5.2} ms (most); block {} bytes{}",
            directories * files,
            millis(first),
            millis(times[ROUNDS / 2]),
            millis(times[ROUNDS - 1]),
            block.map_or(0, |it| it.len()),
            looked
                .remarks
                .first()
                .map_or(String::new(), |it| format!("; {it}")),
        );
    }
}
