//! Events, one line each, on standard error, in the system's journal, or by syslog.

use std::io::{self, IsTerminal as _};
use std::os::unix::net::UnixDatagram;

use rustix::io::Errno;
use syslog_tracing::{Facility, Options, Syslog};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use weir_plane::alarm;
use weir_plane::engine::News;

use super::error::Error;
use super::output::colour;
use crate::events::{Events, Kind};
use crate::full::Full;
use crate::moves::Burst;

/// Fields by which events are searched in the journal and by watchers. The message has what they say.
const SEARCHED: [&str; 8] = ["kind", "interface", "object", "source", "generation", "policy", "rate", "threshold"];

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
    /// The syslog daemon
    Syslog,
}

/// Starts to log what the filter lets through, e.g. `info` or `warn,weir::control=debug`.
///
/// # Errors
/// When the journal or a syslog daemon is wanted and not there.
pub(super) fn start(filter: Targets, place: Place) -> Result<(), Error> {
    let registry = tracing_subscriber::registry().with(filter).with(Events);
    let journal = match place {
        Place::Stderr => None,
        Place::Syslog => {
            let syslog = syslog().map_err(|error| Error::Failed(format!("cannot log to syslog: {SYSLOG}: {error}")))?;
            // The daemon adds the time; the severity is the level.
            let lines = tracing_subscriber::fmt::layer().with_writer(syslog).with_ansi(false).with_target(false);
            let lines =
                lines.without_time().with_level(false).fmt_fields(debug_fn(|line, field, value| match field.name() {
                    "message" => write!(line, "{value:?}"),
                    name => write!(line, " {name}={value:?}"),
                }));
            let _ = registry.with(lines).try_init();
            return Ok(());
        }
        // A journal that is not there any more is no reason not to start.
        Place::Auto if leads_to_the_journal() => journal().ok(),
        Place::Auto => None,
        Place::Journald => {
            Some(journal().map_err(|error| Error::Failed(format!("cannot log to the journal: {error}")))?)
        }
    };
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

/// The socket of the syslog daemon (syslog(3)).
const SYSLOG: &str = "/dev/log";

/// Opens syslog, if a daemon listens. One that starts again later is found again.
fn syslog() -> io::Result<Syslog> {
    let daemon = UnixDatagram::unbound()?.connect(SYSLOG);
    // Some daemons have a stream there, which the library takes, too.
    daemon.or_else(
        |error| if error.raw_os_error() == Some(Errno::PROTOTYPE.raw_os_error()) { Ok(()) } else { Err(error) },
    )?;
    let opened = Syslog::new(c"weir", Options::LOG_PID | Options::LOG_NDELAY, Facility::Daemon);
    opened.ok_or_else(|| io::Error::other("another log is open"))
}

/// Standard error is a stream of the journal's: systemd says which (systemd.exec(5), `JOURNAL_STREAM`).
fn leads_to_the_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(io::stderr()).is_ok_and(|stderr| stream == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}

/// An event of links and neighbours.
pub(super) fn news(news: &News) {
    let (interface, object) = (news.interface(), news.object());
    let kind = kind(news).name();
    match news {
        News::LinkUp { .. } => tracing::info!(kind, interface, object, "{news}"),
        _ => tracing::warn!(kind, interface, object, "{news}"),
    }
}

/// The kind of an event of links and neighbours.
fn kind(news: &News) -> Kind {
    match news {
        News::LinkDown { .. }
        | News::LinkUp { .. }
        | News::DeviceMtu { .. }
        | News::PuntMissing { .. }
        | News::PuntDown { .. }
        | News::PuntUp { .. }
        | News::PuntRenamed { .. }
        | News::PuntRefused { .. } => Kind::Link,
        News::StageEnded { .. } | News::SaSoft { .. } | News::SaExpired { .. } => Kind::Gateway,
        // Addresses, bindings, and tables of neighbours.
        _ => Kind::Neighbor,
    }
}

/// An alarm that was raised or cleared.
pub(super) fn alarm(event: &alarm::Event) {
    let alarm::Event { interface, policy, rate, threshold, .. } = event;
    let kind = Kind::Alarm.name();
    if event.raised {
        tracing::warn!(
            kind,
            interface,
            policy,
            rate,
            threshold,
            "{interface}: {rate} invalid packets/s (policy {policy}, threshold {threshold})"
        );
    } else {
        tracing::info!(
            kind,
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
    tracing::warn!(kind = Kind::Neighbor.name(), object, interface, "{burst}");
}

/// The session table is full.
pub(super) fn full(full: &Full) {
    tracing::warn!(kind = Kind::Full.name(), object = "flow-table", refused = full.refused, "{full}");
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
