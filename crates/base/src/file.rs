//! File creation that follows no links, and named pipes that never block.
//!
//! A gateway that root starts creates captures and samples before it drops its privileges, in folders that ordinary
//! users may write to. Such users can place links there. So root follows no symbolic link in any part of a path. A new
//! file has mode 0640 and belongs to the gateway's later user from the start. An existing file is replaced, never
//! written to.
//!
//! open(2) of a named pipe blocks until another process opens the other end. So a named pipe is opened only if its
//! other end is open, or opens within a second.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use rustix::process::{Gid, Uid, geteuid};

/// Packet contents are private to the user and group.
const MODE: Mode = Mode::from_bits_retain(0o640);

/// Time for another process to open the other end of a named pipe, for example one that was just started.
const OTHER_END: Duration = Duration::from_secs(1);

/// Interval between checks of the other end.
const STEP: Duration = Duration::from_millis(20);

/// File system of unnamed pipes, as a shell creates for `<(…)`.
const PIPEFS: i64 = 0x5049_5045;

static OWNER: OnceLock<(Uid, Gid)> = OnceLock::new();

/// Sets the owner of all files that root creates from now on in this process. Only the first call has an effect.
pub fn set_owner(user: Uid, group: Gid) {
    let _ = OWNER.set((user, group));
}

/// Creates a file for writing and replaces a regular file of that name. A named pipe or device of that name is opened;
/// a named pipe is refused unless a process has it open for reading.
///
/// # Errors
/// If the name is a link or folder, another process writes to the file, no process reads the named pipe, or the system
/// refuses.
pub fn replace(path: &Path) -> io::Result<File> {
    let entry = Entry::at(path)?;
    match entry.kind()? {
        None => {}
        Some(FileType::RegularFile) if entry.is_locked() => {
            return Err(io::Error::new(ErrorKind::ResourceBusy, "another process writes to this file"));
        }
        Some(FileType::RegularFile) => entry.remove()?,
        Some(FileType::Fifo) => return entry.open_pipe(),
        Some(FileType::CharacterDevice) => return entry.open(OFlags::WRONLY),
        Some(FileType::Symlink) => {
            return Err(io::Error::other("this is a symbolic link, and is not followed: name the file itself"));
        }
        Some(_) => return Err(io::Error::other("this is not a regular file")),
    }
    entry.create()
}

/// Creates a file for writing.
///
/// # Errors
/// If the name exists, or the system refuses.
pub fn create_new(path: &Path) -> io::Result<File> {
    Entry::at(path)?.create()
}

/// Opens a file for reading. A named pipe is refused unless a process has it open for writing.
///
/// # Errors
/// If the system refuses, or no process writes to the named pipe.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = rustix::fs::open(path, flags, Mode::empty())?.into();
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    let is_named = kind == FileType::Fifo && rustix::fs::fstatfs(&file)?.f_type as i64 != PIPEFS;
    if is_named && !within(OTHER_END, || is_written(&file))? {
        return Err(io::Error::other("this is a named pipe, and no process writes to it: start the writer first"));
    }
    wait_for_data(&file)?;
    Ok(file)
}

/// Reads a file as [`open`] opens it.
///
/// # Errors
/// As for [`open`], or if the file cannot be read to its end.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    open(path)?.read_to_end(&mut octets)?;
    Ok(octets)
}

/// Returns whether a process has a pipe open for writing, or the pipe holds data. Consumes nothing.
fn is_written(pipe: &File) -> io::Result<bool> {
    let (_reader, scratch) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    match rustix::pipe::tee(pipe, &scratch, 1, SpliceFlags::NONBLOCK) {
        Ok(octets) => Ok(octets > 0),
        Err(Errno::AGAIN) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Makes reads and writes of a file blocking again.
fn wait_for_data(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags - OFlags::NONBLOCK)?)
}

/// Polls a condition for at most `time`. Returns whether it became true.
fn within(time: Duration, mut is_so: impl FnMut() -> io::Result<bool>) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        match is_so()? {
            true => return Ok(true),
            false if start.elapsed() >= time => return Ok(false),
            false => std::thread::sleep(STEP),
        }
    }
}

/// A name in an open folder. No process can put another folder in its place.
#[derive(Debug)]
pub struct Entry {
    folder: OwnedFd,
    name: OsString,
}

impl Entry {
    /// Opens the folder of a path.
    ///
    /// # Errors
    /// If the folder does not exist, the path names no file, or root would follow a symbolic link.
    pub fn at(path: &Path) -> io::Result<Entry> {
        let name = match path.components().next_back() {
            Some(Component::Normal(name)) => name.to_owned(),
            _ => return Err(io::Error::new(ErrorKind::InvalidInput, "the path names no file")),
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = if geteuid().is_root() {
            let resolve = rustix::fs::ResolveFlags::NO_SYMLINKS;
            rustix::fs::openat2(CWD, folder, flags, Mode::empty(), resolve).map_err(|error| match error {
                rustix::io::Errno::LOOP => io::Error::other(format!(
                    "the path to {} leads over a symbolic link, which root does not follow: name the folder itself",
                    folder.display()
                )),
                error => error.into(),
            })?
        } else {
            rustix::fs::openat(CWD, folder, flags, Mode::empty())?
        };
        Ok(Entry { folder, name })
    }

    /// Returns the name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the entry of another name in the same folder.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn sibling(&self, name: &OsStr) -> io::Result<Entry> {
        Ok(Entry { folder: self.folder.try_clone()?, name: name.to_owned() })
    }

    /// Returns the attributes of the entry, without following a link; `None` if it does not exist.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn stat(&self) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the kind of the entry; `None` if it does not exist.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn kind(&self) -> io::Result<Option<FileType>> {
        Ok(self.stat()?.map(|found| FileType::from_raw_mode(found.st_mode)))
    }

    /// Returns whether another process, or another port of this process, writes to the file.
    pub fn is_locked(&self) -> bool {
        // For an unreadable file the lock is unknown; the system decides whether it may be removed.
        self.open(OFlags::RDONLY).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Opens the entry, unless it is a link.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open(&self, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?.into())
    }

    /// Opens a named pipe for writing.
    fn open_pipe(&self) -> io::Result<File> {
        let mut opened = None;
        within(OTHER_END, || match self.open(OFlags::WRONLY | OFlags::NONBLOCK) {
            Ok(file) => {
                opened = Some(file);
                Ok(true)
            }
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(false),
            Err(error) => Err(error),
        })?;
        let none = "this is a named pipe, and no process reads it: start the reader first";
        let file = opened.ok_or_else(|| io::Error::other(none))?;
        wait_for_data(&file)?;
        Ok(file)
    }

    /// Creates the file with a lock that lasts as long as it is open.
    ///
    /// # Errors
    /// If the entry exists, or the system refuses.
    pub fn create(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: File = rustix::fs::openat(&self.folder, &self.name, flags, MODE)?.into();
        if let Some(&(user, group)) = OWNER.get().filter(|_| geteuid().is_root()) {
            rustix::fs::fchown(&file, Some(user), Some(group))?;
        }
        // The lock prevents mistakes only, so a file system without locks will do.
        let _ = file.try_lock();
        Ok(file)
    }

    /// Removes the entry.
    ///
    /// # Errors
    /// If the entry does not exist, or the system refuses.
    pub fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Renames the entry within its folder and replaces an existing entry of that name.
    ///
    /// # Errors
    /// If the entry does not exist, or the system refuses.
    pub fn rename(&self, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.folder, &self.name, &self.folder, to)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::path::PathBuf;

    use super::*;

    /// A temporary folder, deleted on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("weir-file-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            Folder(folder.canonicalize().unwrap())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_new_file_is_for_its_owner_and_group() {
        let folder = Folder::new("new");
        let path = folder.0.join("file");
        let mut file = replace(&path).unwrap();
        file.write_all(b"first").unwrap();
        let before = fs::metadata(&path).unwrap();
        assert_eq!(before.permissions().mode() & 0o777 & !0o640, 0);
        assert_eq!(create_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(file);
        // The old file stays with the processes that have it open.
        let old = File::open(&path).unwrap();
        drop(replace(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert_ne!(old.metadata().unwrap().ino(), fs::metadata(&path).unwrap().ino());
    }

    #[test]
    fn a_link_is_left_alone_with_what_it_leads_to() {
        let folder = Folder::new("link");
        let (precious, link, hard) = (folder.0.join("precious"), folder.0.join("link"), folder.0.join("hard"));
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &link).unwrap();
        assert!(replace(&link).unwrap_err().to_string().contains("symbolic link"));
        assert!(create_new(&link).is_err());
        fs::hard_link(&precious, &hard).unwrap();
        replace(&hard).unwrap().write_all(b"other").unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious", "a second name of a file is only a name");
        // A dangling link: its target is not created.
        let nowhere = folder.0.join("nowhere");
        symlink(folder.0.join("absent"), &nowhere).unwrap();
        assert!(replace(&nowhere).is_err() && create_new(&nowhere).is_err());
        assert!(!folder.0.join("absent").exists());
    }

    #[test]
    fn root_follows_no_link_on_the_way() {
        let folder = Folder::new("way");
        let (real, link) = (folder.0.join("real"), folder.0.join("link"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        let made = replace(&link.join("file"));
        if geteuid().is_root() {
            assert!(made.unwrap_err().to_string().contains("leads over a symbolic link"));
            assert!(!real.join("file").exists());
        } else {
            assert!(made.is_ok());
        }
    }

    #[test]
    fn a_file_that_is_written_to_is_not_replaced() {
        let folder = Folder::new("held");
        let path = folder.0.join("file");
        let mut held = replace(&path).unwrap();
        assert_eq!(replace(&path).unwrap_err().kind(), ErrorKind::ResourceBusy);
        held.write_all(b"still here").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"still here");
        drop(held);
        assert!(replace(&path).is_ok());
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        let folder = Folder::new("kind");
        fs::create_dir(folder.0.join("folder")).unwrap();
        assert!(replace(&folder.0.join("folder")).is_err());
        assert!(replace(Path::new("/")).is_err());
        assert!(replace(&folder.0.join("..")).is_err());
        assert_eq!(replace(&folder.0.join("absent/file")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(replace(Path::new("/dev/null")).unwrap().write_all(b"gone").is_ok());
    }

    fn pipe(folder: &Folder) -> PathBuf {
        let path = folder.0.join("pipe");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }

    #[test]
    fn a_named_pipe_without_the_other_end_is_refused() {
        let folder = Folder::new("alone");
        let path = pipe(&folder);
        let start = Instant::now();
        let (read, written) = (open(&path).unwrap_err().to_string(), replace(&path).unwrap_err().to_string());
        assert!(read.contains("named pipe, and no process writes to it"), "{read}");
        assert!(written.contains("named pipe, and no process reads it"), "{written}");
        assert!(start.elapsed() < 20 * OTHER_END);
    }

    #[test]
    fn a_named_pipe_with_the_other_end_is_read_and_written() {
        let folder = Folder::new("ends");
        let path = pipe(&folder);
        // A writer that opens late and pauses between writes.
        let slow = path.clone();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(OTHER_END / 10);
            let mut file = fs::OpenOptions::new().write(true).open(slow).unwrap();
            std::thread::sleep(OTHER_END / 10);
            file.write_all(b"first ").unwrap();
            std::thread::sleep(OTHER_END / 10);
            file.write_all(b"second").unwrap();
        });
        assert_eq!(read(&path).unwrap(), b"first second");
        writer.join().unwrap();
        let other = path.clone();
        let reader = std::thread::spawn(move || fs::read(other).unwrap());
        replace(&path).unwrap().write_all(&[7; 200_000]).unwrap();
        assert_eq!(reader.join().unwrap().len(), 200_000, "more than a pipe holds: it is waited for");
    }

    #[test]
    fn a_pipe_without_a_name_is_read_whatever_became_of_its_writer() {
        for content in ["", "some"] {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(content.as_bytes()).unwrap();
            drop(writer);
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
            assert_eq!(read(Path::new(&path)).unwrap(), content.as_bytes());
        }
    }
}
