//! Events that are no lines of the log.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use weir_plane::session_watch::SessionEvent;

use super::Kind;
use super::queue::{is_watched, send, send_session};
use crate::render::event::Event;

/// Gives an event to watchers, if there are some.
pub(crate) fn publish(kind: Kind, message: String, fields: Vec<(&'static str, Value)>) {
    if is_watched() {
        send(&event(kind, message, fields));
    }
}

/// Gives a session that began or ended to watchers whose filters match it. `text` returns the message and the fields.
pub(crate) fn publish_session(session: &SessionEvent, text: impl FnOnce() -> (String, Vec<(&'static str, Value)>)) {
    send_session(session, || {
        let (message, fields) = text();
        event(Kind::Session, message, fields)
    });
}

fn event(kind: Kind, message: String, fields: Vec<(&'static str, Value)>) -> Event {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Event { time: now.as_millis() as u64, level: "info".to_owned(), kind, message, fields, lost: 0 }
}
