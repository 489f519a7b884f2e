//! Carries bytes between a child and a host until both ways have ended, or nothing moves any more.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::OwnedWriteHalf;

use crate::report::{ByteDirection, ConnectionBytes};
use crate::stream::{BufferedStream, StreamReader};

/// Both ways. The end of one way is passed on, and the other goes on.
pub(crate) async fn relay(
    mut child: BufferedStream,
    mut host: BufferedStream,
    bytes: &ConnectionBytes,
    idle: Duration,
) -> io::Result<()> {
    let out = carry(
        &mut child.reader,
        &mut host.writer,
        bytes,
        ByteDirection::Out,
    );
    let back = carry(
        &mut host.reader,
        &mut child.writer,
        bytes,
        ByteDirection::In,
    );
    let both = async { tokio::try_join!(out, back) };
    tokio::select! {
        done = both => done.map(|_| ()),
        () = stand_still(bytes, idle) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// One way, to its end.
pub(crate) async fn carry(
    from: &mut StreamReader,
    to: &mut OwnedWriteHalf,
    bytes: &ConnectionBytes,
    direction: ByteDirection,
) -> io::Result<()> {
    let mut buffer = vec![];
    loop {
        if from.read_some(&mut buffer, u64::MAX).await? == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer).await?;
        bytes.add(direction, buffer.len());
    }
}

/// Comes back when nothing has moved for so long.
pub(crate) async fn stand_still(bytes: &ConnectionBytes, idle: Duration) {
    let mut before = None;
    while before != Some(bytes.moved()) {
        before = Some(bytes.moved());
        tokio::time::sleep(idle).await;
    }
}
