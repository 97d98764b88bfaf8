//! The layer of the log that makes events.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
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
            kind: Kind::of(fields.others.remove("kind").as_ref().and_then(Value::as_str)),
            message: fields.message,
            fields: fields.others,
            lost: 0,
        });
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: BTreeMap<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.others.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else {
            self.others.insert(field.name().to_owned(), format!("{value:?}").into());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.put(field, value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
}
