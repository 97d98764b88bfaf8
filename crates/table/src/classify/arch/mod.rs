//! The lookup bodies, and which of them this CPU runs.
//!
//! A vector of packets goes down together. What is still to be looked at is kept in lists, one for each kind of block, of
//! references and the packets that they are for. A pass takes some of the nodes off their list and finds where each leads:
//! to the slot that the packet picks, and to the node's rest. Then these are sorted into the lists by their kinds, without
//! branches, since which kind it is no predictor can know. Leaves are searched between passes, so that nodes whose first
//! rule comes after what has been found already need not be followed.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
mod lists;
mod lookup;
mod portable;
mod view;

#[cfg(target_arch = "x86_64")]
pub(super) use self::avx512::Avx512;
#[cfg(target_arch = "x86_64")]
pub(super) use self::isa::has_avx512;
pub(super) use self::isa::{Extract, Isa};
#[cfg(test)]
pub(super) use self::lookup::bodies;
pub(super) use self::lookup::lookup;
pub(super) use self::portable::Portable;
pub(super) use self::view::View;
