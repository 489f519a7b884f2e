//! What every HTTP client of the daemon needs: who does the cryptography, and whole lines for the parser of event streams.

pub mod event_lines;
pub mod tls;
