//! Taking the control socket: one gateway at a time, nobody but the owner let in, at no moment.
//!
//! A lock on `<socket>.lock` says that a gateway lives; the kernel drops it with the process, whatever happens to that.
//! The socket is bound in a new folder that only the owner may enter, made owner-only, and then renamed to its place:
//! no client sees it half-made, and what a dead gateway left there is replaced in the same step.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, chownat, fstat, openat, renameat};
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
        /// The folder that does not exist.
        folder: PathBuf,
    },
    /// The folder, or one that it is in, belongs to another user, or others may write to it.
    #[error(
        "{} belongs to another user or others may write to it, so they could take the place of the control socket; \
         put the socket into a folder of your own with mode 0755 or less (--socket)",
        .0.display()
    )]
    Untrusted(PathBuf),
    /// The system said no.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    move |source| SocketError::Io { what, path: path.to_owned(), source }
}

/// Device and inode of a file.
type Identity = (u64, u64);

/// The control socket, ours until dropped; then it is removed.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    listener: UnixListener,
    identity: Identity,
    own_folder: bool,
    // The last field: the lock is given up when all else is gone.
    _lock: Lock,
}

impl Socket {
    /// Takes the socket. One that is taken is tried again for a second: the kernel takes its time to take back what a
    /// gateway had that was killed. `account` is the user that the gateway becomes, who may own the folder, too.
    ///
    /// # Errors
    /// When another gateway has it, or its place cannot be used.
    pub fn take(place: &SocketPath, account: Option<Uid>) -> Result<Socket, SocketError> {
        Socket::take_within(place, account, Duration::from_secs(1))
    }

    fn take_within(place: &SocketPath, account: Option<Uid>, patience: Duration) -> Result<Socket, SocketError> {
        const STEP: Duration = Duration::from_millis(20);
        let begun = Instant::now();
        loop {
            match Socket::try_take(place, account) {
                Err(SocketError::Taken(_)) if begun.elapsed() < patience => std::thread::sleep(STEP),
                done => return done,
            }
        }
    }

    fn try_take(place: &SocketPath, account: Option<Uid>) -> Result<Socket, SocketError> {
        let path = &place.path;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if place.own_folder {
            own_folder(folder)?;
        } else if folder.is_dir() {
            trusted(folder, account)?;
        } else {
            return Err(SocketError::NoFolder { path: path.clone(), folder: folder.to_owned() });
        }
        let lock = Lock::take(path)?;
        match std::fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => return Err(SocketError::NotASocket(path.clone())),
            // A gateway whose lock file was taken away from it still answers.
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(SocketError::Taken(path.clone())),
            _ => {}
        }
        let (listener, identity) = bind(folder, path)?;
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
        // Nothing that was put in its place since, by the user whose folder this may be.
        let there = openat(CWD, &self.path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        let there = there.map_err(change)?;
        let found = fstat(&there).map_err(change)?;
        if (found.st_dev, found.st_ino) != self.identity {
            return Err(SocketError::NotASocket(self.path.clone()));
        }
        chownat(&there, "", Some(user), Some(group), AtFlags::EMPTY_PATH).map_err(change)?;
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

/// Binds out of everybody's sight, then moves the socket to its place. The hidden folder is used by its descriptor: the
/// owner of the folder that it is in may be another user, and could put a trap in its place.
fn bind(folder: &Path, path: &Path) -> Result<(UnixListener, Identity), SocketError> {
    let hidden = hidden(folder)?;
    let bound = bind_in(&hidden, path);
    let _ = std::fs::remove_dir(&hidden);
    bound
}

fn bind_in(hidden: &Path, path: &Path) -> Result<(UnixListener, Identity), SocketError> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = openat(CWD, hidden, flags, Mode::empty()).map_err(|error| io("open", hidden)(error.into()))?;
    let found = fstat(&inside).map_err(|error| io("look at", hidden)(error.into()))?;
    if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        return Err(SocketError::Untrusted(hidden.to_owned()));
    }
    let socket = PathBuf::from(format!("/proc/self/fd/{}/s", inside.as_raw_fd()));
    let bound = UnixListener::bind(&socket).map_err(io("listen on", path)).and_then(|listener| {
        std::fs::set_permissions(&socket, Permissions::from_mode(0o600)).map_err(io("protect", path))?;
        let there = std::fs::symlink_metadata(&socket).map_err(io("look at", path))?;
        renameat(&inside, "s", CWD, path).map_err(|error| io("put in place", path)(error.into()))?;
        Ok((listener, (there.dev(), there.ino())))
    });
    let _ = std::fs::remove_file(&socket);
    bound
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

/// Checks that nobody but root, us and the user that we become may change what is in a folder, or put another folder in its
/// place. Of the folders
/// that it is in, a sticky one will do, such as /tmp: nobody renames there what is another's.
fn trusted(folder: &Path, account: Option<Uid>) -> Result<(), SocketError> {
    /// The owner of what lies outside of a user namespace.
    const UNMAPPED: u32 = 65_534;
    let us = [Some(Uid::ROOT), Some(rustix::process::geteuid()), account];
    let real = folder.canonicalize().map_err(io("look at", folder))?;
    for (above, folder) in real.ancestors().enumerate() {
        let there = std::fs::symlink_metadata(folder).map_err(io("look at", folder))?;
        let owner = Uid::from_raw(there.uid());
        let owned = us.contains(&Some(owner)) || above > 0 && there.uid() == UNMAPPED;
        let closed = there.mode() & 0o022 == 0 || above > 0 && there.mode() & 0o1000 != 0;
        if !owned || !closed {
            return Err(SocketError::Untrusted(folder.to_owned()));
        }
    }
    Ok(())
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
            DirBuilder::new().mode(0o755).create(&folder).unwrap();
            Folder(folder.canonicalize().unwrap())
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
        let socket = Socket::take(&folder.place(), None).unwrap();
        let mode = std::fs::metadata(socket.path()).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert!(matches!(Socket::take(&folder.place(), None), Err(SocketError::Taken(_))));
        assert!(UnixStream::connect(socket.path()).is_ok(), "the first is not disturbed");
        drop(socket);
        assert!(folder.files().is_empty(), "{:?}", folder.files());
        assert!(Socket::take(&folder.place(), None).is_ok());
    }

    #[test]
    fn a_gateway_that_is_about_to_end_is_waited_for() {
        let folder = Folder::new("ending");
        let socket = Socket::take(&folder.place(), None).unwrap();
        let ending = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(socket);
        });
        assert!(Socket::take_within(&folder.place(), None, Duration::from_secs(60)).is_ok());
        ending.join().unwrap();
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_trusted() {
        let folder = Folder::new("others");
        let set = |mode| std::fs::set_permissions(&folder.0, Permissions::from_mode(mode)).unwrap();
        for mode in [0o777, 0o1777, 0o775, 0o757] {
            set(mode);
            let error = Socket::take(&folder.place(), None).unwrap_err();
            assert!(matches!(&error, SocketError::Untrusted(place) if *place == folder.0), "{mode:o}: {error}");
            assert!(folder.files().is_empty(), "nothing was made there");
        }
        // The same folder above that of the socket: without the sticky bit anybody may put another one in its place.
        let inner = folder.0.join("inner");
        DirBuilder::new().mode(0o755).create(&inner).unwrap();
        let place = SocketPath { path: inner.join("control.sock"), own_folder: false };
        set(0o777);
        assert!(matches!(Socket::take(&place, None), Err(SocketError::Untrusted(place)) if place == folder.0));
        set(0o1777);
        assert!(Socket::take(&place, None).is_ok());
        // By a link, too.
        set(0o777);
        let link = std::env::temp_dir().join(format!("weir-socket-link-{}", std::process::id()));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&folder.0, &link).unwrap();
        let place = SocketPath { path: link.join("control.sock"), own_folder: false };
        assert!(matches!(Socket::take(&place, None), Err(SocketError::Untrusted(_))));
        std::fs::remove_file(&link).unwrap();
    }

    #[test]
    fn what_a_dead_gateway_left_is_replaced() {
        let folder = Folder::new("stale");
        let place = folder.place();
        drop(UnixListener::bind(&place.path).unwrap());
        std::fs::write(folder.0.join("control.sock.lock"), "").unwrap();
        let socket = Socket::take(&place, None).unwrap();
        assert!(UnixStream::connect(socket.path()).is_ok());
    }

    #[test]
    fn nothing_that_lies_in_the_way_is_touched() {
        let folder = Folder::new("trap");
        let precious = folder.0.join("precious");
        std::fs::create_dir(&precious).unwrap();
        std::fs::write(precious.join("s"), "").unwrap();
        std::os::unix::fs::symlink(&precious, folder.0.join(format!(".weir-{}-0", std::process::id()))).unwrap();
        let socket = Socket::take(&folder.place(), None).unwrap();
        assert!(UnixStream::connect(socket.path()).is_ok());
        assert!(precious.join("s").exists());
    }

    #[test]
    fn a_living_socket_without_a_lock_is_left_alone() {
        let folder = Folder::new("foreign");
        let place = folder.place();
        let _other = UnixListener::bind(&place.path).unwrap();
        assert!(matches!(Socket::take(&place, None), Err(SocketError::Taken(_))));
        assert!(UnixStream::connect(&place.path).is_ok());
    }

    #[test]
    fn a_file_is_never_replaced() {
        let folder = Folder::new("file");
        let place = folder.place();
        std::fs::write(&place.path, "precious").unwrap();
        assert!(matches!(Socket::take(&place, None), Err(SocketError::NotASocket(_))));
        assert_eq!(std::fs::read_to_string(&place.path).unwrap(), "precious");
    }

    #[test]
    fn our_own_folder_is_made_for_us_alone_and_no_other_is_trusted() {
        let folder = Folder::new("own");
        let own = SocketPath { path: folder.0.join("weir/control.sock"), own_folder: true };
        let socket = Socket::take(&own, None).unwrap();
        assert_eq!(std::fs::metadata(folder.0.join("weir")).unwrap().mode() & 0o7777, 0o700);
        drop(socket);
        std::fs::set_permissions(folder.0.join("weir"), Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Socket::take(&own, None), Err(SocketError::Untrusted(_))));
        let link = SocketPath { path: folder.0.join("link/control.sock"), own_folder: true };
        std::os::unix::fs::symlink(folder.0.join("weir"), folder.0.join("link")).unwrap();
        assert!(matches!(Socket::take(&link, None), Err(SocketError::Untrusted(_))));
        let absent = SocketPath { path: folder.0.join("absent/control.sock"), own_folder: false };
        assert!(
            matches!(Socket::take(&absent, None), Err(SocketError::NoFolder { .. })),
            "somebody else's folder is not made"
        );
    }

    #[test]
    fn a_socket_put_in_our_place_is_not_removed() {
        let folder = Folder::new("moved");
        let socket = Socket::take(&folder.place(), None).unwrap();
        std::fs::remove_file(socket.path()).unwrap();
        let _other = UnixListener::bind(socket.path()).unwrap();
        drop(socket);
        assert_eq!(folder.files(), ["control.sock"]);
    }
}
