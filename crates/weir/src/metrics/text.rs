//! Families in the text format of OpenMetrics 1.0, by the crate of the Prometheus project.

use std::fmt;
use std::sync::Mutex;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::family::{Family, Kind, Value};

/// Writes families as a document of OpenMetrics.
pub(super) fn write(families: Vec<Family>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Reading(Mutex::new(families))));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string takes all that is written to it");
    text
}

/// One reading of all families. The lock only makes it `Sync`, as a collector must be.
#[derive(Debug)]
struct Reading(Mutex<Vec<Family>>);

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let families = self.0.lock().map_err(|_| fmt::Error)?;
        for family in families.iter().filter(|family| !family.samples.is_empty()) {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Info => MetricType::Info,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for (labels, value) in &family.samples {
                match family.kind {
                    Kind::Info => metric.encode_info(&labels.as_slice())?,
                    _ if labels.is_empty() => sample(&mut metric, family.kind, value)?,
                    _ => sample(&mut metric.encode_family(labels)?, family.kind, value)?,
                }
            }
        }
        Ok(())
    }
}

fn sample(metric: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => metric.encode_counter::<NoLabelSet, _, u64>(value, None),
        (Kind::Gauge, Value::Whole(value)) => metric.encode_gauge(value),
        (Kind::Gauge, Value::Number(value)) => metric.encode_gauge(value),
        (Kind::Histogram, Value::Classes(all)) => {
            let count = all.classes.iter().map(|class| class.1).sum();
            metric.encode_histogram::<NoLabelSet>(all.sum, count, &all.classes, None)
        }
        (kind, value) => unreachable!("no {kind:?} has the value {value:?}"),
    }
}
