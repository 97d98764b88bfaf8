//! The graph on the calling thread, without ports.

mod listings;
mod outcome;
mod packets;
mod protection;
mod rings;
mod stepped;
mod validation;
mod workers;

pub use crate::engine::answers::Answer;
pub use outcome::{Directed, Filtered, Outcome, Piece, RouteTaken, Secured, Tunnelled, Unlisted, Verdict};
pub use protection::Protection;
pub use stepped::{Harness, HarnessError, Options};
pub use validation::{Routes, Unvalidated, Validated};
