//! Pairs of SAs and rules of SPDs that change by the control socket.
//!
//! A change is read as the files of the configuration are, with the same checks, and changes its object in the model in force. No
//! file but key files is read for it. A reload lays all live changes over the files: it cannot drop one unnoticed, and is refused
//! if they do not fit the files any more.

mod edit;
mod live;
pub(crate) mod model;
mod saved;
#[cfg(test)]
mod tests;

pub use edit::{SaAction, SaEdit, SpdEdit};
pub(crate) use live::Live;
