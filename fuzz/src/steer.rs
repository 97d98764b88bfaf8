//! Steer rules: whatever the text, an answer within it; what is read prints back.

use weir::rules::steer;
use weir::rules::{Findings, Names};

/// The target.
pub(crate) fn fuzz(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match steer::parse(text, &mut Names::default()) {
        Ok((rule, warnings)) => {
            within(text, &warnings);
            let printed = rule.to_string();
            let (again, odd) =
                steer::parse(&printed, &mut Names::default()).unwrap_or_else(|found| panic!("{printed}\n{found}"));
            assert!(again == rule && odd.is_empty(), "{printed}");
            assert_eq!(again.to_string(), printed);
        }
        Err(errors) => {
            assert!(!errors.is_empty() && !errors.to_string().is_empty());
            within(text, &errors);
        }
    }
}

fn within(text: &str, found: &Findings) {
    for finding in found.shown() {
        assert!(text.get(finding.range.clone()).is_some(), "{finding:?}");
    }
}
