//! The directory `state`: what may not be forgotten of keys, whatever ends the gateway.
//!
//! It has a file for each outbound key, named by a digest of the key, with the first sequence number that is not reserved; and a file
//! for each inbound key, with the greatest number that was accepted when the file was written. Files are written beside the old
//! ones, synced and renamed, and the directory is synced. Many files are synced at once: a gateway with 10,000 SAs starts
//! within a second.
//!
//! The file `keys` lists all outbound keys that ever sent. So a file that was removed is missed, and no number is used twice. The
//! gateway does not create the directory: a directory that is gone is not one in which nothing was ever reserved.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A digest of a key.
pub(super) type Fingerprint = [u8; 16];

/// More files than these are synced all at once, with whatever else their file system has to write.
const ONE_BY_ONE: usize = 16;

/// The first words of the file of an outbound key, and of an inbound one.
const SEQUENCE: &str = "weir sequence 1 ";
const WINDOW: &str = "weir window 1 ";

/// The list of outbound keys.
const KEYS: &str = "keys";

/// The remedy for lost numbers.
const NEW_KEY: &str = "replace the key at both ends";

/// The directory, held by this process alone.
pub(super) struct Store {
    folder: PathBuf,
    /// For syncing names, and with the lock.
    handle: File,
    /// The outbound keys that ever sent.
    keys: HashSet<Fingerprint>,
}

/// Why numbers may not be reserved in a directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    /// It does not exist.
    #[error("there is no such directory: if no SA ever sent with these keys, make it by `mkdir -p -m 700 {}`; else {NEW_KEY} first", .0.display())]
    Missing(PathBuf),
    /// Others may write to it; its mode.
    #[error("others than its owner may write to it (mode {0:04o}): chmod 700")]
    Open(u32),
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> io::Error {
        match unfit {
            Unfit::System(error) => error,
            unfit => io::Error::other(unfit.to_string()),
        }
    }
}

/// Opens a directory in which numbers may be reserved.
///
/// # Errors
/// When it does not exist, others may write to it, or the system refuses.
pub(in crate::reservation) fn checked(folder: &Path) -> Result<File, Unfit> {
    let handle = File::open(folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unfit::Missing(folder.to_owned()),
        _ => error.into(),
    })?;
    let metadata = handle.metadata()?;
    if !metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(Unfit::Open(metadata.mode() & 0o7777));
    }
    Ok(handle)
}

impl Store {
    /// Opens a directory.
    ///
    /// # Errors
    /// When it does not exist, another gateway uses it, others may write to it, its list of keys is missing, or the system refuses.
    pub(super) fn open(folder: &Path) -> io::Result<Store> {
        let handle = checked(folder)?;
        handle.try_lock().map_err(|_| io::Error::other("another gateway uses it"))?;
        Store::read(folder, handle)
    }

    /// Opens a directory that a gateway may use, to read it.
    ///
    /// # Errors
    /// When others may write to it, its list of keys is missing or damaged, or the system refuses.
    pub(super) fn look(folder: &Path) -> io::Result<Store> {
        Store::read(folder, checked(folder)?)
    }

    fn read(folder: &Path, handle: File) -> io::Result<Store> {
        let keys = keys(folder)?;
        Ok(Store { folder: folder.to_owned(), handle, keys })
    }

    /// A gateway uses the directory.
    pub(super) fn is_locked(&self) -> bool {
        // A shared lock, which ends at once: a gateway that starts in this moment tries again.
        match self.handle.try_lock_shared() {
            Ok(()) => self.handle.unlock().is_err(),
            Err(error) => matches!(error, TryLockError::WouldBlock),
        }
    }

    /// The directory.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The directory was removed after it was opened.
    pub(super) fn is_removed(&self) -> bool {
        self.handle.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// The file of an outbound key.
    pub(super) fn path(&self, key: &Fingerprint) -> PathBuf {
        self.folder.join(hexadecimal(key))
    }

    fn path_of_window(&self, key: &Fingerprint) -> PathBuf {
        self.folder.join(hexadecimal(key) + ".in")
    }

    /// Returns the first number of an outbound key that is not reserved: 1 for a new key.
    ///
    /// # Errors
    /// When the file is missing, cannot be read or is damaged: then nobody knows which numbers were used.
    pub(super) fn first(&self, key: &Fingerprint) -> io::Result<u64> {
        match read(&self.path(key), SEQUENCE)? {
            Some(first) => Ok(first),
            None if self.keys.contains(key) => {
                Err(io::Error::other(format!("it is missing, and nobody knows which numbers were used: {NEW_KEY}")))
            }
            None => Ok(1),
        }
    }

    /// Returns the greatest number that an inbound key is known to have accepted: 0 for a new key, or if the file is damaged.
    pub(super) fn top(&self, key: &Fingerprint) -> u64 {
        read(&self.path_of_window(key), WINDOW).ok().flatten().unwrap_or(0)
    }

    /// Reserves the numbers of each outbound key before its end: they are on disk when this returns. Returns the keys whose files
    /// cannot be written, for which nothing is reserved.
    ///
    /// # Errors
    /// When the system does not sync: then nothing is reserved.
    pub(super) fn reserve(&mut self, ends: &HashMap<Fingerprint, u64>) -> io::Result<HashMap<Fingerprint, io::Error>> {
        let new: Vec<Fingerprint> = ends.keys().filter(|key| !self.keys.contains(*key)).copied().collect();
        if !new.is_empty() {
            let mut keys = self.keys.clone();
            keys.extend(new);
            let mut lines: Vec<String> = keys.iter().map(|key| hexadecimal(key) + "\n").collect();
            lines.sort_unstable();
            replace(&self.folder.join(KEYS), &lines.concat(), true)?;
            self.handle.sync_all()?;
            self.keys = keys;
        }
        let files = ends.iter().map(|(key, end)| (*key, self.path(key), format!("{SEQUENCE}{end}\n")));
        self.write(files.collect())
    }

    /// Notes the greatest number that each inbound key has accepted. Returns the keys whose files cannot be written.
    ///
    /// # Errors
    /// When the system does not sync.
    pub(super) fn note(&self, tops: &[(Fingerprint, u64)]) -> io::Result<HashMap<Fingerprint, io::Error>> {
        let files = tops.iter().map(|(key, top)| (*key, self.path_of_window(key), format!("{WINDOW}{top}\n")));
        self.write(files.collect())
    }

    fn write(&self, files: Vec<(Fingerprint, PathBuf, String)>) -> io::Result<HashMap<Fingerprint, io::Error>> {
        let is_synced_each = files.len() <= ONE_BY_ONE;
        let mut refused = HashMap::new();
        let mut written = Vec::with_capacity(files.len());
        for (key, path, text) in files {
            match beside(&path, &text, is_synced_each) {
                Ok(new) => written.push((key, new, path)),
                Err(error) => drop(refused.insert(key, error)),
            }
        }
        if !is_synced_each {
            rustix::fs::syncfs(&self.handle)?;
        }
        for (key, new, path) in written {
            if let Err(error) = fs::rename(&new, path) {
                refused.insert(key, error);
            }
        }
        self.handle.sync_all()?;
        Ok(refused)
    }
}

fn hexadecimal(key: &Fingerprint) -> String {
    key.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn fingerprint(text: &str) -> Option<Fingerprint> {
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32)?;
    Some(number.to_be_bytes())
}

/// Reads the list of keys. A directory with the file of a key and without the list is not as the gateway left it.
fn keys(folder: &Path) -> io::Result<HashSet<Fingerprint>> {
    let damaged =
        |what: &str| io::Error::other(format!("its file `{KEYS}` is {what}: {NEW_KEY} of each SA, and empty it"));
    match fs::read_to_string(folder.join(KEYS)) {
        Ok(text) => {
            let keys = text.lines().map(fingerprint).collect::<Option<_>>();
            keys.ok_or_else(|| damaged("damaged"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let is_key =
                |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|name| fingerprint(name).is_some());
            let has_keys = fs::read_dir(folder)?.flatten().any(|entry| is_key(&entry));
            if has_keys { Err(damaged("missing")) } else { Ok(HashSet::new()) }
        }
        Err(error) => Err(error),
    }
}

/// Reads the number behind the first words of a file; `None`: there is no such file.
fn read(path: &Path, header: &str) -> io::Result<Option<u64>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(64).read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let number = text.strip_prefix(header).and_then(|rest| rest.strip_suffix('\n')?.parse().ok());
    let damaged = || io::Error::other(format!("it is damaged: {NEW_KEY}, and remove it"));
    number.filter(|&number| number > 0).map(Some).ok_or_else(damaged)
}

/// Replaces a file at once.
fn replace(path: &Path, text: &str, sync: bool) -> io::Result<()> {
    fs::rename(beside(path, text, sync)?, path)
}

/// Writes the file that is to replace another; returns its path.
fn beside(path: &Path, text: &str, sync: bool) -> io::Result<PathBuf> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    if sync {
        file.sync_all()?;
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const KEY: Fingerprint = [7; 16];

    fn error<T>(result: io::Result<T>) -> String {
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_directory_that_is_not_as_it_was_left_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert!(error(Store::open(&state)).contains("mkdir -p -m 700"));
        fs::create_dir(&state).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(error(Store::open(&state)).contains("(mode 0777): chmod 700"));
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        let mut store = Store::open(&state).unwrap();
        assert_eq!(error(Store::open(&state)), "another gateway uses it");
        assert_eq!(store.first(&KEY).unwrap(), 1);
        assert!(store.reserve(&HashMap::from([(KEY, 4711)])).unwrap().is_empty());
        drop(store);
        let store = Store::open(&state).unwrap();
        assert_eq!((store.first(&KEY).unwrap(), store.first(&[8; 16]).unwrap()), (4711, 1));
        drop(store);
        // The file of the key is gone.
        fs::remove_file(state.join("07".repeat(16))).unwrap();
        let store = Store::open(&state).unwrap();
        assert!(error(store.first(&KEY)).contains("is missing, and nobody knows"));
        assert_eq!(store.first(&[8; 16]).unwrap(), 1, "another key is new");
        drop(store);
        // The list is gone, or damaged.
        fs::write(state.join("07".repeat(16)), "weir sequence 1 4711\n").unwrap();
        fs::remove_file(state.join(KEYS)).unwrap();
        assert!(error(Store::open(&state)).contains("`keys` is missing"));
        fs::write(state.join(KEYS), "0707\n").unwrap();
        assert!(error(Store::open(&state)).contains("`keys` is damaged"));
        fs::write(state.join(KEYS), "07".repeat(16) + "\n").unwrap();
        let store = Store::open(&state).unwrap();
        assert_eq!(store.first(&KEY).unwrap(), 4711);
        for damaged in ["", SEQUENCE, "weir sequence 1 0\n", "weir sequence 1 12", "weir sequence 2 9\n"] {
            fs::write(state.join("07".repeat(16)), damaged).unwrap();
            assert!(error(store.first(&KEY)).contains("it is damaged: replace the key"), "{damaged:?}");
        }
        assert!(!store.is_removed());
        fs::remove_dir_all(&state).unwrap();
        assert!(store.is_removed());
    }

    #[test]
    fn windows_are_noted_beside_sequences() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.top(&KEY), 0);
        assert!(store.note(&[(KEY, 1 << 40)]).unwrap().is_empty());
        assert_eq!((store.top(&KEY), store.first(&KEY).unwrap()), (1 << 40, 1));
        fs::write(store.path_of_window(&KEY), "?").unwrap();
        assert_eq!(store.top(&KEY), 0);
    }
}
