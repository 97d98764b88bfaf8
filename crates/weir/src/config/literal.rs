//! Places within strings of TOML.

use std::ops::Range;

/// Where a part of a string's value stands within the literal that it was read from, quotes and escapes included.
pub(super) fn within(literal: &str, part: Range<usize>) -> Range<usize> {
    let start = offset(literal, part.start);
    let end = offset(literal, part.end);
    if start < end { start + continuation(&literal[start..]).unwrap_or(0)..end } else { start..start }
}

/// Where the octet `wanted` of the value stands.
fn offset(literal: &str, wanted: usize) -> usize {
    let open = ["\"\"\"", "'''"].into_iter().find(|quotes| literal.starts_with(quotes)).map_or(1, str::len);
    let escapes = literal.starts_with('"');
    let mut at = open.min(literal.len());
    if open == 3 {
        // A line break right behind the quotes is none of the value.
        at += ["\r\n", "\n"].into_iter().find(|end| literal[at..].starts_with(end)).map_or(0, str::len);
    }
    let mut value = 0;
    while value < wanted {
        let mut rest = literal[at..].chars();
        let Some(c) = rest.next() else { break };
        if c != '\\' || !escapes {
            at += c.len_utf8();
            value += c.len_utf8();
            continue;
        }
        if let Some(length) = continuation(&literal[at..]) {
            at += length;
            continue;
        }
        let Some(escaped) = rest.next() else { break };
        at += c.len_utf8() + escaped.len_utf8();
        let digits = match escaped {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        let code = literal.get(at..at + digits).and_then(|code| u32::from_str_radix(code, 16).ok());
        if let Some(code) = code {
            at += digits;
            value += char::from_u32(code).map_or(1, char::len_utf8);
        } else {
            value += 1;
        }
    }
    at
}

/// The length of a backslash that continues the line: with the blanks and line breaks behind it it is none of the value.
fn continuation(rest: &str) -> Option<usize> {
    let behind = rest.strip_prefix('\\')?;
    let next = behind.trim_start();
    (next.len() < behind.len()).then(|| rest.len() - next.len())
}

#[cfg(test)]
mod tests {
    use toml::de::{DeTable, DeValue};

    use super::*;

    /// The character `x` of a value stands where the literal has it.
    #[test]
    fn the_parts_of_a_value_are_found_in_its_literal() {
        for literal in [
            r#""x""#,
            r#""abcx""#,
            "'a\\bx'",
            r#""\"\\\t\n x""#,
            r#""\u00e9\U0001f980é🦀x""#,
            "\"\"\"\nabx\"\"\"",
            "\"\"\"ab \\\n   \n  x\"\"\"",
            "'''\r\na\\x'''",
            "'''a\nx'''",
        ] {
            let text = format!("key = {literal}");
            let table = DeTable::parse(&text).expect(literal);
            let Some(DeValue::String(value)) = table.get_ref().get("key").map(|value| value.get_ref()) else {
                panic!("{literal}")
            };
            let at = value.find('x').expect(literal);
            let found = within(literal, at..at + 1);
            assert_eq!(&literal[found.clone()], "x", "{literal}: {found:?}");
        }
        assert_eq!(within("\"ab\"", 2..2), 3..3, "the end stands before the quote");
        assert_eq!(within("", 0..9), 0..0);
    }
}
