//! Two real terminals of different sizes on one conversation: while the answer to the one streams, the other
//! types, moves in its line, and is resized; sometimes it sends before the answer is over. No row is garbled, none is
//! missing or there twice, and the half-typed line stays what it was and is sent as it was typed.
//!
//! `AISH_TEST_INTERLEAVINGS` says how many; a thousand is a long run.

use aish_testkit::screen::wrapped;
use aish_testkit::upstream::gate::Gate;
use aish_testkit::{Answer, Chance, Screen, Upstream, World, built, surroundings};

/// Rounds on one conversation; then another one begins, so that its context stays small.
const ROUNDS: usize = 25;
const SIZES: [(u16, u16); 6] = [(80, 24), (47, 13), (100, 30), (60, 10), (33, 20), (132, 43)];
const LETTERS: [char; 16] = [
    'a', 'b', 'c', 'd', ' ', 'e', 'ß', 'é', 'ж', '日', '本', '語', '🦀', '-', '.', '|',
];

#[test]
fn no_interleaving_of_two_terminals_garbles_a_row_or_a_line() {
    let rounds = surroundings::count("AISH_TEST_INTERLEAVINGS").unwrap_or(100);
    let mut chance = Chance::new();
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let mut left = rounds;
    while left > 0 {
        let now = left.min(ROUNDS);
        let mut table = Table::new(&world, &upstream, &format!("c{left}"), &mut chance);
        for round in 0..now {
            table.round(&mut chance, &format!("{left}.{round}"));
        }
        table.end(&mut chance);
        left -= now;
    }
    println!("{rounds} interleavings");
}

/// One who sits at a terminal.
struct Person {
    screen: Screen,
    size: (u16, u16),
    /// Without the glyph: `c100 · test`.
    prompt: String,
    typed: Vec<char>,
    cursor: usize,
    /// Lines of ours that stand behind a prompt.
    sent: Vec<String>,
    /// Up to this row everything has been checked, at the size that it had.
    checked: usize,
    /// The rows of the conversation that were seen.
    seen: Vec<String>,
}

struct Table<'a> {
    upstream: &'a Upstream,
    people: [Person; 2],
    /// Rows that may stand on either screen: answers, and what aish says.
    answers: Vec<String>,
    questions: Vec<String>,
    asked: usize,
    /// Who asked the question that is answered, and whether the other one has sent already.
    next: (usize, bool),
    gates: std::collections::VecDeque<Gate>,
}

impl<'a> Table<'a> {
    fn new(world: &World, upstream: &'a Upstream, name: &str, chance: &mut Chance) -> Self {
        drop(world.ctl(&["conv", "new", name]).run().ok());
        let first = SIZES[0];
        let second = SIZES[1];
        let people = [first, second].map(|size| Person {
            screen: Screen::spawn(
                world,
                &built("aish"),
                &[name, "--markdown", "never"],
                size.0,
                size.1,
            ),
            size,
            prompt: format!("{name} · test"),
            typed: vec![],
            cursor: 0,
            sent: vec![],
            checked: 0,
            seen: vec![],
        });
        for person in &people {
            person.screen.wait_for("2 here");
            person.wait_line();
        }
        let mut table = Self {
            upstream,
            people,
            answers: vec![],
            questions: vec![],
            asked: upstream.requests().len(),
            next: (0, false),
            gates: std::collections::VecDeque::new(),
        };
        table.people[0].start_line(name);
        table.people[0].type_some(chance);
        table
    }

    fn round(&mut self, chance: &mut Chance, name: &str) {
        let (asker, sent) = self.next;
        let typist = 1 - asker;
        if !sent {
            self.prepare_answer();
            self.people[asker].wait_line();
            self.send(asker);
        }
        self.asked += 1;
        let gate = self.gates.pop_front().unwrap();
        gate.wait_request();
        let asked = self.upstream.wait_requests(self.asked).question();
        assert_eq!(
            self.questions[self.questions.len() - 1],
            asked,
            "sent as it was typed"
        );
        self.people[typist].start_line(&format!("next {name}"));
        let lines: Vec<String> = (0..1 + chance.below(6))
            .map(|it| format!("answer {name}.{it} {}", some_text(chance, 150)))
            .collect();
        self.answers.extend(lines.iter().cloned());
        let text = lines.join("\n") + "\n";
        let pieces: Vec<String> = chance
            .cut(&text, 60)
            .into_iter()
            .map(str::to_owned)
            .collect();
        let mut early = false;
        for piece in pieces {
            gate.text(&piece);
            for _ in 0..chance.below(3) {
                if !early {
                    self.people[typist].type_some(chance);
                }
            }
            if chance.odds(1, 40) {
                let who = chance.below(2);
                self.resize(who, chance);
            }
            if chance.odds(1, 8) && !early {
                self.people[typist].wait_line();
            }
            if chance.odds(1, 60) && !early {
                self.prepare_answer();
                self.send(typist);
                early = true;
            }
        }
        if !early {
            self.people[typist].wait_line();
        }
        gate.finish();
        let last = lines.last().unwrap().clone();
        for person in &self.people {
            person.wait_shown(&last);
        }
        self.next = (typist, early);
    }

    fn prepare_answer(&mut self) {
        let (answer, gate) = Answer::by_hand();
        self.upstream.answer(answer);
        self.gates.push_back(gate);
    }

    fn send(&mut self, who: usize) {
        let question = self.people[who].send();
        self.questions.push(question);
    }

    fn resize(&mut self, who: usize, chance: &mut Chance) {
        let size = *chance.pick(&SIZES);
        let known = self.known();
        self.people[who].resize(size, &known);
    }

    /// What may stand on a screen.
    fn known(&self) -> Known {
        Known {
            answers: self.answers.clone(),
            questions: self.questions.clone(),
        }
    }

    fn end(mut self, chance: &mut Chance) {
        let (asker, sent) = self.next;
        if sent {
            let gate = self.gates.pop_front().unwrap();
            gate.wait_request();
            gate.text("the very last\n");
            gate.finish();
            self.answers.push("the very last".to_owned());
            for person in &self.people {
                person.wait_shown("the very last");
            }
        } else {
            self.people[asker].type_some(chance);
        }
        for who in 0..2 {
            let known = self.known();
            let person = &mut self.people[who];
            person.wait_line();
            person.check_all(&known);
            assert_eq!(
                self.answers, person.seen,
                "every row of every answer, once and in order"
            );
        }
    }
}

struct Known {
    answers: Vec<String>,
    questions: Vec<String>,
}

impl Person {
    /// The first characters of a line are no command, and no two lines are the same.
    fn start_line(&mut self, name: &str) {
        if self.typed.is_empty() {
            self.key(&format!("{name} "));
            self.typed = format!("{name} ").chars().collect();
            self.cursor = self.typed.len();
        }
    }

    /// A few keys.
    fn type_some(&mut self, chance: &mut Chance) {
        match chance.below(12) {
            0 if self.cursor > 12 => {
                let steps = 1 + chance.below(self.cursor - 11);
                self.cursor -= steps;
                self.key(&"\u{1b}[D".repeat(steps));
            }
            1 => {
                self.cursor = self.typed.len();
                self.key("\u{5}");
            }
            2 if self.cursor > 12 => {
                self.cursor -= 1;
                self.typed.remove(self.cursor);
                self.key("\u{7f}");
            }
            _ if self.typed.len() < 160 => {
                let text = some_text(chance, 9);
                self.typed.splice(self.cursor..self.cursor, text.chars());
                self.cursor += text.chars().count();
                self.key(&text);
            }
            _ => {}
        }
    }

    fn key(&mut self, text: &str) {
        self.screen.key(text);
    }

    fn send(&mut self) -> String {
        let line: String = std::mem::take(&mut self.typed).into_iter().collect();
        self.cursor = 0;
        self.key("\r");
        self.sent.push(line.clone());
        line.trim().to_owned()
    }

    /// The prompt with the line that is being typed, in rows; the glyph is either.
    fn lines(&self) -> [Vec<String>; 2] {
        let typed: String = self.typed.iter().collect();
        ['○', '●'].map(|glyph| {
            wrapped(
                format!("{} {glyph} {typed}", self.prompt).trim_end(),
                self.size.0,
            )
        })
    }

    /// Waits until the line stands as it was typed, at the end of the screen.
    #[track_caller]
    fn wait_line(&self) {
        let lines = self.lines();
        self.screen
            .wait_rows(&format!("the line {:?}", lines[0]), |rows| {
                lines.iter().any(|it| rows.ends_with(it))
            });
    }

    #[track_caller]
    fn wait_shown(&self, row: &str) {
        // It may have been written when the screen had another size.
        let (begin, _) = row.split_at(
            row.rfind('x')
                .map_or(row.len(), |_| row.find(" x").unwrap_or(row.len())),
        );
        self.screen.wait_rows(&format!("the row {row:?}"), |shown| {
            shown.iter().any(|it| it.starts_with(begin))
        });
    }

    fn resize(&mut self, size: (u16, u16), known: &Known) {
        if size.1 < self.size.1 {
            // A terminal that becomes lower cuts what is below the cursor, as this emulator does: rows of the line,
            // unless the cursor is in its last one. What is cut there the editor cannot know.
            self.cursor = self.typed.len();
            self.key("\u{5}e");
            self.typed.push('e');
            self.cursor += 1;
        }
        let lines = self.lines();
        let mut before = vec![];
        self.screen
            .resize_when(size.0, size.1, "a moment between two drawings", |rows| {
                let Some(end) = lines.iter().find(|it| rows.ends_with(it)) else {
                    return false;
                };
                before = rows[..rows.len() - end.len()].to_vec();
                true
            });
        self.check(&before, known);
        self.checked = before.len();
        self.size = size;
    }

    fn check_all(&mut self, known: &Known) {
        let rows = self.screen.rows();
        let end = self
            .lines()
            .into_iter()
            .find(|it| rows.ends_with(it))
            .expect("the line stands");
        self.check(&rows[..rows.len() - end.len()], known);
    }

    /// Every row since the last check is one of those that may be there, whole.
    #[track_caller]
    fn check(&mut self, rows: &[String], known: &Known) {
        let mut at = self.checked.min(rows.len());
        while at < rows.len() {
            let rest = &rows[at..];
            let Some((kind, text, count)) = self.find(rest, known) else {
                panic!(
                    "a garbled row {:?} on a terminal of {:?}:\n{}",
                    rest[0],
                    self.size,
                    rows[at.saturating_sub(12)..].join("\n")
                );
            };
            if kind == Kind::Answer {
                self.seen.push(text);
            }
            at += count;
        }
    }

    /// What begins at the first of these rows, and how many rows it takes.
    fn find(&self, rows: &[String], known: &Known) -> Option<(Kind, String, usize)> {
        let stands = |text: &str| {
            let expected = wrapped(text.trim_end(), self.size.0);
            rows.starts_with(&expected).then_some(expected.len())
        };
        // The newest first: what is looked for was mostly written a moment ago.
        for line in known
            .answers
            .iter()
            .rev()
            .filter(|it| rows[0].starts_with(&it[..9]))
        {
            if let Some(count) = stands(line) {
                return Some((Kind::Answer, line.clone(), count));
            }
        }
        if rows[0].starts_with(&self.prompt) {
            for line in self.sent.iter().rev() {
                for glyph in ['○', '●'] {
                    if let Some(count) = stands(&format!("{} {glyph} {line}", self.prompt)) {
                        // A line that fills its last row has its end on the next one.
                        let full = width(&rows[count - 1]) == usize::from(self.size.0);
                        let below = full && rows.get(count).is_some_and(String::is_empty);
                        return Some((Kind::Other, line.clone(), count + usize::from(below)));
                    }
                }
            }
        }
        if rows[0].starts_with("pts/") {
            let (who, _) = rows[0].split_once(' ')?;
            for line in known.questions.iter().rev() {
                if let Some(count) = stands(&format!("{who} › {line}")) {
                    return Some((Kind::Other, line.clone(), count));
                }
            }
        }
        self.told(rows)
    }

    /// What aish says: it is joined, for how much of it stands in a row depends on the size alone. What goes on between words
    /// stands below the text; a row that the terminal goes on with is full.
    fn told(&self, rows: &[String]) -> Option<(Kind, String, usize)> {
        const BELOW: &str = "       ";
        let columns = self.size.0;
        (1..=rows.len().min(6)).find_map(|count| {
            let mut text = rows[0].clone();
            let mut whole = true;
            for pair in rows[..count].windows(2) {
                if let Some(more) = pair[1].strip_prefix(BELOW) {
                    text.push(' ');
                    text.push_str(more);
                } else {
                    whole &= width(&pair[0]) + 1 >= usize::from(columns);
                    text.push_str(&pair[1]);
                }
            }
            let is_said = text.starts_with("[aish] attached to ") && text.ends_with(')')
                || text.starts_with("a line is a question, ") && text.ends_with("else there is")
                || text.starts_with("[aish] pts/") && text.ends_with("here)")
                || text.starts_with("[aish] queued #1 from ")
                    && text.replace(' ', "").ends_with(":queuedrop1")
                || text.starts_with("7 in · 5 out · ") && text.ends_with(" s");
            (is_said && whole).then_some((Kind::Other, text, count))
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Answer,
    Other,
}

fn width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// Letters of one and of two columns; no space at either end.
fn some_text(chance: &mut Chance, most: usize) -> String {
    let length = 1 + chance.below(most);
    let text: String = (0..length).map(|_| *chance.pick(&LETTERS)).collect();
    format!("x{}x", text.trim())
}
