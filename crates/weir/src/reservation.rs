//! Sequence numbers of outbound SAs, reserved on disk before they are used: no number is used twice under one key, whatever
//! ends the gateway. Numbers are the IVs of most ciphers, so a second use would give the key away.
//!
//! A directory has a file for each key, named by a digest of the key. The file has the first number that is not reserved.
//! It is written beside the old one, synced and renamed, and the directory is synced, before a number is given to workers.
//! Many files are synced at once: a gateway with 10,000 SAs starts within a second.
//!
//! The first numbers of an SA are reserved before the SA comes into force, so that no packet is lost; a thread reserves the
//! others in time.

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

/// More files than these are synced all at once, with whatever else their file system has to write.
const ONE_BY_ONE: usize = 16;

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

    /// Reserves the numbers of each key before its end: they are on disk when this returns. Returns the keys whose files
    /// cannot be written, for which nothing is reserved.
    ///
    /// # Errors
    /// When the system does not sync: then nothing is reserved.
    fn reserve(&self, ends: &[(Fingerprint, u64)]) -> io::Result<Vec<(Fingerprint, io::Error)>> {
        let all_at_once = ends.len() > ONE_BY_ONE;
        let mut refused = Vec::new();
        let mut written = Vec::with_capacity(ends.len());
        for &(key, end) in ends {
            match self.write(&key, end, !all_at_once) {
                Ok(new) => written.push((key, new)),
                Err(error) => refused.push((key, error)),
            }
        }
        if all_at_once {
            rustix::fs::syncfs(&self.handle)?;
        }
        for (key, new) in written {
            if let Err(error) = fs::rename(&new, self.path(&key)) {
                refused.push((key, error));
            }
        }
        self.handle.sync_all()?;
        Ok(refused)
    }

    /// Writes the file that is to replace that of a key; returns its path.
    fn write(&self, key: &Fingerprint, end: u64, sync: bool) -> io::Result<PathBuf> {
        let new = self.path(key).with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(format!("{HEADER}{end}\n").as_bytes())?;
        if sync {
            file.sync_all()?;
        }
        Ok(new)
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
    /// Reserves numbers for each key that has used half of its own, and logs trouble that was not there before.
    pub(crate) fn step(&mut self, folder: Option<&Path>, sequences: Sequences) {
        if let Some(trouble) = self.trouble(folder, sequences) {
            tracing::error!("{trouble}");
        }
    }

    /// Reserves as [`Reservations::step`] does. Returns trouble that was not there before.
    fn trouble(&mut self, folder: Option<&Path>, sequences: Sequences) -> Option<String> {
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
        let mut wanted: Vec<Wanted> = Vec::new();
        for (key, sequence) in sequences {
            let first = match self.known.contains_key(&key) {
                true if sequence.reserved().saturating_sub(sequence.next()) >= BLOCK / 2 => continue,
                true => sequence.reserved(),
                // The other keys go on without it.
                false => match store.first(&key) {
                    Ok(first) => first.max(sequence.reserved()),
                    Err(error) => {
                        result = Err(at(&store.path(&key), error));
                        continue;
                    }
                },
            };
            wanted.push(Wanted { key, first, sequence });
        }
        if wanted.is_empty() {
            return result;
        }
        let ends: Vec<_> = wanted.iter().map(|own| (own.key, own.end())).collect();
        let refused = store.reserve(&ends).map_err(|error| at(folder, error))?;
        let refused: HashMap<Fingerprint, io::Error> = refused.into_iter().collect();
        for own in wanted.into_iter().filter(|own| !refused.contains_key(&own.key)) {
            own.sequence.begin(own.first);
            own.sequence.reserve(own.end());
            self.known.insert(own.key, own.sequence);
        }
        let refused = refused.into_iter().next().map(|(key, error)| at(&store.path(&key), error));
        refused.map_or(result, Err)
    }

    /// Gives back what is reserved and was not used, once no worker runs any more.
    pub(crate) fn finish(self) {
        let Some(store) = self.store else { return };
        let ends: Vec<_> = self.known.iter().map(|(key, sequence)| (*key, sequence.next())).collect();
        match store.reserve(&ends) {
            Ok(refused) => {
                for (key, error) in refused {
                    tracing::warn!("{}: {error}", store.path(&key).display());
                }
            }
            Err(error) => tracing::warn!("{}: {error}", store.folder.display()),
        }
    }
}

/// A block of numbers that is to be reserved.
struct Wanted {
    key: Fingerprint,
    first: u64,
    sequence: Arc<Sequence>,
}

impl Wanted {
    /// The number behind the block.
    fn end(&self) -> u64 {
        self.first.saturating_add(BLOCK)
    }
}

/// The thread that reserves.
pub(crate) struct Thread {
    ends: Arc<AtomicBool>,
    handle: JoinHandle<()>,
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
            while !own.load(Ordering::Relaxed) {
                running.reserve();
                std::thread::park_timeout(PAUSE);
            }
        };
        let handle = std::thread::Builder::new().name("weir_reserve".into()).spawn(work)?;
        Ok(Thread { ends, handle })
    }

    /// Ends the thread.
    pub(crate) fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.handle.thread().unpark();
        if self.handle.join().is_err() {
            tracing::error!("the thread that reserves sequence numbers ended by mistake");
        }
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
                assert_eq!(reservations.trouble(Some(&state), sequences.clone()), None);
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
    fn many_keys_are_reserved_at_once_and_one_damaged_file_stops_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let key = |number: u16| std::array::from_fn(|at| number.to_be_bytes()[at % 2]);
        let keys: Sequences = (0..1000).map(|number| (key(number), Arc::new(Sequence::closed()))).collect();
        let mut reservations = Reservations::default();
        assert_eq!(reservations.trouble(Some(folder.path()), keys.clone()), None);
        assert!(keys.iter().all(|(_, sequence)| (sequence.next(), sequence.reserved()) == (1, 1 + BLOCK)));
        drop(reservations);
        let keys: Sequences = keys.iter().map(|(key, _)| (*key, Arc::new(Sequence::closed()))).collect();
        let store = Store::open(folder.path()).unwrap();
        fs::write(store.path(&key(500)), "?").unwrap();
        drop(store);
        let mut reservations = Reservations::default();
        assert!(reservations.trouble(Some(folder.path()), keys.clone()).unwrap().ends_with("it is damaged"));
        for (at, (_, sequence)) in keys.iter().enumerate() {
            let wanted = if at == 500 { (1, 1) } else { (1 + BLOCK, 1 + 2 * BLOCK) };
            assert_eq!((sequence.next(), sequence.reserved()), wanted);
        }
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 1000, "no temporary file stays");
    }

    #[test]
    fn an_sa_does_not_begin_without_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("missing/ipsec");
        let sequences = closed();
        let mut reservations = Reservations::default();
        let trouble = reservations.trouble(Some(&state), sequences.clone());
        assert!(trouble.is_some_and(|trouble| trouble.starts_with("cannot reserve sequence numbers in ")));
        assert_eq!(reservations.trouble(Some(&state), sequences.clone()), None, "it is logged once");
        assert_eq!(sequences[0].1.take(1, u64::MAX).count, 0);
        assert_eq!(reservations.trouble(None, sequences.clone()), None);
        assert_eq!(sequences[0].1.take(1, u64::MAX).count, 0);
        // A damaged file does not count as none.
        let state = folder.path().join("ipsec");
        fs::create_dir(&state).unwrap();
        for damaged in ["", "weir sequence 1 ", "weir sequence 1 0\n", "weir sequence 1 12", "weir sequence 2 9\n"] {
            fs::write(state.join("07".repeat(16)), damaged).unwrap();
            let mut reservations = Reservations::default();
            assert!(reservations.trouble(Some(&state), sequences.clone()).is_some(), "{damaged:?}");
            assert_eq!(sequences[0].1.take(1, u64::MAX).count, 0);
        }
        let mut reservations = Reservations::default();
        fs::write(state.join("07".repeat(16)), "weir sequence 1 4711\n").unwrap();
        assert_eq!(reservations.trouble(Some(&state), sequences.clone()), None);
        assert_eq!(sequences[0].1.take(1, u64::MAX).first, 4711);
        let other = Store::open(&state).err().map(|error| error.to_string());
        assert_eq!(other.as_deref(), Some("another gateway uses it"));
    }
}
