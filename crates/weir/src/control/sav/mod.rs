//! Entries of source address validation that come by the control socket: a batch of changes ([`batch`]), or a text with all
//! that a source says ([`import`]). Both find everything that is wrong before anything is changed.

pub mod batch;
pub mod import;
pub mod stage;

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_plane::compile::{EntryKey, Names};

use crate::render::sav::changed::Remark;
use crate::rules::{Action, Finding, Findings, Rule, Scope};
use crate::suggest::closest;

/// Who says what comes without a name.
pub const SOURCE: &str = "api";

/// Who says what stands in the configuration.
pub const FILE: &str = "file";

/// Characters of a source's name, at most.
pub const LONGEST_SOURCE: usize = 64;

/// Octets of what comes at a time, at most: some million entries.
pub const LONGEST_TEXT: usize = 256 << 20;

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
    fn push(&mut self, remark: impl FnOnce() -> Remark) {
        if self.shown.len() < SHOWN {
            self.shown.push(remark());
        } else {
            self.more += 1;
        }
    }

    /// All that was found about one change of a batch, or about a text.
    fn extend(&mut self, change: Option<usize>, findings: &Findings) {
        for finding in findings.shown() {
            self.push(|| remark(change, finding));
        }
        self.more += findings.more();
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
        line: if change.is_none() { Some(finding.line) } else { None },
        column: Some(finding.column),
        message: finding.message.clone(),
        help: finding.help.clone(),
    }
}

/// Checks the name of a source.
///
/// # Errors
/// Says what is wrong with it.
pub fn check_source(source: &str) -> Result<(), String> {
    let visible = |c: char| c.is_alphanumeric() || c.is_ascii_graphic();
    if source == FILE {
        return Err(format!("the source `{FILE}` is the configuration's own: name another"));
    }
    match source.chars().count() {
        1..=LONGEST_SOURCE if source.chars().all(visible) => Ok(()),
        _ => Err(format!("a source's name has 1 to {LONGEST_SOURCE} visible characters, without blanks")),
    }
}

/// What a rule is about: prefixes, and the kind of list.
fn keys(from: Option<IpNet>, scope: Scope, action: Action) -> impl Iterator<Item = EntryKey> {
    let any = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
    let any = from.is_none().then_some(any);
    let mode = scope.mode(action == Action::Permit);
    from.into_iter().chain(any.into_iter().flatten()).map(move |prefix| EntryKey { prefix, mode })
}

/// The interfaces that there are, and the lists of them that were found to be fine.
struct Interfaces<'a> {
    known: &'a [String],
    all: Option<Names>,
    fine: HashSet<*const Arc<str>>,
}

/// An interface that is not there, and what was probably meant.
struct Unknown {
    name: Arc<str>,
    suggestion: Option<String>,
}

impl Unknown {
    fn message(&self) -> String {
        format!("there is no interface `{}`", self.name)
    }

    fn help(&self) -> Option<String> {
        self.suggestion.as_ref().map(|name| format!("did you mean `{name}`?"))
    }
}

impl<'a> Interfaces<'a> {
    fn new(known: &'a [String]) -> Self {
        Interfaces { known, all: None, fine: HashSet::new() }
    }

    /// Those that a rule is about. `any` stands for those that there are now.
    fn of(&mut self, rule: &Rule) -> Result<Names, Unknown> {
        let Some(names) = &rule.on else {
            let known = self.known;
            let all = || known.iter().map(|name| Arc::from(name.as_str())).collect();
            return Ok(Arc::clone(self.all.get_or_insert_with(all)));
        };
        // Rules share lists.
        if !self.fine.contains(&names.as_ptr()) {
            let is_known = |name: &&Arc<str>| self.known.iter().any(|known| **known == ***name);
            if let Some(name) = names.iter().find(|name| !is_known(name)) {
                return Err(Unknown { name: Arc::clone(name), suggestion: closest(name, self.known) });
            }
            self.fine.insert(names.as_ptr());
        }
        Ok(Arc::clone(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_names_that_can_be_seen() {
        let longest = "x".repeat(LONGEST_SOURCE);
        for good in ["api", "customers.rules", "é/ü", &longest] {
            assert_eq!(check_source(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "a\n", "a\u{202e}b", &format!("{longest}x")] {
            assert!(check_source(bad).unwrap_err().contains("1 to 64 visible"), "{bad}");
        }
        assert!(check_source("file").unwrap_err().contains("the configuration's own"));
    }

    #[test]
    fn remarks_are_bounded() {
        let mut remarks = Remarks::default();
        for change in 0..SHOWN + 5 {
            remarks.push(|| Remark {
                change: Some(change),
                line: None,
                column: None,
                message: String::new(),
                help: None,
            });
        }
        assert_eq!((remarks.shown.len(), remarks.more), (SHOWN, 5));
    }
}
