//! Why a connection was not made, and how that is said to the program that wanted it.

use crate::host::HostPort;

/// Why a connection was not made. The first four are a no; the others failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    DeniedByRule,
    DeniedByAnswer,
    /// No rule is about it, and there is nobody to ask.
    NotListed,
    /// The question stood open until its deadline.
    NotAnswered,
    TooManyQuestions,
    /// It is, or its name led only to, addresses that are reached by a rule with its name alone.
    PrivateAddress,
    NameNotFound,
    ConnectionRefused,
    NotReached,
    TimedOut,
    /// The proxy that the daemon goes out through did not do it.
    UpstreamRefused,
    /// What answered a plain request speaks no HTTP.
    NoAnswer,
}

impl Refusal {
    /// Whether somebody or a rule decided so.
    pub fn is_denial(self) -> bool {
        match self {
            Self::DeniedByRule | Self::DeniedByAnswer | Self::NotListed | Self::NotAnswered => true,
            Self::TooManyQuestions
            | Self::PrivateAddress
            | Self::NameNotFound
            | Self::ConnectionRefused
            | Self::NotReached
            | Self::TimedOut
            | Self::UpstreamRefused
            | Self::NoAnswer => false,
        }
    }

    /// Whether it could be had by a rule or an answer, rather than failed.
    pub fn is_refusal(self) -> bool {
        self.http_status() == 403
    }

    /// A line for people who see only what the program printed.
    pub fn explanation(self, target: &HostPort) -> String {
        let said = match self {
            Self::DeniedByRule | Self::DeniedByAnswer | Self::NotListed => {
                "is not allowed for this command"
            }
            Self::NotAnswered => "is not allowed for this command: nobody answered in time",
            Self::TooManyQuestions => {
                "is not allowed for this command: too many questions are open"
            }
            Self::PrivateAddress => {
                "is at a private address, which only a rule with its name allows"
            }
            Self::NameNotFound => "has no address",
            Self::ConnectionRefused => "refused the connection",
            Self::NotReached => "cannot be reached",
            Self::TimedOut => "did not answer in time",
            Self::UpstreamRefused => "was refused by the proxy that aishd goes through",
            Self::NoAnswer => "did not answer in HTTP",
        };
        format!("aish: {target} {said}")
    }

    pub(crate) fn http_status(self) -> u16 {
        match self {
            Self::DeniedByRule
            | Self::DeniedByAnswer
            | Self::NotListed
            | Self::NotAnswered
            | Self::TooManyQuestions
            | Self::PrivateAddress => 403,
            Self::NameNotFound
            | Self::ConnectionRefused
            | Self::NotReached
            | Self::UpstreamRefused
            | Self::NoAnswer => 502,
            Self::TimedOut => 504,
        }
    }

    /// The reply code of RFC 1928.
    pub(crate) fn socks_reply(self) -> u8 {
        match self {
            Self::DeniedByRule
            | Self::DeniedByAnswer
            | Self::NotListed
            | Self::NotAnswered
            | Self::TooManyQuestions
            | Self::PrivateAddress => 2,
            Self::NameNotFound | Self::NotReached | Self::TimedOut => 4,
            Self::ConnectionRefused => 5,
            Self::UpstreamRefused | Self::NoAnswer => 1,
        }
    }
}
