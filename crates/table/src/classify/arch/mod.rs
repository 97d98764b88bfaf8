//! The lookup bodies, and the selection of one for this CPU.
//!
//! A vector of packets descends together. Lists, one for each kind of block, hold references with their packets. A pass
//! takes nodes from their list and follows each to the slot that the packet selects and to the wildcard list of the
//! node. It sorts these references into the lists by kind, without branches, which would be unpredictable. Leaves are
//! searched between passes, so nodes whose first rule comes after a found rule need not be followed.

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
