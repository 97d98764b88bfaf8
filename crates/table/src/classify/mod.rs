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
//! [`Small`] is for lists that do not change and have up to some thousand rules. A [`Writer`] owns rules of any number and
//! changes a [`Table`], which workers read at the same time. [`naive`] is the specification. A table tells which fields had a
//! part in an answer ([`Consulted`]), and [`cover`] which rules of a list could be left out.
//!
//! # The tree
//! A **bits node** lets up to 12 bits of a packet, wherever they are, pick one of its slots. A rule is in every slot that
//! a packet of its may pick: in one if it decides all of these bits, in twice as many for each bit that it leaves open.
//! Rules that leave too many open are the node's **rest**, which every packet has to be looked up in as well. A **cut
//! node** does the same by 28 values of 16 bits of a packet, for what only ranges tell apart: rules that cover more than
//! four of its intervals are its rest. A **hash node** picks the slot by a hash of all bits that nearly all rules decide, for hosts
//! that differ in few bits of many. Slots and rests refer to other nodes or to leaves.
//!
//! A **leaf** has up to 8, 16 or 32 rules (IPv6: 16 or 32), each by a *key*: a value of up to 15 bits of a packet, which
//! of them the rule decides, and a range of one lane of 16 bits. Each leaf has the bits and the lane that part its rules
//! best. Two comparisons of vectors tell which keys a packet matches; those rules are compared as wholes, in their order.
//!
//! A **record** is a rule as a whole, once for all leaves that have it, in one cache line (IPv6: two): lanes of 16 bits, a
//! lower end and a span each; flags, protocol, and what a packet has at all are lanes of masks. Lanes say all of most
//! rules; for those with a DSCP, interfaces, or ranges of addresses that are no prefixes, the rest is looked at when lanes
//! match. Records compare all fields, so nodes and keys need not: what they let pass too much does no harm.
//!
//! A **long leaf** has up to 64 rules of IPv4 that neither bits nor values part, as lanes, four in a vector.
//!
//! Up to 16,384 rules that neither bits nor values part, as ranges that overlap each other, are a **dense leaf**: a [`Small`]
//! list outside of the arena. So are those of which many would be compared one after the other in what lanes do not show, as
//! interfaces. More of them are a chain of up to three such leaves, in the order of places, and what comes after the rule that was
//! found is not followed.
//!
//! # Bounds
//! Every node is made by one function of `tree`, which refuses one that is deeper than lookups have room for. Nodes part rules down to a
//! depth of 20; chains, and new rules before dense leaves, nest below. More rules that nothing parts than a chain holds are refused
//! ([`Error::Overlap`]).
//!
//! Where a lookup would take long, as far as the tree tells ([`Writer::worst`]), rules that an earlier rule *covers* are left out of the
//! tree (`shadow`): no packet gets to them. A rule that covers another is found as a packet is looked up: it leaves open what the other
//! leaves open, so it is in each slot that the other is in, or in the node's rest. In a dense leaf it matches both the lowest and the
//! highest values of the other. When it goes, those left out for it look for another that covers them, or come to the tree before it
//! goes: behind it, where no packet gets to them yet. It goes when all lookups that may have missed them are over. A rule that is left
//! out may have others left out for it in turn, so few rules of a tree cover any number.
//!
//! As rules come one by one, the tree is looked at each time that it has twice the rules, or half more where some are left out: only
//! those in the tree are looked at and built anew.
//!
//! # Which bits
//! `plan` estimates what a lookup costs for each of several choices. What made the estimates work is to count rules by
//! *kinds*: those that decide much of both addresses, of one, or of neither. Bits that part rules of one kind are open in
//! another, so a set of many kinds needs nodes for each, and it pays to part one kind well and leave the others to the rest.
//!
//! # The lookup
//! A vector of packets goes down together. The rests of the first nodes concern all packets: they are taken one after the
//! other, with their masks in registers. Below, what is to be looked at is kept in lists by the kind of block, so that
//! no branch depends on where a packet goes, and the loads of different packets overlap. A node knows the first place of
//! its rules, and is not followed by packets that have found an earlier one. What keys let pass is a list too: a round
//! compares each packet of it with one rule, and what is left after it waits for the next. A leaf for all packets needs no
//! list, and up to three rules of it no keys: one rule alone takes 5 ticks.
//!
//! From a MiB on, blocks and records are fetched ahead: then memory is what lookups wait for.
//!
//! # The update
//! A rule that comes or goes has its record, and rewrites the leaves it is in, at most 256, and each word that refers to one is
//! stored once. A leaf that is full is parted by a node; a node that has grown to four times its rules, or shrunk to a quarter,
//! is built anew, if there is room; else the rule comes without. All is planned aside first, so that what finds no room changes
//! nothing. Blocks lie in an arena as those of [`crate::lpm`] do, and are used again when all readers have passed.
//!
//! Plans are made from columns: for each bit of a packet, the rules that want it to be zero or one, as words of bits, and rules
//! are read from their records, not from where the writer keeps them whole.
//!
//! A rule that goes from a dense leaf is noted there as gone, in a word that lookups ask when its bit says that it matches; the leaf
//! is built anew when a quarter of its rules have gone. Rules that come to it are kept before it, in leaves of their own (a small dense
//! one, if packets would be compared with many of them in vain), and go
//! into it when they are a sixteenth of its rules (32, where it has up to 1,024): then up to 16,384 are built anew, in up to 40 milliseconds where two
//! fields have ranges, and 80 where four have.
//!
//! `docs/design/classify.md` lists what was tried instead, with figures.
//!
//! # How it is known to be right
//! Everything is held against [`naive`] and, in long runs, against an oracle that is: `cargo run --release -p weir-bench --bin
//! soak -- classify`, with a reader at work. `classify-figures` measures.

mod address;
mod arch;
mod asking;
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
pub use fields::{Fields, Fragment};
pub use rule::{Fragments, Masked, Rule, Span, Upper};
pub use small::{MOST_RULES, Small};
pub use table::Table;
pub use tree::Shape;
pub use writer::{Limits, Stats, Writer};
