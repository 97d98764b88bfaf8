//! Routes of the kernel, and of programs that speak its language: messages of rtnetlink about routes, next hop objects
//! and links.
//!
//! [`updates`] reads messages, from the kernel or from a forwarding plane manager. [`Monitor`] subscribes to the kernel's
//! changes, and [`dump()`] lists what there is. Both need no privileges.
//! [`Frames`] cuts the stream of a forwarding plane manager into messages.

mod attributes;
mod dump;
mod fpm;
mod message;
mod monitor;

pub use dump::dump;
pub use fpm::{FrameError, Frames, LONGEST};
pub use message::{Defect, Nexthop, Path, Route, RouteKind, Update, updates};
pub use monitor::{Monitor, Seen};
