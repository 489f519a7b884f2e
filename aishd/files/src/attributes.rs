//! What makes a file the same one besides its content: mode, owner, access lists and extended attributes.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{Gid, Mode, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;

/// The largest value that Linux takes.
const VALUE_BYTES: usize = 64 * 1024;

/// Gives a new file what another one has. An error says what cannot be kept.
pub(crate) fn keep(from: &File, meta: &Metadata, to: &File) -> Result<(), String> {
    keep_owner(meta, to).map_err(|_| "its owner".to_owned())?;
    fchmod(to, Mode::from_raw_mode(meta.mode() & 0o7777)).map_err(|_| "its mode".to_owned())?;
    keep_xattrs(from, to)?;
    // The kernel takes away what it does not let us set.
    let has = to.metadata().map_err(|_| "its mode".to_owned())?;
    if has.mode() & 0o7777 != meta.mode() & 0o7777 {
        return Err("its mode".to_owned());
    }
    Ok(())
}

fn keep_owner(meta: &Metadata, to: &File) -> io::Result<()> {
    let has = to.metadata()?;
    if (has.uid(), has.gid()) == (meta.uid(), meta.gid()) {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(meta.uid()), Gid::from_raw(meta.gid()));
    Ok(fchown(to, Some(user), Some(group))?)
}

fn keep_xattrs(from: &File, to: &File) -> Result<(), String> {
    let cannot = |name: &[u8]| format!("its attribute {}", String::from_utf8_lossy(name));
    for name in names(from).map_err(|_| "its attributes".to_owned())? {
        if !is_kept(&name) {
            continue;
        }
        let wanted = value(from, &name).map_err(|_| cannot(&name))?;
        let has = value(to, &name).unwrap_or_default();
        let Some(wanted) = wanted.filter(|it| Some(it) != has.as_ref()) else {
            continue;
        };
        fsetxattr(to, &name[..], &wanted, XattrFlags::empty()).map_err(|_| cannot(&name))?;
    }
    Ok(())
}

/// Capabilities go with every change, and overlays keep their own books.
fn is_kept(name: &[u8]) -> bool {
    let by_others = [&b"security.capability"[..], b"user.overlay.", b"trusted."];
    !by_others.iter().any(|it| name.starts_with(it))
}

fn names(file: &File) -> Result<Vec<Vec<u8>>, Errno> {
    let mut buffer = Vec::with_capacity(1024);
    loop {
        match flistxattr(file, rustix::buffer::spare_capacity(&mut buffer)) {
            Ok(_length) => break,
            Err(Errno::RANGE) if buffer.capacity() <= VALUE_BYTES => {
                buffer = Vec::with_capacity(buffer.capacity() * 4);
            }
            // Some file systems have none at all.
            Err(Errno::OPNOTSUPP) => return Ok(vec![]),
            Err(error) => return Err(error),
        }
    }
    let names = buffer.split(|it| *it == 0).filter(|it| !it.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

fn value(file: &File, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    let mut capacity = 256;
    loop {
        let mut buffer = Vec::with_capacity(capacity);
        match fgetxattr(file, name, rustix::buffer::spare_capacity(&mut buffer)) {
            Ok(_length) => return Ok(Some(buffer)),
            Err(Errno::RANGE) if capacity < VALUE_BYTES => capacity = VALUE_BYTES,
            Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}
