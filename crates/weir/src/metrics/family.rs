//! A metric family: a name, a type, and samples with labels.

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Grows until it is cleared or the gateway ends.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Labels that describe the gateway.
    Info,
    /// Observations by class.
    Histogram,
}

impl Kind {
    /// The word of OpenMetrics.
    #[cfg(test)]
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Info => "info",
            Kind::Histogram => "histogram",
        }
    }
}

/// Observations by class.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Classes {
    /// The sum of all observations.
    pub(super) sum: f64,
    /// The greatest value of each class and its observations; the last class has no bound.
    pub(super) classes: Vec<(f64, u64)>,
}

/// The value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Of a counter or gauge.
    Whole(u64),
    /// Of a gauge.
    Number(f64),
    /// Of an info metric.
    None,
    /// Of a histogram.
    Classes(Classes),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value::Whole(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Value::Whole(value as u64)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Number(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Whole(value.into())
    }
}

/// Labels: names and values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A metric family.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family {
    /// The name, without the suffix of its type.
    pub(super) name: &'static str,
    /// Describes it in a sentence.
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    /// The names of the labels, joined by commas.
    labels: &'static str,
    pub(super) samples: Vec<(Labels, Value)>,
}

impl Family {
    /// A family whose samples have these labels, joined by commas.
    pub(super) fn new(kind: Kind, name: &'static str, labels: &'static str, help: &'static str) -> Family {
        Family { name, help, kind, labels, samples: Vec::new() }
    }

    /// Adds a sample; `values` are those of the labels, in their order.
    pub(super) fn with<'v>(mut self, values: impl IntoIterator<Item = &'v str>, value: impl Into<Value>) -> Family {
        self.push(values, value);
        self
    }

    /// Adds a sample; `values` are those of the labels, in their order.
    pub(super) fn push<'v>(&mut self, values: impl IntoIterator<Item = &'v str>, value: impl Into<Value>) {
        let names = self.labels.split(',').filter(|name| !name.is_empty());
        let labels: Labels = names.zip(values.into_iter().map(str::to_owned)).collect();
        debug_assert_eq!(labels.len(), self.labels.split(',').filter(|name| !name.is_empty()).count(), "{}", self.name);
        self.samples.push((labels, value.into()));
    }

    /// The name with the suffix of its type.
    #[cfg(test)]
    pub(super) fn full_name(&self) -> String {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{suffix}", self.name)
    }

    /// The names of the labels, joined by commas.
    #[cfg(test)]
    pub(super) fn labels(&self) -> &'static str {
        self.labels
    }
}

/// A family of a table: type, name, description, and the value of an object.
pub(super) type Column<T> = (Kind, &'static str, &'static str, fn(&T) -> Value);

/// Families of one kind of object, whose samples have the same labels.
pub(super) struct Table<T: 'static> {
    /// The names of the labels, joined by commas.
    pub(super) labels: &'static str,
    /// Name, description and value of each family.
    pub(super) columns: &'static [Column<T>],
}

impl<T> Table<T> {
    /// One family for each column, with a sample for each object. `labels` returns the values of an object's labels.
    pub(super) fn read<'t>(
        &self,
        objects: impl IntoIterator<Item = &'t T>,
        labels: impl Fn(&T) -> Vec<String>,
    ) -> Vec<Family>
    where
        T: 't,
    {
        let families = self.columns.iter().map(|&(kind, name, help, _)| Family::new(kind, name, self.labels, help));
        let mut families: Vec<_> = families.collect();
        for object in objects {
            let values = labels(object);
            for (family, (.., value)) in families.iter_mut().zip(self.columns) {
                family.push(values.iter().map(String::as_str), value(object));
            }
        }
        families
    }
}
