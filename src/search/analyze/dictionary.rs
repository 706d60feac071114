//! Words of Chinese, which has no spaces, by a dictionary.
//!
//! Owns: jieba's dictionary, which is in the program and read at its first use (a quarter of a second, 25 MB), and
//! which of its words a run of characters has. Promises: a character that no word covers is a word. Must not: see any
//! other script.
//!
//! Made by `cut -d' ' -f1,2 dict.txt | gzip -9n` of the crate's own.

use std::io::BufReader;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use jieba_rs::Jieba;

static DICTIONARY: LazyLock<Jieba> = LazyLock::new(|| {
    let file = &include_bytes!("dictionary.gz")[..];
    let read = Jieba::with_dict(&mut BufReader::new(GzDecoder::new(file)));
    read.expect("the file is a part of the program")
});

/// Reads the dictionary, if nobody has yet.
pub(super) fn load() {
    LazyLock::force(&DICTIONARY);
}

/// All words in a run of characters, each with the place of its first one; words overlap.
pub(super) fn all_words(run: &str) -> Vec<(usize, &str)> {
    let found = DICTIONARY.cut_all(run);
    let found = found.iter().filter(|word| word.end - word.start > 1);
    let mut is_covered = vec![false; run.chars().count()];
    let mut words = Vec::new();
    for word in found {
        is_covered[word.start..word.end].fill(true);
        words.push((word.start, word.word));
    }
    let characters = run.char_indices().zip(is_covered).enumerate();
    let alone = characters.filter(|(_, (_, is_covered))| !is_covered);
    words.extend(alone.map(|(place, ((at, one), _))| (place, &run[at..at + one.len_utf8()])));
    words.sort_unstable();
    words
}

/// The likeliest words of a run of characters, one behind the other.
pub(super) fn likeliest_words(run: &str) -> Vec<&str> {
    let words = DICTIONARY.cut(run, false);
    words.into_iter().map(|word| word.word).collect()
}

/// Whether the dictionary knows of a character's script.
pub(super) fn is_han(one: char) -> bool {
    matches!(one, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}
