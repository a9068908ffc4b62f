//! Chance from a seed: xoshiro256++ (Blackman and Vigna, public domain), seeded by splitmix64.

/// A stream of random numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Chance {
    state: [u64; 4],
}

impl Chance {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self { state: [next(), next(), next(), next()] }
    }

    /// Any number.
    pub const fn any(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `bound`; 0 when that is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // The bias of a remainder is of no concern here.
        if bound == 0 { 0 } else { self.any() % bound }
    }

    /// An index below `len`.
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    pub const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `times` of `of` times.
    pub const fn odds(&mut self, times: u64, of: u64) -> bool {
        self.below(of) < times
    }

    /// One of some.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// Bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.any().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
