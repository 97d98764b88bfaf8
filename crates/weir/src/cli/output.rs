//! Standard output, which holds the requested output and nothing else.

use std::io::{self, Write as _};

use super::error::Error;

/// Writes a text to standard output.
///
/// # Errors
/// [`Error::Closed`] if the reader has closed the pipe, as in `weir show routes | head -1`.
pub(super) fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::Closed,
        _ => Error::Failed(format!("cannot write to standard output: {error}")),
    })
}

/// Whether a stream that is a terminal, or is not, may be coloured.
pub(super) fn colour(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
