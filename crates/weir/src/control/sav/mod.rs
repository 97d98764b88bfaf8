//! Entries of source address validation that come by the control socket: a batch of changes ([`batch`]), or a text with all
//! that a source says ([`import`]). Both find everything that is wrong before anything is changed.

pub mod batch;
pub mod import;
pub mod stage;

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_plane::compile::{EntryKey, Names};

use crate::rules::{Action, Rule, Scope};
use crate::suggest::closest;

/// Returns the keys of a rule: prefixes, and the kind of list.
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

    /// Returns the interfaces of a rule. `any` stands for all interfaces of the moment.
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
