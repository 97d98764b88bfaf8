//! Events, one line each, on standard error or in the system's journal.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use weir_plane::alarm;
use weir_plane::engine::News;

use super::error::Error;
use super::output::colour;
use crate::events::Events;
use crate::moves::Burst;

/// Fields by which events are searched in the journal and by watchers. The message has what they say.
const SEARCHED: [&str; 7] = ["interface", "object", "source", "generation", "policy", "rate", "threshold"];

/// The names of fields in the journal begin with it: `WEIR_INTERFACE`.
const PREFIX: &str = "WEIR";

/// Where events go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Place {
    /// The journal if standard error leads there, else standard error
    Auto,
    /// Standard error
    Stderr,
    /// The system's journal
    Journald,
}

/// Starts to log what the filter lets through, e.g. `info` or `warn,weir::control=debug`.
///
/// # Errors
/// When the journal is wanted and not there.
pub(super) fn start(filter: Targets, place: Place) -> Result<(), Error> {
    let journal = match place {
        Place::Stderr => None,
        // A journal that is not there any more is no reason not to start.
        Place::Auto if leads_to_the_journal() => journal().ok(),
        Place::Auto => None,
        Place::Journald => {
            Some(journal().map_err(|error| Error::Failed(format!("cannot log to the journal: {error}")))?)
        }
    };
    let registry = tracing_subscriber::registry().with(filter).with(Events);
    if let Some(journal) = journal {
        let _ = registry.with(journal).try_init();
        return Ok(());
    }
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colour(std::io::stderr().is_terminal()))
        .fmt_fields(debug_fn(|line, field, value| match field.name() {
            "message" => write!(line, "{value:?}"),
            // The message says them, too.
            name if SEARCHED.contains(&name) => Ok(()),
            name => write!(line, " {name}={value:?}"),
        }))
        .with_target(false);
    // Another log was started before: then that one goes on.
    let _ = registry.with(lines).try_init();
    Ok(())
}

fn journal() -> io::Result<tracing_journald::Layer> {
    Ok(tracing_journald::layer()?.with_syslog_identifier("weir".to_owned()).with_field_prefix(Some(PREFIX.to_owned())))
}

/// Standard error is a stream of the journal's: systemd says which (systemd.exec(5), `JOURNAL_STREAM`).
fn leads_to_the_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(io::stderr()).is_ok_and(|stderr| stream == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}

/// An event of links and neighbours.
pub(super) fn news(news: &News) {
    let (interface, object) = (news.interface(), news.object());
    match news {
        News::LinkUp { .. } => tracing::info!(interface, object, "{news}"),
        _ => tracing::warn!(interface, object, "{news}"),
    }
}

/// An alarm that was raised or cleared.
pub(super) fn alarm(event: &alarm::Event) {
    let alarm::Event { interface, policy, rate, threshold, .. } = event;
    if event.raised {
        tracing::warn!(
            interface,
            policy,
            rate,
            threshold,
            "{interface}: {rate} invalid packets/s (policy {policy}, threshold {threshold})"
        );
    } else {
        tracing::info!(
            interface,
            policy,
            rate,
            threshold,
            "{interface}: alarm cleared, {rate} invalid packets/s (policy {policy}, threshold {threshold})"
        );
    }
}

/// Stations that move between the ports of a bridge.
pub(super) fn burst(burst: &Burst) {
    let (object, interface) = (format!("bridge {}", burst.bridge), burst.mover.as_ref().map(|own| &own.interface));
    tracing::warn!(object, interface, "{burst}");
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
