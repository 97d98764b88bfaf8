//! Differentiated services code points (RFC 2474): the words for them, in rules and in packets' text.

use super::names::Names;

/// The names of IANA's registry "Differentiated Services Field Codepoints (DSCP)", lower case and with hyphens.
pub static NAMES: Names = Names::new(
    &[
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
    ],
    &[],
);
