//! Metrics for Prometheus and other collectors, as OpenMetrics over HTTP.
//!
//! A scrape reads the gateway once ([`families`]), and [`text`] writes the reading in the format of OpenMetrics 1.0.
//! [`endpoint`] serves it at a TCP or Unix socket of its own, so that collectors need no access to the control socket. Counters
//! are those of `weir show`.

mod endpoint;
mod families;
mod family;
mod scrape;
mod text;

pub(crate) use endpoint::{Endpoint, SharedDetail};

#[cfg(test)]
mod tests;
