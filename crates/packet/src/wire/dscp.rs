//! Differentiated services code points (RFC 2474): the words for them, in rules and in packets' text.

/// The names of IANA's registry "Differentiated Services Field Codepoints (DSCP)", lower case and with hyphens.
const NAMES: &[(u8, &str)] = &[
    (0, "cs0"),
    (1, "le"),
    (8, "cs1"),
    (10, "af11"),
    (12, "af12"),
    (14, "af13"),
    (16, "cs2"),
    (18, "af21"),
    (20, "af22"),
    (22, "af23"),
    (24, "cs3"),
    (26, "af31"),
    (28, "af32"),
    (30, "af33"),
    (32, "cs4"),
    (34, "af41"),
    (36, "af42"),
    (38, "af43"),
    (40, "cs5"),
    (44, "voice-admit"),
    (46, "ef"),
    (48, "cs6"),
    (56, "cs7"),
];

/// The name of a code point, as in `ef`.
pub fn name(dscp: u8) -> Option<&'static str> {
    NAMES.iter().find(|(number, _)| *number == dscp).map(|(_, name)| *name)
}

/// The code point of a name, as in `ef`.
pub fn by_name(name: &str) -> Option<u8> {
    NAMES.iter().find(|(_, n)| *n == name).map(|(dscp, _)| *dscp)
}

/// All names, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0), "a number stands once");
        assert!(NAMES.iter().all(|&(dscp, word)| dscp < 64 && name(dscp) == Some(word) && by_name(word) == Some(dscp)));
    }
}
