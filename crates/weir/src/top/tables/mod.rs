//! The tables of the screen, each made of two readings.

pub(super) mod drops;
pub(super) mod flows;
pub(super) mod interfaces;
pub(super) mod invalid;
pub(super) mod nodes;
pub(super) mod rules;
pub(super) mod sources;
