//! Taking the control socket: one gateway at a time, nobody but the owner let in, at no moment.
//!
//! A lock on `<socket>.lock` says that a gateway lives; the kernel drops it with the process, whatever happens to that.
//! The socket is bound in a new folder that only the owner may enter, made owner-only, and then renamed to its place:
//! no client sees it half-made, and what a dead gateway left there is replaced in the same step.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, chownat};
use rustix::process::{Gid, Uid};

use super::path::SocketPath;

/// Why the control socket could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another gateway has it.
    #[error("another gateway is running on {}; name another socket with --socket", .0.display())]
    Taken(PathBuf),
    /// Something else lies there.
    #[error("{} is there already and is no socket", .0.display())]
    NotASocket(PathBuf),
    /// There is no folder to put it in.
    #[error("the control socket cannot be {}: there is no folder {}", path.display(), folder.display())]
    NoFolder {
        /// The socket.
        path: PathBuf,
        /// What is not there.
        folder: PathBuf,
    },
    /// The folder belongs to another user, or others may write to it.
    #[error("{} is no folder of our own that nobody else can write to; name a socket with --socket", .0.display())]
    Untrusted(PathBuf),
    /// The system said no.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    move |source| SocketError::Io { what, path: path.to_owned(), source }
}

/// The control socket, ours until dropped; then it is removed.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    listener: UnixListener,
    identity: (u64, u64),
    own_folder: bool,
    // The last field: the lock is given up when all else is gone.
    _lock: Lock,
}

impl Socket {
    /// Takes the socket.
    ///
    /// # Errors
    /// When another gateway has it, or its place cannot be used.
    pub fn take(place: &SocketPath) -> Result<Socket, SocketError> {
        let path = &place.path;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if place.own_folder {
            own_folder(folder)?;
        } else if !folder.is_dir() {
            return Err(SocketError::NoFolder { path: path.clone(), folder: folder.to_owned() });
        }
        let lock = Lock::take(path)?;
        match std::fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => return Err(SocketError::NotASocket(path.clone())),
            // A gateway whose lock file was taken away from it still answers.
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(SocketError::Taken(path.clone())),
            _ => {}
        }
        let listener = bind(folder, path)?;
        let there = std::fs::symlink_metadata(path).map_err(io("look at", path))?;
        let identity = (there.dev(), there.ino());
        Ok(Socket { path: path.clone(), listener, identity, own_folder: place.own_folder, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets another user talk on it, too: gives the socket away, and lets anybody pass through the folder if that is weir's
    /// own. The folder stays ours, so that its next owner finds no traps in it; what the other user cannot remove at the
    /// end is replaced at the next start.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn give_to(&self, user: Uid, group: Gid) -> Result<(), SocketError> {
        let change = |source: rustix::io::Errno| io("give away", &self.path)(source.into());
        chownat(CWD, &self.path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW).map_err(change)?;
        if let Some(folder) = self.own_folder.then(|| self.path.parent()).flatten() {
            std::fs::set_permissions(folder, Permissions::from_mode(0o711)).map_err(io("open", folder))?;
        }
        Ok(())
    }

    /// Listens on it without blocking.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn listener(&self) -> io::Result<UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ours = |there: &std::fs::Metadata| (there.dev(), there.ino()) == self.identity;
        if std::fs::symlink_metadata(&self.path).is_ok_and(|there| ours(&there)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Binds out of everybody's sight, then moves the socket to its place.
fn bind(folder: &Path, path: &Path) -> Result<UnixListener, SocketError> {
    let hidden = hidden(folder)?;
    let socket = hidden.join("s");
    let listener = UnixListener::bind(&socket).map_err(io("listen on", path)).and_then(|listener| {
        std::fs::set_permissions(&socket, Permissions::from_mode(0o600)).map_err(io("protect", path))?;
        std::fs::rename(&socket, path).map_err(io("put in place", path))?;
        Ok(listener)
    });
    let _ = std::fs::remove_file(&socket);
    let _ = std::fs::remove_dir(&hidden);
    listener
}

/// Makes a folder that nobody else may enter. It never takes one that is there, which may be somebody's trap.
fn hidden(folder: &Path) -> Result<PathBuf, SocketError> {
    const ATTEMPTS: u32 = 100;
    let mut attempt = 0;
    loop {
        let hidden = folder.join(format!(".weir-{}-{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&hidden) {
            Ok(()) => return Ok(hidden),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(io("make", &hidden)(error)),
        }
    }
}

/// Makes the folder if need be, and sees to it that it is ours alone.
fn own_folder(folder: &Path) -> Result<(), SocketError> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io("make", folder)(error)),
        _ => {}
    }
    let there = std::fs::symlink_metadata(folder).map_err(io("look at", folder))?;
    let ours = there.is_dir() && there.uid() == rustix::process::geteuid().as_raw() && there.mode() & 0o022 == 0;
    if ours { Ok(()) } else { Err(SocketError::Untrusted(folder.to_owned())) }
}

/// The lock that a living gateway holds.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn take(socket: &Path) -> Result<Lock, SocketError> {
        let mut name = socket.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        loop {
            let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).custom_flags(no_follow);
            let file = options.open(&path).map_err(io("open", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(SocketError::Taken(socket.to_owned())),
                Err(TryLockError::Error(error)) => return Err(io("lock", &path)(error)),
            }
            let locked = file.metadata().map_err(io("look at", &path))?;
            // Its last owner may have removed the file after we opened it: then others lock another file of that name.
            let still_there = std::fs::symlink_metadata(&path)
                .is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino()));
            if still_there {
                return Ok(Lock { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of the test's own, gone afterwards.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("weir-socket-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir(&folder).unwrap();
            Folder(folder)
        }

        fn place(&self) -> SocketPath {
            SocketPath { path: self.0.join("control.sock"), own_folder: false }
        }

        fn files(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn one_owner_at_a_time_and_nothing_is_left() {
        let folder = Folder::new("one");
        let socket = Socket::take(&folder.place()).unwrap();
        let mode = std::fs::metadata(socket.path()).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert!(matches!(Socket::take(&folder.place()), Err(SocketError::Taken(_))));
        assert!(UnixStream::connect(socket.path()).is_ok(), "the first is not disturbed");
        drop(socket);
        assert!(folder.files().is_empty(), "{:?}", folder.files());
        assert!(Socket::take(&folder.place()).is_ok());
    }

    #[test]
    fn what_a_dead_gateway_left_is_replaced() {
        let folder = Folder::new("stale");
        let place = folder.place();
        drop(UnixListener::bind(&place.path).unwrap());
        std::fs::write(folder.0.join("control.sock.lock"), "").unwrap();
        let socket = Socket::take(&place).unwrap();
        assert!(UnixStream::connect(socket.path()).is_ok());
    }

    #[test]
    fn nothing_that_lies_in_the_way_is_touched() {
        let folder = Folder::new("trap");
        let precious = folder.0.join("precious");
        std::fs::create_dir(&precious).unwrap();
        std::fs::write(precious.join("s"), "").unwrap();
        std::os::unix::fs::symlink(&precious, folder.0.join(format!(".weir-{}-0", std::process::id()))).unwrap();
        let socket = Socket::take(&folder.place()).unwrap();
        assert!(UnixStream::connect(socket.path()).is_ok());
        assert!(precious.join("s").exists());
    }

    #[test]
    fn a_living_socket_without_a_lock_is_left_alone() {
        let folder = Folder::new("foreign");
        let place = folder.place();
        let _other = UnixListener::bind(&place.path).unwrap();
        assert!(matches!(Socket::take(&place), Err(SocketError::Taken(_))));
        assert!(UnixStream::connect(&place.path).is_ok());
    }

    #[test]
    fn a_file_is_never_replaced() {
        let folder = Folder::new("file");
        let place = folder.place();
        std::fs::write(&place.path, "precious").unwrap();
        assert!(matches!(Socket::take(&place), Err(SocketError::NotASocket(_))));
        assert_eq!(std::fs::read_to_string(&place.path).unwrap(), "precious");
    }

    #[test]
    fn our_own_folder_is_made_for_us_alone_and_no_other_is_trusted() {
        let folder = Folder::new("own");
        let own = SocketPath { path: folder.0.join("weir/control.sock"), own_folder: true };
        let socket = Socket::take(&own).unwrap();
        assert_eq!(std::fs::metadata(folder.0.join("weir")).unwrap().mode() & 0o7777, 0o700);
        drop(socket);
        std::fs::set_permissions(folder.0.join("weir"), Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Socket::take(&own), Err(SocketError::Untrusted(_))));
        let link = SocketPath { path: folder.0.join("link/control.sock"), own_folder: true };
        std::os::unix::fs::symlink(folder.0.join("weir"), folder.0.join("link")).unwrap();
        assert!(matches!(Socket::take(&link), Err(SocketError::Untrusted(_))));
        let absent = SocketPath { path: folder.0.join("absent/control.sock"), own_folder: false };
        assert!(
            matches!(Socket::take(&absent), Err(SocketError::NoFolder { .. })),
            "somebody else's folder is not made"
        );
    }

    #[test]
    fn a_socket_put_in_our_place_is_not_removed() {
        let folder = Folder::new("moved");
        let socket = Socket::take(&folder.place()).unwrap();
        std::fs::remove_file(socket.path()).unwrap();
        let _other = UnixListener::bind(socket.path()).unwrap();
        drop(socket);
        assert_eq!(folder.files(), ["control.sock"]);
    }
}
