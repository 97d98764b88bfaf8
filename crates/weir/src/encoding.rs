//! Files and bodies that have to be UTF-8, and the errors about others.

use std::fmt;

/// Why octets are no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotUtf8 {
    /// The text as far as it can be read: U+FFFD stands for what cannot.
    pub(crate) text: String,
    /// Where in the text the first wrong character is, in octets.
    pub(crate) at: usize,
    /// The encoding of the octets, if it can be recognised.
    is: Option<Wide>,
}

/// An encoding by units of two or four octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wide {
    /// The name that iconv(1) has for it.
    name: &'static str,
    /// The name without an order of octets.
    family: &'static str,
}

impl NotUtf8 {
    /// Returns the error in one sentence without a full stop.
    pub(crate) fn message(&self) -> String {
        match self.is {
            Some(Wide { family, .. }) => format!("the file is {family}, not UTF-8"),
            None => "the file is not UTF-8 from here on".to_owned(),
        }
    }

    /// Returns advice.
    pub(crate) fn help(&self) -> Option<String> {
        self.is.map(|Wide { name, .. }| format!("convert it: `iconv -f {name} -t UTF-8`"))
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
pub(crate) fn decode(octets: &[u8]) -> Result<&str, NotUtf8> {
    if let Some((text, wide)) = utf32(octets).or_else(|| utf16(octets)) {
        return Err(NotUtf8 { text, at: 0, is: Some(wide) });
    }
    std::str::from_utf8(octets).map_err(|error| NotUtf8 {
        text: String::from_utf8_lossy(octets).into_owned(),
        at: error.valid_up_to(),
        is: None,
    })
}

/// The text of UTF-32, which a byte order mark shows, or that three of the first four octets are zero: no text begins so in
/// UTF-8, and none in UTF-16.
fn utf32(octets: &[u8]) -> Option<(String, Wide)> {
    let (unit, name, octets): (fn([u8; 4]) -> u32, _, _) = match octets {
        [0xff, 0xfe, 0, 0, rest @ ..] => (u32::from_le_bytes, "UTF-32", rest),
        [0, 0, 0xfe, 0xff, rest @ ..] => (u32::from_be_bytes, "UTF-32", rest),
        [first, 0, 0, 0, ..] if *first != 0 => (u32::from_le_bytes, "UTF-32LE", octets),
        [0, 0, 0, last, ..] if *last != 0 => (u32::from_be_bytes, "UTF-32BE", octets),
        _ => return None,
    };
    let character = |octets: &[u8]| char::from_u32(unit(octets.try_into().ok()?));
    let text = octets.chunks(4).map(|octets| character(octets).unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Some((text, Wide { name, family: "UTF-32" }))
}

/// The text of UTF-16, which a byte order mark shows, or that one of the first two octets is zero: no text begins so in
/// UTF-8.
fn utf16(octets: &[u8]) -> Option<(String, Wide)> {
    let (unit, name, octets): (fn([u8; 2]) -> u16, _, _) = match octets {
        [0xff, 0xfe, rest @ ..] => (u16::from_le_bytes, "UTF-16", rest),
        [0xfe, 0xff, rest @ ..] => (u16::from_be_bytes, "UTF-16", rest),
        [first, 0, ..] if *first != 0 => (u16::from_le_bytes, "UTF-16LE", octets),
        [0, second, ..] if *second != 0 => (u16::from_be_bytes, "UTF-16BE", octets),
        _ => return None,
    };
    let units: Vec<u16> = octets.chunks(2).map(|pair| unit([pair[0], pair.get(1).copied().unwrap_or(0)])).collect();
    Some((String::from_utf16_lossy(&units), Wide { name, family: "UTF-16" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_8_is_read_as_it_is() {
        for text in ["", "a", "\u{feff}version = 1\n", "é", "\0"] {
            assert_eq!(decode(text.as_bytes()), Ok(text));
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let wrong = decode(b"permit ip\n# caf\xe9\n").unwrap_err();
        assert_eq!(wrong.to_string(), "line 2, column 6: the file is not UTF-8 from here on");
        assert_eq!(wrong.text, "permit ip\n# caf\u{fffd}\n");
        let text = "deny ip from any to any # \u{1f600}\n";
        let narrow = |unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
        let wide = |unit: fn(u32) -> [u8; 4]| text.chars().flat_map(|c| unit(c.into())).collect::<Vec<u8>>();
        for (mark, octets, name) in [
            (&[0xff, 0xfe][..], narrow(u16::to_le_bytes), "UTF-16"),
            (&[0xfe, 0xff], narrow(u16::to_be_bytes), "UTF-16"),
            // Without a mark iconv takes the order of the machine that it runs on.
            (&[], narrow(u16::to_le_bytes), "UTF-16LE"),
            (&[], narrow(u16::to_be_bytes), "UTF-16BE"),
            (&[0xff, 0xfe, 0, 0], wide(u32::to_le_bytes), "UTF-32"),
            (&[0, 0, 0xfe, 0xff], wide(u32::to_be_bytes), "UTF-32"),
            (&[], wide(u32::to_le_bytes), "UTF-32LE"),
            (&[], wide(u32::to_be_bytes), "UTF-32BE"),
        ] {
            let wrong = decode(&[mark, &octets].concat()).unwrap_err();
            assert_eq!(wrong.text, text);
            let family = &name[..6];
            assert_eq!(
                wrong.to_string(),
                format!("line 1, column 1: the file is {family}, not UTF-8 (convert it: `iconv -f {name} -t UTF-8`)")
            );
        }
        // Cut within a character.
        assert_eq!(decode(&[0xff, 0xfe, b'a', 0, b'b']).unwrap_err().text, "ab");
        assert_eq!(decode(&[b'a', 0, 0, 0, b'b']).unwrap_err().text, "a\u{fffd}");
    }
}
