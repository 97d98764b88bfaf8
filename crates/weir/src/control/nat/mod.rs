//! Lists of NAT rules that change by the control socket.

mod edited;
mod lists;
mod said;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use lists::{Lists, Put, summary};
pub(crate) use said::Said;
