//! The daemon as strangers see it: over its socket, as a process, and at the model server's end.

mod protocol;
