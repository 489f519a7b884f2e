//! Who does the cryptography of TLS.

/// Says it for the whole process; again is nothing new. Before the first HTTP client is built, which fails without.
pub fn provide() {
    // It is refused only where it was said before.
    drop(rustls::crypto::ring::default_provider().install_default());
}
