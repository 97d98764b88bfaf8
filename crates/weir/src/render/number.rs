//! Numbers as they stand in tables.

use weir_packet::wire::protocol::NAMES;

/// The name of an IP protocol, or its number.
pub(crate) fn protocol(number: u8) -> String {
    NAMES.name(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// As VPP writes clocks: two places, `1.29e3`.
pub fn clocks(value: f64) -> String {
    format!("{value:.2e}")
}

/// As VPP writes rates: four places, `6.1118e6`.
pub fn rate(value: f64) -> String {
    format!("{value:.4e}")
}

/// For a person at a glance: `6.11 M`, `940`, `12.3 k`.
pub fn short(value: f64) -> String {
    const UNITS: [&str; 5] = ["", " k", " M", " G", " T"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let places = match value.abs() {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.places$}{}", UNITS[unit])
}

/// Octets in binary units: `640 B`, `1.50 MiB`.
pub fn octets(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value} B") } else { format!("{scaled:.2} {}", UNITS[unit]) }
}

/// `part` of `whole`, or 0 of nothing.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// `1 packet`, `2 packets`.
pub fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {}", plurals(what)) }
}

/// The plural of a noun: `entries`, `prefixes`, `rules`.
pub fn plurals(what: &str) -> String {
    let vowels = ["a", "e", "i", "o", "u"];
    match what.strip_suffix('y') {
        Some(stem) if !vowels.iter().any(|vowel| stem.ends_with(vowel)) => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| what.ends_with(end)) => format!("{what}es"),
        _ => format!("{what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_expect() {
        assert_eq!(clocks(1290.0), "1.29e3");
        assert_eq!(rate(6_111_800.0), "6.1118e6");
        assert_eq!(rate(0.0), "0.0000e0");
        let short = [0.0, 7.0, 999.0, 999.6, 1000.0, 12_345.0, 999_600.0, 6_111_800.0, 2.5e10, 9e16].map(short);
        let expected = ["0", "7", "999", "1.00 k", "1.00 k", "12.3 k", "1.00 M", "6.11 M", "25.0 G", "90000 T"];
        assert_eq!(short, expected);
        assert_eq!([0, 1023, 1024, 1_572_864].map(octets), ["0 B", "1023 B", "1.00 KiB", "1.50 MiB"]);
        assert_eq!(ratio(1.0, 0.0), 0.0);
        assert_eq!(plural(1, "packet") + &plural(0, "packet"), "1 packet0 packets");
    }

    #[test]
    fn nouns_have_plurals() {
        for (one, several) in [
            ("packet", "packets"),
            ("entry", "entries"),
            ("more prefix", "more prefixes"),
            ("address", "addresses"),
            ("batch", "batches"),
            ("key", "keys"),
        ] {
            assert_eq!(plural(1, one), format!("1 {one}"));
            assert_eq!(plural(2, one), format!("2 {several}"));
            assert_eq!(plural(0, one), format!("0 {several}"));
        }
    }
}
