//! Reports: plain values, printed as JSON or as text made from them. The two cannot disagree.

pub mod figure;
pub mod forward;
pub mod plot;
pub mod table;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Something that is shown, as text and as JSON.
pub trait Report: Serialize + DeserializeOwned {
    /// The name and version of its JSON.
    const SCHEMA: &'static str;

    /// As a person reads it: lines, each ended.
    fn text(&self) -> String;
}

/// Returns a report as one line of JSON, without the line's end.
pub fn json<T: Report>(report: &T) -> String {
    #[derive(Serialize)]
    struct Document<'a, T> {
        schema: &'static str,
        #[serde(flatten)]
        report: &'a T,
    }
    // Reports hold strings, finite numbers, lists and named fields; none of these can fail.
    serde_json::to_string(&Document { schema: T::SCHEMA, report }).expect("a report serialises")
}
