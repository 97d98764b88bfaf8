//! Reason why a stream is invalid.

use std::path::PathBuf;

use crate::pcap::CaptureError;

/// Reason why a stream is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Source and destination are not all IPv4 or all IPv6.
    #[error("source and destination must be of one address family")]
    Families,
    /// A range ends before it starts.
    #[error("the range of `{range}` ends before it starts")]
    Reversed {
        /// The field.
        range: &'static str,
    },
    /// The headers alone are longer than the frame.
    #[error("frames of {size} octets are too short for their headers, which take {least}")]
    TooShort {
        /// The requested length.
        size: u32,
        /// The smallest possible length.
        least: u32,
    },
    /// The frame is too long to be made or sent.
    #[error("frames of {size} octets are too long, at most {most} are possible here")]
    TooLong {
        /// The requested length.
        size: u32,
        /// The largest possible value.
        most: usize,
    },
    /// The number of flows is out of range.
    #[error("{flows} flows, where 1 to {most} are possible")]
    Flows {
        /// The requested number.
        flows: u32,
        /// The largest possible value.
        most: u32,
    },
    /// More than two VLAN tags.
    #[error("{count} VLAN tags, where at most two are possible")]
    Tags {
        /// The requested number.
        count: usize,
    },
    /// No VLAN has this number.
    #[error("there is no VLAN {id}: the largest number is 4094")]
    VlanId {
        /// The requested number.
        id: u16,
    },
    /// The rate is 0.
    #[error("a rate of 0 packets per second never sends anything")]
    Rate,
    /// The capture cannot be read, or holds no packets to repeat.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The capture does not fit into memory.
    #[error("{}: more than {most} octets of packets, too many to repeat from memory", path.display())]
    CaptureTooLarge {
        /// The file.
        path: PathBuf,
        /// The largest possible value.
        most: usize,
    },
    /// A packet of the capture is longer than the interface's frames.
    #[error("{}: packet {record} is longer than {most} octets, the longest frame here", path.display())]
    FrameTooLong {
        /// The file.
        path: PathBuf,
        /// Number of the packet, from 1.
        record: u64,
        /// The largest possible value.
        most: usize,
    },
}
