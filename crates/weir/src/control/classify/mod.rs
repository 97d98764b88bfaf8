//! Sessions of classifier tables that come and go by the control socket. A session is known by its value: a live session takes the
//! place of the configuration's one with the same value, and a removal takes one away.

mod action;
mod edited;

pub(crate) use edited::Tables;
