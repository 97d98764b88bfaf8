//! Lines of the configuration, as explanations quote them.

use serde::Serialize;
use weir_plane::model::Place;

/// A line of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// `FILE:LINE`.
    pub place: String,
    /// Its text.
    pub text: String,
}

/// Quotes the line at a place.
pub(super) fn line(place: Place) -> Line {
    Line { place: place.to_string(), text: place.text.to_string() }
}
