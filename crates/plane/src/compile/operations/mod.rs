//! Operations of the compiler beside new versions of a model: edits, decisions, counts and what to clear.

mod acl;
mod allow;
mod bindings;
mod classify;
mod ipsec;
mod routes;
mod sav;
