//! Real overlays, mounted as an unprivileged user mounts them, and what is made of their layers.

mod conflicts;
mod driver;
mod figures;
mod hostile;
mod hunks;
mod kills;
mod parts;
mod reading;
mod redo;
mod same_as_real;
mod scene;
mod trees;
