//! A proxy on a real socket, between clients and servers of these tests.

mod figures;
mod hostile;
mod place;
mod policy;
mod programs;
mod protocols;
mod questions;
mod upstream;
