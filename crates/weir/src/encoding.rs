//! Files and bodies that are to be UTF-8, and what is said of those that are not.

use std::fmt;

/// Why octets are no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotUtf8 {
    /// The text as far as it can be read: U+FFFD stands for what cannot.
    pub(crate) text: String,
    /// Where in the text the first wrong character is, in octets.
    pub(crate) at: usize,
    is_utf16: bool,
}

impl NotUtf8 {
    /// What is wrong, in one sentence without a full stop.
    pub(crate) fn message(&self) -> &'static str {
        if self.is_utf16 { "the file is UTF-16, not UTF-8" } else { "the file is not UTF-8 from here on" }
    }

    /// What to do about it.
    pub(crate) fn help(&self) -> Option<&'static str> {
        self.is_utf16.then_some("convert it: `iconv -f UTF-16 -t UTF-8`")
    }
}

impl fmt::Display for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[start..].chars().filter(|&c| c != '\u{feff}').count() + 1;
        write!(f, "line {line}, column {column}: {}", self.message())?;
        self.help().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

/// Reads UTF-8, with or without a byte order mark, which stays in the text.
///
/// # Errors
/// If the octets are another encoding, with the text as far as it can be read.
pub(crate) fn decode(octets: &[u8]) -> Result<String, NotUtf8> {
    if let Some(text) = utf16(octets) {
        return Err(NotUtf8 { text, at: 0, is_utf16: true });
    }
    std::str::from_utf8(octets).map(str::to_owned).map_err(|error| NotUtf8 {
        text: String::from_utf8_lossy(octets).into_owned(),
        at: error.valid_up_to(),
        is_utf16: false,
    })
}

/// The text of UTF-16, which a byte order mark shows, or that one of the first two octets is zero: no text begins so in
/// UTF-8.
fn utf16(octets: &[u8]) -> Option<String> {
    let (unit, octets): (fn([u8; 2]) -> u16, _) = match octets {
        [0xff, 0xfe, rest @ ..] => (u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => (u16::from_be_bytes, rest),
        [first, 0, ..] if *first != 0 => (u16::from_le_bytes, octets),
        [0, second, ..] if *second != 0 => (u16::from_be_bytes, octets),
        _ => return None,
    };
    let units: Vec<u16> = octets.chunks(2).map(|pair| unit([pair[0], pair.get(1).copied().unwrap_or(0)])).collect();
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_8_is_read_as_it_is() {
        for text in ["", "a", "\u{feff}version = 1\n", "é", "\0"] {
            assert_eq!(decode(text.as_bytes()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let wrong = decode(b"permit ip\n# caf\xe9\n").unwrap_err();
        assert_eq!(wrong.to_string(), "line 2, column 6: the file is not UTF-8 from here on");
        assert_eq!(wrong.text, "permit ip\n# caf\u{fffd}\n");
        let text = "deny ip from any to any # \u{1f600}\n";
        let mut all = vec![];
        for (mark, octets) in [
            (&[0xff, 0xfe][..], u16::to_le_bytes as fn(u16) -> [u8; 2]),
            (&[0xfe, 0xff], u16::to_be_bytes),
            (&[], u16::to_le_bytes),
            (&[], u16::to_be_bytes),
        ] {
            all.push([mark, &text.encode_utf16().flat_map(octets).collect::<Vec<u8>>()].concat());
        }
        for octets in all {
            let wrong = decode(&octets).unwrap_err();
            assert_eq!(wrong.text, text);
            assert_eq!(
                wrong.to_string(),
                "line 1, column 1: the file is UTF-16, not UTF-8 (convert it: `iconv -f UTF-16 -t UTF-8`)"
            );
        }
        // Cut within a character.
        assert_eq!(decode(&[0xff, 0xfe, b'a', 0, b'b']).unwrap_err().text, "ab");
    }
}
