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
//! # What was tried
//! Ticks per lookup of packets that match random rules, 65,536 of them, medians on a machine that others used (AMD family
//! 26, model 2; 2.6 GHz); in parentheses what a packet visits on average: nodes and leaves. `rte_acl` is DPDK 22.11's with
//! AVX-512 by 32, in the same runs.
//!
//! | structure | acl1, 1074 rules | fw1, 1008 | ipc1, 1032 | acl1, 8589 | fw1, 15111 | ipc1, 15469 |
//! |---|---|---|---|---|---|---|
//! | vectors of bits ([`Small`]), as first written | 290 | – | – | – | – | – |
//! | the same, eight searches at a time | 95 | 94 | 98 | – | – | – |
//! | tuples merged by hashing prefixes of both addresses, protocol and ports, greedily; cuts of 16 values for the rest | 85 to 94 (3.8) | above 150 (5) | – | above 200 (6) | above 3500 (36) | above 3300 (24) |
//! | bits that pick slots in place of hashes, 7 of them, few copies | 63 (2.8) | – | 80 (3.0) | – | – | – |
//! | … up to 12 bits, up to 256 copies | 62 (3.7) | 80 (4.5) | 92 (4.6) | 125 (6.4) | 710 (17) | 340 (14) |
//! | … without a mask register that was set for each group, which chained lookups to each other | 51 | 73 | 79 | 109 | – | – |
//! | … without branches where a rule may match | 40 | 50 | 52 | 92 | 530 | 340 |
//! | … estimates by kinds of rules | 44 (3.9) | 44 (3.9) | 52 (4.9) | 100 (6.8) | 210 (10) | 160 (9.4) |
//! | … cuts of 28 values by one comparison | 40 | 43 | 49 | 83 | 139 | 112 |
//! | … first nodes in registers | 38 | 41 | 47 | 70 | 131 | 108 |
//! | … the same with up to 2^8 copies at each node, which takes 3 to 20 times the memory | 34 | 38 | 46 | 80 | 500 | 270 |
//! | … with fetching lines of children ahead | 48 | 52 | 59 | 115 | 200 | 155 |
//! | … as the last row but two | 36 | 42 | 46 | 64 | 145 | 104 |
//! | … keys and records in place of lanes, one packet after the other | 48 | 56 | 69 | 85 | 283 | 237 |
//! | … keys of all packets first, then records, without branches | 34 | 37 | 52 | 58 | 134 | 130 |
//! | … what is left in rounds; a leaf for all packets without lists | 30 | 33 | 41 | 54 | 116 | 101 |
//! | … estimates of 0.1 to 0.5 ticks for a copy | 30 to 33 | 33 to 35 | 41 | 58 to 64 | 156 to 173 | 128 to 133 |
//! | … lists of all first nodes together | 40 | 40 | 52 | – | 138 | 119 |
//! | what is built now: fetching ahead from a MiB on, a last leaf of few rules without keys | 29 to 31 | 34 to 36 | 37 | 58 | 124 | 106 |
//! | rte_acl | 42 | 47 | 43 | 50 to 65 | 286 to 370 | 72 to 128 |
//!
//! Leaves above the row of keys and records had 4, 8 and 20 rules, with copies of all that is compared. Figures from that
//! row on are the least of some runs, as the machine was busier: programs took up to 1.4 times as long in other minutes.
//!
//! Since then nodes of both kinds have one list: two could overflow. That takes up to 8 % more in sets with nodes that cut, as a
//! pass tells both apart by a vector; by a branch for each node it took 40 to 90 % more.
//!
//! Adds take 0.4 to 2 µs on average in most sets, with all that is built anew; 99 % of 10^5 less than 1 to 12 µs, with a reader on
//! the other of two CPUs and nothing else running. 50,000 rules are loaded in 45 to 190 ms. Both took two to three times as long
//! when the planner looked at one bit of one rule after the other, and rules were read from where the writer keeps them whole.
//! BENCHMARKING.md has all sets.
//! Rules take 95 to 340 octets for lookups; where nothing parts them, up to 0.6 KiB by ranges in two fields, 1.2 KiB by ranges in
//! four, and 2 KiB by all fields.
//!
//! Sets made to be hard, of 10,000 rules, of IPv4 and of IPv6: packets that match / that are the slowest of 4,096; the least of 50
//! turns, each structure in turn with the others, on a machine that others used.
//!
//! | dense leaves | ranges of ports | nested ones | ranges of addresses | a rule goes | 99 % of adds |
//! |---|---|---|---|---|---|
//! | of 1,024 rules, in a chain, each with a binary search of its own for each field | 214 / 540, 242 / 693 | 396 / 633, 403 / 823 | 170 / 206, 805 / 174 | 1.9 to 5.7 ms | 1.0 to 2.0 ms |
//! | what is built now: of up to 16,384, one search of lines of ends, parts of rows stored once, empty ones passed over | 66 / 67, 71 / 70 | 69 / 58, 71 / 60 | 75 / 70, 101 / 103 | 0.8 to 1.0 µs | 0.1 to 0.3 ms |
//!
//! They take 0.25 to 0.8 KiB a rule, less than before. Adds take as long on average (20 to 55 µs), as what is built anew is larger and
//! is so less often. Prefixes of all pairs of lengths take 110 (IPv6: 65). Nodes were left to be chosen as before: a dense leaf at
//! half its estimated cost changed next to nothing, and one that is chosen whenever the estimate of nodes is above 60 ticks made
//! 1,000 rules like firewalls 3 times as slow, as the estimates of nodes are too high there. What is left of hard cases are 10,000
//! rules like firewalls, at 7 times the usual for the slowest packets (230 ticks, IPv6: 350): leaves whose keys let many rules pass,
//! which are compared one after the other. Dense leaves in place of those where 16 pass on average took IPv6 from 330 to 170 for any
//! packets, and matching ones from 83 to 104 (IPv6: 79 to 95), so it was left.
//!
//! Hashing lost because rules whose prefixes are of all lengths need a table for each pair of lengths, and every packet
//! has to look into most of them. More kinds of rules to choose bits for (by other lengths) gained nothing.
//!
//! # How it is known to be right
//! Everything is held against [`naive`] and, in long runs, against an oracle that is ([`soak`]): `cargo run --release -p
//! weir-table --bin classify-soak`, with a reader at work. `classify-figures` measures.

mod address;
pub mod alike;
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
pub mod soak;
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
