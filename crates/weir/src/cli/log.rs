//! Events on standard error, one line each.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::{LevelFilter, Targets};
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

/// Reads a filter: levels, and levels of modules, apart by commas. An empty one, as of an empty variable, is `info`.
pub(super) fn filter(text: &str) -> Result<Targets, String> {
    if text.is_empty() {
        return Ok(Targets::new().with_default(LevelFilter::INFO));
    }
    for part in text.split(',').map(str::trim) {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        // What parses filters would take another word for the name of a module, and log nothing.
        if level.parse::<LevelFilter>().is_err() || level.is_empty() {
            return Err(format!("`{level}` is no level: error, warn, info, debug, trace or off"));
        }
    }
    text.parse().map_err(|error| format!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_levels_and_levels_of_modules() {
        for good in ["", "info", "off", "warn,weir::control=debug", "WARN, weir=trace"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["loud", ",", "info,", "weir=loud", "weir::control"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
