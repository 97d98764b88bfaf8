//! Rules of others: whatever the text, an answer within it; what is read prints as a text of rules that reads back.

use weir::rules::acl;
use weir::rules::import::{Format, import};

/// The target.
pub(crate) fn fuzz(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    for format in [Format::Classbench, Format::Vpp] {
        match import(text, format) {
            Ok(imported) => {
                let printed: String = imported.rules.iter().map(|rule| format!("{rule}\n")).collect();
                let read = acl::read(&printed).unwrap_or_else(|found| panic!("{printed}\n{found}"));
                assert!(read.lines.iter().map(|line| &line.rule).eq(&imported.rules), "{printed}");
            }
            Err(found) => {
                let within = |range: &std::ops::Range<usize>| range.start <= range.end && range.end <= text.len();
                assert!(!found.is_empty() && found.shown().iter().all(|finding| within(&finding.range)));
            }
        }
    }
}
