//! How commands fail, and what the process says then.

use std::io::Write as _;

use super::Exit;
use crate::control::client::ClientError;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// It failed at run time.
    #[error("{0}")]
    Failed(String),
    /// Usage error.
    #[error("{0}")]
    Usage(String),
    /// A packet's text could not be read; the whole message.
    #[error("{0}")]
    Misread(String),
    /// The configuration is invalid, and its findings have been shown.
    #[error("the configuration is invalid")]
    InvalidConfig,
    /// Entries are invalid, and what is wrong with them has been shown.
    #[error("the entries are invalid")]
    InvalidEntries,
    /// A file of entries or rules is not whole; the message says why.
    #[error("{0}")]
    InvalidFile(String),
    /// There is no gateway to connect to, or it refuses the request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Two configurations differ, which has been shown.
    #[error("there are differences")]
    Differs,
    /// The reader has closed the pipe.
    #[error("standard output was closed")]
    Closed,
}

impl Error {
    /// The process's exit code: the one place that decides it.
    fn exit(&self) -> Exit {
        match self {
            Error::Failed(_) | Error::Differs => Exit::Failed,
            Error::Usage(_) | Error::Misread(_) => Exit::Usage,
            Error::InvalidConfig | Error::InvalidEntries | Error::InvalidFile(_) => Exit::InvalidConfig,
            Error::Client(error) => match error {
                ClientError::NoGateway { .. } | ClientError::NotOurs(_) | ClientError::Late { .. } => Exit::NoGateway,
                ClientError::Answer { .. } | ClientError::Ended { .. } => Exit::Failed,
                ClientError::Refused(_) if error.invalid_configuration().or(error.edits_lost()).is_some() => {
                    Exit::InvalidConfig
                }
                ClientError::Refused(_) => Exit::Failed,
            },
            // The reader closed the pipe because it had enough.
            Error::Closed => Exit::Done,
        }
    }

    /// Whether there is anything left to say.
    fn is_silent(&self) -> bool {
        matches!(self, Error::InvalidConfig | Error::InvalidEntries | Error::Differs | Error::Closed)
    }
}

/// Says on standard error what went wrong, if anything did.
pub(super) fn conclude(result: Result<(), Error>) -> Exit {
    let Err(error) = result else { return Exit::Done };
    if !error.is_silent() {
        // A failure to write the report cannot be reported.
        let _ = match &error {
            Error::Misread(message) => writeln!(std::io::stderr(), "{message}"),
            error => writeln!(std::io::stderr(), "error: {error}"),
        };
    }
    error.exit()
}
