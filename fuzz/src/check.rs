//! Properties of any text of rules.

use weir::rules::{Format, Rule, read};

/// Whatever the text, an answer within it; what is read prints as rules that read back as the same.
pub(crate) fn holds(format: Format, text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let found = match read(format, text) {
        Ok(reading) => {
            let rules: Vec<Rule> = reading.lines.iter().map(|line| line.rule.clone()).collect();
            for line in &reading.lines {
                assert!(!text[line.start as usize..line.end as usize].is_empty());
            }
            let printed: String = rules.iter().map(|rule| format!("{rule}\n")).collect();
            let again = read(Format::Rules, &printed).unwrap_or_else(|found| panic!("{printed}{found}"));
            assert!(again.warnings.is_empty());
            assert!(again.lines.into_iter().map(|line| line.rule).eq(rules));
            reading.warnings
        }
        Err(errors) => {
            assert!(!errors.is_empty() && !errors.to_string().is_empty());
            errors
        }
    };
    for finding in found.shown() {
        assert!(text.get(finding.range.clone()).is_some(), "{finding:?}");
        let before = &text[..finding.range.start];
        assert_eq!(finding.line as usize, before.matches('\n').count() + 1);
    }
}
