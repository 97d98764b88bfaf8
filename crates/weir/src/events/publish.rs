//! Events that are no lines of the log.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Kind;
use super::queue::{is_watched, send};
use crate::render::event::Event;

/// Gives an event to watchers, if there are some.
pub(crate) fn publish(kind: Kind, message: String, fields: &[(&str, &str)]) {
    if !is_watched() {
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fields = fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    send(&Event { time: now.as_millis() as u64, level: "info".to_owned(), kind, message, fields, lost: 0 });
}
