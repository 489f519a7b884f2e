//! Whether the audit trail is what was written: as the index has it, against the journal, and against the facts that
//! it tells of.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use aish_proto::id::{ConversationId, Seq};
use aishd_log::audit::AuditFact;
use aishd_log::audit::chain::{ChainBreak, ChainHead, FactReference, SealedRecord};
use aishd_log::audit::fact::is_audited;
use aishd_log::audit::verdict::{ChainFault, ChainFinding, ChainVerdict};
use aishd_log::event::{Event, Record};
use aishd_log::tool::ContentDigest;

use super::audit_trail::TrailDirection;
use super::line::JournalRecord;
use super::scan::{self, CommitLines, ScanError};
use super::segment::{self, JournalSegment};
use super::{ReadError, Store};

/// Records that are looked at between two looks at the index.
const PAGE: usize = 1000;

impl Store {
    /// Looks at all of it. What is written meanwhile is not looked at. Blocks.
    pub fn verify_trail(&self, noted: Option<ChainHead>) -> Result<ChainVerdict, ReadError> {
        let head = self.trail_head()?;
        let mut check = TrailCheck {
            store: self,
            head,
            deleted: HashMap::new(),
            amiss: vec![],
            page: HashMap::new(),
            verdict: ChainVerdict {
                head,
                ..ChainVerdict::default()
            },
        };
        check.index(noted)?;
        check.facts()?;
        check.journal(&self.shared.dir.join("journal"))?;
        Ok(check.verdict)
    }
}

struct TrailCheck<'a> {
    store: &'a Store,
    /// What comes behind it is not looked at.
    head: ChainHead,
    /// Where the trail tells that a conversation was deleted; its id may have been used again.
    deleted: HashMap<ConversationId, u64>,
    /// Records whose fact is another, or not there.
    amiss: Vec<(u64, ConversationId, Seq, FactMismatch)>,
    /// A page of the index, for what is compared with it.
    page: HashMap<u64, SealedRecord>,
    verdict: ChainVerdict,
}

/// How the fact of a record is not what it was.
#[derive(Clone, Copy, Debug)]
enum FactMismatch {
    Changed,
    Gone,
}

impl TrailCheck<'_> {
    /// The chain as the index has it.
    fn index(&mut self, noted: Option<ChainHead>) -> Result<(), ReadError> {
        let mut before = ChainHead::default();
        let mut met = None;
        while before.n < self.head.n {
            let page = self
                .store
                .trail(before.n + 1, PAGE, TrailDirection::OldestFirst)?;
            if page.is_empty() {
                break;
            }
            let end = self.head.n;
            for sealed in page.iter().filter(|it| it.n <= end) {
                if noted.is_some_and(|it| it.n == sealed.n) {
                    met = Some(sealed.head());
                }
                match before.follow(sealed) {
                    Ok(link) => self.record(sealed, link.fact)?,
                    Err(broken) => self.found(Some(sealed.n), None, ChainFault::Broken(broken)),
                }
            }
        }
        if before.n < self.head.n {
            self.found(Some(before.n + 1), None, ChainFault::Cut(self.head.n));
        } else if before != self.head {
            self.found(
                Some(self.head.n),
                None,
                ChainFault::Broken(ChainBreak::Changed),
            );
        }
        match (noted.filter(|it| it.n > 0), met) {
            (Some(noted), None) => self.found(Some(noted.n), None, ChainFault::Cut(noted.n)),
            (Some(noted), Some(met)) if noted != met => {
                self.found(Some(noted.n), None, ChainFault::NotAsNoted);
            }
            (Some(_) | None, _) => {}
        }
        Ok(())
    }

    /// Whether what it tells of is what it was.
    fn record(&mut self, sealed: &SealedRecord, fact: FactReference) -> Result<(), ReadError> {
        let (Some(conversation), Some(seq), Some(digest)) =
            (fact.conversation, fact.seq, fact.digest)
        else {
            if let (Some(conversation), Ok(entry)) = (fact.conversation, sealed.entry())
                && let AuditFact::ConversationDeleted = entry.draft.told
            {
                self.deleted.insert(conversation, sealed.n);
            }
            return Ok(());
        };
        match self.store.stored_event(conversation, seq)? {
            Some(bytes) if ContentDigest::of(&bytes) == digest => {}
            Some(_) => self
                .amiss
                .push((sealed.n, conversation, seq, FactMismatch::Changed)),
            None => self
                .amiss
                .push((sealed.n, conversation, seq, FactMismatch::Gone)),
        }
        Ok(())
    }

    /// What is amiss with facts of conversations that were not deleted since.
    fn facts(&mut self) -> Result<(), ReadError> {
        for (n, conversation, seq, amiss) in std::mem::take(&mut self.amiss) {
            let deleted_at = self.deleted.get(&conversation).copied();
            let (excused, fault) = match amiss {
                FactMismatch::Changed => (
                    deleted_at.is_some_and(|it| it > n),
                    ChainFault::FactChanged(conversation, seq),
                ),
                FactMismatch::Gone => (
                    deleted_at.is_some() || self.store.is_deleted(conversation)?,
                    ChainFault::FactGone(conversation, seq),
                ),
            };
            if !excused {
                self.found(Some(n), None, fault);
            }
        }
        Ok(())
    }

    /// The record of this number as the index has it.
    fn indexed(&mut self, n: u64) -> Result<Option<&SealedRecord>, ReadError> {
        if !self.page.contains_key(&n) {
            let page = self.store.trail(n, PAGE, TrailDirection::OldestFirst)?;
            self.page = page.into_iter().map(|it| (it.n, it)).collect();
        }
        Ok(self.page.get(&n))
    }

    /// The same chain as it was written, in the order in which it was.
    fn journal(&mut self, dir: &Path) -> Result<(), ReadError> {
        let list = || segment::list(dir).map_err(|it| ReadError::Unavailable(it.to_string()));
        let before = self.verdict.clone();
        let mut segments = list()?;
        loop {
            let damage = self.walk(&segments)?;
            let Some((place, what)) = damage else {
                return Ok(());
            };
            // A segment that was compacted between the look at its head and the one at its body looks damaged.
            let now = list()?;
            let heads =
                |it: &[JournalSegment]| it.iter().map(|it| it.header.clone()).collect::<Vec<_>>();
            if heads(&now) == heads(&segments) {
                self.found(None, Some(place), ChainFault::Journal(what));
                return Ok(());
            }
            segments = now;
            self.verdict = before.clone();
        }
    }

    /// Looks at what the journal has. Returns where it is damaged, if it is.
    fn walk(&mut self, segments: &[JournalSegment]) -> Result<Option<JournalDamage>, ReadError> {
        let mut walk = JournalWalk {
            before: ChainHead::default(),
            begun: false,
            failed: None,
        };
        let read = scan::read(segments, None, &mut |lines| {
            walk.commit(self, &lines).map_err(|error| {
                let text = error.to_string();
                walk.failed = Some(error);
                text
            })
        });
        match (read, walk.failed) {
            (_, Some(error)) => Err(error),
            (Err(ScanError::Damaged { file, offset, what }), None) => {
                Ok(Some(((file.display().to_string(), offset), what)))
            }
            (Err(error @ (ScanError::Io(_) | ScanError::Refused(_))), None) => {
                Err(ReadError::Unavailable(error.to_string()))
            }
            (Ok(_), None) => {
                if walk.before.n < self.head.n {
                    self.found(Some(walk.before.n + 1), None, ChainFault::NotInJournal);
                }
                Ok(None)
            }
        }
    }

    fn found(&mut self, n: Option<u64>, place: Option<(String, u64)>, fault: ChainFault) {
        self.verdict.add(ChainFinding { n, place, fault });
    }
}

/// A file and a byte in it, and what is wrong there.
type JournalDamage = ((String, u64), String);

/// The way through the journal.
struct JournalWalk {
    before: ChainHead,
    /// Before the first record nothing was told of anything: an older program wrote that.
    begun: bool,
    failed: Option<ReadError>,
}

impl JournalWalk {
    fn commit(
        &mut self,
        check: &mut TrailCheck<'_>,
        lines: &CommitLines<'_>,
    ) -> Result<(), ReadError> {
        let told = self.records(check, lines)?;
        if self.begun && self.before.n <= check.head.n {
            untold(check, lines, &told);
        }
        Ok(())
    }

    /// What is told in one commit, and whether it is what the index has.
    fn records(
        &mut self,
        check: &mut TrailCheck<'_>,
        lines: &CommitLines<'_>,
    ) -> Result<HashSet<(ConversationId, Seq)>, ReadError> {
        let mut told = HashSet::new();
        for (rec, location) in lines {
            let JournalRecord::Audit(rec) = rec else {
                continue;
            };
            self.begun = true;
            let sealed = SealedRecord {
                n: rec.n,
                hash: rec.hash,
                text: rec.entry.get().to_owned(),
            };
            let followed = self.before.follow(&sealed);
            if let Ok(link) = &followed {
                told.extend(link.fact.conversation.zip(link.fact.seq));
            }
            if sealed.n > check.head.n {
                continue;
            }
            let file = format!("{:020}.jsonl", location.segment);
            let place = Some((file, location.line));
            if let Err(broken) = followed {
                // What it tells of is not looked for: one change is one finding.
                let entry = sealed.entry().ok().map(|it| it.draft);
                told.extend(entry.and_then(|it| it.conversation.zip(it.seq)));
                check.found(Some(sealed.n), place, ChainFault::Broken(broken));
                continue;
            }
            if check.indexed(sealed.n)?.is_some_and(|it| *it != sealed) {
                check.found(Some(sealed.n), place, ChainFault::Differs);
            }
        }
        Ok(told)
    }
}

/// Events that should have been told of together with what they are committed with.
fn untold(
    check: &mut TrailCheck<'_>,
    lines: &CommitLines<'_>,
    told: &HashSet<(ConversationId, Seq)>,
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
            let file = format!("{:020}.jsonl", location.segment);
            let fault = ChainFault::Untold(rec.conversation, record.seq);
            check.found(None, Some((file, location.line)), fault);
        }
        // What is copied was told of where it happened.
        if is_copy {
            return;
        }
    }
}
