//! What cannot be asked of the system in safe code: the only `unsafe` of this crate, each behind a safe function.

#![allow(unsafe_code)]

pub(crate) mod bpf;
pub(crate) mod packet_ring;
pub(crate) mod packet_socket;
pub(crate) mod tun;
