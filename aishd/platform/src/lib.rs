//! What the daemon asks of the machine: the time and new ids, files for their owner alone, a lock that one daemon holds, and places
//! where a test can make it die.

pub mod clock;
pub mod failpoint;
pub mod file_lock;
pub mod private_file;
