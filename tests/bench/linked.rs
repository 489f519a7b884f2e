//! How a program was linked, by its own headers: a figure is worth nothing when it is of another build than what is shipped.

use std::fs;
use std::path::Path;

/// Its size, and whether a loader has to put it together when it starts: `3.8 MB, static`.
pub(crate) fn linked(program: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(program)?;
    #[expect(clippy::cast_precision_loss, reason = "programs are smaller than that")]
    let size = bytes.len() as f64 / 1e6;
    let how = match (needs_loader(&bytes), number::<2>(&bytes, 16)) {
        (None, _) => "not an ELF program",
        (Some(true), _) => "dynamic",
        // ET_DYN: it stands at another address each time.
        (Some(false), Some(3)) => "static PIE",
        (Some(false), _) => "static",
    };
    Ok(format!("{size:.1} MB, {how}"))
}

/// Whether a 64-bit ELF program names a loader; nothing for other files.
fn needs_loader(bytes: &[u8]) -> Option<bool> {
    const PT_INTERP: u64 = 3;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(number::<8>(bytes, 32)?).ok()?;
    let size = usize::try_from(number::<2>(bytes, 54)?).ok()?;
    let count = usize::try_from(number::<2>(bytes, 56)?).ok()?;
    let mut kinds = (0..count).map_while(|it| number::<4>(bytes, table + it * size));
    Some(kinds.any(|it| it == PT_INTERP))
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut whole = [0; 8];
    whole[..N].copy_from_slice(bytes.get(at..at + N)?);
    Some(u64::from_le_bytes(whole))
}
