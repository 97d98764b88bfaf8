//! Pairs of SAs and rules of SPDs that change by the control socket.
//!
//! Changes lie over the files of the configuration: each change reads the configuration again, with all live changes, as a reload
//! does. So live pairs and rules pass the checks of the configuration, and a reload cannot drop them unnoticed: it is refused if
//! they do not fit the files any more.

mod edit;
mod live;
mod saved;
#[cfg(test)]
mod tests;

pub use edit::{SaAction, SaEdit, SpdEdit};
pub(crate) use live::Live;
