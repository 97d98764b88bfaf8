//! The sources of live changes.

/// The source of changes without a name.
pub const SOURCE: &str = "api";

/// The source of the configuration.
pub const FILE: &str = "file";

/// Characters of a source's name, at most.
pub const LONGEST_SOURCE: usize = 64;

/// [`SOURCE`], for requests that name none.
pub(crate) fn usual() -> String {
    SOURCE.to_owned()
}

/// Checks the name of a source.
///
/// # Errors
/// Says what is wrong with it.
pub fn check(source: &str) -> Result<(), String> {
    let visible = |c: char| c.is_alphanumeric() || c.is_ascii_graphic();
    if source == FILE {
        return Err(format!("the source `{FILE}` is the configuration's own: name another"));
    }
    match source.chars().count() {
        1..=LONGEST_SOURCE if source.chars().all(visible) => Ok(()),
        _ => Err(format!("a source's name has 1 to {LONGEST_SOURCE} visible characters, without blanks")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_names_that_can_be_seen() {
        let longest = "x".repeat(LONGEST_SOURCE);
        for good in ["api", "customers.rules", "é/ü", &longest] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "a\n", "a\u{202e}b", &format!("{longest}x")] {
            assert!(check(bad).unwrap_err().contains("1 to 64 visible"), "{bad}");
        }
        assert!(check("file").unwrap_err().contains("the configuration's own"));
    }
}
