//! The options of commands that talk to a gateway.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};

use crate::control::client::Client;
use crate::control::path::SocketPath;

/// Where the gateway is.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// The control socket [default: /run/weir/control.sock as root, else weir/control.sock in $XDG_RUNTIME_DIR]
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "WEIR_SOCKET",
        hide_env_values = true,
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    socket: Option<PathBuf>,
}

impl Place {
    /// Returns the socket's place.
    pub(super) fn path(&self) -> SocketPath {
        // An empty variable stands for none.
        SocketPath::new(self.socket.as_deref().filter(|path| !path.as_os_str().is_empty()))
    }
}

/// Where the gateway is, and how long to wait for it.
#[derive(Debug, Args)]
pub(super) struct Connection {
    #[command(flatten)]
    place: Place,
    /// How long to wait for the gateway's answer [default: 30 seconds; 600 for commands that change something]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

impl Connection {
    /// Returns a client of the gateway.
    pub(super) fn client(&self) -> Client {
        Client::new(&self.socket()).with_timeout(self.timeout)
    }

    /// Returns the path of the gateway's control socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.place.path().path
    }
}

/// A number of seconds to wait.
fn seconds(text: &str) -> Result<Duration, String> {
    const LONGEST: u64 = 86_400;
    match text.parse::<u64>() {
        Ok(seconds @ 1..=LONGEST) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("a whole number of seconds from 1 to {LONGEST} is expected")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        place: Place,
    }

    #[test]
    fn an_empty_socket_is_the_default_one() {
        let place = |socket: &str| Command::try_parse_from(["weir", "--socket", socket]).unwrap().place.path();
        assert_eq!(place(""), SocketPath::new(None));
        assert_eq!(place("a.sock").path, PathBuf::from("a.sock"));
    }

    #[test]
    fn a_time_to_wait_is_bounded() {
        assert_eq!(seconds("5"), Ok(Duration::from_secs(5)));
        for bad in ["0", "-1", "86401", "1.5", "soon", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
