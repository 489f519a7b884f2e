//! The daemon as strangers see it: over its socket, as a process, and at the model server's end.

mod bad_input;
mod crash;
mod disk;
mod fanout;
mod place;
mod protocol;
mod turns;
