//! Packet I/O behind one trait.
//!
//! A [`Port`] receives and transmits the packets of an interface: a kernel device, a generator, a capture file or
//! nothing. The control thread opens it and distributes its queues. Each worker owns the receive queues that it polls
//! and one transmit queue per port, so the data path takes no lock. Middleware ([`fault`], [`capture`]) wraps the
//! queues of a port.
//!
//! ```
//! use weir_base::clock::Time;
//! use weir_packet::buffer::{Pool, PoolSize};
//! use weir_packet::vector::Vector;
//! use weir_port::spec::*;
//! use weir_port::{Burst, Context, open};
//!
//! let template = TemplateSpec {
//!     source: ("10.0.0.1".parse()?, "10.0.255.254".parse()?),
//!     destination: ("192.0.2.1".parse()?, "192.0.2.1".parse()?),
//!     protocol: Transport::Udp,
//!     source_port: (1024, 65535),
//!     destination_port: (53, 53),
//!     size: SizeSpec::Imix,
//!     flows: 10_000,
//!     ttl: 64,
//!     dont_fragment: true,
//!     vlan: vec![],
//!     source_mac: None,
//!     destination_mac: None,
//!     seed: 1,
//! };
//! let stream = StreamSpec { source: StreamSource::Template(template), rate: Some(1_000_000), count: None };
//! let spec = PortSpec::Generator(GeneratorSpec { streams: vec![stream] });
//! let pool = Pool::new(PoolSize { small: 512, large: 0 })?;
//! let context = Context { name: "lan".into(), mac: [2, 0, 0, 0, 0, 1], max_frame: 1514, pool: pool.clone() };
//! let mut port = open(&spec, &Middleware::default(), 1, &context)?;
//! let mut queue = port.receivers().remove(0);
//!
//! let mut cache = pool.cache();
//! let mut vector = Vector::new();
//! assert_eq!(queue.receive(&mut vector, &mut cache, Time(0)), Burst::Idle);
//! assert_eq!(vector.len(), 1, "the first packet is due at once");
//! assert_eq!(queue.receive(&mut vector, &mut cache, Time(50_000)), Burst::Idle);
//! assert_eq!(vector.len(), 51, "50 more in 50 µs");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod af_packet;
mod capabilities;
pub mod capture;
mod claim;
mod context;
mod counters;
mod error;
mod failure;
pub mod fault;
pub mod generator;
mod kernel;
pub mod links;
pub mod live_frames;
mod null;
mod open;
mod outcome;
pub mod pcap;
mod port;
pub mod routes;
pub mod spec;
mod sys;
mod tap;
mod virtio;
mod wrapped;

pub use af_packet::AfPacketError;
pub use capabilities::{Capabilities, Checksums, Filters, Offloads, Segmentation};
pub use claim::{Holder, holder};
pub use context::Context;
pub use counters::{FaultCounters, PortCounters, count};
pub use error::OpenError;
pub use failure::Failure;
pub use kernel::segments_udp;
pub use open::open;
pub use outcome::Outcome;
pub use port::{Burst, Creator, HostSide, Link, Port, Readiness, Receiver, Transmitter};
pub use tap::{Mode as TapMode, TapError};
