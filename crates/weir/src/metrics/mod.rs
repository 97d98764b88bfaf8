//! Metrics for Prometheus and other collectors, as OpenMetrics over HTTP.
//!
//! A scrape reads the gateway once ([`families`]), and [`text`] writes the reading in the format of OpenMetrics 1.0.
//! [`endpoint`] serves it at a TCP or Unix socket of its own, so that collectors need no access to the control socket. Counters
//! are those of `weir show`.

mod endpoint;
mod families;
mod family;
mod text;

pub(crate) use endpoint::Endpoint;

use crate::config::Detail;
use crate::control::Gateway;

/// Reads all metrics of a gateway, in the format of OpenMetrics.
pub(crate) fn scrape(gateway: &dyn Gateway, detail: Detail) -> String {
    text::write(families::read(gateway, detail))
}

/// The names of all metrics with their types and descriptions, as the documentation lists them. Counters have the suffix
/// `_total`.
#[cfg(test)]
pub(crate) fn names() -> Vec<(String, &'static str, &'static str, &'static str)> {
    families::read(&crate::control::fake::Fake::default(), Detail { rules: true, sas: true, prefixes: true })
        .into_iter()
        .map(|family| (family.full_name(), family.kind.name(), family.labels(), family.help))
        .collect()
}

#[cfg(test)]
mod tests;
