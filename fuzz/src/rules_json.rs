//! Rules as JSON: whatever the text, an answer within it; what is read prints back.

use weir::rules::Format;

use crate::check;

/// The target.
pub(crate) fn fuzz(text: &[u8]) {
    check::holds(Format::Json, text);
}
