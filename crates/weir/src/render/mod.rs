//! Everything that weir shows of a running gateway: each report is one plain value, taken from a snapshot by the gateway,
//! carried as JSON over the control socket, and printed as that JSON or as text made from it. The two cannot disagree.

pub mod acl;
pub mod alarms;
pub mod allowlist_changed;
pub mod allowlists;
pub mod binding_changed;
pub mod bindings;
pub mod bridges;
pub mod buffers;
pub mod captures;
pub mod changes;
pub mod classify;
pub mod classify_changed;
mod conntrack;
pub mod crypto;
pub mod diff;
pub mod errors;
pub mod ethertypes;
pub mod event;
pub mod flows;
pub mod history;
pub mod interfaces;
pub mod ipsec_changed;
pub mod live;
pub mod matched;
pub mod nat;
pub mod nat_changed;
pub mod nat_users;
pub mod nat_vrfs;
pub mod neighbors;
pub mod number;
pub mod preview;
pub mod reloaded;
pub mod remark;
pub mod route_to;
pub mod routes;
pub mod runtime;
pub mod samplers;
pub mod sas;
pub mod sav;
pub mod saved;
pub mod spd;
pub mod steer;
pub mod steer_changed;
pub mod sum;
pub mod summary;
pub mod table;
pub mod tables;
pub mod time;
pub mod trace;
pub mod translations;
pub mod tunnels;
pub mod version;

#[cfg(test)]
mod agreement;
#[cfg(test)]
pub(crate) mod sample;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Something that is shown, as text and as JSON.
pub trait Report: Serialize + DeserializeOwned {
    /// The name and version of its JSON.
    const SCHEMA: &'static str;

    /// As a person reads it: lines, each ended.
    fn text(&self) -> String;
}

/// A report with its schema, as it stands in JSON.
#[derive(Debug, Serialize)]
struct Document<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    report: &'a T,
}

/// Just the schema of a document.
#[derive(Debug, Deserialize)]
struct Schema {
    schema: String,
}

/// A report as one line of JSON, without the line's end.
pub fn json<T: Report>(report: &T) -> String {
    // Reports hold strings, finite numbers, lists and named fields; none of these can fail.
    serde_json::to_string(&Document { schema: T::SCHEMA, report }).expect("a report serialises")
}

/// JSON that is not the expected report.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or a field is missing or of the wrong type.
    #[error("not a report: {0}")]
    Json(#[from] serde_json::Error),
    /// Another schema, or another version of it.
    #[error("the answer has schema `{found}`, and this is a weir that reads `{expected}`")]
    Schema {
        /// The schema that was found.
        found: String,
        /// The expected schema.
        expected: &'static str,
    },
}

/// Reads a report back from its JSON.
///
/// # Errors
/// When the text is not JSON, or is another report.
pub fn read<T: Report>(json: &str) -> Result<T, ReadError> {
    let Schema { schema } = serde_json::from_str(json)?;
    if schema != T::SCHEMA {
        return Err(ReadError::Schema { found: schema, expected: T::SCHEMA });
    }
    Ok(serde_json::from_str(json)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_schema_is_refused_by_name() {
        let json = json(&buffers::Buffers::new(&sample::snapshot()));
        let error = read::<tables::Tables>(&json).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the answer has schema `weir.show.buffers/1`, and this is a weir that reads `weir.show.tables/1`"
        );
        assert!(read::<tables::Tables>("{").is_err());
    }
}
