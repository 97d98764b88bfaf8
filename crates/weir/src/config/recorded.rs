//! The texts of the configuration in force, kept in memory: changes of a running gateway are read over these, whatever the
//! files have become since.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_crypto::{Algorithm, Secret};

use super::key_file::KeyFileError;
use super::loaded::Loaded;
use super::overlay::SOCKET;
use super::pattern::{MATCHING, pattern};
use super::source::{Disk, Files, Memory, ReadError};

/// The texts of a configuration and of the files that it names, by their paths. Keys of SAs are no part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    main: PathBuf,
    texts: HashMap<PathBuf, Arc<str>>,
}

impl Texts {
    /// Takes the texts of a configuration that was read from this file.
    pub fn of(main: &Path, loaded: &Loaded) -> Texts {
        // The texts of the socket are no files.
        let files = loaded.sources.iter().filter(|source| !source.name.starts_with(SOCKET));
        let texts = files.map(|source| (PathBuf::from(&*source.name), Arc::clone(&source.text)));
        Texts { main: main.to_owned(), texts: texts.collect() }
    }

    /// A text that stands alone.
    pub fn alone(text: &Arc<str>) -> Texts {
        Texts { main: PathBuf::new(), texts: [(PathBuf::new(), Arc::clone(text))].into() }
    }

    /// The main file.
    pub fn main(&self) -> &Path {
        &self.main
    }

    /// The text of a file, if the configuration has it.
    pub fn get(&self, path: &Path) -> Option<&Arc<str>> {
        self.texts.get(path)
    }

    /// Returns the files that a path of `include` names: itself, or the matching ones if it is a pattern.
    pub fn included(&self, path: &Path) -> Vec<PathBuf> {
        let Some(pattern) = pattern(path) else { return vec![path.to_owned()] };
        let mut paths: Vec<PathBuf> =
            self.texts.keys().filter(|path| pattern.matches_path_with(path, MATCHING)).cloned().collect();
        paths.sort();
        paths
    }

    /// The same texts, but for these.
    #[must_use]
    pub fn with(&self, changed: impl IntoIterator<Item = (PathBuf, String)>) -> Texts {
        let mut texts = self.clone();
        texts.texts.extend(changed.into_iter().map(|(path, text)| (path, text.into())));
        texts
    }

    /// Returns the files whose texts differ, in order.
    pub fn differing(&self, other: &Texts) -> Vec<PathBuf> {
        let all = self.texts.keys().chain(other.texts.keys());
        let mut paths: Vec<PathBuf> =
            all.filter(|path| self.texts.get(*path) != other.texts.get(*path)).cloned().collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// The octets of all texts.
    pub fn octets(&self) -> usize {
        self.texts.values().map(|text| text.len()).sum()
    }
}

/// Files that are read from texts in memory. Files that are not among them, such as those with keys, are read from the disk.
pub(super) struct Recorded<'t>(pub(super) &'t Texts);

impl Files for Recorded<'_> {
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
        match self.0.get(path) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => Disk.read(path, limit),
        }
    }

    fn read_key(&self, path: &Path, algorithm: Algorithm) -> Result<Secret, KeyFileError> {
        Disk.read_key(path, algorithm)
    }

    fn identity(&self, path: &Path) -> PathBuf {
        Disk.identity(path)
    }

    fn expand(&self, path: &Path) -> Vec<PathBuf> {
        self.0.included(path)
    }

    fn is_missing(&self, path: &Path) -> bool {
        self.0.get(path).is_none() && Disk.is_missing(path)
    }

    fn cpus(&self) -> Option<HashSet<u16>> {
        Disk.cpus()
    }

    fn memory(&self) -> Option<Memory> {
        Disk.memory()
    }
}
