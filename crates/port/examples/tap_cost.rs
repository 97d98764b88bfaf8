//! Measures a tap: ticks per received and sent packet, medians over rounds.
//!
//! Creates the device `weir-cost` in its network namespace, so run it in a namespace of its own:
//!
//! ```console
//! $ cargo build --release -p weir-port --example tap_cost
//! $ sudo unshare --net target/release/examples/tap_cost
//! ```

use std::error::Error;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Instant;

use weir_base::clock::Time;
use weir_base::tsc;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_port::links::Device;
use weir_port::spec::{Middleware, PortSpec, TapSpec};
use weir_port::{Context, Receiver, Transmitter};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ROUNDS: usize = 400;

fn main() -> Result<(), Box<dyn Error>> {
    let spec = TapSpec {
        name: "weir-cost".into(),
        persistent: false,
        offload: true,
        mtu: Some(65_521),
        addresses: vec!["192.0.2.1/24".parse()?],
        mac: None,
    };
    let pool = Pool::new(PoolSize { small: 1024, large: 300 })?;
    let context = Context { name: "cost".into(), mac: MAC, max_frame: 1522, pool: pool.clone() };
    let (tap, tun) = (PortSpec::Tap(spec.clone()), PortSpec::Tun(spec));
    println!("{:<6} {:>8} {:>12} {:>12} {:>10} {:>10}", "kind", "octets", "RX ticks", "TX ticks", "RX Gb/s", "TX Gb/s");
    for (kind, spec) in [("tap", tap), ("tun", tun)] {
        let mut port = weir_port::open(&spec, &Middleware::default(), 1, &context)?;
        let (mut receiver, mut transmitter) = (port.receivers().remove(0), port.transmitters(1).remove(0));
        let mut cache = pool.cache();
        let mac = Device::named("weir-cost")?.and_then(|device| device.mac).unwrap_or_default();
        for octets in [64, 1514, 9000, 65_000] {
            let rx = receive(&mut *receiver, &mut cache, octets)?;
            let tx = transmit(&mut *transmitter, &mut cache, octets, mac)?;
            let rate = |cost: f64| octets as f64 * 8.0 / (cost / tsc::frequency()) / 1e9;
            println!("{kind:<6} {octets:>8} {rx:>12.0} {tx:>12.0} {:>10.2} {:>10.2}", rate(rx), rate(tx));
        }
    }
    Ok(())
}

/// Returns the ticks per frame of `octets` that the kernel sent.
fn receive(receiver: &mut dyn Receiver, cache: &mut Cache, octets: usize) -> Result<f64, Box<dyn Error>> {
    // The address needs a neighbour; its packets end in the port.
    let arguments = ["neighbor", "replace", "192.0.2.2", "lladdr", "02:00:00:00:00:01", "dev", "weir-cost"];
    std::process::Command::new("ip").args(arguments).stderr(std::process::Stdio::null()).status()?;
    let socket = UdpSocket::bind((Ipv4Addr::new(192, 0, 2, 1), 0))?;
    let payload = vec![0; octets - 42];
    let mut vector = Vector::new();
    let mut costs = Vec::new();
    while costs.len() < ROUNDS {
        for _ in 0..128 {
            // With a full send buffer fewer packets are received.
            let _ = socket.send_to(&payload, (Ipv4Addr::new(192, 0, 2, 2), 9));
        }
        let start = tsc::ticks();
        receiver.receive(&mut vector, cache, Time(0));
        let ticks = tsc::ticks() - start;
        if vector.len() >= 64 {
            costs.push(ticks as f64 / vector.len() as f64);
        }
        vector.filled().iter_mut().for_each(|packet| packet.recycle(cache));
        vector.clear();
    }
    Ok(median(costs))
}

/// Returns the ticks per frame of `octets` for another station, which the kernel drops at once.
fn transmit(
    transmitter: &mut dyn Transmitter,
    cache: &mut Cache,
    octets: usize,
    mac: [u8; 6],
) -> Result<f64, Box<dyn Error>> {
    let mut frame = vec![0; octets];
    frame[..6].copy_from_slice(&mac);
    // A tap's kernel side checks the hardware address, a tun's the packet: this frame is for another station.
    frame[5] ^= 0xff;
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    let mut vector = Vector::new();
    let mut places = Indices::new();
    for _ in 0..256 {
        let packet = Packet::copy_of(cache, &frame).ok_or("no buffer")?;
        vector.push(packet).map_err(|_| "no place")?;
    }
    places.fill(vector.len());
    let mut costs = Vec::new();
    let begin = Instant::now();
    while costs.len() < ROUNDS && begin.elapsed().as_secs() < 20 {
        let start = tsc::ticks();
        let sent = transmitter.transmit(&mut vector, &places, &mut Indices::new(), cache, Time(0));
        costs.push((tsc::ticks() - start) as f64 / sent as f64);
    }
    vector.filled().iter_mut().for_each(|packet| packet.recycle(cache));
    Ok(median(costs))
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}
