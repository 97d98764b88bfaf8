//! Exit codes.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed at run time.
    Failed = 1,
    /// Usage error.
    Usage = 2,
    /// The configuration is invalid.
    InvalidConfig = 3,
    /// There is no gateway to talk to, or it does not answer in time.
    NoGateway = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
