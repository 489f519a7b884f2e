//! The revisions of the protocol.

/// One of them; the order is that of their dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    Of20241105,
    Of20250326,
    Of20250618,
    Of20251125,
    Of20260728,
}

impl Revision {
    pub const ALL: [Self; 5] = [
        Self::Of20241105,
        Self::Of20250326,
        Self::Of20250618,
        Self::Of20251125,
        Self::Of20260728,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Of20241105 => "2024-11-05",
            Self::Of20250326 => "2025-03-26",
            Self::Of20250618 => "2025-06-18",
            Self::Of20251125 => "2025-11-25",
            Self::Of20260728 => "2026-07-28",
        }
    }

    /// `None`: there is none of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// All that there are, for people.
    pub fn all() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}
