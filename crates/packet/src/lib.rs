//! Packets: buffers, vectors, metadata and offload state; wire formats, parsing, checksums and what is built of them.
//!
//! No I/O. `unsafe` is confined to [`buffer`], [`packet`] and the calls of wide sums of [`checksum`].

pub mod buffer;
pub mod checksum;
pub mod delivery;
pub mod esp;
pub mod fragment;
pub mod icmp;
pub mod identify;
pub mod inner;
pub mod merge;
pub mod mss;
pub mod npt;
pub mod offload;
pub mod packet;
pub mod parse;
pub mod reassembly;
pub mod reset;
pub mod segment;
pub mod text;
pub mod translate;
pub mod tunnel;
pub mod vector;
pub mod wire;
