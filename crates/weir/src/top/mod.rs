//! `weir top`: a live screen of a running gateway. Everything comes from the control socket; rates are differences of two
//! readings.
//!
//! `reading` reads, `tables` turn two readings into `table::Table`s, `app` handles keys, `draw` draws, and `screen`
//! has the terminal. All but the first and the last are without I/O.

mod app;
mod draw;
mod pair;
mod reading;
pub mod screen;
mod table;
mod tables;
#[cfg(test)]
mod tests;
pub mod view;
