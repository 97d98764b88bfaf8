//! The diagnosis as text.

use std::fmt::Write as _;

use super::finding::{Finding, Level};
use crate::render::number::plural;

/// Prints a line for each finding, its command below it, and the sum.
pub(super) fn of(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let level = match finding.level {
            Level::Fine => "fine",
            Level::Advice => "advice",
            Level::Problem => "problem",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{level:<9}{}: {}", finding.subject, finding.what);
        if let Some(command) = &finding.command {
            let _ = writeln!(text, "{:9}  {command}", "");
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (problems, advice) = (count(Level::Problem), count(Level::Advice));
    let pieces = if advice == 1 { "piece" } else { "pieces" };
    let _ = writeln!(text, "{}, {advice} {pieces} of advice", plural(problems as u64, "problem"));
    text
}
