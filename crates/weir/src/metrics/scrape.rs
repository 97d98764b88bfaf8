//! A reading of all metrics as a document of OpenMetrics.

use super::{families, text};
use crate::config::Detail;
use crate::control::Gateway;

/// Reads all metrics of a gateway, in the format of OpenMetrics.
pub(super) fn scrape(gateway: &dyn Gateway, detail: Detail) -> String {
    text::write(families::read(gateway, detail))
}
