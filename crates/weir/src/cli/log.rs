//! Events on standard error, one line each.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::output::colour;

/// Starts to log what the filter lets through, e.g. `info` or `warn,weir::control=debug`.
pub(super) fn start(filter: Targets) {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colour(std::io::stderr().is_terminal()))
        .with_target(false);
    // Another log was started before: then that one goes on.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}
