//! The diagnosis as text.

use std::fmt::Write as _;

use super::{Diagnosis, Level};
use crate::render::number::plural;

/// A line for each finding, its command below it, and the sum.
pub(super) fn of(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for finding in &diagnosis.findings {
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
    let (problems, advice) = (diagnosis.count(Level::Problem), diagnosis.count(Level::Advice));
    let pieces = if advice == 1 { "piece" } else { "pieces" };
    let _ = writeln!(text, "{}, {advice} {pieces} of advice", plural(problems as u64, "problem"));
    text
}
