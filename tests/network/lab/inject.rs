//! Frames of any content and sender, put on a link as they are.

use std::time::{Duration, Instant};

use weir_base::clock::Time;
use weir_packet::buffer::{Pool, PoolSize};
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_port::spec::{AfPacketSpec, Middleware, PortSpec};
use weir_port::{Context, open};

use super::Space;

/// Sends frames by a device of a host, no more than `rate` of them a second; returns when all are sent. Frames that the
/// device does not take are lost, as on any link.
///
/// # Panics
/// When the device cannot be opened.
pub(crate) fn inject(space: &Space, device: &str, rate: u32, frames: impl Iterator<Item = Vec<u8>> + Send) {
    space.enter(|| {
        let spec = AfPacketSpec { interface: device.to_owned(), promiscuous: false, offload: false, shared: true };
        let pool = Pool::new(PoolSize { small: 2048, large: 1 }).expect("there is memory");
        let context = Context { name: device.to_owned(), mac: [2, 0, 0, 0, 0, 9], max_frame: 1514, pool: pool.clone() };
        let mut port =
            open(&PortSpec::AfPacket(spec), &Middleware::default(), 1, &context).expect("the device is there");
        let mut transmitter = port.transmitters(1).remove(0);
        let mut cache = pool.cache();
        let (mut vector, mut list) = (Vector::new(), Indices::default());
        let mut frames = frames.peekable();
        let (mut sent, start) = (0_u64, Instant::now());
        while frames.peek().is_some() {
            let due = (start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
            if due <= sent {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            for octets in frames.by_ref().take(VECTOR.min((due - sent) as usize)) {
                let packet = vector.add(&mut cache, octets.len()).expect("one vector is under way");
                packet.data_mut().copy_from_slice(&octets);
                sent += 1;
            }
            list.fill(vector.len());
            transmitter.transmit(&mut vector, &list, &mut Indices::default(), &mut cache, Time(0));
            transmitter.kick();
            while transmitter.outcome().is_some() {}
            vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut cache));
            vector.clear();
        }
        transmitter.flush().expect("a device is flushed");
    });
}
