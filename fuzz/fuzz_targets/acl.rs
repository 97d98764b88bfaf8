//! Rules on the fields of packets: whatever the text, an answer within it; what is read prints back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir::rules::acl;

fuzz_target!(|text: &[u8]| {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let found = match acl::parse(text) {
        Ok((rule, warnings)) => {
            let printed = rule.to_string();
            let (again, odd) = acl::parse(&printed).unwrap_or_else(|found| panic!("{printed}\n{found}"));
            assert!(again == rule && odd.is_empty(), "{printed}");
            warnings
        }
        Err(errors) => {
            assert!(!errors.is_empty() && !errors.to_string().is_empty());
            errors
        }
    };
    for finding in found.shown() {
        assert!(text.get(finding.range.clone()).is_some(), "{finding:?}");
    }
});
