//! Why a page was not read, as it is told to the model.

#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchFailure {
    #[error("the request is none: {0}")]
    BadRequest(String),
    /// In the proxy's words.
    #[error("{0}")]
    Refused(String),
    #[error("{from} leads {why}")]
    Redirect { from: String, why: String },
    #[error("it leads on and on: {0} redirects were followed")]
    TooManyRedirects(u32),
    #[error("{host} did not answer within {seconds} s")]
    NoAnswer { host: String, seconds: u64 },
    #[error("{host} cannot be trusted with TLS: {why}")]
    Tls { host: String, why: String },
    #[error("{host} broke off: {why}")]
    BrokeOff { host: String, why: String },
    #[error("{host} sent nothing of the page for {seconds} s")]
    Silent { host: String, seconds: u64 },
    #[error("the page is packed as {0:?}, which was not asked for")]
    Packed(String),
    #[error("the page cannot be unpacked: {0}")]
    Unpack(String),
    #[error("the page cannot be read: {0}")]
    Unreadable(String),
}
