//! Packet classification: which of many rules on several fields is the first that matches a packet?
//!
//! A [`Rule`] asks for ranges of addresses and ports, a protocol, type and code of ICMP, flags of TCP, kinds of fragments,
//! a DSCP and interfaces; [`Fields`] are what a packet has of these. The answer is a number that the caller gave to the
//! rule, its *identity*, or [`NO_RULE`].
//!
//! ```
//! use weir_table::classify::{Fields, NO_RULE, Rule, Small, Span, Upper};
//! use weir_table::lpm::Prefix;
//!
//! let inside: Prefix<u32> = "10.0.0.0/8".parse().unwrap();
//! let web = Rule {
//!     destination: inside.into(),
//!     protocol: Some(6),
//!     upper: Upper::Ports { source: Span::<u16>::ALL, destination: Span::only(443) },
//!     ..Rule::any()
//! };
//! let rules = Small::build([(&web, 7)]).unwrap();
//! let packet = Fields::new(0xc000_0201, 0x0a00_0001, 6);
//! let mut found = [0; 2];
//! rules.lookup_each(&[packet.with_ports(50_000, 443), packet.with_ports(50_000, 80)], &mut found);
//! assert_eq!(found, [7, NO_RULE]);
//! ```
//!
//! [`Small`] is for lists that do not change and have up to some thousand rules. [`naive`] is the specification.

mod address;
mod arch;
mod block;
mod dense;
mod facts;
mod fields;
pub mod naive;
mod plan;
mod rule;
pub mod sample;
mod small;
pub mod soak;
mod table;
mod tree;
mod writer;

pub use address::Address;
pub use fields::{Fields, Fragment};
pub use rule::{Fragments, Masked, Rule, Span, Upper};
pub use small::{MOST_RULES, Small};
pub use table::Table;
pub use writer::{Limits, Stats, Writer};

/// The answer if no rule matches. No rule can have it as its identity.
pub const NO_RULE: u32 = u32::MAX;

/// Why rules are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are more than there is room for.
    #[error("{rules} rules are more than the {most} that there is room for")]
    TooManyRules {
        /// How many there are, or were to be.
        rules: usize,
        /// How many there can be.
        most: usize,
    },
    /// A rule has the identity [`NO_RULE`].
    #[error("the rule at place {place} has the identity that stands for no rule")]
    ReservedIdentity {
        /// Its place.
        place: u64,
    },
    /// There is a rule at a place already; the last of all places is nobody's.
    #[error("place {place} is taken")]
    PlaceTaken {
        /// The place.
        place: u64,
    },
    /// What lookups read has no room for more.
    #[error("the {octets} octets that rules may take have no room for more than the {rules} there are")]
    Full {
        /// How many octets there may be.
        octets: usize,
        /// How many rules there are.
        rules: usize,
    },
    /// The system has no address space.
    #[error("no address space for rules: {0}")]
    AddressSpace(std::io::ErrorKind),
}
