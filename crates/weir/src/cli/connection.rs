//! The options of commands that talk to a gateway.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};

use crate::control::client::Client;
use crate::control::path::SocketPath;

/// Where the gateway is.
#[derive(Debug, Args)]
pub(super) struct Connection {
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

impl Connection {
    /// The socket's place.
    pub(super) fn place(&self) -> SocketPath {
        // An empty variable stands for none.
        SocketPath::new(self.socket.as_deref().filter(|path| !path.as_os_str().is_empty()))
    }

    /// Someone who can ask.
    pub(super) fn client(&self) -> Client {
        Client::new(&self.place().path)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        connection: Connection,
    }

    #[test]
    fn an_empty_socket_is_the_default_one() {
        let place = |socket: &str| Command::try_parse_from(["weir", "--socket", socket]).unwrap().connection.place();
        assert_eq!(place(""), SocketPath::new(None));
        assert_eq!(place("a.sock").path, PathBuf::from("a.sock"));
    }
}
