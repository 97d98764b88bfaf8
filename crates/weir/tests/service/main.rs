//! The gateway as a service: its privileges, its notifications to the service manager, and its log. The real program
//! runs.
//!
//! Tests that need devices, other users or mounts of their own need root. Without it they fail, unless
//! `WEIR_TEST_UNPRIVILEGED=1` leaves them out. They make network and mount namespaces, which go with them.

mod classify;
mod doctor;
mod followed;
mod ipsec;
mod kit;
mod log;
mod nat;
mod notify;
mod privileges;
mod safe;
mod safety;
mod steer;
mod watch;
