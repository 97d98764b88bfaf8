//! Masks and sessions of classifier tables.
//!
//! ```text
//! mask    = "l2" ( hex | { "dst" [ "/" bits ] | "src" [ "/" bits ] | "ethertype" } )
//!         | "l3" ( hex | "ip4" fields | "ip6" fields )
//!         | "l4" ( hex | { "sport" | "dport" } )
//!         | "meta" ( hex | { "mark" | "interface" | "vrf" } )
//! fields  = { "src" [ "/" bits ] | "dst" [ "/" bits ] | "proto" | "dscp" | "ttl" | "length" | "flow-label" | "sport" | "dport" }
//! hex     = "hex" digits
//! session = value ( "deny" | "permit" { option } ) [ "sample" name [ "one-in" n ] ] [ "opaque" n ]
//! value   = "hex" digits | each field of the mask once, and its value
//! option  = "vrf" name | "mark" n | "via" [ address ] [ "on" interface ] [ "weight" n ] | "limit" rate [ "burst" amount ]
//! ```
//!
//! Ports of IP headers stand behind a header without options, in a first fragment: a mask with `sport` or `dport` has the octets
//! that say so, and needs `proto`. Sessions print in these words, and what is printed reads back as the same session.

mod field;
mod mask;
mod session;
#[cfg(test)]
mod tests;

pub use mask::{Mask, parse as parse_mask};
pub(in crate::rules) use mask::{hex, write_hex};
pub use session::{Session, Via, parse as parse_session, parse_value, written};
