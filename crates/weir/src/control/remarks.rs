//! The first errors or warnings about a request.

use crate::render::remark::Remark;
use crate::rules::{Finding, Findings};

/// Remarks of one kind that are kept: the millionth teaches nothing new.
const SHOWN: usize = 20;

/// Remarks, and how many there are beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remarks {
    /// The first of them.
    pub shown: Vec<Remark>,
    /// How many there are beside those.
    pub more: usize,
}

impl Remarks {
    pub(super) fn push(&mut self, remark: impl FnOnce() -> Remark) {
        if self.shown.len() < SHOWN {
            self.shown.push(remark());
        } else {
            self.more += 1;
        }
    }

    /// All that was found about one change of a batch, or about a text.
    pub fn extend(&mut self, change: Option<usize>, findings: &Findings) {
        for finding in findings.shown() {
            self.push(|| remark(change, finding));
        }
        self.more += findings.more();
    }

    /// All that was found about a text of rules, which a change of a batch may have; its line is no news where it is the only
    /// one there can be.
    pub(super) fn of_text(&mut self, change: Option<usize>, alone: bool, findings: &Findings) {
        for finding in findings.shown() {
            let line = if alone { None } else { Some(finding.line) };
            self.push(|| Remark { change, line, ..remark(None, finding) });
        }
        self.more += findings.more();
    }

    /// Of the members of a group, which were read as if each were a change.
    #[must_use]
    pub(super) fn of_members(mut self) -> Remarks {
        for remark in &mut self.shown {
            remark.member = remark.change.take();
        }
        self
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}

/// A change is one line: its number says enough.
fn remark(change: Option<usize>, finding: &Finding) -> Remark {
    Remark {
        change,
        member: None,
        line: if change.is_none() { Some(finding.line) } else { None },
        column: Some(finding.column),
        message: finding.message.clone(),
        help: finding.help.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_bounded() {
        let mut remarks = Remarks::default();
        for change in 0..SHOWN + 5 {
            remarks.push(|| Remark { change: Some(change), ..Remark::default() });
        }
        assert_eq!((remarks.shown.len(), remarks.more), (SHOWN, 5));
    }
}
