//! Packet classification: finds the first of many rules on several fields that matches a packet.
//!
//! A [`Rule`] has conditions on addresses, ports, protocol, type and code of ICMP, TCP flags, kinds of fragments, DSCP
//! and interfaces; [`Fields`] are those of a packet. The answer is the *identity* that the caller gave to the rule, or
//! [`NO_RULE`].
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
//! [`Small`] is for fixed lists of up to some thousand rules. A [`Writer`] owns any number of rules and changes a
//! [`Table`], which workers read concurrently. [`naive`] is the reference implementation. A table reports the fields
//! that an answer depends on ([`Consulted`]), and [`cover`] finds rules of a list that can be removed.
//!
//! # The tree
//! A **bits node** selects one of its slots by up to 12 bits of a packet. A rule is in every slot that its packets may
//! select: in one if it decides all of these bits, in twice as many for each open bit. Rules with too many open bits
//! are in the node's **wildcard list**, which every packet is looked up in, too. A **cut node** selects by 28 values of
//! a 16-bit lane, for rules that only ranges separate: rules that cover more than four of its intervals are in its
//! wildcard list. A **hash node** selects by a hash of all bits that nearly all rules decide, for hosts that differ in
//! few bits of many. Slots and wildcard lists refer to other nodes or to leaves.
//!
//! A **leaf** has up to 8, 16 or 32 rules (IPv6: 16 or 32), each with a *key*: a value of up to 15 bits of a packet,
//! the bits of it that the rule decides, and a range of one 16-bit lane. Each leaf uses the bits and the lane that
//! separate its rules best. Two vector comparisons give the keys that a packet matches; their rules are compared as a
//! whole, in order.
//!
//! A **record** is a whole rule, shared by all of its leaves, in one cache line (IPv6: two). It has 16-bit lanes, each
//! with a lower end and a span; flags, protocol, and the existence of headers are mask lanes. Lanes represent most
//! rules. Rules with a DSCP, interfaces, or address ranges other than prefixes have further fields, which are compared
//! when the lanes match. Records compare all fields, so nodes and keys may let too many packets pass.
//!
//! A **long leaf** has up to 64 rules of IPv4 that neither bits nor values separate, as lanes, four in a vector.
//!
//! A **bit-vector leaf** has up to 16,384 rules that neither bits nor values separate, such as overlapping ranges: a
//! [`Small`] list outside of the arena. It also serves rules of which many would be compared one after the other in
//! fields without lanes, such as interfaces. More rules form a chain of up to three such leaves, in the order of
//! places; a lookup stops behind the found rule.
//!
//! # Bounds
//! One function of `tree` creates all nodes and refuses nodes that are deeper than lookups support. Nodes separate
//! rules down to a depth of 20; chains, and new rules before bit-vector leaves, nest below. Rules that nothing
//! separates, beyond the size of a chain, are refused ([`Error::Overlap`]).
//!
//! If the tree predicts slow lookups ([`Writer::worst`]), it omits rules that an earlier rule *covers* (`shadow`): no
//! packet reaches them. The covering rule is found like a packet: its open bits include those of the covered rule, so
//! it is in each slot of that rule, or in the wildcard list. In a bit-vector leaf it matches both the lowest and the
//! highest values of the covered rule. Before the covering rule is removed, its covered rules get another cover or
//! enter the tree behind it, where no packet reaches them yet. It is removed after all lookups that may have missed
//! them. A covered rule may cover others in turn, so few rules of a tree cover any number.
//!
//! With rules inserted one by one, the tree is checked when it has doubled, or grown by half if it omits some: only its
//! own rules are checked and rebuilt.
//!
//! # Which bits
//! `plan` estimates the cost of a lookup for several selections. The estimates became useful with the counts of rules
//! by *kinds*: rules that decide much of both addresses, of one, or of neither. Bits that separate one kind are open in
//! another. So a set of many kinds needs nodes for each, and it pays to separate one kind well and leave the others to
//! the wildcard list.
//!
//! # The lookup
//! A vector of packets descends together. The wildcard lists of the first nodes concern all packets: they are searched
//! one after the other, with their masks in registers. Below, lists by the kind of block hold the references to follow,
//! so that no branch depends on the path of a packet and the loads of different packets overlap. A node has the first
//! place of its rules; packets with an earlier match skip it. Candidates of keys form a list, too: a round compares
//! each of its packets with one rule and leaves the rest to the next. A leaf for all packets needs no list, and its
//! first three rules no keys: a single rule takes 5 ticks.
//!
//! Above a MiB, lookups prefetch blocks and records, because they wait for memory.
//!
//! # The update
//! An insertion or removal writes the record and rewrites the leaves of the rule, at most 256; each reference is stored
//! once. A node separates the rules of a full leaf. A node that has grown to four times its rules, or shrunk to a
//! quarter, is rebuilt if there is room. Everything is planned first, so a lack of room changes nothing. Blocks lie in
//! an arena as those of [`crate::lpm`], and are reused when all readers have passed.
//!
//! Plans use columns: for each bit of a packet, the rules that require 0 or 1, as words of bits. Rules are read from
//! their records, not from the copies of the writer.
//!
//! A removal from a bit-vector leaf marks the rule in a word that lookups read after a match; the leaf is rebuilt when
//! a quarter of its rules were removed. New rules of the leaf are kept before it, in leaves of their own (a small
//! bit-vector leaf, if packets would be compared with many in vain). They enter it when they are a sixteenth of its
//! rules (32 for up to 1,024 rules). Then up to 16,384 rules are rebuilt, in up to 40 milliseconds with ranges in two
//! fields, and 80 with ranges in four.
//!
//! `docs/design/classify.md` lists what was tried instead, with figures.
//!
//! # How it is known to be right
//! Everything is held against [`naive`] and, in long runs, against an oracle that is: `cargo run --release -p weir-bench --bin
//! soak -- classify`, with a reader at work. `classify-figures` measures.

mod address;
mod arch;
mod block;
pub mod classbench;
mod columns;
mod consulted;
pub mod cover;
mod dense;
mod ends;
mod error;
mod facts;
mod family;
mod fields;
mod hashed;
mod leaf;
pub mod naive;
mod outside;
mod plan;
mod rule;
pub mod sample;
mod shadow;
mod small;
mod table;
mod tree;
mod writer;

pub use address::Address;
pub use consulted::Consulted;
pub use error::{Error, NO_RULE};
pub use fields::{Fields, Fragment, MOST_MARK};
pub use rule::{Fragments, Masked, Rule, Span, Upper};
pub use small::{MOST_RULES, Small};
pub use table::Table;
pub use tree::Shape;
pub use writer::{Limits, Stats, Writer};
