//! Inputs near to those of a corpus, from a seed.
//!
//! Owns: the ways of changing bytes. Promises: the same name and corpus give the same inputs, everywhere. Must not:
//! make one longer than [`BYTES_MAX`].

/// What is said twice is said up to so many bytes: memory that grows faster than its input shows.
const BYTES_MAX: usize = 48 << 10;

/// Numbers at which something ends.
const NUMBERS: [u64; 10] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// Makes inputs.
pub(crate) struct Mutator(u64);

impl Mutator {
    /// For a decoder.
    pub(crate) fn of(name: &str) -> Mutator {
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |seed, byte| {
            (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Mutator(seed | 1)
    }

    /// Xorshift.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).expect("a machine of 64 bits") % end.max(1)
    }

    /// One of the corpus, changed one to four times.
    pub(crate) fn mutated(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(4) {
            let other = &corpus[self.below(corpus.len())];
            self.change(&mut bytes, other);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let from = self.below(bytes.len() + 1);
        let to = from + self.below((bytes.len() - from).min(64) + 1);
        match self.below(9) {
            0 if from < bytes.len() => bytes[from] ^= 1 << self.below(8),
            1 if from < bytes.len() => bytes[from] = NUMBERS[self.below(5)].to_be_bytes()[7],
            2 => drop(bytes.drain(from..to)),
            3 => bytes.truncate(from),
            4 => bytes.insert(from, self.next().to_be_bytes()[0]),
            5 => {
                let number = NUMBERS[self.below(NUMBERS.len())].to_be_bytes();
                let width = 1 << self.below(4);
                let end = bytes.len().min(from + width);
                bytes.splice(from..end, number[8 - width..].iter().copied());
            }
            6 => {
                let at = self.below(other.len() + 1);
                let end = at + self.below(other.len() - at + 1);
                bytes.splice(from..to, other[at..end].iter().copied());
            }
            7 => {
                let again = bytes[from..to].to_vec();
                bytes.splice(from..from, again);
            }
            _ => {
                let again = bytes[from..to].to_vec();
                let room = BYTES_MAX.saturating_sub(bytes.len()) / again.len().max(1);
                let times = match self.below(8) {
                    0 => room,
                    _ => self.below(16).min(room),
                };
                bytes.splice(from..from, again.repeat(times));
            }
        }
    }
}
