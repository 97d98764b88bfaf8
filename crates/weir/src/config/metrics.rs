//! `[metrics]`: what is served to collectors, and where.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Metrics that grow with the configuration, and are left out unless the configuration names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Detail {
    /// One series for each rule of access lists, NAT and SPDs.
    pub rules: bool,
    /// One series for each pair of SAs.
    pub sas: bool,
    /// One series for each prefix of SAV policies that count hits.
    pub prefixes: bool,
}

/// The address at which metrics are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address and port of TCP.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// `[metrics]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// The address or path.
    pub listen: Listen,
    /// The metrics that are served beside the usual.
    pub detail: Detail,
}
