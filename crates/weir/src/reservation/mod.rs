//! Sequence numbers of SAs that outlive the gateway.
//!
//! Numbers of outbound SAs are reserved on disk before they are used: no number is used twice under one key, whatever ends the
//! gateway. Numbers are the IVs of most ciphers, so a second use would give the key away. The first numbers of an SA are
//! reserved before the SA comes into force, so that no packet is lost; a thread reserves the others in time.
//!
//! The windows of inbound SAs are noted now and then: so a gateway that starts again knows the upper half of extended
//! sequence numbers, and accepts few packets a second time.

mod store;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_plane::ipsec::{Numbers, Sequence, Sequences, Window, Windows};

pub(crate) use store::Unfit;
use store::{Fingerprint, Store};

/// Checks a directory for numbers, but not its files.
///
/// # Errors
/// When the directory does not exist, others may write to it, or the system refuses.
pub(crate) fn examine(folder: &Path) -> Result<(), Unfit> {
    store::checked(folder).map(drop)
}

/// Checks the files of outbound keys in a directory, as a gateway does at its start. Returns true if a gateway uses the directory.
///
/// # Errors
/// When no number of some key can be reserved: the directory or the file of the key, and why.
pub(crate) fn examine_files(
    folder: &Path,
    keys: impl IntoIterator<Item = Fingerprint>,
) -> Result<bool, (PathBuf, io::Error)> {
    let store = Store::look(folder).map_err(|error| (folder.to_owned(), error))?;
    for key in keys {
        store.first(&key).map_err(|error| (store.path(&key), error))?;
    }
    Ok(store.is_locked())
}

/// Numbers that are reserved at once. A worker uses half of them in 50 ms at 10 million packets per second.
const BLOCK: u64 = 1 << 20;

/// Numbers after which the window of an inbound SA is noted again.
const NOTED: u64 = 1 << 20;

/// Between two looks at what SAs have used.
const PAUSE: Duration = Duration::from_millis(50);

/// The keys of SAs, and the directory in which their numbers are reserved.
#[derive(Default)]
pub(crate) struct Reservations {
    store: Option<Store>,
    /// Outbound keys whose files were read in this run.
    known: HashMap<Fingerprint, Arc<Sequence>>,
    /// Inbound keys whose files were read in this run, and what was noted last.
    windows: HashMap<Fingerprint, (Arc<Window>, u64)>,
    /// The trouble that was logged last: it is logged once.
    trouble: Option<String>,
    /// The trouble has ended, which is not logged yet.
    mended: bool,
}

impl Reservations {
    /// Reserves numbers for each key that has used half of its own, notes windows, and logs trouble that was not there before.
    pub(crate) fn step(&mut self, folder: Option<&Path>, numbers: Numbers) {
        if let Some(trouble) = self.trouble(folder, numbers) {
            tracing::error!("{trouble}");
        }
        if let Some(folder) = folder.filter(|_| std::mem::take(&mut self.mended)) {
            tracing::info!("reserving sequence numbers in {} again", folder.display());
        }
    }

    /// Does the same. Returns trouble that was not there before.
    fn trouble(&mut self, folder: Option<&Path>, numbers: Numbers) -> Option<String> {
        let folder = folder?;
        if numbers.sequences.is_empty() && numbers.windows.is_empty() {
            return None;
        }
        let result = self.open(folder).and_then(|()| {
            let reserved = self.reserve(numbers.sequences);
            self.note(numbers.windows).and(reserved)
        });
        let trouble = result.err();
        let new = trouble.clone().filter(|_| trouble != self.trouble);
        self.mended = trouble.is_none() && self.trouble.is_some();
        self.trouble = trouble;
        new
    }

    fn open(&mut self, folder: &Path) -> Result<(), String> {
        if let Some(store) = self.store.as_ref().filter(|store| store.folder() == folder) {
            return match store.is_removed() {
                true => Err(removed(folder)),
                false => Ok(()),
            };
        }
        // Files of another directory say nothing of keys of this one.
        self.known.clear();
        self.windows.clear();
        self.store = None;
        self.store = Some(Store::open(folder).map_err(|error| wrong(folder, &error))?);
        Ok(())
    }

    fn reserve(&mut self, sequences: Sequences) -> Result<(), String> {
        let Some(store) = &mut self.store else { return Ok(()) };
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
                        result = Err(wrong(&store.path(&key), &error));
                        continue;
                    }
                },
            };
            wanted.push(Wanted { key, first, sequence });
        }
        if wanted.is_empty() {
            return result;
        }
        let ends = wanted.iter().map(|own| (own.key, own.end())).collect();
        let refused = store.reserve(&ends).map_err(|error| wrong(store.folder(), &error))?;
        for own in wanted.into_iter().filter(|own| !refused.contains_key(&own.key)) {
            own.sequence.begin(own.first);
            own.sequence.reserve(own.end());
            self.known.insert(own.key, own.sequence);
        }
        let refused = refused.into_iter().next().map(|(key, error)| wrong(&store.path(&key), &error));
        refused.map_or(result, Err)
    }

    fn note(&mut self, windows: Windows) -> Result<(), String> {
        let Some(store) = &self.store else { return Ok(()) };
        let mut tops = Vec::new();
        for (key, window) in windows {
            let (known, noted) = self.windows.entry(key).or_insert_with(|| {
                let top = store.top(&key);
                window.begin(top);
                (Arc::clone(&window), top)
            });
            // A window of another size has taken its place.
            *known = window;
            if known.top().saturating_sub(*noted) >= NOTED {
                *noted = known.top();
                tops.push((key, *noted));
            }
        }
        if tops.is_empty() {
            return Ok(());
        }
        let refused = store.note(&tops).map_err(|error| wrong(store.folder(), &error))?;
        refused.into_values().next().map_or(Ok(()), |error| Err(wrong(store.folder(), &error)))
    }

    /// Gives back what is reserved and was not used, and notes all windows, once no worker runs any more.
    pub(crate) fn finish(self) {
        let Some(mut store) = self.store else { return };
        let ends = self.known.iter().map(|(key, sequence)| (*key, sequence.next())).collect();
        let moved = self.windows.iter().filter(|(_, (window, noted))| window.top() > *noted);
        let tops: Vec<_> = moved.map(|(key, (window, _))| (*key, window.top())).collect();
        for refused in [store.reserve(&ends), store.note(&tops)] {
            match refused {
                Ok(refused) => {
                    for error in refused.values() {
                        tracing::warn!("{}: {error}", store.folder().display());
                    }
                }
                Err(error) => tracing::warn!("{}: {error}", store.folder().display()),
            }
        }
    }
}

/// The trouble with a directory that somebody removed: what it is, what happens, and what to do.
fn removed(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "{folder}, the directory of the sequence numbers of SAs, was removed: SAs send no packets (esp-unreserved) once \
         the numbers that they have reserved are used. Give both ends new keys, make the directory again, and only then \
         restart the gateway"
    )
}

fn wrong(path: &Path, error: &io::Error) -> String {
    format!("cannot reserve sequence numbers in {}: {error}", path.display())
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
    /// Starts the thread, which calls `reserve` again and again.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub(crate) fn start(reserve: impl Fn() + Send + 'static) -> io::Result<Thread> {
        let ends = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&ends);
        let work = move || {
            while !own.load(Ordering::Relaxed) {
                reserve();
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
    use std::fs;

    use super::*;

    const KEY: Fingerprint = [7; 16];

    fn closed() -> Sequences {
        vec![(KEY, Arc::new(Sequence::closed()))]
    }

    fn numbers(sequences: &Sequences) -> Numbers {
        Numbers { sequences: sequences.clone(), windows: Vec::new() }
    }

    fn first(folder: &Path) -> u64 {
        Store::open(folder).unwrap().first(&KEY).unwrap()
    }

    #[test]
    fn no_number_is_given_twice_whatever_ends_the_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let mut seen = HashSet::new();
        for round in 0..20 {
            let sequences = closed();
            let sequence = Arc::clone(&sequences[0].1);
            assert_eq!(sequence.take(1, u64::MAX).count, 0, "nothing is reserved yet");
            let mut reservations = Reservations::default();
            for _ in 0..3 {
                assert_eq!(reservations.trouble(Some(state), numbers(&sequences)), None);
                let taken = sequence.take(BLOCK / 3, u64::MAX);
                assert_eq!(taken.count, BLOCK / 3);
                assert!(seen.insert(taken.first) && seen.insert(taken.first + taken.count - 1));
                assert!(!(taken.first..taken.first + taken.count).contains(&0));
            }
            let next = sequence.next();
            if round % 3 == 0 {
                reservations.finish();
                assert_eq!(first(state), next, "nothing is lost by an orderly end");
            } else {
                // As `kill -9` does: the lock goes, and the file stays.
                drop(reservations);
                assert!(first(state) >= next);
            }
        }
    }

    #[test]
    fn many_keys_are_reserved_at_once_and_one_damaged_file_stops_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let key = |number: u16| std::array::from_fn(|at| number.to_be_bytes()[at % 2]);
        let keys: Sequences = (0..1000).map(|number| (key(number), Arc::new(Sequence::closed()))).collect();
        let mut reservations = Reservations::default();
        assert_eq!(reservations.trouble(Some(folder.path()), numbers(&keys)), None);
        assert!(keys.iter().all(|(_, sequence)| (sequence.next(), sequence.reserved()) == (1, 1 + BLOCK)));
        drop(reservations);
        let keys: Sequences = keys.iter().map(|(key, _)| (*key, Arc::new(Sequence::closed()))).collect();
        let store = Store::open(folder.path()).unwrap();
        fs::write(store.path(&key(500)), "?").unwrap();
        drop(store);
        let mut reservations = Reservations::default();
        let trouble = reservations.trouble(Some(folder.path()), numbers(&keys)).unwrap();
        assert!(trouble.contains("it is damaged: replace the key"), "{trouble}");
        for (at, (_, sequence)) in keys.iter().enumerate() {
            let wanted = if at == 500 { (1, 1) } else { (1 + BLOCK, 1 + 2 * BLOCK) };
            assert_eq!((sequence.next(), sequence.reserved()), wanted);
        }
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 1001, "no temporary file stays beside those of the keys and their list");
    }

    #[test]
    fn an_sa_does_not_begin_without_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("missing");
        let sequences = closed();
        let mut reservations = Reservations::default();
        let trouble = reservations.trouble(Some(&state), numbers(&sequences));
        assert!(trouble.is_some_and(|trouble| trouble.starts_with("cannot reserve sequence numbers in ")));
        assert_eq!(reservations.trouble(Some(&state), numbers(&sequences)), None, "it is logged once");
        assert_eq!(sequences[0].1.take(1, u64::MAX).count, 0);
        assert_eq!(reservations.trouble(None, numbers(&sequences)), None);
        assert_eq!(sequences[0].1.take(1, u64::MAX).count, 0);
        // It goes on by itself once the directory is there.
        fs::create_dir(&state).unwrap();
        assert!(!reservations.mended);
        assert_eq!(reservations.trouble(Some(&state), numbers(&sequences)), None);
        assert!(reservations.mended, "it is logged");
        assert_eq!(sequences[0].1.take(1, u64::MAX).first, 1);
        // Somebody removes the directory under the running gateway.
        fs::remove_dir_all(&state).unwrap();
        let trouble = reservations.trouble(Some(&state), numbers(&sequences)).unwrap();
        for part in ["the directory of the sequence numbers of SAs, was removed", "(esp-unreserved)", "new keys"] {
            assert!(trouble.contains(part), "{trouble}");
        }
    }

    #[test]
    fn windows_go_on_where_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let windows =
            |window: &Arc<Window>| Numbers { sequences: Vec::new(), windows: vec![(KEY, Arc::clone(window))] };
        let of = || Arc::new(Window::new(64).unwrap());
        let mut reservations = Reservations::default();
        let window = of();
        assert_eq!(reservations.trouble(Some(folder.path()), windows(&window)), None);
        let far = (5 << 32) + 77;
        window.accept(far);
        assert_eq!(reservations.trouble(Some(folder.path()), windows(&window)), None);
        window.accept(far + 1);
        // Killed: the last numbers are forgotten, the upper half is not.
        drop(reservations);
        let mut reservations = Reservations::default();
        let window = of();
        assert_eq!(reservations.trouble(Some(folder.path()), windows(&window)), None);
        assert_eq!(
            (window.top(), window.extended(100), window.is_new(far), window.is_new(far + 1)),
            (far, Some((5 << 32) + 100), false, true)
        );
        window.accept(far + 2);
        reservations.finish();
        let mut reservations = Reservations::default();
        let window = of();
        assert_eq!(reservations.trouble(Some(folder.path()), windows(&window)), None);
        assert_eq!(window.top(), far + 2, "an orderly end forgets nothing");
    }
}
