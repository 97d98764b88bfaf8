//! Tunnels: the headers in front of an inner packet, and what a packet of a tunnel carries. VXLAN (RFC 7348), Geneve (RFC 8926),
//! GUE (draft-ietf-intarea-gue), GRE (RFC 2784, 2890), and IP in IP (RFC 2003, 2473, 4213).

mod kind;
mod outer;
mod read;

pub use kind::{Carrier, Id, Inner};
pub use outer::{Marks, Outer, Shape, complete_gre, complete_udp};
pub use read::{Opened, Refused, is_intact_gre, read};
