//! Masks and sessions of classifier tables: the first line is a mask, the others are sessions. Whatever the text, an answer within it;
//! what is read prints back.

use weir::rules::Findings;
use weir::rules::classify::{parse_mask, parse_session, parse_value};

/// The target.
pub(crate) fn fuzz(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let mask = match parse_mask(first) {
        Ok((mask, _)) => mask,
        Err(errors) => return within(first, &errors),
    };
    let (again, _) = parse_mask(&mask.to_string()).unwrap_or_else(|found| panic!("{mask}\n{found}"));
    assert_eq!(again, mask);
    for line in rest.lines() {
        match parse_session(line, &mask) {
            Ok((session, _)) => {
                let printed = session.text(&mask);
                let (again, _) = parse_session(&printed, &mask).unwrap_or_else(|found| panic!("{printed}\n{found}"));
                assert_eq!((again.text(&mask), &again.value), (printed, &session.value));
                assert_eq!(parse_value(line, &mask).ok(), Some(session.value));
            }
            Err(errors) => within(line, &errors),
        }
    }
}

fn within(text: &str, found: &Findings) {
    assert!(!found.is_empty());
    for finding in found.shown() {
        assert!(text.get(finding.range.clone()).is_some(), "{finding:?}");
    }
}
