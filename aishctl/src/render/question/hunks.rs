//! Hunks of a difference, one by one: which become real and which do not. Nothing is taken that did not stand on the screen.

use aish_proto::changes::ChangesDiffResult;
use aish_proto::confirm::ChosenHunks;
use aish_proto::event::ConfirmResolved;

use crate::render::difference;

/// Somebody who chooses.
#[derive(Clone, Debug)]
pub struct HunkChoice {
    hunks: Vec<ShownHunk>,
    at: usize,
    consent: HunkConsent,
    /// All that are left stand on the screen, and are asked about at once.
    asks_for_rest: bool,
    chosen: Vec<u32>,
    /// What was said of those that are not chosen.
    reasons: Vec<String>,
    digest: String,
}

/// What makes a hunk real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HunkConsent {
    /// A letter.
    Letter,
    /// Only the whole word, as at what cannot be undone.
    Word,
}

/// A hunk, made safe.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShownHunk {
    /// The line that names its file, where the hunk does not begin with it.
    file: String,
    text: String,
}

/// What a line comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HunkStep {
    /// A safe difference is to be shown, and this asked below it.
    Show(String, String),
    Say(String),
    /// It is over, and these are to be kept, with what was said of the others.
    Chosen(ChosenHunks, Option<String>),
    /// It is over, and none is.
    NoneChosen(Option<String>),
    /// The question stands as before.
    Left,
}

const HELP: &str = "  yes  this becomes real\n  n    this does not; what follows is told to the model as the reason\n  \
    a    shows all that are left, and asks about them at once\n  d    neither this nor any that is left becomes real\n  \
    q    nothing is decided, and the question stands as before\n";

impl HunkChoice {
    /// Of a difference as the daemon has it.
    ///
    /// # Errors
    /// Why nobody can choose.
    pub fn of(result: &ChangesDiffResult, consent: HunkConsent) -> Result<Self, &'static str> {
        let hunks = shown(result);
        match hunks.len() {
            0 => Err("there is more than can be shown; choose by files: keep FILE…"),
            1 => Err("there is one hunk: yes or no"),
            _ => Ok(Self {
                hunks,
                at: 0,
                consent,
                asks_for_rest: false,
                chosen: vec![],
                reasons: vec![],
                digest: result.digest.clone(),
            }),
        }
    }

    /// The hunk that is asked about, and the question below it.
    pub fn begin(&self) -> HunkStep {
        let left = &self.hunks[self.at..];
        let shown: String = match (left, self.asks_for_rest) {
            (left, true) => {
                let numbers = self.at + 1..;
                let each = left.iter().zip(numbers);
                each.map(|(it, number)| format!("{}{}", self.head(number), it.text))
                    .collect()
            }
            ([it, ..], false) => format!("{}{}", it.file, it.text),
            ([], false) => String::new(),
        };
        HunkStep::Show(shown, self.question())
    }

    fn head(&self, number: usize) -> String {
        format!("hunk {number} of {}\n", self.hunks.len())
    }

    fn question(&self) -> String {
        let (number, all) = (self.at + 1, self.hunks.len());
        let yes = match self.consent {
            HunkConsent::Letter => "[y]es",
            HunkConsent::Word => "yes",
        };
        if self.asks_for_rest {
            return format!(
                "  hunks {number} to {all}: {yes}, all of them  [n]o, one by one  [q]uit  [?] "
            );
        }
        format!(
            "  hunk {number} of {all}: {yes}  [n]o  [n TEXT] no, because  [a]ll that are left  [d]one, no more  [q]uit  [?] "
        )
    }

    /// `None`: it is no answer to this.
    pub fn line(&mut self, line: &str) -> Option<HunkStep> {
        let line = line.trim();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let left = self.hunks.len() - self.at;
        let reason = rest.trim();
        if !reason.is_empty() && !["n", "no"].contains(&word) {
            return None;
        }
        Some(match word {
            "y" if self.consent == HunkConsent::Word => HunkStep::Say(format!(
                "  only the whole word yes makes this real; nothing happened\n{}",
                self.question()
            )),
            "y" | "yes" if self.asks_for_rest => self.decide(left, true),
            "n" | "no" if self.asks_for_rest => {
                self.asks_for_rest = false;
                self.begin()
            }
            "y" | "yes" => self.decide(1, true),
            "n" | "no" => {
                if !reason.is_empty() {
                    let number = self.at + 1;
                    self.reasons.push(format!("hunk {number}: {reason}"));
                }
                self.decide(1, false)
            }
            "a" | "all" if self.asks_for_rest => return None,
            "a" | "all" => {
                self.asks_for_rest = true;
                self.begin()
            }
            "d" | "done" => self.decide(left, false),
            "q" | "quit" => HunkStep::Left,
            "?" => HunkStep::Say(format!("{HELP}{}", self.question())),
            _ => return None,
        })
    }

    /// Where a line is no answer.
    pub fn unclear(&self) -> String {
        format!("  that is no answer; nothing happened\n{}", self.question())
    }

    fn decide(&mut self, count: usize, is_taken: bool) -> HunkStep {
        let numbers = self.at..self.at + count;
        self.at += count;
        if is_taken {
            self.chosen
                .extend(numbers.filter_map(|it| u32::try_from(it + 1).ok()));
        }
        if self.at < self.hunks.len() {
            return self.begin();
        }
        let reason = (!self.reasons.is_empty()).then(|| self.reasons.join("; "));
        if self.chosen.is_empty() {
            return HunkStep::NoneChosen(reason);
        }
        let chosen = ChosenHunks {
            numbers: std::mem::take(&mut self.chosen),
            difference: self.digest.clone(),
        };
        HunkStep::Chosen(chosen, reason)
    }
}

/// As the daemon divided it: a text cannot look like another hunk.
fn shown(result: &ChangesDiffResult) -> Vec<ShownHunk> {
    let lines: Vec<&str> = result.diff.split_inclusive('\n').collect();
    let mut file = String::new();
    let shown = result.hunks.iter().map(|it| {
        let begin = usize::try_from(it.line).unwrap_or(usize::MAX);
        let end = begin.saturating_add(usize::try_from(it.lines).unwrap_or(usize::MAX));
        let own = lines.iter().take(end).skip(begin).copied();
        let text = difference::safe(&own.collect::<String>());
        let named = text.lines().next().filter(|it| it.starts_with("=== "));
        let file = match named {
            Some(line) => {
                file = format!("{line}\n");
                String::new()
            }
            None => file.clone(),
        };
        ShownHunk { file, text }
    });
    shown.collect()
}

/// The safe difference with the number of each hunk above it; with these alone, where some are named.
///
/// # Errors
/// The first number that is none of a hunk.
pub fn numbered(result: &ChangesDiffResult, only: &[u32]) -> Result<String, u32> {
    let hunks = shown(result);
    let all = hunks.len();
    let is_one = |number: u32| usize::try_from(number).is_ok_and(|it| (1..=all).contains(&it));
    if let Some(none) = only.iter().find(|it| !is_one(**it)) {
        return Err(*none);
    }
    let mut text = String::new();
    for (number, it) in (1..).zip(hunks) {
        if only.is_empty() || only.contains(&number) {
            text.push_str(&format!("hunk {number} of {all}\n{}{}", it.file, it.text));
        }
    }
    Ok(text)
}

/// What an answer kept of a change, where that is not all.
pub fn kept(resolved: &ConfirmResolved) -> String {
    let numbers: Vec<String> = resolved.hunks.iter().map(u32::to_string).collect();
    match (&numbers[..], resolved.of_hunks) {
        ([], _) => String::new(),
        ([one], Some(all)) => format!(", hunk {one} of {all}"),
        (some, Some(all)) => format!(", hunks {} of {all}", some.join(", ")),
        (some, None) => format!(", hunks {}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::changes::DiffHunk;

    use super::*;

    const DIFF: &str = "=== /w/a (changed)\n@@ -1 +1 @@\n-=== old\n+new\n@@ -9 +9 @@\n-x\n+@@ y\n=== /w/b (mode or owner changed)\n=== /w/c (new)\n@@ -0,0 +1 @@\n+c\u{1b}\n";

    fn result() -> ChangesDiffResult {
        let hunk = |(line, lines)| DiffHunk { line, lines };
        ChangesDiffResult {
            diff: DIFF.to_owned(),
            hunks: [(0, 4), (4, 3), (7, 1), (8, 3)].map(hunk).to_vec(),
            digest: "d1".to_owned(),
        }
    }

    #[track_caller]
    fn check(lines: &[&str], expected: &[u32], reason: Option<&str>) {
        let mut choice = HunkChoice::of(&result(), HunkConsent::Letter).unwrap();
        let (last, before) = lines.split_last().unwrap();
        for line in before {
            let step = choice.line(line);
            let goes_on = matches!(step, None | Some(HunkStep::Show(..) | HunkStep::Say(_)));
            assert!(goes_on, "{line}: {step:?}");
        }
        let reason = reason.map(str::to_owned);
        let expected = match expected {
            [] => HunkStep::NoneChosen(reason),
            numbers => {
                let (numbers, difference) = (numbers.to_vec(), "d1".to_owned());
                HunkStep::Chosen(
                    ChosenHunks {
                        numbers,
                        difference,
                    },
                    reason,
                )
            }
        };
        assert_eq!(Some(expected), choice.line(last));
    }

    #[test]
    fn each_is_asked_about_and_only_words_that_are_known_decide() {
        check(&["y", "n", "yes", "no"], &[1, 3], None);
        check(
            &["maybe", "", "?", "yes please", "n", "a", "n", "y", "y", "n"],
            &[2, 3],
            None,
        );
        check(&["n", "a", "a", "y"], &[2, 3, 4], None);
        check(&["y", "d"], &[1], None);
        check(&["d"], &[], None);
        check(
            &["n too loud", "y", "no  not now", "n"],
            &[2],
            Some("hunk 1: too loud; hunk 3: not now"),
        );
        check(&["n why", "d"], &[], Some("hunk 1: why"));
        let mut choice = HunkChoice::of(&result(), HunkConsent::Letter).unwrap();
        assert_eq!(Some(HunkStep::Left), choice.line("q"));
    }

    #[test]
    fn where_it_wants_a_whole_word_a_letter_makes_nothing_real() {
        let mut choice = HunkChoice::of(&result(), HunkConsent::Word).unwrap();
        assert!(
            matches!(choice.begin(), HunkStep::Show(_, asked) if asked.contains(": yes  [n]o"))
        );
        assert!(matches!(choice.line("y"), Some(HunkStep::Say(_))));
        assert!(matches!(choice.line("yes"), Some(HunkStep::Show(..))));
        drop(choice.line("a"));
        assert!(matches!(choice.line("y"), Some(HunkStep::Say(_))));
        assert!(
            matches!(choice.line("yes"), Some(HunkStep::Chosen(it, None)) if it.numbers == [1, 2, 3, 4])
        );
    }

    #[track_caller]
    fn shows(step: Option<HunkStep>, difference: &str, question: &str) {
        let Some(HunkStep::Show(shown, asked)) = step else {
            panic!("{step:?}");
        };
        assert_eq!(difference, shown);
        assert!(asked.starts_with(question), "{asked}");
    }

    #[test]
    fn what_is_asked_about_is_shown_and_made_safe() {
        let mut choice = HunkChoice::of(&result(), HunkConsent::Letter).unwrap();
        let first = "=== /w/a (changed)\n@@ -1 +1 @@\n-=== old\n+new\n";
        shows(Some(choice.begin()), first, "  hunk 1 of 4: ");
        let second = "=== /w/a (changed)\n@@ -9 +9 @@\n-x\n+@@ y\n";
        shows(choice.line("n"), second, "  hunk 2 of 4: ");
        shows(
            choice.line("n"),
            "=== /w/b (mode or owner changed)\n",
            "  hunk 3 of 4: ",
        );
        let rest = "hunk 3 of 4\n=== /w/b (mode or owner changed)\nhunk 4 of 4\n=== /w/c (new)\n@@ -0,0 +1 @@\n+c\\u{1b}\n";
        shows(choice.line("a"), rest, "  hunks 3 to 4: ");
        assert_eq!(Ok(rest.to_owned()), numbered(&result(), &[3, 4]));
        assert_eq!(Err(5), numbered(&result(), &[1, 5]));
    }

    #[test]
    fn where_there_is_nothing_to_choose_it_is_said() {
        let more = ChangesDiffResult {
            hunks: vec![],
            ..result()
        };
        assert!(
            HunkChoice::of(&more, HunkConsent::Letter)
                .unwrap_err()
                .contains("choose by files")
        );
        let one = ChangesDiffResult {
            hunks: vec![DiffHunk { line: 0, lines: 11 }],
            ..result()
        };
        assert!(
            HunkChoice::of(&one, HunkConsent::Letter)
                .unwrap_err()
                .contains("yes or no")
        );
    }
}
