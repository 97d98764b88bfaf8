//! Exit codes.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed at run time.
    Failed = 1,
    /// It was not called as it can be.
    Usage = 2,
    /// The configuration is invalid.
    InvalidConfig = 3,
    /// There is no gateway to talk to.
    NoGateway = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
