//! Whether the audit trail is what was written: each record follows on the one before it, up to the one that the index has
//! for the last, and tells of a fact that was stored with it.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use aish_proto::id::{ConversationId, Seq};
use aishd_log::audit::AuditFact;
use aishd_log::audit::chain::{ChainBreak, ChainHead, FactReference, SealedRecord};
use aishd_log::audit::fact::is_audited;
use aishd_log::audit::verdict::{ChainFault, ChainFinding, ChainVerdict};
use aishd_log::event::{Event, Record};
use aishd_log::tool::ContentDigest;

use super::journal::LineLocation;
use super::line::JournalRecord;
use super::relocation::RecordSeq;
use super::scan::{self, CommitLines, JournalDamage, ScanError};
use super::segment::JournalSegment;
use super::{ReadError, Store};

impl Store {
    /// Looks at all of it. What is written meanwhile is not looked at. Blocks.
    pub fn verify_trail(&self, noted: Option<ChainHead>) -> Result<ChainVerdict, ReadError> {
        let head = self.trail_head()?;
        let (check, damage) = self.read_unchanged(
            |segments| {
                let mut check = TrailCheck::new(Some(head), noted);
                let damage = check.walk(segments)?;
                Ok((check, damage))
            },
            |(_, damage)| damage.is_empty(),
        )?;
        check.finish(damage, |it| self.is_deleted(it))
    }
}

/// Looks at what each commit tells of, in the order in which they were written.
pub(super) struct TrailCheck {
    /// What comes behind it is not looked at; `None`: nobody knows where the trail ends.
    head: Option<ChainHead>,
    noted: Option<ChainHead>,
    /// The record that was noted, as it is.
    met: Option<ChainHead>,
    /// The last record that follows on the one before it.
    before: ChainHead,
    /// Before the first record nothing was told of anything: an older program wrote that.
    begun: bool,
    /// Where conversations are deleted; the id of one may be used again.
    deleted: HashMap<ConversationId, u64>,
    /// Records whose fact is not there.
    gone: Vec<(u64, ConversationId, Seq)>,
    /// Events that have no record, and the last records before their commit and in it.
    untold: Vec<(RangeInclusive<u64>, LineLocation, ConversationId, Seq)>,
    /// Facts that are not what they were.
    changed: Vec<(u64, ConversationId, Seq)>,
    /// Where the chain has gaps: the first missing record, the one behind it, and where that stands.
    gaps: Vec<(u64, u64, LineLocation)>,
    repairs: StoreRepairs,
    verdict: ChainVerdict,
}

impl TrailCheck {
    pub(super) fn new(head: Option<ChainHead>, noted: Option<ChainHead>) -> Self {
        Self {
            head,
            noted: noted.filter(|it| it.n > 0),
            met: None,
            before: ChainHead::default(),
            begun: false,
            deleted: HashMap::new(),
            gone: vec![],
            untold: vec![],
            changed: vec![],
            gaps: vec![],
            repairs: StoreRepairs::default(),
            verdict: ChainVerdict::default(),
        }
    }

    /// Looks at what the journal has, in the order in which it was written. Returns where it is damaged.
    fn walk(&mut self, segments: &[JournalSegment]) -> Result<Vec<JournalDamage>, ReadError> {
        let read = scan::read(segments, None, &mut |lines| {
            self.commit(&lines);
            Ok(())
        });
        match read {
            Ok(ended) => Ok(ended.damage),
            Err(error @ (ScanError::Io(_) | ScanError::Refused(_))) => {
                Err(ReadError::Unavailable(error.to_string()))
            }
        }
    }

    /// What is told in one commit, and whether it is so.
    pub(super) fn commit(&mut self, lines: &CommitLines<'_>) {
        let mut facts = HashMap::new();
        for (rec, _) in lines {
            if let JournalRecord::Event(it) = rec
                && let Ok(RecordSeq { seq }) = serde_json::from_str(it.record.get())
            {
                self.repairs.event(it.conversation, seq, it.record.get());
                facts.insert((it.conversation, seq), it.record.get().as_bytes());
            }
        }
        let mut told = HashSet::new();
        let began = self.before.n;
        for (rec, location) in lines {
            let JournalRecord::Audit(rec) = rec else {
                continue;
            };
            if self.is_behind(rec.n) {
                // The whole commit was written meanwhile.
                return;
            }
            self.begun = true;
            let sealed = SealedRecord {
                n: rec.n,
                hash: rec.hash,
                text: rec.entry.get().to_owned(),
            };
            if self.noted.is_some_and(|it| it.n == sealed.n) {
                self.met = Some(sealed.head());
            }
            match self.before.follow(&sealed) {
                Ok(link) => {
                    told.extend(link.fact.conversation.zip(link.fact.seq));
                    self.fact(&sealed, link.fact, &facts);
                }
                Err(ChainBreak::Gap(missing)) => {
                    let entry = sealed.entry().ok().map(|it| it.draft);
                    // A repair that lost the end of the trail is told of right behind the gap.
                    if let Some(AuditFact::StoreRepaired { trail, .. }) =
                        entry.as_ref().map(|it| &it.told)
                    {
                        self.repairs.told(trail);
                    }
                    told.extend(entry.and_then(|it| it.conversation.zip(it.seq)));
                    self.gaps.push((sealed.n - missing, sealed.n, *location));
                }
                Err(broken) => {
                    // What it tells of is not looked for: one change is one finding.
                    let entry = sealed.entry().ok().map(|it| it.draft);
                    told.extend(entry.and_then(|it| it.conversation.zip(it.seq)));
                    self.found(
                        Some(sealed.n),
                        Some(place(*location)),
                        ChainFault::Broken(broken),
                    );
                }
            }
        }
        if self.begun {
            self.untold(lines, &told, began);
        }
    }

    fn is_behind(&self, n: u64) -> bool {
        self.head.is_some_and(|it| n > it.n)
    }

    /// Whether what a record tells of is what it was.
    fn fact(
        &mut self,
        sealed: &SealedRecord,
        fact: FactReference,
        facts: &HashMap<(ConversationId, Seq), &[u8]>,
    ) {
        let (Some(conversation), Some(seq), Some(digest)) =
            (fact.conversation, fact.seq, fact.digest)
        else {
            match (fact.conversation, sealed.entry().map(|it| it.draft.told)) {
                (Some(conversation), Ok(AuditFact::ConversationDeleted)) => {
                    self.deleted.insert(conversation, sealed.n);
                }
                (None, Ok(AuditFact::StoreRepaired { trail, .. })) => self.repairs.told(&trail),
                (_, _) => {}
            }
            return;
        };
        match facts.get(&(conversation, seq)) {
            Some(bytes) if ContentDigest::of(bytes) == digest => {}
            Some(_) => self.changed.push((sealed.n, conversation, seq)),
            None => self.gone.push((sealed.n, conversation, seq)),
        }
    }

    /// Events that should have been told of together with what they are committed with.
    fn untold(
        &mut self,
        lines: &CommitLines<'_>,
        told: &HashSet<(ConversationId, Seq)>,
        began: u64,
    ) {
        for (rec, location) in lines {
            let JournalRecord::Event(rec) = rec else {
                continue;
            };
            let Ok(record) = serde_json::from_str::<Record>(rec.record.get()) else {
                continue;
            };
            let is_copy = matches!(
                record.event,
                Event::Created {
                    forked_from: Some(_),
                    ..
                }
            );
            if is_audited(&record.event) && !told.contains(&(rec.conversation, record.seq)) {
                let around = began..=self.before.n;
                self.untold
                    .push((around, *location, rec.conversation, record.seq));
            }
            // What is copied was told of where it happened.
            if is_copy {
                return;
            }
        }
    }

    /// `damage`: where the journal cannot be read.
    pub(super) fn finish(
        mut self,
        damage: Vec<JournalDamage>,
        is_deleted: impl Fn(ConversationId) -> Result<bool, ReadError>,
    ) -> Result<ChainVerdict, ReadError> {
        let head = self.head.unwrap_or(self.before);
        self.verdict.head = head;
        self.verdict.lost = self.repairs.lost_of_trail;
        for (first, n, at) in std::mem::take(&mut self.gaps) {
            if !self.repairs.has_gap(first) {
                let fault = ChainFault::Broken(ChainBreak::Gap(n - first));
                self.found(Some(n), Some(place(at)), fault);
            }
        }
        for (around, at, conversation, seq) in std::mem::take(&mut self.untold) {
            if !around.into_iter().any(|it| self.repairs.has_gap(it + 1)) {
                self.found(None, Some(place(at)), ChainFault::Untold(conversation, seq));
            }
        }
        for (n, conversation, seq) in std::mem::take(&mut self.changed) {
            if !self.repairs.has_lost(conversation, seq) {
                self.found(Some(n), None, ChainFault::FactChanged(conversation, seq));
            }
        }
        for damage in damage {
            let place = (damage.file.display().to_string(), damage.offset);
            self.found(None, Some(place), ChainFault::Journal(damage.what));
        }
        for (n, conversation, seq) in std::mem::take(&mut self.gone) {
            let is_gone = self.deleted.get(&conversation).is_some_and(|it| *it > n)
                || is_deleted(conversation)?
                || self.repairs.has_lost(conversation, seq);
            if !is_gone {
                self.found(Some(n), None, ChainFault::FactGone(conversation, seq));
            }
        }
        if self.before.n < head.n {
            let n = self.before.n + 1;
            self.found(Some(n), None, ChainFault::Cut(head.n));
        } else if self.before != head {
            let fault = ChainFault::Broken(ChainBreak::Changed);
            self.found(Some(head.n), None, fault);
        }
        match (self.noted, self.met) {
            (Some(noted), None) => self.found(Some(noted.n), None, ChainFault::Cut(noted.n)),
            (Some(noted), Some(met)) if noted != met => {
                self.found(Some(noted.n), None, ChainFault::NotAsNoted);
            }
            (Some(_) | None, _) => {}
        }
        Ok(self.verdict)
    }

    fn found(&mut self, n: Option<u64>, place: Option<(String, u64)>, fault: ChainFault) {
        self.verdict.add(ChainFinding { n, place, fault });
    }
}

/// What repairs of the store have told of: what they found lost is missed by nobody.
#[derive(Default)]
struct StoreRepairs {
    is_told: bool,
    /// The first record of each gap in the trail.
    gaps: HashSet<u64>,
    lost_of_trail: u64,
    /// Where a record stood that is lost.
    lost: HashSet<(ConversationId, Seq)>,
}

impl StoreRepairs {
    fn event(&mut self, conversation: ConversationId, seq: Seq, stored: &str) {
        // A name of a variant is not escaped, and no text can look like one outside of quotes.
        if stored.contains(r#""event":{"record_lost""#) {
            self.lost.insert((conversation, seq));
        }
    }

    fn told(&mut self, trail: &[(u64, u64)]) {
        self.is_told = true;
        self.gaps.extend(trail.iter().map(|(first, _)| *first));
        let of_trail = trail
            .iter()
            .map(|(first, last)| (last + 1).saturating_sub(*first));
        self.lost_of_trail += of_trail.sum::<u64>();
    }

    fn has_gap(&self, first: u64) -> bool {
        self.gaps.contains(&first)
    }

    fn has_lost(&self, conversation: ConversationId, seq: Seq) -> bool {
        self.is_told && self.lost.contains(&(conversation, seq))
    }
}

fn place(location: LineLocation) -> (String, u64) {
    (format!("{:020}.jsonl", location.segment), location.line)
}
