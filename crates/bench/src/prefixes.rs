//! Routing tables to look up in: one that is given, or one that is made with the proportions of the Internet's.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use weir_base::random::Random;
use weir_table::lpm::Prefix;
use weir_table::lpm::sample::Draw;

/// Prefixes of both families, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Prefixes {
    /// IPv4.
    pub v4: Vec<Prefix<u32>>,
    /// IPv6.
    pub v6: Vec<Prefix<u128>>,
    /// The origin of the prefixes, in words.
    pub origin: String,
}

/// Routes of a made table: as many as the Internet had in 2026.
const V4: usize = 900_000;
const V6: usize = 160_000;

/// (length, share in thousandths) of prefixes in the Internet's table, after the proportions of public table dumps.
const LENGTHS_V4: [(u8, u64); 13] = [
    (12, 1),
    (14, 2),
    (15, 2),
    (16, 15),
    (17, 9),
    (18, 15),
    (19, 28),
    (20, 47),
    (21, 56),
    (22, 121),
    (23, 107),
    (24, 596),
    (32, 1),
];
const LENGTHS_V6: [(u8, u64); 12] = [
    (28, 2),
    (29, 27),
    (30, 4),
    (32, 141),
    (34, 35),
    (36, 42),
    (40, 105),
    (42, 26),
    (44, 102),
    (46, 42),
    (48, 473),
    (64, 1),
];

impl Prefixes {
    /// Reads `ADDRESS/LENGTH` lines; a name that ends in `.gz` is decompressed. Empty lines and `#` comments are passed over.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is no prefix: the error names the line.
    pub fn read(path: &Path) -> io::Result<Prefixes> {
        let file = File::open(path)?;
        let zipped = path.extension().is_some_and(|extension| extension == "gz");
        let text: Box<dyn Read> = if zipped { Box::new(flate2::read::GzDecoder::new(file)) } else { Box::new(file) };
        let mut prefixes = Prefixes { origin: path.display().to_string(), ..Prefixes::default() };
        for (number, line) in (1..).zip(BufReader::new(text).lines()) {
            let line = line?;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Ok(prefix) = line.parse() {
                prefixes.v4.push(prefix);
            } else if let Ok(prefix) = line.parse() {
                prefixes.v6.push(prefix);
            } else {
                let message = format!("{}:{number}: `{line}` is no prefix: expected ADDRESS/LENGTH", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
        Ok(prefixes)
    }

    /// Makes full tables; equal seeds make equal tables. Routes cluster as real ones do: most lie inside blocks that are
    /// routed too.
    pub fn made(seed: u64) -> Prefixes {
        Prefixes::made_of(V4, V6, seed)
    }

    /// As [`Prefixes::made`], with so many routes.
    pub fn made_of(v4: usize, v6: usize, seed: u64) -> Prefixes {
        let mut random = Random::from_seed(seed);
        // Real allocations: unicast IPv4 below 224/3, IPv6 in some 60 blocks of 2000::/3.
        let v4 = make(v4, &LENGTHS_V4, 8, &mut random, |random| (1 << 24) + random.below(223 << 24) as u32);
        let v6 = make(v6, &LENGTHS_V6, 20, &mut random, |random| {
            let block = 0x2000 + random.below(60) * 17;
            (u128::from(block) << 112) | (u128::from(random.next()) << 48)
        });
        Prefixes { v4, v6, origin: format!("made, seed {seed}") }
    }
}

/// Draws distinct prefixes: half of them inside an earlier one, half at a place of `anywhere`'s choice, aligned to
/// blocks of `block` bits more than chance would give.
fn make<K: Draw>(
    count: usize,
    lengths: &[(u8, u64)],
    block: u8,
    random: &mut Random,
    anywhere: impl Fn(&mut Random) -> K,
) -> Vec<Prefix<K>> {
    let total: u64 = lengths.iter().map(|&(_, share)| share).sum();
    let mut prefixes: Vec<Prefix<K>> = Vec::with_capacity(count);
    let mut known = HashSet::with_capacity(count);
    while prefixes.len() < count {
        let mut ticket = random.below(total);
        let mut chosen = lengths.iter();
        let len = loop {
            match chosen.next() {
                Some(&(_, share)) if ticket >= share => ticket -= share,
                Some(&(len, _)) => break len,
                None => break block,
            }
        };
        let near = (!prefixes.is_empty() && random.chance(0.5))
            .then(|| prefixes[random.below(prefixes.len() as u64) as usize]);
        let address = match near {
            Some(near) if near.len() < len => near.address().splice(near.len().max(block), anywhere(random)),
            _ => anywhere(random),
        };
        if let Some(prefix) = Prefix::new(address, len).filter(|prefix| known.insert(*prefix)) {
            prefixes.push(prefix);
        }
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn made_tables_are_distinct_and_repeatable() {
        let (one, other) = (Prefixes::made_of(5000, 2000, 7), Prefixes::made_of(5000, 2000, 7));
        assert_eq!((one.v4.len(), one.v6.len()), (5000, 2000));
        assert_eq!(one.v4, other.v4);
        assert_eq!(one.v6, other.v6);
        assert_eq!(one.v4.iter().collect::<HashSet<_>>().len(), 5000);
        assert!(one.v6.iter().all(|prefix| prefix.address() >> 125 == 1), "all in 2000::/3");
    }

    #[test]
    fn a_bad_line_is_named() {
        let path = std::env::temp_dir().join(format!("weir-prefixes-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        writeln!(file, "# a table\n10.0.0.0/8\n\n2001:db8::/32\n10.0.0.0/40").unwrap();
        let error = Prefixes::read(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.ends_with(":5: `10.0.0.0/40` is no prefix: expected ADDRESS/LENGTH"), "{error}");
    }
}
