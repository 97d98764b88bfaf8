//! The layer of the log that makes events.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::Kind;
use super::queue::{is_watched, send};
use crate::render::event::Event;

/// Makes an event of each line of the log.
pub(crate) struct Events;

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if !is_watched() {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        send(&Event {
            time: now.as_millis() as u64,
            level: level.to_owned(),
            kind: Kind::of(fields.others.remove("kind").as_deref()),
            message: fields.message,
            fields: fields.others,
            lost: 0,
        });
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: BTreeMap<String, String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else {
            self.others.insert(field.name().to_owned(), format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.others.insert(field.name().to_owned(), value.to_owned());
        }
    }
}
