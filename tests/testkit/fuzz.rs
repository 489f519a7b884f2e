//! Inputs that nobody thought of: real ones, damaged at random. A target says of each what must be true, and what
//! became of it; an input that led to something new is damaged further, so that the walk goes deeper than chance would.
//!
//! `AISH_TEST_FUZZ` says how many inputs each target gets; `AISH_TEST_SEED` repeats a run.

use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::chance::Chance;
use crate::surroundings;

/// Inputs for each target where nobody asks for more.
const INPUTS: usize = 2000;
/// Longer ones say nothing new, and take long.
const LONGEST: usize = 64 << 10;
/// Inputs that are kept to be damaged further.
const CORPUS: usize = 4000;
/// Damage done to one input, at most.
const MOST_DAMAGE: usize = 5;
/// How often a failing input is tried with less of it.
const TRIES: usize = 2000;

/// Pieces that programs which read JSON, lines and streams trip over.
const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\\u202e",
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xe2\x80\xae",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\xa6\x80",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"0",
    b"-1",
    b"-0.0",
    b"1e999",
    b"1.5",
    b"18446744073709551616",
    b"9223372036854775808",
    b"data: ",
    b"event: error\n",
    b"id: 1\n",
    b"retry: 1\n",
    b": \n",
];

/// Gives the target all inputs of the corpus, and as many damaged ones as are wanted. What the target returns names what
/// became of the input, roughly.
#[track_caller]
pub fn fuzz<C: AsRef<[u8]>>(
    corpus: impl IntoIterator<Item = C>,
    mut target: impl FnMut(&[u8]) -> String,
) {
    let mut chance = Chance::new();
    let mut seen = HashSet::new();
    let mut corpus: Vec<Vec<u8>> = corpus.into_iter().map(|it| it.as_ref().to_vec()).collect();
    for input in &corpus {
        seen.insert(tried(&mut target, input));
    }
    for _ in 0..surroundings::count("AISH_TEST_FUZZ").unwrap_or(INPUTS) {
        let input = damaged(&corpus, &mut chance);
        if seen.insert(tried(&mut target, &input)) && corpus.len() < CORPUS {
            corpus.push(input);
        }
    }
}

/// What became of the input. If the target panics, the smallest part of it that still does so is printed.
#[track_caller]
fn tried(target: &mut impl FnMut(&[u8]) -> String, input: &[u8]) -> String {
    match attempt(target, input) {
        Ok(became) => became,
        Err(panic) => {
            let small = smaller(target, input);
            tell(input, &small);
            resume_unwind(panic);
        }
    }
}

fn attempt(
    target: &mut impl FnMut(&[u8]) -> String,
    input: &[u8],
) -> Result<String, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| target(input)))
}

/// Leaves out pieces for as long as it still fails.
fn smaller(target: &mut impl FnMut(&[u8]) -> String, input: &[u8]) -> Vec<u8> {
    let mut small = input.to_vec();
    let (mut size, mut tries) = (small.len().div_ceil(2), 0);
    while size > 0 && tries < TRIES {
        let before = small.len();
        let mut at = 0;
        while at < small.len() && tries < TRIES {
            let mut less = small.clone();
            less.drain(at..(at + size).min(small.len()));
            tries += 1;
            if attempt(target, &less).is_err() {
                small = less;
            } else {
                at += size;
            }
        }
        // What was taken out may have made more superfluous.
        if size > 1 || small.len() == before {
            size /= 2;
        }
    }
    small
}

#[expect(
    clippy::print_stdout,
    reason = "the runner shows it when the test fails"
)]
fn tell(input: &[u8], small: &[u8]) {
    println!(
        "failed with {} bytes; as small as it gets:\nb\"{}\"",
        input.len(),
        small.escape_ascii()
    );
}

fn damaged(corpus: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut input = match corpus.len() {
        0 => vec![],
        kept => corpus[chance.below(kept)].clone(),
    };
    for _ in 0..=chance.below(MOST_DAMAGE) {
        damage(&mut input, corpus, chance);
    }
    input.truncate(LONGEST);
    input
}

fn damage(input: &mut Vec<u8>, corpus: &[Vec<u8>], chance: &mut Chance) {
    let at = chance.below(input.len() + 1);
    let end = at + chance.below(input.len() - at + 1);
    match chance.below(8) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = chance.bits().to_le_bytes()[0];
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        2 => drop(input.drain(at..end)),
        3 => input.truncate(at),
        4 => drop(input.splice(at..at, chance.pick(PIECES).iter().copied())),
        5 => drop(input.splice(at..end, chance.pick(PIECES).iter().copied())),
        6 => {
            // The same again, a few times: what is nested, repeated or long.
            let part = input[at..end].repeat(1 + chance.below(4));
            drop(input.splice(at..at, part.into_iter().take(LONGEST)));
        }
        _ => {
            let other = &corpus[chance.below(corpus.len().max(1))..];
            let other = other.first().map_or(&[][..], Vec::as_slice);
            let from = chance.below(other.len() + 1);
            let to = from + chance.below(other.len() - from + 1);
            drop(input.splice(at..end, other[from..to].iter().copied()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It finds a fault that chance alone would not, because it goes on from what it found on the way.
    #[test]
    fn it_walks_towards_what_is_new_and_shows_the_least_that_fails() {
        let mut smallest: Vec<u8> = vec![0; LONGEST];
        let found = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..100 {
                fuzz(["begin {\"a\": 1}"], |input| {
                    let deep = input.windows(2).filter(|it| it == b"{{").count();
                    if deep >= 6 {
                        if input.len() < smallest.len() {
                            smallest = input.to_vec();
                        }
                        panic!("too deep");
                    }
                    deep.to_string()
                });
            }
        }));
        assert!(found.is_err(), "it was not found");
        assert_eq!(b"{{{{{{{", &smallest[..]);
    }

    #[test]
    fn nothing_at_all_can_be_damaged_too() {
        let mut longest = 0;
        fuzz(Vec::<Vec<u8>>::new(), |input| {
            longest = longest.max(input.len());
            longest.to_string()
        });
        assert!(longest > 0);
    }
}
