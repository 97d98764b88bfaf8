//! System interfaces without a safe wrapper: the only `unsafe` of this crate, each behind a safe function.

#![allow(unsafe_code)]

pub(crate) mod bpf;
pub(crate) mod ethtool;
pub(crate) mod packet_ring;
pub(crate) mod packet_socket;
pub(crate) mod tun;
