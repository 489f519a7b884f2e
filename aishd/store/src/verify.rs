//! Whether the audit trail is what was written: each record follows on the one before it, up to the one that the index has
//! for the last, and tells of a fact that was stored with it.

use std::collections::{HashMap, HashSet};

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
use super::segment::{self, JournalSegment};
use super::{ReadError, Store};

impl Store {
    /// Looks at all of it. What is written meanwhile is not looked at. Blocks.
    pub fn verify_trail(&self, noted: Option<ChainHead>) -> Result<ChainVerdict, ReadError> {
        let head = self.trail_head()?;
        let dir = self.shared.dir.join("journal");
        let list = || segment::list(&dir).map_err(|it| ReadError::Unavailable(it.to_string()));
        let mut segments = list()?;
        loop {
            let mut check = TrailCheck::new(self, head, noted);
            let damage = check.walk(&segments);
            // A segment that was written anew between the look at its head and the one at its body looks damaged, and one that
            // another holds since is not there.
            let now = list()?;
            let heads =
                |it: &[JournalSegment]| it.iter().map(|it| it.header.clone()).collect::<Vec<_>>();
            let is_whole = damage.as_ref().is_ok_and(Vec::is_empty);
            if is_whole || heads(&now) == heads(&segments) {
                return check.finish(damage?);
            }
            segments = now;
        }
    }
}

struct TrailCheck<'a> {
    store: &'a Store,
    /// What comes behind it is not looked at.
    head: ChainHead,
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
    verdict: ChainVerdict,
}

impl<'a> TrailCheck<'a> {
    fn new(store: &'a Store, head: ChainHead, noted: Option<ChainHead>) -> Self {
        Self {
            store,
            head,
            noted: noted.filter(|it| it.n > 0),
            met: None,
            before: ChainHead::default(),
            begun: false,
            deleted: HashMap::new(),
            gone: vec![],
            verdict: ChainVerdict {
                head,
                ..ChainVerdict::default()
            },
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
    fn commit(&mut self, lines: &CommitLines<'_>) {
        let mut facts = HashMap::new();
        for (rec, _) in lines {
            if let JournalRecord::Event(it) = rec
                && let Ok(RecordSeq { seq }) = serde_json::from_str(it.record.get())
            {
                facts.insert((it.conversation, seq), it.record.get().as_bytes());
            }
        }
        let mut told = HashSet::new();
        for (rec, location) in lines {
            let JournalRecord::Audit(rec) = rec else {
                continue;
            };
            self.begun = true;
            if rec.n > self.head.n {
                continue;
            }
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
        if self.begun && self.before.n <= self.head.n {
            self.untold(lines, &told);
        }
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
            if let (Some(conversation), Ok(entry)) = (fact.conversation, sealed.entry())
                && let AuditFact::ConversationDeleted = entry.draft.told
            {
                self.deleted.insert(conversation, sealed.n);
            }
            return;
        };
        match facts.get(&(conversation, seq)) {
            Some(bytes) if ContentDigest::of(bytes) == digest => {}
            Some(_) => self.found(
                Some(sealed.n),
                None,
                ChainFault::FactChanged(conversation, seq),
            ),
            None => self.gone.push((sealed.n, conversation, seq)),
        }
    }

    /// Events that should have been told of together with what they are committed with.
    fn untold(&mut self, lines: &CommitLines<'_>, told: &HashSet<(ConversationId, Seq)>) {
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
                let fault = ChainFault::Untold(rec.conversation, record.seq);
                self.found(None, Some(place(*location)), fault);
            }
            // What is copied was told of where it happened.
            if is_copy {
                return;
            }
        }
    }

    fn finish(mut self, damage: Vec<JournalDamage>) -> Result<ChainVerdict, ReadError> {
        for damage in damage {
            let place = (damage.file.display().to_string(), damage.offset);
            self.found(None, Some(place), ChainFault::Journal(damage.what));
        }
        for (n, conversation, seq) in std::mem::take(&mut self.gone) {
            let is_deleted = self.deleted.get(&conversation).is_some_and(|it| *it > n)
                || self.store.is_deleted(conversation)?;
            if !is_deleted {
                self.found(Some(n), None, ChainFault::FactGone(conversation, seq));
            }
        }
        if self.before.n < self.head.n {
            let n = self.before.n + 1;
            self.found(Some(n), None, ChainFault::Cut(self.head.n));
        } else if self.before != self.head {
            let fault = ChainFault::Broken(ChainBreak::Changed);
            self.found(Some(self.head.n), None, fault);
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

fn place(location: LineLocation) -> (String, u64) {
    (format!("{:020}.jsonl", location.segment), location.line)
}
