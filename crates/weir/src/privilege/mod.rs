//! The privileges of the process: the ones that it needs, and dropping the others.
//!
//! Packet sockets need CAP_NET_RAW; making and setting devices needs CAP_NET_ADMIN. Nothing here needs more: rings and
//! packet buffers are not locked memory (CAP_IPC_LOCK), and pinning one's own threads is free. A gateway that root starts
//! opens its ports, then drops every other capability and becomes another user, before there is a second thread:
//! capabilities and ids belong to threads, and later ones inherit them. The two stay, so that a reload can open ports.

mod account;
mod drop;
mod need;

pub use account::{Account, AccountError};
pub use drop::{DropError, Dropped, drop};
pub use need::{Missing, missing};
