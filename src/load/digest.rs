//! The digest of loaded rows: the same number computed here while they are made and by the server afterwards.

use crate::sql::{Connection, SqlError};

/// Digest of the logical rows as the server computes it: row count and the sum over rows of the exclusive or of `id` and
/// of PostgreSQL's own hashes of the other columns. It does not depend on the rows' order and costs hardly more than
/// passing over the table: nothing is converted or copied for it. The functions have given the same numbers since before
/// 9.0: hash indexes, which an upgrade takes along, are made of them.
pub fn digest(connection: &Connection, table: &str) -> Result<String, SqlError> {
    let sql = format!(
        "SELECT count(*) || ':' || coalesce(sum(hashbpchar(c) # hashbpchar(pad) # hashint4(k) # id), 0) FROM {table}"
    );
    Ok(connection.text(&sql)?.unwrap_or_default())
}

/// The digest of rows that go by one after the other.
#[derive(Debug, Default)]
pub(super) struct RowDigest {
    rows: u64,
    sum: i64,
}

impl RowDigest {
    /// Adds a row; texts are without the blanks that fill `char(n)` up.
    pub(super) fn add(&mut self, id: i32, k: i32, c: &[u8], pad: &[u8]) {
        self.rows += 1;
        self.sum += i64::from(hash(c) ^ hash(pad) ^ hash_integer(k) ^ id);
    }

    /// As the server writes it.
    pub(super) fn text(&self) -> String {
        format!("{}:{}", self.rows, self.sum)
    }
}

/// The golden ratio, as Bob Jenkins's functions begin, and PostgreSQL's addition to it.
const START: u32 = 0x9e37_79b9 + 3_923_095;

/// `hashbpchar` and `hashtext` of PostgreSQL: Jenkins's lookup3 (2006) over little-endian words, with another start and
/// with the lowest byte of the last word left out.
fn hash(bytes: &[u8]) -> i32 {
    const WORD: usize = 4;
    const ROUND: usize = 3 * WORD;
    let word = |bytes: &[u8], at: usize| {
        let mut word = [0; WORD];
        word.copy_from_slice(&bytes[at * WORD..(at + 1) * WORD]);
        u32::from_le_bytes(word)
    };
    // Columns are far shorter than 4 GiB.
    let start = START.wrapping_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let mut state = [start; 3];
    let mut rounds = bytes.chunks_exact(ROUND);
    for round in &mut rounds {
        for (at, value) in state.iter_mut().enumerate() {
            *value = value.wrapping_add(word(round, at));
        }
        state = mixed(state);
    }
    let mut last = [0; ROUND];
    let (head, tail) = rounds.remainder().split_at(rounds.remainder().len().min(2 * WORD));
    last[..head.len()].copy_from_slice(head);
    last[2 * WORD + 1..2 * WORD + 1 + tail.len()].copy_from_slice(tail);
    for (at, value) in state.iter_mut().enumerate() {
        *value = value.wrapping_add(word(&last, at));
    }
    finished(state).cast_signed()
}

/// `hashint4` of PostgreSQL: the same of a single word.
fn hash_integer(value: i32) -> i32 {
    const BYTES: u32 = 4;
    let start = START.wrapping_add(BYTES);
    finished([start.wrapping_add(value.cast_unsigned()), start, start]).cast_signed()
}

/// lookup3's `mix`: each round spreads twelve bytes.
fn mixed([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for [first, second, third] in [[4, 6, 8], [16, 19, 4]] {
        a = a.wrapping_sub(c) ^ c.rotate_left(first);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(second);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(third);
        b = b.wrapping_add(a);
    }
    [a, b, c]
}

/// lookup3's `final`.
fn finished([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_servers() {
        // As 9.0.23 and 15.18 answer.
        for (text, expected) in [
            ("", -1_477_818_771),
            ("a", 1_075_015_857),
            ("abcdefgh", -1_960_928_205),
            ("abcdefghijk", -1_483_803_693),
            ("abcdefghijkl", -1_586_087_212),
            ("1|2|3-4|5-6-7-8-9-10-11-12-13-14-15-16-17", -84_817_138),
        ] {
            assert_eq!(hash(text.as_bytes()), expected, "{text}");
        }
        for (value, expected) in [(0, -272_711_505), (5, -1_330_264_708), (1_000_000, -723_906_379)] {
            assert_eq!(hash_integer(value), expected, "{value}");
        }
    }

    #[test]
    fn every_column_and_its_row_count() {
        let of = |rows: &[(i32, i32, &str, &str)]| {
            let mut digest = RowDigest::default();
            for (id, k, c, pad) in rows {
                digest.add(*id, *k, c.as_bytes(), pad.as_bytes());
            }
            digest.text()
        };
        let base = of(&[(1, 5, "c", "p"), (2, 6, "d", "q")]);
        assert_eq!(base, of(&[(2, 6, "d", "q"), (1, 5, "c", "p")]), "the order is all the same");
        for other in [
            [(1, 6, "c", "p"), (2, 5, "d", "q")],
            [(1, 5, "d", "p"), (2, 6, "c", "q")],
            [(1, 5, "c", "q"), (2, 6, "d", "p")],
            [(1, 5, "c", "p"), (3, 6, "d", "q")],
        ] {
            assert_ne!(base, of(&other), "{other:?}");
        }
        assert_eq!(of(&[]), "0:0");
    }
}
