//! The broker against recorded and written streams, against hostile servers, and against a real one.

mod discovery;
mod hostile;
mod llamacpp;
mod scripted;
mod streams;
