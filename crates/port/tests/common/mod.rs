//! Common parts of the tests of ports.

#![allow(dead_code, reason = "each test uses some of it")]

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use weir_base::clock::Time;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::vector::Vector;
use weir_port::spec::*;
use weir_port::{Burst, Context, Port, Receiver};

/// A pool of buffers.
pub(crate) fn pool() -> Pool {
    Pool::new(PoolSize { small: 2048, large: 16 }).unwrap()
}

/// A stock of buffers.
pub(crate) fn cache() -> Cache {
    pool().cache()
}

/// An interface.
pub(crate) fn context() -> Context {
    Context { name: "wan".into(), mac: [2, 0, 0, 0, 0, 1], max_frame: 65_557, pool: pool() }
}

/// Opens a port without middleware.
pub(crate) fn open(spec: &PortSpec, queues: u16) -> Box<dyn Port> {
    weir_port::open(spec, &Middleware::default(), queues, &context()).unwrap()
}

/// UDP over IPv4, 64 octets, 100 flows.
pub(crate) fn template() -> TemplateSpec {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    TemplateSpec {
        source: (address("10.0.0.0"), address("10.0.255.255")),
        destination: (address("192.0.2.1"), address("192.0.2.200")),
        protocol: Transport::Udp,
        source_port: (1024, 65535),
        destination_port: (53, 60),
        size: SizeSpec::Fixed(64),
        flows: 100,
        ttl: 64,
        dont_fragment: true,
        vlan: Vec::new(),
        source_mac: None,
        destination_mac: None,
        seed: 1,
    }
}

/// The same over IPv6, 78 octets.
pub(crate) fn template_v6() -> TemplateSpec {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    TemplateSpec {
        source: (address("2001:db8::"), address("2001:db8::ffff:ffff")),
        destination: (address("2001:db8:1::"), address("2001:db8:ffff:ffff::")),
        size: SizeSpec::Fixed(78),
        ..template()
    }
}

/// One stream of a template.
pub(crate) fn stream(template: TemplateSpec, rate: Option<u64>, count: Option<u64>) -> StreamSpec {
    StreamSpec { source: StreamSource::Template(template), rate, count }
}

/// A generator.
pub(crate) fn generator(streams: impl Into<Vec<StreamSpec>>) -> PortSpec {
    PortSpec::Generator(GeneratorSpec { streams: streams.into() })
}

/// A packet as it was received.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Got {
    pub(crate) time: Time,
    pub(crate) frame: Vec<u8>,
}

/// One burst.
pub(crate) fn burst(queue: &mut dyn Receiver, cache: &mut Cache, now: Time) -> (Vec<Got>, Burst) {
    let mut vector = Vector::new();
    let burst = queue.receive(&mut vector, cache, now);
    let packets = vector.filled().iter_mut().map(|packet| {
        let got = Got { time: packet.time().unwrap_or(now), frame: packet.data().to_vec() };
        packet.recycle(cache);
        got
    });
    (packets.collect(), burst)
}

/// Everything until the queue has ended.
pub(crate) fn all(queue: &mut dyn Receiver, now: Time) -> Vec<Got> {
    let mut cache = cache();
    let mut packets = Vec::new();
    loop {
        let (more, state) = burst(queue, &mut cache, now);
        packets.extend(more);
        match state {
            Burst::More => (),
            Burst::Idle => panic!("the clock stands still"),
            Burst::Ended => return packets,
        }
    }
}

/// A file that is gone when the test is over.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Scratch(std::env::temp_dir().join(format!("weir-port-{}-{number}-{name}", std::process::id())))
    }

    pub(crate) fn with(name: &str, octets: &[u8]) -> Scratch {
        let scratch = Scratch::new(name);
        std::fs::write(&scratch.0, octets).unwrap();
        scratch
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
