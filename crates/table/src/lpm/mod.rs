//! Longest-prefix match.
mod arch;
mod arena;
mod buddy;
mod hash;
pub mod indexed;
mod key;
mod limbo;
pub mod naive;
mod node;
mod rib;
pub mod sample;
pub mod soak;
mod table;
mod transaction;
mod trie;
mod writer;

pub use key::{AsKey, Key, NotAPrefix, Prefix};
pub use table::Table;
pub use transaction::Transaction;
pub use writer::{Full, Limits, NO_ROUTE, Stats, Value, Writer};
