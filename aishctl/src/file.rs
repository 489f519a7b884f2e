//! A file that a person names; `-` is stdin.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// What it holds, of at most so many bytes.
pub fn read(file: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let mut text = vec![];
    let read = if file == Path::new("-") {
        io::stdin().take(most + 1).read_to_end(&mut text)
    } else {
        File::open(file).and_then(|it| it.take(most + 1).read_to_end(&mut text))
    };
    let name = name(file);
    read.map_err(|error| Failure::new(Exit::FAILED, format!("cannot read {name}: {error}")))?;
    if text.len() as u64 > most {
        let message = format!("{name} has more than {most} bytes");
        return Err(Failure::new(Exit::USAGE, message));
    }
    Ok(text)
}

/// As it is shown.
pub fn name(file: &Path) -> String {
    safe::one_line(&file.display().to_string())
}
