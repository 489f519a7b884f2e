//! Random numbers that can be had again: splitmix64 from a seed that is printed.

use ulid::Ulid;

use crate::surroundings;

/// A small generator. It prints its seed when it is made, so that a failure can be repeated.
#[derive(Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// Seeded by `AISH_TEST_SEED`, else differently each time.
    #[must_use]
    #[expect(
        clippy::print_stdout,
        reason = "the runner shows it when the test fails"
    )]
    pub fn new() -> Self {
        let seed = surroundings::seed().unwrap_or_else(|| {
            #[expect(clippy::cast_possible_truncation, reason = "any 64 bits will do")]
            let bits = Ulid::new().random() as u64;
            bits
        });
        println!("AISH_TEST_SEED={seed}");
        Self::seeded(seed)
    }

    pub fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end`, `end` left out.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "there is no number below 0");
        usize::try_from(self.bits() % end as u64).expect("it is below a usize")
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// True `n` times of `of`.
    pub fn odds(&mut self, n: usize, of: usize) -> bool {
        self.below(of) < n
    }

    /// The text in pieces of 1 to `longest` bytes, characters kept whole; together they are the text.
    pub fn cut<'a>(&mut self, text: &'a str, longest: usize) -> Vec<&'a str> {
        let mut pieces = vec![];
        let mut rest = text;
        while !rest.is_empty() {
            let mut at = (1 + self.below(longest)).min(rest.len());
            while !rest.is_char_boundary(at) {
                at += 1;
            }
            let (piece, after) = rest.split_at(at);
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}

impl Default for Chance {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence_of_splitmix64() {
        let mut chance = Chance::seeded(1_234_567);
        assert_eq!(6_457_827_717_110_365_317, chance.bits());
        assert_eq!(3_203_168_211_198_807_973, chance.bits());
    }

    #[test]
    fn cutting_keeps_every_byte_and_every_character() {
        let text = "größer als 日本語 und 🦀!";
        for seed in 0..200 {
            let pieces = Chance::seeded(seed).cut(text, 5);
            assert_eq!(text, pieces.concat());
            assert!(pieces.len() > 3);
        }
    }
}
