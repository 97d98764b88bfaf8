//! Sequence numbers of outbound SAs, reserved on disk before they are used: no number is used twice under one key, whatever
//! ends the gateway. Numbers are the IVs of most ciphers, so a second use would give the key away.
//!
//! A directory has a file for each key, named by a digest of the key. The file has the first number that is not reserved.
//! It is written beside the old one, synced and renamed, and the directory is synced, before a number is given to workers.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_plane::ipsec::{Sequence, Sequences};

use crate::control::running::Running;

/// Numbers that are reserved at once. A worker uses half of them in 50 ms at 10 million packets per second.
const BLOCK: u64 = 1 << 20;

/// Between two looks at what SAs have used.
const PAUSE: Duration = Duration::from_millis(50);

/// The first words of a file.
const HEADER: &str = "weir sequence 1 ";

/// A digest of a key.
type Fingerprint = [u8; 16];

/// The directory, held by this process alone.
pub(crate) struct Store {
    folder: PathBuf,
    /// For syncing names, and with the lock.
    handle: File,
}

impl Store {
    /// Opens a directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// When another gateway uses it, or the system refuses.
    pub(crate) fn open(folder: &Path) -> io::Result<Store> {
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let handle = File::open(folder)?;
        if !handle.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        handle.try_lock().map_err(|_| io::Error::other("another gateway uses it"))?;
        Ok(Store { folder: folder.to_owned(), handle })
    }

    fn path(&self, key: &Fingerprint) -> PathBuf {
        let name: String = key.iter().map(|octet| format!("{octet:02x}")).collect();
        self.folder.join(name)
    }

    /// Returns the first number of a key that is not reserved: 1 for a new key.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged: then nobody knows which numbers were used.
    pub(crate) fn first(&self, key: &Fingerprint) -> io::Result<u64> {
        let mut text = String::new();
        match File::open(self.path(key)) {
            Ok(file) => file.take(64).read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(1),
            Err(error) => return Err(error),
        };
        let number = text.strip_prefix(HEADER).and_then(|rest| rest.strip_suffix('\n')?.parse().ok());
        number.filter(|&number| number > 0).ok_or_else(|| io::Error::other("it is damaged"))
    }

    /// Reserves the numbers of a key before `end`: they are on disk when this returns.
    ///
    /// # Errors
    /// When the system refuses; then nothing is reserved.
    pub(crate) fn reserve(&self, key: &Fingerprint, end: u64) -> io::Result<()> {
        let path = self.path(key);
        let new = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(format!("{HEADER}{end}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        self.handle.sync_all()
    }
}

/// The keys of outbound SAs, and the directory in which their numbers are reserved.
#[derive(Default)]
pub(crate) struct Reservations {
    store: Option<Store>,
    /// Keys whose files were read in this run.
    known: HashMap<Fingerprint, Arc<Sequence>>,
    /// The trouble that was logged last: it is logged once.
    trouble: Option<String>,
}

impl Reservations {
    /// Reserves numbers for each key that has used half of its own. Returns trouble that was not there before.
    pub(crate) fn step(&mut self, folder: Option<&Path>, sequences: Sequences) -> Option<String> {
        if sequences.is_empty() {
            return None;
        }
        let trouble = folder.and_then(|folder| self.reserve(folder, sequences).err());
        let new = trouble.clone().filter(|_| trouble != self.trouble);
        self.trouble = trouble;
        new
    }

    fn reserve(&mut self, folder: &Path, sequences: Sequences) -> Result<(), String> {
        let at =
            |what: &Path, error: io::Error| format!("cannot reserve sequence numbers in {}: {error}", what.display());
        if self.store.as_ref().is_none_or(|store| store.folder != folder) {
            // Files of another directory say nothing of keys of this one.
            self.known.clear();
            self.store = None;
            self.store = Some(Store::open(folder).map_err(|error| at(folder, error))?);
        }
        let Some(store) = &self.store else { return Ok(()) };
        let mut result = Ok(());
        for (key, sequence) in sequences {
            let one = || -> io::Result<()> {
                if !self.known.contains_key(&key) {
                    let first = store.first(&key)?.max(sequence.reserved());
                    store.reserve(&key, first.saturating_add(BLOCK))?;
                    sequence.begin(first);
                    sequence.reserve(first.saturating_add(BLOCK));
                } else if sequence.reserved().saturating_sub(sequence.next()) < BLOCK / 2 {
                    let end = sequence.reserved().saturating_add(BLOCK);
                    store.reserve(&key, end)?;
                    sequence.reserve(end);
                }
                Ok(())
            };
            match one() {
                Ok(()) => drop(self.known.insert(key, sequence)),
                // The other keys go on.
                Err(error) => result = Err(at(&store.path(&key), error)),
            }
        }
        result
    }

    /// Gives back what is reserved and was not used, once no worker runs any more.
    pub(crate) fn finish(self) {
        let Some(store) = self.store else { return };
        for (key, sequence) in self.known {
            if let Err(error) = store.reserve(&key, sequence.next()) {
                tracing::warn!("{}: {error}", store.path(&key).display());
            }
        }
    }
}

/// The thread that reserves.
pub(crate) struct Thread {
    ends: Arc<AtomicBool>,
    handle: JoinHandle<Reservations>,
}

impl Thread {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub(crate) fn start(running: &Arc<Running>) -> io::Result<Thread> {
        let ends = Arc::new(AtomicBool::new(false));
        let (own, running) = (Arc::clone(&ends), Arc::clone(running));
        let work = move || {
            let mut reservations = Reservations::default();
            while !own.load(Ordering::Relaxed) {
                let (folder, sequences) = running.sequences();
                if let Some(trouble) = reservations.step(folder.as_deref(), sequences) {
                    tracing::error!("{trouble}");
                }
                std::thread::park_timeout(PAUSE);
            }
            reservations
        };
        let handle = std::thread::Builder::new().name("weir_reserve".into()).spawn(work)?;
        Ok(Thread { ends, handle })
    }

    /// Ends the thread; gives what it knows, if it has not failed.
    pub(crate) fn end(self) -> Option<Reservations> {
        self.ends.store(true, Ordering::Relaxed);
        self.handle.thread().unpark();
        self.handle.join().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const KEY: Fingerprint = [7; 16];

    fn closed() -> Sequences {
        vec![(KEY, Arc::new(Sequence::closed()))]
    }

    #[test]
    fn no_number_is_given_twice_whatever_ends_the_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("ipsec");
        let mut seen = HashSet::new();
        for round in 0..20 {
            let sequences = closed();
            let sequence = Arc::clone(&sequences[0].1);
            assert_eq!(sequence.take(1, u64::MAX).count, 0, "nothing is reserved yet");
            let mut reservations = Reservations::default();
            for _ in 0..3 {
                assert_eq!(reservations.step(Some(&state), sequences.clone()), None);
                let taken = sequence.take(BLOCK / 3, u64::MAX);
                assert_eq!(taken.count, BLOCK / 3);
                assert!(seen.insert(taken.first) && seen.insert(taken.first + taken.count - 1));
                assert!(!(taken.first..taken.first + taken.count).contains(&0));
            }
            let next = sequence.next();
            if round % 3 == 0 {
                reservations.finish();
                assert_eq!(
                    Store::open(&state).unwrap().first(&KEY).unwrap(),
                    next,
                    "nothing is lost by an orderly end"
                );
            } else {
                // As `kill -9` does: the lock goes, and the file stays.
                drop(reservations);
                assert!(Store::open(&state).unwrap().first(&KEY).unwrap() >= next);
            }
        }
    }

    #[test]
    fn an_sa_does_not_begin_without_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("missing/ipsec");
        let sequences = closed();
        let mut reservations = Reservations::default();
        let trouble = reservations.step(Some(&state), sequences.clone());
        assert!(trouble.is_some_and(|trouble| trouble.starts_with("cannot reserve sequence numbers in ")));
        assert_eq!(reservations.step(Some(&state), sequences.clone()), None, "it is logged once");
        assert_eq!(sequences[0].1.take(1, u64::MAX).count, 0);
        assert_eq!(reservations.step(None, sequences.clone()), None);
        assert_eq!(sequences[0].1.take(1, u64::MAX).count, 0);
        // A damaged file does not count as none.
        let state = folder.path().join("ipsec");
        fs::create_dir(&state).unwrap();
        for damaged in ["", "weir sequence 1 ", "weir sequence 1 0\n", "weir sequence 1 12", "weir sequence 2 9\n"] {
            fs::write(state.join("07".repeat(16)), damaged).unwrap();
            let mut reservations = Reservations::default();
            assert!(reservations.step(Some(&state), sequences.clone()).is_some(), "{damaged:?}");
            assert_eq!(sequences[0].1.take(1, u64::MAX).count, 0);
        }
        let mut reservations = Reservations::default();
        fs::write(state.join("07".repeat(16)), "weir sequence 1 4711\n").unwrap();
        assert_eq!(reservations.step(Some(&state), sequences.clone()), None);
        assert_eq!(sequences[0].1.take(1, u64::MAX).first, 4711);
        let other = Store::open(&state).err().map(|error| error.to_string());
        assert_eq!(other.as_deref(), Some("another gateway uses it"));
    }
}
