//! Where the control socket is.

use std::path::{Path, PathBuf};

/// A control socket's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPath {
    /// The socket.
    pub path: PathBuf,
    /// The folder is weir's own: it may be made, and nobody else may own it.
    pub own_folder: bool,
}

const FILE: &str = "control.sock";

impl SocketPath {
    /// The place that the user named, or the default one.
    pub fn new(named: Option<&Path>) -> Self {
        match named {
            Some(path) => SocketPath { path: path.to_owned(), own_folder: false },
            None => {
                let user = rustix::process::geteuid().as_raw();
                SocketPath::default_for(user, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from))
            }
        }
    }

    /// `/run/weir` for root, the user's runtime folder for others, a folder of the user's own in `/tmp` when there is none.
    fn default_for(user: u32, runtime: Option<PathBuf>) -> Self {
        let folder = match runtime {
            _ if user == 0 => PathBuf::from("/run/weir"),
            Some(runtime) if runtime.is_absolute() => runtime.join("weir"),
            _ => PathBuf::from(format!("/tmp/weir-{user}")),
        };
        SocketPath { path: folder.join(FILE), own_folder: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_default() {
        let path = |user, runtime: Option<&str>| SocketPath::default_for(user, runtime.map(PathBuf::from)).path;
        assert_eq!(path(0, Some("/run/user/0")), Path::new("/run/weir/control.sock"));
        assert_eq!(path(7, Some("/run/user/7")), Path::new("/run/user/7/weir/control.sock"));
        assert_eq!(path(7, Some("")), Path::new("/tmp/weir-7/control.sock"));
        assert_eq!(path(7, None), Path::new("/tmp/weir-7/control.sock"));
    }

    #[test]
    fn a_named_socket_lies_in_somebody_elses_folder() {
        let named = SocketPath::new(Some(Path::new("x/y.sock")));
        assert_eq!(named, SocketPath { path: "x/y.sock".into(), own_folder: false });
    }
}
