//! Names of interfaces, and lists of them that rules share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::words::{self, Problem};
use super::{ANY, Interfaces};

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
    /// The lists that have been read, by how many words they are and the words, a comma behind each.
    lists: HashMap<Box<[u8]>, Shared>,
    /// The key of the list that is looked for.
    key: Vec<u8>,
}

/// A list of names.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) on: Interfaces,
    /// Of the words, the first that stands there twice.
    pub(super) repeated: Option<usize>,
}

impl Names {
    /// Returns the list of interfaces that these words name.
    ///
    /// # Errors
    /// If one of the words is not in its place, with its index.
    pub(super) fn list(&mut self, words: &[&str]) -> Result<Shared, (usize, Problem)> {
        // Words of known lists have no commas, so the key with as many commas and words has the same words.
        self.key.clear();
        self.key.extend_from_slice(&words.len().to_le_bytes());
        for word in words {
            self.key.extend_from_slice(word.as_bytes());
            self.key.push(b',');
        }
        if let Some(known) = self.lists.get(&self.key[..]) {
            return Ok(known.clone());
        }
        let shared = self.understand(words)?;
        self.lists.insert(self.key[..].into(), shared.clone());
        Ok(shared)
    }

    fn understand(&mut self, words: &[&str]) -> Result<Shared, (usize, Problem)> {
        let mut seen = HashSet::with_capacity(words.len());
        let mut list: Vec<Arc<str>> = Vec::with_capacity(words.len());
        let mut repeated = None;
        for (at, word) in words.iter().enumerate() {
            words::interface(word).map_err(|problem| (at, problem))?;
            if seen.insert(word) {
                list.push(self.name(word));
            } else {
                repeated = repeated.or(Some(at));
            }
        }
        match (list.len(), words.iter().position(|word| *word == ANY)) {
            (1, Some(_)) => Ok(Shared { on: None, repeated }),
            (_, Some(at)) => Err((at, words::any_among_others())),
            _ => Ok(Shared { on: Some(list.into()), repeated }),
        }
    }

    /// A name, as it is kept.
    pub(super) fn name(&mut self, word: &str) -> Arc<str> {
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
