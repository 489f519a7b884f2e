//! Keeps what sled holds of its file in memory near the size that it is told. Its cache is in 256 parts, and each looks
//! only at every 64th access whether it has too much: whoever reads or writes much once has gone over hundreds of megabytes
//! by then. So a place in what passes is accessed so often that its part of the cache looks.

use sled::Tree;

/// sled looks at its accesses in blocks of so many.
const BLOCK: usize = 64;
/// About a page of sled: sixteen parts of values at most, and half as many where keys ascend.
const PAGE_BYTES: usize = 16 << 10;

/// What is read or written of a tree.
#[derive(Debug)]
pub(super) struct CachePassing<'a> {
    tree: &'a Tree,
    bytes: usize,
}

impl<'a> CachePassing<'a> {
    pub(super) fn through(tree: &'a Tree) -> Self {
        // Of what is less than a page by itself every second one counts.
        let bytes = PAGE_BYTES / 2;
        Self { tree, bytes }
    }

    pub(super) fn value(&mut self, key: &[u8], bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= PAGE_BYTES {
            self.bytes = 0;
            // Nobody waits for an answer; if sled is broken, whoever wants something of it is told.
            (0..BLOCK).all(|_| self.tree.contains_key(key).is_ok());
        }
    }
}
