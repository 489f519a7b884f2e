//! What was odd about something that a server sent, in a few lines however much of it was odd.

/// So many are kept; the rest is counted.
const MOST: usize = 32;

/// Remarks in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemarkList {
    kept: Vec<String>,
    more: usize,
}

impl RemarkList {
    pub fn push(&mut self, remark: String) {
        if self.kept.len() < MOST {
            self.kept.push(remark);
        } else {
            self.more += 1;
        }
    }

    /// Those of another, behind these.
    pub fn append(&mut self, other: Self) {
        let Self { kept, more } = other;
        for remark in kept {
            self.push(remark);
        }
        self.more += more;
    }

    /// In lines for people; the last one counts what is left out.
    pub fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.kept.iter().cloned().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_counted_wherever_they_come_from() {
        let all = |count: usize| {
            let mut remarks = RemarkList::default();
            (0..count).for_each(|it| remarks.push(it.to_string()));
            remarks
        };
        let mut few = all(2);
        few.append(RemarkList::default());
        assert_eq!(vec!["0", "1"], few.lines());
        few.append(all(100));
        let said = few.lines();
        assert_eq!((MOST + 1, "and 70 more"), (said.len(), said[MOST].as_str()));
    }
}
