//! Names of interfaces, and lists of them that rules share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Characters of a name, at most: as many as an interface name of the kernel and a VLAN suffix need, and short enough
/// for tables on a terminal.
pub(crate) const LONGEST_NAME: usize = 31;

/// Whether something may be the name of an object.
pub(crate) fn is_name(word: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    word.len() <= LONGEST_NAME
        && word.bytes().next().is_some_and(alphanumeric)
        && word.bytes().all(|byte| alphanumeric(byte) || b"._-".contains(&byte))
}

/// Keeps each name and each list of names once. Rules of one `Names` that list the same names in the same order share them.
#[derive(Debug, Default)]
pub struct Names {
    names: HashSet<Arc<str>>,
    lists: HashMap<Box<str>, Arc<[Arc<str>]>>,
    /// The key of the list that is looked for.
    key: String,
}

impl Names {
    /// The shared list of these names, which are valid: the key of a list is its names with commas between.
    pub(super) fn list(&mut self, words: &[&str]) -> Arc<[Arc<str>]> {
        self.key.clear();
        for word in words {
            self.key.push_str(word);
            self.key.push(',');
        }
        if let Some(list) = self.lists.get(self.key.as_str()) {
            return Arc::clone(list);
        }
        let list: Arc<[Arc<str>]> = words.iter().map(|word| self.name(word)).collect();
        self.lists.insert(self.key.as_str().into(), Arc::clone(&list));
        list
    }

    fn name(&mut self, word: &str) -> Arc<str> {
        match self.names.get(word) {
            Some(name) => Arc::clone(name),
            None => {
                let name: Arc<str> = word.into();
                self.names.insert(Arc::clone(&name));
                name
            }
        }
    }
}
