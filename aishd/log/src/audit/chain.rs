//! How the records of the trail hang together: each has its number, and the digest of the one before it. A record is
//! the text that was written, and its digest is over exactly these bytes, so that anybody can check it.

use aish_proto::id::{ConversationId, Seq};
use serde::{Deserialize, Serialize};

use super::AuditDraft;
use crate::tool::ContentDigest;

/// The last record of a trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    /// As many records there are.
    pub n: u64,
    /// The digest of the last of them.
    pub hash: ContentDigest,
}

/// A trail without a record.
impl Default for ChainHead {
    fn default() -> Self {
        Self {
            n: 0,
            hash: ContentDigest([0; 32]),
        }
    }
}

/// A record in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRecord {
    pub n: u64,
    pub hash: ContentDigest,
    pub text: String,
}

/// What a record's text says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainEntry {
    pub n: u64,
    /// The digest of the record before it; zeros before the first.
    pub previous: ContentDigest,
    #[serde(rename = "record")]
    pub draft: AuditDraft,
}

/// The part of a record by which it is tied to the one before it, and to what it tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ChainLink {
    n: u64,
    previous: ContentDigest,
    #[serde(rename = "record")]
    pub fact: FactReference,
}

/// The event that a record tells of, where it tells of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct FactReference {
    #[serde(default)]
    pub conversation: Option<ConversationId>,
    #[serde(default)]
    pub seq: Option<Seq>,
    #[serde(rename = "fact", default)]
    pub digest: Option<ContentDigest>,
}

/// Why a record is not the one that was written after the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainBreak {
    #[error("it was changed: its digest is another")]
    Changed,
    #[error("it cannot be read")]
    Unreadable,
    #[error("it says that it is number {0}")]
    Misplaced(u64),
    #[error("it does not follow on the record before it: that one or this one was changed")]
    Unlinked,
    #[error("it does not follow on the record before it: {0} are missing")]
    Gap(u64),
    #[error("it stands behind a record that comes after it")]
    Reordered,
}

impl ChainHead {
    /// Gives a draft the next place; the head moves on to it.
    pub fn seal(&mut self, draft: &AuditDraft) -> Result<SealedRecord, serde_json::Error> {
        let entry = ChainEntry {
            n: self.n + 1,
            previous: self.hash,
            draft: draft.clone(),
        };
        let text = serde_json::to_string(&entry)?;
        let sealed = SealedRecord {
            n: entry.n,
            hash: ContentDigest::of(text.as_bytes()),
            text,
        };
        *self = sealed.head();
        Ok(sealed)
    }

    /// What a record says that is said to follow, or what is wrong with it; the head moves on to it all the same, so
    /// that one break is told of once.
    pub fn follow(&mut self, sealed: &SealedRecord) -> Result<ChainLink, ChainBreak> {
        let before = std::mem::replace(self, sealed.head());
        if sealed.n <= before.n {
            return Err(ChainBreak::Reordered);
        }
        if ContentDigest::of(sealed.text.as_bytes()) != sealed.hash {
            return Err(ChainBreak::Changed);
        }
        let link: ChainLink = match serde_json::from_str(&sealed.text) {
            Ok(link) => link,
            Err(_unreadable) => return Err(ChainBreak::Unreadable),
        };
        if link.n != sealed.n {
            return Err(ChainBreak::Misplaced(link.n));
        }
        if sealed.n > before.n + 1 {
            return Err(ChainBreak::Gap(sealed.n - before.n - 1));
        }
        if link.previous != before.hash {
            return Err(ChainBreak::Unlinked);
        }
        Ok(link)
    }
}

impl SealedRecord {
    pub fn head(&self) -> ChainHead {
        ChainHead {
            n: self.n,
            hash: self.hash,
        }
    }

    pub fn entry(&self) -> Result<ChainEntry, serde_json::Error> {
        serde_json::from_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::audit::AuditFact;
    use crate::event::PresetSource;
    use crate::time::Timestamp;

    fn trail(length: usize) -> Vec<SealedRecord> {
        let mut head = ChainHead::default();
        let seal = |it| {
            let told = AuditFact::ModelChosen {
                model: format!("m{}", it % 3),
                source: PresetSource::Configured,
            };
            head.seal(&AuditDraft::outside_conversation(Timestamp(it), told))
                .unwrap()
        };
        (0..i64::try_from(length).unwrap()).map(seal).collect()
    }

    /// The first break, if any, and whether the end is where it was.
    fn verify(trail: &[SealedRecord], end: ChainHead) -> Option<(usize, ChainBreak)> {
        let mut head = ChainHead::default();
        let broken = trail
            .iter()
            .enumerate()
            .find_map(|(at, it)| Some((at, head.follow(it).err()?)));
        broken.or_else(|| (head != end).then_some((trail.len(), ChainBreak::Gap(0))))
    }

    #[test]
    fn a_trail_as_it_was_written_is_whole() {
        let trail = trail(20);
        assert_eq!(None, verify(&trail, trail[19].head()));
        assert_eq!(None, verify(&[], ChainHead::default()));
        for it in &trail {
            assert_eq!(it.n, it.entry().unwrap().n);
        }
    }

    proptest! {
        /// Any single change is found, and where.
        #[test]
        fn any_changed_byte_is_found(length in 1_usize..30, which in any::<prop::sample::Index>(),
                                     byte in any::<prop::sample::Index>(), bit in 0_u32..7) {
            let mut trail = trail(length);
            let end = trail[length - 1].head();
            let at = which.index(length);
            let mut bytes = trail[at].text.clone().into_bytes();
            let place = byte.index(bytes.len());
            bytes[place] ^= 1 << bit;
            trail[at].text = String::from_utf8_lossy(&bytes).into_owned();
            prop_assert_eq!(Some((at, ChainBreak::Changed)), verify(&trail, end));
            // Also by one who knows how digests are made: then the record behind it, or the end, does not fit.
            trail[at].hash = ContentDigest::of(trail[at].text.as_bytes());
            let found = verify(&trail, end);
            prop_assert!(found.is_some_and(|(it, _)| it == at || it == at + 1), "{:?}", found);
        }

        #[test]
        fn a_removed_record_is_found(length in 1_usize..30, which in any::<prop::sample::Index>()) {
            let mut trail = trail(length);
            let end = trail[length - 1].head();
            let at = which.index(length);
            trail.remove(at);
            prop_assert_eq!(Some(at), verify(&trail, end).map(|(it, _)| it));
            // Given the numbers of those that are missing, too.
            for it in &mut trail[at..] {
                it.n -= 1;
            }
            prop_assert_eq!(Some(at), verify(&trail, end).map(|(it, _)| it));
        }

        #[test]
        fn a_trail_that_was_cut_is_found(length in 1_usize..30, which in any::<prop::sample::Index>()) {
            let trail = trail(length);
            let kept = which.index(length);
            let found = verify(&trail[..kept], trail[length - 1].head());
            prop_assert_eq!(Some(kept), found.map(|(it, _)| it));
        }

        #[test]
        fn records_in_another_order_are_found(length in 2_usize..30, a in any::<prop::sample::Index>(),
                                              b in any::<prop::sample::Index>()) {
            let mut trail = trail(length);
            let end = trail[length - 1].head();
            let a = a.index(length);
            // Any other one.
            let b = (a + 1 + b.index(length - 1)) % length;
            trail.swap(a, b);
            prop_assert_eq!(Some(a.min(b)), verify(&trail, end).map(|(it, _)| it));
        }

        #[test]
        fn a_record_that_was_put_in_is_found(length in 2_usize..30, which in any::<prop::sample::Index>()) {
            let mut trail = trail(length);
            let end = trail[length - 1].head();
            let at = which.index(length - 1);
            let mut head = trail[at].head();
            let other = AuditDraft::outside_conversation(Timestamp(7), AuditFact::ConversationDeleted);
            trail.insert(at + 1, head.seal(&other).unwrap());
            prop_assert!(verify(&trail, end).is_some());
        }
    }
}
